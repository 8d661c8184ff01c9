"""Commands and what they print: the groups of `cases/*.yaml`.

A group has a sentence for its name and a list of runs, which happen one after another in one folder; or it
has them in `runs`, and beside them what all of them begin with. Of a run, `launch` is the command line.
Before it the `job` is written to job.yaml (what differs from the job of all tests), so are `files`, and `env`
is set; `keep` is the file that gets its stdout. With an `account` it meets emulated AWS, whose jobs do this.

What is expected: the exit `code`, 0 unless given; texts that stand in `out` and `err` with single blanks, the
whole of stdout or stderr in `prints` and `tells`, texts that stand in neither in `lacks`; values at dotted
paths of the `json` that is printed, `rows` of a plan's summary, and values in the requests that were `sent`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.case_files import look_up

CASES = Path(__file__).with_name("cases")
BEFORE = {"launch", "job", "files", "env", "account", "rules", "keep"}
AFTER = {"code", "out", "err", "prints", "tells", "lacks", "json", "rows", "sent"}


@dataclass(frozen=True)
class Group:
    """Runs of one sentence."""

    name: str
    runs: tuple[dict[str, Any], ...]


def read_groups() -> Iterator[Group]:
    """The groups of all files."""
    for file in sorted(CASES.glob("*.yaml")):
        for name, group in yaml.safe_load(file.read_text("utf-8")).items():
            shared = {} if isinstance(group, list) else {key: group[key] for key in group if key != "runs"}
            runs = tuple({**shared, **run} for run in (group if isinstance(group, list) else group["runs"]))
            for run in runs:
                assert set(run) <= BEFORE | AFTER, f"{file.name}: {name}: {set(run) - BEFORE - AFTER}"
            yield Group(f"{file.stem}: {name}", runs)


def words_of(run: Mapping[str, Any]) -> list[str]:
    """The words of its command line, blanks in quotes being parts of them."""
    return shlex.split(run["launch"])


def complaints(run: Mapping[str, Any], code: int, out: str, err: str) -> Iterator[str]:
    """What the command printed otherwise."""
    if code != run.get("code", 0):
        yield f"the exit code is {code}: {out}{err}"
    for name, printed in (("out", out), ("err", err)):
        for text in _texts(run.get(name, [])):
            if _one_line(text) not in _one_line(printed):
                yield f"{name} lacks {text!r}: {printed}"
    for name, printed in (("prints", out), ("tells", err)):
        if name in run and run[name] != printed:
            yield f"it {name} {printed!r}"
    yield from (f"{text!r} is in {out}{err}" for text in _texts(run.get("lacks", [])) if text in out + err)
    for path, value in run.get("json", {}).items():
        if (found := look_up(json.loads(out), path)) != value:
            yield f"{path} is {found!r}, not {value!r}"
    rows = summary_of(out) if "rows" in run else {}
    for name, value in run.get("rows", {}).items():
        if (found := rows.get(name)) != value:
            yield f"the row {name} is {found!r}, not {value!r}"


def summary_of(printed: str) -> dict[str, str]:
    """The rows of a plan above its settings, by name; those of several lines as one text."""
    rows: dict[str, str] = {}
    name = ""
    for line in printed[printed.index("\njob ") + 1 :].split("\nSettings")[0].splitlines():
        name = line[:11].strip() or name
        rows[name] = f"{rows.get(name, '')} {line[11:].strip()}".strip()
    return rows


def _texts(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _one_line(text: str) -> str:
    return " ".join(text.split())
