"""What a failure mode is, and the finding that says one was met.

A `FailureMode` is a row of the catalogue: knowledge, written down once. A `Finding` is the one currency in
which every stage reports: the job-file rules, the script lint, the live checks, the diagnosis and
the container all speak it, and its JSON form is a contract of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import date
from enum import StrEnum
from typing import Any, Final

from launcher.frozen import frozen

Path = tuple[str | int, ...]
"""The way to a field of a file: `("inputs", "train", "mode")`; `()` is the whole file."""


def dotted(path: Path) -> str | None:
    """A path as messages name it, such as `inputs.train.mode`; None for the whole file."""
    return ".".join(map(str, path)) or None


class Severity(StrEnum):
    """How much a finding weighs: an error stops a launch, a warning and an information do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Stage(StrEnum):
    """Where a failure mode is met, in the order of a job's life."""

    PROVISION = "provision"
    SPEC = "spec"
    SCRIPT = "script"
    LIVE = "live"
    LOG = "log"
    RUNTIME = "runtime"

    @property
    def letter(self) -> str:
        """The one-letter form used in tables: P S A L D R."""
        return _LETTERS[self]


class Retry(StrEnum):
    """Whether it helps to run the job again as it is, after a failure of this mode."""

    NEVER = "never"
    """It would fail again: something must be changed first."""
    SAME = "same"
    """The failure was passing: the same job again."""
    OTHER_HOSTS = "other-hosts"
    """The hosts are at fault: a new job, which gets new hosts, not the same warm pool."""
    LATER = "later"
    """AWS could not give what was asked for; wait before submitting again."""


class Symptom(StrEnum):
    """What a failure mode shows of a failure whose cause lies elsewhere, from the stronger evidence to the
    weaker."""

    EFFECT = "effect"
    """What a failure looks like where its cause is not in reach: a rank that waited, a call that failed."""
    ECHO = "echo"
    """What healthy ranks report because another one failed."""


_LETTERS = {
    Stage.PROVISION: "P",
    Stage.SPEC: "S",
    Stage.SCRIPT: "A",
    Stage.LIVE: "L",
    Stage.LOG: "D",
    Stage.RUNTIME: "R",
}


@frozen
class Location:
    """A place in a file; line and column start at 1. `file` may also name a command line option.

    The end is the column behind the last character, None where only the start is known.
    """

    file: str
    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        if self.file.startswith("--"):
            return self.file  # an option of the command line has no lines
        return f"{self.file}:{self.line}:{self.column}"

    def to_json(self) -> dict[str, Any]:
        """The place in the shape that `--output json` prints."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
        }


@frozen
class Related:
    """Another place that a finding speaks of, such as the helper in which the collective stands."""

    location: Location
    message: str

    def to_json(self) -> dict[str, Any]:
        """The place in the shape that `--output json` prints."""
        location = self.location
        return {
            "file": location.file,
            "line": location.line,
            "column": location.column,
            "message": self.message,
        }


@frozen
class Edit:
    """The text that goes in place of what is from `start` to before `end`, in characters of the file from 0.

    A byte order mark is no character of the file.
    """

    file: str
    start: int
    end: int
    text: str


@frozen
class Fix:
    """The edits after which a finding is gone; a safe one changes nothing else that the program does."""

    safe: bool
    edits: tuple[Edit, ...]

    def to_json(self) -> dict[str, Any]:
        """The fix in the shape that `--output json` prints."""
        return {"safe": self.safe, "edits": [asdict(edit) for edit in self.edits]}


Locate = Callable[..., Location | None]
"""Where a field stands in the job file: `locate("resources", "instance_type")`."""


@frozen
class Finding:
    """One failure mode met in one place.

    `message` says what is wrong, with the value, and what would have happened; `remedy` says what to
    do. `subject` names the thing at fault (a security group, a field, a rank), `path` the field of the
    file to look at, which `located` turns into a location; None where no field is at fault. `ignored`
    marks a finding that the user accepted on purpose, `ignored_in_source` that a comment beside it does so,
    `verified=False` one that could not be checked.
    `related` are other places that it speaks of, `fix` what would correct it.
    """

    code: str
    severity: Severity
    stage: Stage
    message: str
    remedy: str
    source: str
    location: Location | None = None
    subject: str | None = None
    ignored: bool = False
    verified: bool = True
    path: Path | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    ignored_in_source: bool = False

    @property
    def blocks(self) -> bool:
        """Whether this finding alone makes a launch refuse (exit code 1)."""
        return self.severity is Severity.ERROR and not self.ignored

    def located(self, locate: Locate) -> Finding:
        """The same finding with the location of its field; one without a field stays as it is."""
        return self if self.path is None else replace(self, location=locate(*self.path))

    def to_json(self) -> dict[str, Any]:
        """The finding in the shape that `--output json` prints.

        `ignored` and `verified` appear only where they say something.
        """
        location = self.location
        shape: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity.value,
            "stage": self.stage.value,
            "message": self.message,
            "remedy": self.remedy,
            "location": None if location is None else location.to_json(),
            "subject": self.subject,
            "source": self.source,
            "fix": None if self.fix is None else self.fix.to_json(),
            "related": [each.to_json() for each in self.related],
        }
        if self.ignored:
            shape["ignored"] = True
        if not self.verified:
            shape["verified"] = False
        return shape


SHELF_LIFE_DAYS: Final = 365
"""For how many days a page that was read may be believed to say the same."""


@frozen
class Source:
    """One place where knowledge was read.

    `title` names it so that a reader finds it; `as_of` is the day on which it was last looked at, and
    `commit` which state of a repository that was, where the source is a file of one.
    """

    title: str
    as_of: date
    commit: str | None = None

    def __str__(self) -> str:
        return self.title

    @property
    def when_read(self) -> str:
        """When it was looked at, and in which state: `2026-11-22, commit 2daf7d30`."""
        return f"{self.as_of}, commit {self.commit}" if self.commit else str(self.as_of)


@frozen
class Notice:
    """What AWS announced: a sentence, since when it holds (None where nobody says), and where it was read."""

    text: str
    since: date | None
    source: Source


@frozen
class Figure:
    """A number as it is written in a text, what it is, and where it was read.

    It is one that somebody measured, limited or chose, and that may change; ranks, exit codes and what stands
    in backticks are none. `source` is None where nobody else says so: an example, a sum of other figures, a
    bound of our own, or a number by definition; `what` then says which of these it is.
    """

    number: str
    what: str
    source: Source | None


@frozen
class FailureMode:
    """One known way in which a distributed training job stalls, crashes or wastes money.

    `cause` and `remedy` are sentences for a reader who knows PyTorch and AWS; `sources` name where
    the knowledge comes from; `severity` is the default of its findings. `retry` says whether a job that
    failed of it may simply run again. `symptom` is what it is evidence of where the
    container reports it: None is a cause, which wins against any symptom of another rank or host.
    `notices` are what AWS announced of the service at fault, `figures` the numbers in its texts. `stages` are
    those at which it is meant to be caught; at which it is, `coverage` tells.
    """

    code: str
    title: str
    cause: str
    remedy: str
    sources: tuple[Source, ...]
    severity: Severity = Severity.ERROR
    retry: Retry = Retry.NEVER
    symptom: Symptom | None = None
    notices: tuple[Notice, ...] = ()
    figures: tuple[Figure, ...] = ()
    stages: tuple[Stage, ...] = ()

    @property
    def weakness(self) -> int:
        """How little a report of this mode says of the cause: 0 for a cause, then 1 and 2.

        Among the reports of several ranks or hosts the lowest one counts.
        """
        return 0 if self.symptom is None else 1 + list(Symptom).index(self.symptom)

    def finding(
        self,
        stage: Stage,
        message: str,
        *,
        remedy: str | None = None,
        severity: Severity | None = None,
        location: Location | None = None,
        subject: str | None = None,
        verified: bool = True,
    ) -> Finding:
        """A finding of this mode; remedy and severity are the catalogue's unless given."""
        return Finding(
            code=self.code,
            severity=severity or self.severity,
            stage=stage,
            message=message,
            remedy=remedy or self.remedy,
            source="; ".join(map(str, self.sources)),
            location=location,
            subject=subject,
            verified=verified,
        )

    def at(
        self,
        path: Path,
        message: str,
        *,
        stage: Stage = Stage.SPEC,
        remedy: str | None = None,
        severity: Severity | None = None,
        subject: str | None = None,
        verified: bool = True,
    ) -> Finding:
        """A finding of this mode at a field of a file, which is its subject unless one is given."""
        found = self.finding(
            stage,
            message,
            remedy=remedy,
            severity=severity,
            subject=subject or dotted(path),
            verified=verified,
        )
        return replace(found, path=path)


ALWAYS_COUNTED = frozenset({"SPEC001", "SPEC002", "SPEC003"})
"""What cannot be accepted on purpose: a job file that could not be understood."""


def accept(findings: Iterable[Finding], codes: Iterable[str]) -> tuple[Finding, ...]:
    """The findings, those with one of the codes marked as ignored (`ignore` of the job file)."""
    accepted = set(codes) - ALWAYS_COUNTED
    return tuple(
        replace(finding, ignored=finding.ignored or finding.code in accepted) for finding in findings
    )


def any_blocks(findings: Iterable[Finding]) -> bool:
    """Whether at least one finding makes a launch refuse."""
    return any(finding.blocks for finding in findings)


class Refusal(Exception):
    """Something the user or AWS must change before the launcher can go on.

    `message` says what is wrong, with the value; `remedy` what to do. The exit code is 2 for usage
    and unreadable input, 3 where AWS refused or cannot be reached.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.message = message
        self.remedy = remedy


class AwsRefusal(Refusal):
    """AWS refused a call, or cannot be reached; the exit code is 3."""

    exit_code = 3


class UnusableSession(AwsRefusal):
    """No credentials, none that AWS takes, no region, a wrong configuration: every call would end so."""


class Unreachable(AwsRefusal):
    """No answer of AWS came: the network, a name, a proxy, a sign-in page or a timeout."""
