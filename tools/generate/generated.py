"""Files that are made from others: write them, or say which are not current."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


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


def dated(
    path: Path, source: str, content: Mapping[str, Any], *, shelf_life_days: int, packages: Sequence[str]
) -> dict[str, Any]:
    """A data file of the launcher: its head (`launcher.facts`), and what was read in the packages.

    It is dated today, unless the file says the same already: then its own day stays, as nothing has been
    read anew.
    """
    head = {
        "shelf_life_days": shelf_life_days,
        "source": source,
        "packages": {name: version(name) for name in packages},
    }
    table = json.loads(json.dumps({**head, **content}))
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    as_of = held.pop("as_of", None)
    if as_of is None or held != table:
        as_of = datetime.date.today().isoformat()
    return {"as_of": as_of, **table}


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text
