"""Short logs with what the diagnosis says of each: `tests/diagnosis/answers/*.test`.

A case is a heading, the answer and what is known besides the lines, and the lines. What the service gives as
the reason stands below `[reason]`, the lines of another host than `algo-1` below a heading of their own:
`[host ?]` has no name, and `[host algo-2 at 600]` prints a line a second from that time on:

    [case what was raised is the cause]
    # cause: CODE001, rank 9, on algo-2
    # says: KeyError
    <steps 1 40>
    [host algo-2]
    <raised 9 KeyError: 'labels'>

`cause` is code, rank and host, of which the host may be left out, or the verdict where there is none;
`no failure` is every verdict but `failed`, and `any rank` is not looked at. `says`, `remedy` and `summary`
are parts of them, and `silent` is in none; `ended`, `stopped` and `status` are the place's word, `type` is
the job's, and `warned` what its findings of EFA005 say. With
`# <word>: VALUE` the case is told with each value for `<word>`; `VALUE => CAUSE` has a cause of its own, and
`\\n` is a new line. A `\\` stands before a line that would be read as a field or heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import End, Ending, Stop, StopCause
from launcher.diagnosis.remedies import AskedJob
from tests.case_files import Part, read_parts
from tests.diagnosis.stories import raised, steps, timed_out

FILES = sorted(Path(__file__).with_name("answers").glob("*.test"))
HEADING = re.compile(r"\[(case|host|reason)(?: (.+))?\]")
FIELD = re.compile(r"# (<[a-z]+>|[a-z]+):(?: (.*))?")
PARTS = ("says", "remedy", "summary", "warned")
MACROS = {
    re.compile(r"<(\d+) times (.+)>"): lambda count, line: "\n".join([line] * int(count)),
    re.compile(r"<steps (\d+) (\d+)>"): lambda first, last: steps(int(first), int(last)),
    re.compile(r"<timed out (\d+) (\d+) (\w+)>"): lambda rank, at, what: timed_out(int(rank), int(at), what),
    re.compile(r"<lengths (.+)>"): lambda line: "\n".join(
        f"[rank{rank}] {line.replace('N', str(100 - rank // 2 * 2))}" for rank in range(3)
    ),
    re.compile(r"<raised (\d+) (.+)>"): lambda rank, exception: raised(int(rank), exception),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_answers_to_short_logs_are_right(file: Path) -> None:
    parts = read_parts(file, HEADING)
    starts = [number for number, part in enumerate(parts) if part.kind == "case"]
    wrong = [
        f"{file.name}:{parts[start].number}: {mistake}"
        for start, end in zip(starts, [*starts[1:], len(parts)], strict=True)
        for mistake in mistakes(*parts[start:end])
    ]
    assert not wrong, "\n".join(wrong)


def mistakes(case: Part, *others: Part) -> Iterator[str]:
    """Where the diagnosis of a case is another one than in its fields, and what it is."""
    matches = [FIELD.fullmatch(line) for line in case.lines]
    count = next((number for number, match in enumerate(matches) if match is None), len(matches))
    fields = [(match[1], match[2] or "") for match in matches[:count] if match is not None]
    texts = [("host", "algo-1", case.lines[count:]), *((part.kind, part.name, part.lines) for part in others)]
    words = list(dict.fromkeys(name for name, _ in fields if name.startswith("<")))
    for values in product(*([value for name, value in fields if name == word] for word in words)):
        said = dict(zip(words, (value.partition(" => ")[0] for value in values), strict=True))
        causes = [("cause", value.partition(" => ")[2]) for value in values if " => " in value]
        wanted = [
            (name, filled(value, said).replace("\\n", "\n")) for name, value in fields if name not in said
        ] + causes
        told = answers(
            dict(wanted), [(kind, name, filled("\n".join(text), said)) for kind, name, text in texts]
        )
        if "cause" not in dict(wanted):
            raise case.bad(f"case {case.name} has no `# cause: CAUSE`")
        for name, value in wanted:
            if not is_told(told, name, value):
                yield f"{case.name} {list(said.values())}: not {name} {value!r} in {told}"


def filled(text: str, said: dict[str, str]) -> str:
    """The text with the values of a case in their places, and what stands for several lines written out."""
    for word, value in said.items():
        text = text.replace(word, value.replace("\\n", "\n"))
    lines = []
    for line in text.rstrip("\n").split("\n"):
        line = line.removeprefix("\\")
        written = [
            write(*found.groups()) for shape, write in MACROS.items() if (found := shape.fullmatch(line))
        ]
        lines.append(written[0] if written else line)
    return "\n".join(lines)


def answers(given: dict[str, str], texts: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """What the diagnosis says, by the names of the fields."""
    reason, lines = None, []
    for kind, name, text in texts:
        if kind == "reason":
            reason = text
        elif text:
            host, _, start = name.partition(" at ")
            lines += [
                Record(float(start) + number if start else None, host.removeprefix("?"), line)
                for number, line in enumerate(text.split("\n"))
            ]
    ending = Ending(End(given["ended"])) if "ended" in given else None
    if "stopped" in given:
        cause, _, at = given["stopped"].partition(" at ")
        ending = Ending(End.STOPPED, "llama-1", Stop(StopCause(cause), at=float(at)))
    job = AskedJob(instance_type=given.get("type"))
    found = diagnose(lines, reason, secondary_status=given.get("status"), ending=ending, job=job)
    root = found.root_cause
    told = {
        "cause": str(found.verdict),
        "verdict": str(found.verdict),
        "retry": str(found.retry) if found.retry_known else "not known",
        "summary": found.summary or "",
        "unusual": "\n".join(found.unusual),
        "findings": ", ".join(f"{each.code} {each.severity}" for each in found.findings),
        "follows": ", ".join(each.code for each in found.consequences),
        "warned": "\n".join(each.message for each in found.findings if each.code == "EFA005") or "nothing",
        "survived": ", ".join(each.code for each in found.findings if "survived: " in each.message),
    }
    if root is not None:
        rank = "" if root.rank is None else f", rank {root.rank}"
        told["cause"] = f"{root.finding.code}{rank}, on {root.host}"
        told["says"] = told["message"] = root.finding.message
        told["subject"], told["remedy"] = str(root.finding.subject), root.finding.remedy
        told["line"] = str(root.log_line)
        told["frame"] = str(found.ranks[0].frame) if found.ranks else ""
        told["confidence"] = str(root.sureness.confidence)
        told["second"] = found.runner_up.code if found.runner_up else "none"
        told["evidence"] = "\n".join(root.evidence)
    return {**told, **{name: given[name] for name in ("ended", "status", "stopped", "type") if name in given}}


def is_told(told: dict[str, str], name: str, value: str) -> bool:
    if name == "silent":
        return not any(value in told.get(part, "") for part in PARTS)
    if value == "no failure":
        return told["verdict"] != "failed"
    if name == "cause" and ", on " not in value:
        cause = told[name].partition(", on ")[0]
        return value in (cause, f"{cause.partition(', ')[0]}, any rank")
    return value in told.get(name, "") if name in PARTS else value == told.get(name, "")
