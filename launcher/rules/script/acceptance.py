"""Which findings on programs are accepted, by comments and configuration; and what of that is in vain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.failure_modes import job_file
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import ALWAYS_COUNTED, Finding, Location, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.scripts.configuration import LintConfiguration, is_among, meant_instead
from launcher.scripts.ignores import IgnoreComment

Comments = Mapping[str, tuple[IgnoreComment, ...]]
"""The ignore comments of each file, by its name as findings have it."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What accepts findings: the comments of the files, and the codes or families of the command line.

    `select` empty is every code.
    """

    comments: Comments
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wanted(self, finding: Finding, configuration: LintConfiguration) -> bool:
        """Whether the code is looked for; what could not be read is always told."""
        if finding.code in ALWAYS_COUNTED:
            return True
        if self.select:
            return is_among(finding.code, self.select)
        return configuration.selects(finding.code)

    def judged(self, finding: Finding, configuration: LintConfiguration) -> Finding:
        """The finding, marked as ignored where it is accepted."""
        if finding.code in ALWAYS_COUNTED or finding.location is None:
            return finding
        in_source = any(_accepting(self.comments, finding))
        outside = is_among(finding.code, self.ignore) or configuration.ignores(
            finding.code, Path(finding.location.file)
        )
        if not (in_source or outside):
            return finding
        return replace(finding, ignored=True, ignored_in_source=in_source)


def _accepting(comments: Comments, finding: Finding) -> Iterator[IgnoreComment]:
    """The comments that accept a finding; those of the line before those of the whole file."""
    if finding.location is not None:
        for comment in comments.get(finding.location.file, ()):
            if comment.accepts(finding.code, finding.location.line):
                yield comment


def about_comments(
    comments: Comments, findings: Iterable[Finding], given: Collection[str], judged: Collection[str]
) -> Iterator[Finding]:
    """What is wrong with the comments themselves: codes that do not exist, and those that accept nothing.

    `findings` are all of the programs that were read, `given` the files that were given to the lint: in one
    that is only imported, a finding may depend on which script starts it. `judged` are the codes that are
    looked for in such a run; a comment about any other says nothing that is wrong.
    """
    met = {
        (finding.location.file, finding.code, finding.location.line)
        for finding in findings
        if finding.location is not None
    }
    for file in sorted(comments):
        for comment in comments[file]:
            yield from _unknown(file, comment)
            if file in given:
                yield from _unused(file, comment, met, judged)


@finds(Stage.SCRIPT, job_file.UNKNOWN_FIELD)
def _unknown(file: str, comment: IgnoreComment) -> Iterator[Finding]:
    """A comment with a code that does not exist, or that cannot be read: it accepts nothing."""
    place = Location(file, comment.line, comment.column)
    if comment.flaw:
        yield job_file.UNKNOWN_FIELD.finding(
            Stage.SCRIPT,
            f"{comment.flaw}, so that the comment accepts nothing",
            remedy="Write it as `# slipway: ignore[DDP004] the reason`.",
            severity=Severity.WARNING,
            location=place,
            subject="slipway: ignore",
        )
    for code, column in comment.codes:
        if code not in CATALOGUE:
            yield job_file.UNKNOWN_FIELD.finding(
                Stage.SCRIPT,
                f"{code} is no code, so that the comment accepts nothing",
                remedy=meant_instead(code),
                severity=Severity.WARNING,
                location=Location(file, comment.line, column, comment.line, column + len(code)),
                subject=code,
            )


@finds(Stage.SCRIPT, job_file.INVALID_VALUE)
def _unused(
    file: str, comment: IgnoreComment, met: Collection[tuple[str, str, int]], judged: Collection[str]
) -> Iterator[Finding]:
    """A comment that accepts a finding which is not there: it would hide one that comes later."""
    for code, column in comment.codes:
        if code not in judged or any(
            name == file and found == code and comment.accepts(code, line) for name, found, line in met
        ):
            continue
        where = "in this file" if comment.lines is None else "here"
        yield job_file.INVALID_VALUE.finding(
            Stage.SCRIPT,
            f"{code} is not found {where}: the comment accepts nothing now, and would hide the next one",
            remedy="Remove it.",
            severity=Severity.WARNING,
            location=Location(file, comment.line, column, comment.line, column + len(code)),
            subject=code,
        )
