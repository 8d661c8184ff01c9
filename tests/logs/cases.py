"""The logs that the diagnosis is tested with, and what is known of each: `tests/logs/cases/CODE.test`.

A file holds the logs of one failure mode, by the first code of their labels; `HEALTHY.test` those of jobs in
which nothing failed, `UNKNOWN.test` those of which one cannot tell. A case is a heading, the fields of its
label, and the lines of the log:

    [case pytorch-pytorch-60716]
    # source: https://github.com/pytorch/pytorch/issues/60716
    # codes: NCCL004
    # why: rank 0 never came to the broadcast that the others wait in
    [rank1]: the lines of the log, to the next heading

A line of a log that begins with `[case `, `#` or `\\` has a `\\` before it. Empty lines at the end of a case
only set it apart from the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from tests.case_files import BadCase, Part, read_parts

FOLDER = Path(__file__).with_name("cases")
HEALTHY, UNKNOWN = "HEALTHY", "UNKNOWN"

_HEADING = re.compile(r"\[(case) (\S+)\]")
_FIELD = re.compile(r"# (?P<name>[a-z ]+): (?P<value>.+)")
_ESCAPED = re.compile(r"(?=\[case |#|\\)")


@dataclass(frozen=True)
class LogCase:
    """A log and its label.

    `codes` are the failure modes that may be called the root cause, none where nothing failed; `also` are as
    right. `first_failing` is who failed first, such as `rank 3` or `algo-2`, and `retry` whether it helps to
    run again: None where the source does not tell. `failure_reason` says that the text is not a log but what
    the service gives as the reason. `unknown` says why nothing shows how a job without a failure went on.
    `modelled` says that the lines were written after those of the source, and not printed by a job.
    """

    name: str
    text: str
    source: str
    codes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    first_failing: str | None = None
    retry: str | None = None
    failure_reason: bool = False
    modelled: bool = False
    unknown: str | None = None
    why: str = ""

    @property
    def group(self) -> str:
        """The name of the file that it belongs into."""
        return self.codes[0] if self.codes else UNKNOWN if self.unknown else HEALTHY


@cache
def log_cases(folder: Path = FOLDER) -> tuple[LogCase, ...]:
    """All cases of a folder, by name.

    Raises:
        BadCase: A file is not written as it should be, a case stands in the wrong file, or two have one name.
    """
    found: dict[str, LogCase] = {}
    for file in sorted(folder.glob("*.test")):
        for case in read_cases(file):
            if case.name in found:
                raise BadCase(f"{file}: there are two cases {case.name}")
            if case.group != file.stem:
                raise BadCase(f"{file}: case {case.name} belongs into {case.group}.test")
            found[case.name] = case
    return tuple(found[name] for name in sorted(found))


def log_case(name: str) -> LogCase:
    """The case of that name."""
    return next(case for case in log_cases() if case.name == name)


def write_log(name: str, folder: Path) -> Path:
    """The log of a case as a file `NAME.log` in a folder."""
    file = folder / f"{name}.log"
    file.write_text(log_case(name).text, "utf-8")
    return file


def read_cases(file: Path) -> list[LogCase]:
    """The cases of a file, in their order.

    Raises:
        BadCase: The file is not written as it should be.
    """
    return [_case(part) for part in read_parts(file, _HEADING)]


def written(cases: Iterable[LogCase]) -> str:
    """The text of a file that holds these cases, by name."""
    return "\n".join(_written(case) for case in sorted(cases, key=lambda case: case.name))


_NAMES = [each.name for each in fields(LogCase) if each.name not in ("name", "text")]
_LISTS, _SWITCHES = ("codes", "also"), ("failure_reason", "modelled")


def _case(part: Part) -> LogCase:
    label: dict[str, object] = {}
    first = 0
    for first, line in enumerate([*part.lines, ""]):
        if not line.startswith("#"):
            break
        match = _FIELD.fullmatch(line)
        name = match["name"].replace(" ", "_") if match else ""
        if match is None or name not in _NAMES or name in label:
            wanted = ", ".join(each.replace("_", " ") for each in _NAMES)
            raise part.bad(f"not a field `# NAME: VALUE` of {wanted}, each once", first + 1)
        value = match["value"]
        if name in _SWITCHES and value != "yes":
            raise part.bad(f"{match['name']} is `yes` or left out", first + 1)
        label[name] = tuple(value.split(", ")) if name in _LISTS else name in _SWITCHES or value
    if "source" not in label:
        raise part.bad(f"case {part.name} has no `# source: ADDRESS`")
    log = [line[1:] if line.startswith("\\") else line for line in part.lines[first:]]
    text = "\n".join(log).rstrip("\n")
    if not text:
        raise part.bad(f"case {part.name} has no lines")
    return LogCase(part.name, f"{text}\n", **label)  # type: ignore[arg-type]


def _written(case: LogCase) -> str:
    label = []
    for name in _NAMES:
        value = getattr(case, name)
        if value:
            said = ", ".join(value) if name in _LISTS else "yes" if name in _SWITCHES else value
            label.append(f"# {name.replace('_', ' ')}: {said}\n")
    log = [("\\" if _ESCAPED.match(line) else "") + line for line in case.text.rstrip("\n").split("\n")]
    return f"[case {case.name}]\n{''.join(label)}" + "\n".join(log) + "\n"
