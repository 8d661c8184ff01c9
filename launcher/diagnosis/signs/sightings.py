"""A sign of a failure mode: what, who and when; of a line that a row matches, of a candidate, or of the
service's words.

`sighting_of` makes it of a row and a line, `unworded` of a candidate without words of a row, `signs_of` of
FailureReason and the secondary status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from launcher.diagnosis.logs.lines import Line, parse
from launcher.diagnosis.logs.tracebacks import HEADER, names_exception
from launcher.diagnosis.match.prefilter import Candidate
from launcher.diagnosis.match.rows import rows_matching, weightiest
from launcher.diagnosis.signatures import FRAGMENTS, SIGNATURES, LineRole, Signature
from launcher.diagnosis.signs.ranks import group_and_rank
from launcher.failure_modes import training_script
from launcher.failure_modes.model import FailureMode, Finding, Retry, Stage, Symptom
from launcher.failure_modes.registry import CATALOGUE
from launcher.frozen import frozen
from launcher.text.log_lines import printed_time

_SMALLER = r"(?:the )?(?:micro[- ]?)?batch[ _]size"
_LEFT_OUT = r"(?:this |the )?(?:batch|step|sample|error)"
_DEALT_WITH = {
    "retrying": "",
    "will ": r"(?:be )?retr(?:y|ied)",
    "retry ": r"\d+ ?(?:/|of) ?\d+",
    "trying ": r"(?:again|batch size|(?:the )?(?:next|another)|(?:port |batch size )?\d+)",
    "falling back to": "",
    "going on without": "",
    "continuing without": "",
    "attempting to recover": "",
    "ignoring ": _LEFT_OUT,
    "skipping ": _LEFT_OUT,
    "-> halving": "",
    "halving ": _SMALLER,
    "reducing ": _SMALLER,
    "decreasing ": _SMALLER,
}
"""What a program writes beside an error that it has dealt with, and what follows it. Such a line is not a
root cause."""

GOES_ON = re.compile(
    rf"\b(?:{'|'.join(word + rest for word, rest in _DEALT_WITH.items())})\b"
    # A loss scale that can fall no further deals with nothing.
    rf"(?!{FRAGMENTS['SMALLEST_SCALE']}|{FRAGMENTS['VANISHING_SCALE']})",
    re.I,
)


def is_dealt_with(text: str) -> bool:
    """Whether a program has dealt with what it writes in this line."""
    lower = text.lower()
    return any(word in lower for word in _DEALT_WITH) and GOES_ON.search(text) is not None


@frozen
class Sighting:
    """A failure mode seen in the lines of one host.

    `what` is the message without who; `rank` and `host` are None where no line tells; `index` counts the
    host's lines from 0; `clock` is the kind of the clock that `time` was read from; `text` is the line
    without its prefixes, `details` the lines beside it; `place` is `file:line` in the user's code; `remedy`
    and `retry` replace those of the failure mode. `stream` is the name of the stream it stands in. `fatal`
    is an exception that nobody caught, with which its process ends; `plumbing` one that was raised where
    ranks and processes speak with one another, rather than in what they work on. `about` replaces the
    subject, empty for nobody. `local_rank` is that of who printed it, on `host`.
    """

    mode: FailureMode
    role: LineRole
    vague: bool
    what: str
    rank: int | None
    host: str | None
    index: int
    clock: str | None
    time: float | None
    text: str
    details: tuple[str, ...] = ()
    place: str | None = None
    captured: Mapping[str, str] = field(default_factory=dict)
    remedy: str | None = None
    retry: Retry | None = None
    stream: str = ""
    fatal: bool = False
    plumbing: bool = False
    about: str | None = None
    local_rank: int | None = None

    @property
    def code(self) -> str:
        """The code of the failure mode."""
        return self.mode.code

    @property
    def subject(self) -> str | None:
        """Who it is about, for a finding: the rank, else the GPU, else the host."""
        if self.about is not None:
            return self.about or None
        if self.rank is not None:
            return f"rank {self.rank}"
        for name, word in (
            ("gpu", "GPU"),
            ("local_rank", "local rank"),
            ("device", "local device"),
            ("task", "task"),
        ):
            if name in self.captured:
                return f"{word} {self.captured[name]}"
        return self.host if self.local_rank is None else f"local rank {self.local_rank}"


def who_of(captured: Mapping[str, str], line: Line, host: str) -> tuple[str | None, int | None, int | None]:
    """Whom a line is about that a row matches: the host, the rank and the local rank, each None where nobody
    tells; `host` is that of the stream."""
    # The rank that a line names in its words is a global one under `rank`; that of a process group counts in
    # the group of all ranks, where the line has no prefix with the global one (torch before 2.2).
    rank = int(captured["rank"]) if "rank" in captured else group_and_rank(line)[1]
    # A host that the line names need not be the one whose local rank prints it.
    local_rank = None if "host" in captured else line.local_rank
    return captured.get("host") or line.host or host or None, rank, local_rank


def sighting_of(
    row: Signature,
    captured: Mapping[str, str],
    line: Line,
    raw: str,
    *,
    host: str,
    index: int,
    time: float | None,
    stream: str = "",
) -> Sighting:
    """What a row that matches a line says, with the line's own rank and host before those of the stream."""
    of_host, rank, local_rank = who_of(captured, line, host)
    clock, moment = ("stream", time) if time is not None else (printed_time(raw) or (None, None))
    if line.device is not None:
        captured = {**captured, "device": str(line.device)}
    return Sighting(
        mode=row.mode,
        role=LineRole.ADVISORY if row.role.may_be_root and is_dealt_with(line.text) else row.role,
        vague=row.vague,
        what=_words(row, captured, line.text),
        rank=rank,
        host=of_host,
        index=index,
        clock=clock,
        time=moment,
        text=line.text,
        captured=captured,
        remedy=fill_template(row.remedy, captured) if row.remedy is not None else None,
        retry=row.retry,
        stream=stream,
        local_rank=local_rank,
    )


def _words(row: Signature, captured: Mapping[str, str], text: str) -> str:
    if row.says is not None and (said := fill_template(row.says, captured)) is not None:
        return said
    return row.mode.title if row.says is None and row.vague else text.strip()


def fill_template(template: str, captured: Mapping[str, str]) -> str | None:
    """The template with what was captured, None where a group that it names is empty."""
    try:
        return template.format_map(captured)
    except KeyError:
        return None


_OF_A_RANK = re.compile(r"^slipway: [A-Z]{2,5}\d{3} rank (?P<rank>\d{1,6}) on (?P<host>[\w.-]{1,100}): ")
"""How the boot of a host begins to say which of its ranks failed (slipway/failure.py)."""


def line_of(candidate: Candidate) -> Line:
    """The line behind its prefixes; the path of its stream tells the rank, and the local one, where they do
    not. What the boot says of a rank counts as that rank's line."""
    line = parse(candidate.text)
    if said := _OF_A_RANK.match(line.text):
        return replace(line, rank=int(said["rank"]), host=said["host"])
    if line.rank is None and candidate.rank is not None:
        line = replace(line, rank=candidate.rank)
    if line.local_rank is None and candidate.local_rank is not None:
        line = replace(line, local_rank=candidate.local_rank)
    return line


def time_of(candidate: Candidate) -> tuple[str | None, float | None]:
    """The clock of a line and the seconds on it: that of its stream, else what the line prints."""
    if candidate.time is not None:
        return "stream", candidate.time
    return printed_time(candidate.text) or (None, None)


def sighting_without_row(
    mode: FailureMode, role: LineRole, what: str, candidate: Candidate, line: Line, *, vague: bool
) -> Sighting:
    """What a line shows that no signature's own words are for."""
    clock, time = time_of(candidate)
    return Sighting(
        mode=mode,
        role=role,
        vague=vague,
        what=what,
        rank=line.rank,
        host=line.host or candidate.host or None,
        index=candidate.index,
        clock=clock,
        time=time,
        text=line.text,
        stream=candidate.stream,
        local_rank=line.local_rank,
    )


BEFORE_ALL_LINES = -1
"""The place of the reason among the lines of a log."""

_ROLES: Mapping[Symptom | None, LineRole] = {
    None: LineRole.INITIATOR,
    Symptom.EFFECT: LineRole.SYMPTOM,
    Symptom.ECHO: LineRole.CASCADE,
}
"""What a report of the container is in the story of the failure, by the symptom of its failure mode."""

_WHO = re.compile(r"^(?:rank (?P<rank>\d+)|torchrun)(?: on (?P<host>[\w.-]+))?: ", re.MULTILINE)
_WAITED_FOR = re.compile(r"rank (?P<rank>\d+) on (?P<host>[\w.-]+) ")
"""How a verdict of the watchdog begins (slipway/watchdog/judge_stall.py)."""

_CAUSED_BY = ", caused by "
"""Before the exception that another one was raised from, in the container's report (slipway/failure.py)."""

_SILENT = re.compile(r"exited with code \d+")
_SILENT_REMEDY = (
    "It printed no traceback. What it printed last `launch logs JOB --rank N` shows, and it is kept in the "
    "job's output, slipway/HOST/rank-N/stdout.log and stderr.log (slipway/HOST/stderr.log without ranks); "
    "sys.exit and os._exit end a script without a word, and what it writes to a log file of its own stands "
    "only there. In a shell script, `set -ex` below the first line prints each command and ends the script "
    "at the first that fails."
)
_COMMAND = 'Command "'
_CITATION, _AFTER_CITATION = 'ErrorMessage "', ('ExtraInfo "', _COMMAND)
"""What stands around what the images' toolkit cites; SageMaker cuts a reason at 1,024 characters."""

_PLACE = re.compile(r" \((?P<place>[^\s()]+:\d+)\)(?:\n|$)")


def signs_of_service(failure_reason: str | None, secondary_status: str | None = None) -> list[Sighting]:
    """The signs in what the service says; a diagnosis that the container's boot wrote comes first."""
    found = list(_sign_of_boot(failure_reason))
    texts = [failure_reason or ""] if not found else []
    if secondary_status:
        texts.append(f"SecondaryStatus: {secondary_status}")
    for text in texts:
        found += _signs_of_reason(text)
    return found


def replace_by_log(said: Sequence[Sighting], seen: Sequence[Sighting]) -> list[Sighting]:
    """The signs of the reason; an exception of the script which the log of its rank knows better, by lines
    that the boot does not read, is what it is there."""
    return [
        _log_knows_better(sign, seen) if sign.mode is training_script.SCRIPT_RAISED else sign for sign in said
    ]


def _log_knows_better(said: Sighting, seen: Sequence[Sighting]) -> Sighting:
    raised = said.what.partition(_CAUSED_BY)[0].rstrip(".")
    for sign in seen:
        of_it = sign.rank == said.rank and sign.what.startswith(raised)
        if of_it and sign.role is LineRole.INITIATOR and sign.mode is not training_script.SCRIPT_RAISED:
            return replace(said, mode=sign.mode, what=sign.what)
    return said


def _sign_of_boot(failure_reason: str | None) -> Iterator[Sighting]:
    finding = finding_of_boot(failure_reason)
    if finding is None:
        return
    headline, _, details = finding.message.partition("\n")
    who = _WHO.match(headline)
    place = _PLACE.search(finding.message)
    what = headline[who.end() :] if who else headline
    named = who or _WAITED_FOR.match(headline)
    if place and what.endswith(place[0].rstrip()):
        what = what[: -len(place[0].rstrip())].rstrip()
    mode = CATALOGUE[finding.code]
    known, captured = _known_better(mode, what, details)
    mode = known.mode if known else mode
    remedy = fill_template(known.remedy, captured) if known and known.remedy else None
    if mode is training_script.SCRIPT_RAISED and _SILENT.fullmatch(what):
        remedy = _SILENT_REMEDY
    yield Sighting(
        mode=mode,
        role=_ROLES[mode.symptom],
        vague=False,
        what=what,
        rank=int(named["rank"]) if named and named["rank"] else None,
        host=named["host"] if named else None,
        index=BEFORE_ALL_LINES,
        clock=None,
        time=None,
        text=headline,
        # Before a refused command line stands the parser's usage, of which the end tells nothing.
        details=() if mode is training_script.ENTRY_POINT_MISSING else tuple(details.splitlines()[-4:]),
        place=place["place"] if place else None,
        remedy=remedy,
        retry=known.retry if known else None,
    )


def _known_better(mode: FailureMode, what: str, details: str) -> tuple[Signature | None, Mapping[str, str]]:
    """The row that knows the error which the container reported: its own mode in other words, or more than
    that the script raised. Below the headline stand the lines that showed it, of a long message the last ones
    alone; the headline is then what the row says, which the boot's own table has as well."""
    for row, captured in rows_matching(what):
        if _is_definite(row) and (row.mode is mode or mode is training_script.SCRIPT_RAISED):
            return row, captured
    for line in reversed(details.splitlines()):
        for row, captured in rows_matching(parse(line).text):
            if _is_definite(row) and row.mode is mode:
                return row, captured
    for row in SIGNATURES:
        told = None if row.vague or row.mode is not mode else _captured_by_words(row, what)
        if told is not None:
            return row, told
    return None, {}


def _captured_by_words(row: Signature, what: str) -> Mapping[str, str] | None:
    """What the one group of a row was where these are its words; None where they are not, or several groups
    would have to be told apart."""
    before, *rest = re.split(r"\{(\w+)\}", row.says or "")
    if not rest:
        return {} if before and before == what else None
    name, after, *others = rest
    is_said = not others and before and what.startswith(before) and what.endswith(after)
    return {name: what[len(before) : len(what) - len(after)]} if is_said else None


def _is_definite(row: Signature) -> bool:
    return row.role is LineRole.INITIATOR and not row.vague


def _signs_of_reason(text: str) -> Iterator[Sighting]:
    found = weightiest([match for part in _parts(text) for match in rows_matching(part)])
    if found is not None:
        row, captured = found
        line = Line(parse(text).text)
        yield sighting_of(row, captured, line, "", host="", index=BEFORE_ALL_LINES, time=None)


def _parts(text: str) -> Iterator[str]:
    """A reason; what was raised, where the images' toolkit gives its own traceback as one, as its trainer.py
    does; and what it cites of the script's last lines: each line by itself, and with those below it. The
    toolkit's forerunner, sagemaker-containers, gives them below the command, without a mark."""
    yield text
    yield from filter(names_exception, text.partition(HEADER)[2].splitlines())
    _, mark, cited = text.partition(_CITATION)
    for end in _AFTER_CITATION:
        cited = cited.partition(end)[0]
    if not mark:
        cited = text.partition(_COMMAND)[2].partition("\n")[2]
    lines = cited.strip(' :"\n').splitlines()
    for number, line in enumerate(lines):
        yield line
        if lines[number + 1 :]:
            yield "\n".join(lines[number:])


# The failure reason of a job whose container already wrote its diagnosis.
#
# The boot writes `/opt/ml/output/failure` with the failure mode's code first, and the service hands it on
# as `AlgorithmError: CODE001 rank 3 on algo-2: ..., exit code: 1`.


_WRITTEN_BY_BOOT = re.compile(
    r"(?:\w+Error: )?(?P<code>[A-Z][A-Z0-9]*\d{3}) (?P<message>.*?)(?:, exit code: -?\d+)?\Z",
    re.DOTALL,
)
_RANK = re.compile(r"\brank \d+\b")


def finding_of_boot(failure_reason: str | None) -> Finding | None:
    """The finding in a failure reason, or None where the container did not write one."""
    match = _WRITTEN_BY_BOOT.match((failure_reason or "").rstrip())
    mode = CATALOGUE.get(match["code"]) if match else None
    if match is None or mode is None:
        return None
    rank = _RANK.search(match["message"])
    return mode.finding(Stage.RUNTIME, match["message"], subject=rank[0] if rank else None)
