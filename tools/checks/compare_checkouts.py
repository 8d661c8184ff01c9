"""What two checkouts make of the same job files: `launch plan` and `launch check`, side by side.

    python -m tools.checks.compare_checkouts ../before . examples tests/job-files

For changes of the house that must not change what it does. Both checkouts run under this Python, without
AWS and with the same unique names; requests, findings, exit codes and JSON must agree but for the wording
of `message`, `remedy` and `source`, whose differences are only counted (`--wording` shows them). Exits with
1 where anything else differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

COMMANDS = ("plan", "check")
WORDING = ("message", "remedy", "source")
_CODE = re.compile(r"(?<=/code/)[0-9a-f]{64}\b")
"""The digest of the code covers the boot, whose text may change with a checkout."""

_PROGRAM = """
import contextlib, io, json, os, secrets, sys, time
secrets.randbits, os.urandom = lambda bits: 0, bytes
time.time_ns = lambda: 1_700_000_000_000_000_000
from launcher.cli.app import main
shown = {}
for file in json.load(sys.stdin):
    for command in COMMANDS:
        out, errors, code = io.StringIO(), io.StringIO(), None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                main([command, file, "--output", "json"])
            except SystemExit as end:
                code = end.code
        shown[f"{command} {file}"] = {"code": code, "out": out.getvalue(), "errors": errors.getvalue()}
json.dump(shown, sys.stdout)
"""


def main() -> int:
    """Compare the checkouts; 0 where they agree but for wording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("job_files", type=Path, nargs="+", help="job files, or folders that hold some")
    parser.add_argument("--wording", action="store_true", help="show each difference of wording once")
    chosen = parser.parse_args()
    files = sorted({str(file.resolve()) for path in chosen.job_files for file in _job_files(path)})
    before, after = (_run(checkout, files) for checkout in (chosen.before, chosen.after))
    wording: Counter[tuple[str, str]] = Counter()
    differing = 0
    for call, earlier in before.items():
        differences = list(_differences(_parsed(earlier), _parsed(after[call]), ""))
        wording.update((old, new) for path, old, new in differences if _is_wording(path))
        other = [each for each in differences if not _is_wording(each[0])]
        differing += bool(other)
        for path, old, new in other[:5]:
            print(f"launch {call}: {path or 'all'}: {old[:200]} -> {new[:200]}")
    if chosen.wording:
        for (old, new), count in wording.most_common():
            print(f"{count} x\n  - {old}\n  + {new}")
    print(
        f"{len(files)} job files, {len(before)} calls: {differing} differ, "
        f"{len(wording)} texts worded differently in {sum(wording.values())} places"
    )
    return 1 if differing else 0


def _job_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    else:
        yield from sorted(path.rglob("*.yaml"))


def _run(checkout: Path, files: list[str]) -> dict[str, dict[str, Any]]:
    """Exit code and output of each call, by `command file`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ran = subprocess.run(
        [sys.executable, "-c", f"COMMANDS = {COMMANDS!r}\n{_PROGRAM}"],
        input=json.dumps(files),
        cwd=checkout,
        env={**environment, "PYTHONPATH": str(checkout.resolve()), "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    shown: dict[str, dict[str, Any]] = json.loads(ran.stdout)
    return shown


def _parsed(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Output as the value that it is in JSON, where it is some; messages on stderr are wording."""
    try:
        out = json.loads(_CODE.sub("CODE", shown["out"]))
    except ValueError:
        out = shown["out"]
    return {"code": shown["code"], "out": out, "stderr": {"message": shown["errors"]}}


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Where two values differ, as dotted paths with both values as text."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}.{index}")
    elif old != new:
        yield path, json.dumps(old), json.dumps(new)


def _is_wording(path: str) -> bool:
    return path.rpartition(".")[2] in WORDING


if __name__ == "__main__":
    raise SystemExit(main())
