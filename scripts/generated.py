"""Files that are made from others: write them, or say which are not current."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(
    generated: Callable[[], Mapping[Path, str]], command: str, arguments: Sequence[str] | None = None
) -> int:
    """Write what each file should hold; with `--check` change nothing, and exit 1 where one differs.

    `command` is what a reader runs to make them current; `arguments` are the process's own unless given.
    """
    parser = argparse.ArgumentParser(prog=command)
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 when not current")
    check = parser.parse_args(arguments).check
    stale = {path: text for path, text in generated().items() if not _holds(path, text)}
    for path, text in stale.items():
        if check:
            print(f"{path.relative_to(ROOT)} is not current; run `{command}`.", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text
