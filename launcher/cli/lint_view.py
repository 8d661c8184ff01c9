"""The findings of a lint as text: the message, the place, the line with a caret below, and what to do.

Written without rich, whose import would take half of the time of a short lint.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from io import StringIO
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from launcher.cli.findings_view import summary_of
from launcher.cli.output import message, print_json
from launcher.failure_modes.model import Finding, Location, Related, Severity
from launcher.scripts.reading import MOST_BYTES
from launcher.text.controls import without_controls
from launcher.text.secrets import without_credentials

if TYPE_CHECKING:
    from launcher.cli.lint import LintOutput
    from launcher.session.linting import Lint
    from launcher.session.repairing import Repair

WIDEST = 100
"""Prose is not set wider, however wide the terminal is."""

PLAIN_WIDTH = 80
"""Where there is no terminal."""

NOTHING_JUDGED = (
    "nothing was judged: no script there has a main guard and starts distributed training.\n"
    "Name a script to have it judged whatever it is."
)
"""What is said of folders in which there is no script."""

_COLOURS = {Severity.ERROR: "1;31", Severity.WARNING: "33", Severity.INFO: "36"}
_BOLD, _DIM = "1", "2"
_LABELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}


class _Style:
    """Colours where stdout is a terminal that takes them (https://no-color.org)."""

    def __init__(self) -> None:
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        columns = get_terminal_size((PLAIN_WIDTH, 24)).columns if sys.stdout.isatty() else PLAIN_WIDTH
        self.width = max(40, min(columns, WIDEST))

    def __call__(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.coloured and text else text


def print_lint(result: Lint, output: LintOutput, *, verbose: bool, fixable: bool) -> None:
    """Print what was found, as `--output` asks; what counts it goes to stderr.

    Informations are shown where `verbose` asks for them; JSON and SARIF hold everything. `fixable` is whether
    the fixes that there are can be made, and so are worth a word.
    """
    if output == "json":
        print_json({"findings": [finding.to_json() for finding in result.findings]})
        return
    if output == "sarif":
        from launcher.cli.lint_sarif import sarif

        print_json(sarif(result.findings, Path.cwd()))
        return
    told = list(shown(result.findings, verbose=verbose))
    if output == "github":
        from launcher.cli.lint_annotations import workflow_commands

        for line in workflow_commands(told):
            print(without_controls(line))
    else:
        style = _Style()
        for finding in told:
            print("\n".join(_lines(finding, style)), end="\n\n")
    message(summary(result, verbose=verbose, fixable=fixable))


def print_diff(done: Repair) -> None:
    """The changes of a repair as a unified diff that `patch -p1` and `git apply` take."""
    from launcher.scripts.edits import SourceText

    for real in sorted(done.changed, key=lambda each: done.names[each]):
        name = Path(done.names[real])
        shown_as = os.path.relpath(name) if name.is_absolute() else str(name)
        before = SourceText.of(Path(real).read_bytes()).text
        after = SourceText.of(done.changed[real]).text
        # Lines end with a line feed alone here: Python's other ends of lines may stand within them.
        old, new = StringIO(before).readlines(), StringIO(after).readlines()
        for line in unified_diff(old, new, f"a/{shown_as}", f"b/{shown_as}"):
            body = line.rstrip("\r\n")
            print(without_controls(body) + ("\r" if line.endswith("\r\n") else ""))
            if not line.endswith("\n"):
                print("\\ No newline at end of file")


def repair_summary(done: Repair, *, written: bool) -> str:
    """Such as `fixed 3 findings in 2 files`, with those whose fix was not made."""
    fixed, files = len(done.fixed), len(done.changed)
    verb = "fixed" if written else "would fix"
    text = f"{verb} {counted(fixed, 'finding')} in {counted(files, 'file')}"
    for each in done.refused:
        text += f"\nnot fixed: {each.code} at {each.location}: its edits would not have made it right"
    return text


def shown(findings: Iterable[Finding], *, verbose: bool) -> Iterator[Finding]:
    """Those that are not accepted, and no informations unless they are asked for."""
    for finding in findings:
        if not finding.ignored and (verbose or finding.severity is not Severity.INFO):
            yield finding


def summary(result: Lint, *, verbose: bool, fixable: bool) -> str:
    """Such as `2 errors, 1 warning in 3 files of 1 program`, and below it what can be fixed."""
    if not result.programs and not result.findings:
        return NOTHING_JUDGED
    of = f"{counted(result.files, 'file')} of {counted(result.programs, 'program')}"
    text = f"{summary_of(result.findings)} in {of}"
    informations = sum(each.severity is Severity.INFO and not each.ignored for each in result.findings)
    if informations:
        text += f"; {informations} informational{'' if verbose else ' with --verbose'}"
    fixes = sum(each.fix is not None and each.fix.safe and not each.ignored for each in result.findings)
    if fixes and fixable:
        text += f"\n{fixes} can be fixed with --fix"
    return text


def counted(number: int, word: str) -> str:
    """Such as `1 file`, `2 files`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def line_of(location: Location) -> str:
    """The line of a place, as the file is now; empty where it cannot be read.

    Only what is read to be judged is read to be shown: linecache would wait for a pipe, take a file of any
    size, and fail with a codec that gives no text.
    """
    file = Path(location.file)
    try:
        readable = file.is_file() and file.stat().st_size <= MOST_BYTES
        linecache.checkcache(location.file)
        return linecache.getline(location.file, location.line) if readable else ""
    except (OSError, ValueError, LookupError):
        return ""


def _lines(finding: Finding, style: _Style) -> Iterator[str]:
    label = style(_LABELS[finding.severity], _COLOURS[finding.severity])
    head = f"{_LABELS[finding.severity]} {finding.code} "
    first, *rest = _wrapped(finding.message, style.width, len(head), 6)
    yield f"{label} {style(finding.code, _BOLD)} {first}"
    yield from (f"      {line}" for line in rest)
    location = finding.location
    margin = "   "
    related = list(finding.related)
    if location is not None:
        yield style(f"  --> {_place(location)}", _DIM)
        line = line_of(location)
        if line.strip():
            margin = " " * (len(str(location.line)) + 1)
            under = related.pop(0) if related and related[0].message.startswith("under ") else None
            yield from _excerpt(line, location, under, style, _COLOURS[finding.severity])
    for each in related:
        yield from _hung(f"{margin}= note: ", f"{_place(each.location)}: {each.message}", style)
    yield from _remedy(finding, margin, style)


def _place(location: Location) -> str:
    """A place on one line, whatever the file's name holds."""
    return without_controls(str(location).replace("\n", "\\n").replace("\t", "\\t"))


def _excerpt(
    line: str, location: Location, under: Related | None, style: _Style, colour: str
) -> Iterator[str]:
    """The line, cut around the place, with carets below the expression and behind them what it is under."""
    text = line.rstrip("\r\n").replace("\t", " ")
    number = str(location.line)
    start = location.column - 1
    same_line = location.end_line in (None, location.line)
    end = location.end_column - 1 if location.end_column and same_line else len(text.rstrip())
    room = style.width - len(number) - 3
    if len(text) > room and end > room:
        cut = max(0, min(start - 8, len(text) - room))
        text, start, end = text[cut:], start - cut, end - cut
    text = text[:room]
    end = max(start + 1, min(end, room))
    yield f"{style(number + ' |', _DIM)} {without_controls(without_credentials(text))}"
    marks = style("^" * (end - start), colour)
    bar = style(f"{' ' * len(number)} |", _DIM)
    said = "" if under is None else f"{under.message} (line {under.location.line})"
    beside = 3 + len(number) + end + 1 + len(said) <= style.width
    yield f"{bar} {' ' * start}{marks}{' ' + said if said and beside else ''}"
    if said and not beside:
        for each in _wrapped(said, style.width, len(number) + 3, len(number) + 3):
            yield f"{bar} {each}"


def _remedy(finding: Finding, margin: str, style: _Style) -> Iterator[str]:
    """The remedy, and behind it, on the same line where there is room, how to read more."""
    *before, last = list(_hung(f"{margin}= ", finding.remedy, style))
    yield from before
    more = f"launch explain {finding.code}"
    if len(last) + 6 + len(more) <= style.width:
        yield f"{last}{' ' * 6}{style(more, _DIM)}"
    else:
        yield last
        yield f"{margin}  {style(more, _DIM)}"


def _hung(start: str, text: str, style: _Style) -> Iterator[str]:
    first, *rest = _wrapped(text, style.width, len(start), len(start))
    yield start + first
    yield from (" " * len(start) + line for line in rest)


def _wrapped(text: str, width: int, first: int, others: int) -> list[str]:
    """The lines of a text where the first begins at one column and the others at another."""
    safe = without_controls(text)
    lines = wrap(
        safe,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [lines[0][first:], *(line[others:] for line in lines[1:])] if lines else [""]
