"""`launch lint`: the distributed mistakes of training scripts, found by their syntax trees.

They are printed as text, as SARIF or as annotations of a GitHub workflow. The text is written without rich,
whose import would take half of the time of a short lint.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from enum import StrEnum
from io import StringIO
from pathlib import Path, PurePath
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from cyclopts import Parameter

from launcher.cli.interaction import EXIT_USAGE, message, print_json
from launcher.cli.plan import line_of, summary_of
from launcher.failure_modes.model import Edit, FailureMode, Finding, Fix, Location, Refusal, Related, Severity
from launcher.failure_modes.registry import CATALOGUE
from launcher.rules.script.check import descriptions_of
from launcher.text import __version__
from launcher.text.values import without_controls, without_credentials

if TYPE_CHECKING:
    from launcher.session.lint_scripts import Lint, Repair, Selection


class LintOutput(StrEnum):
    """What `launch lint` prints on stdout."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def lint(
    *scripts: Annotated[Path, Parameter(help="Python scripts, or folders in which to look for them.")],
    job: Annotated[
        Path | None,
        Parameter(help="Judge the scripts together with this job file; without a script its own."),
    ] = None,
    select: Annotated[
        list[str] | None,
        Parameter(negative="", help="Look only for this code, or for those of a family, such as DDP."),
    ] = None,
    ignore: Annotated[
        list[str] | None, Parameter(negative="", help="Accept the findings of a code, or of a family.")
    ] = None,
    fix: Annotated[
        bool, Parameter(negative="", show_default=False, help="Make the safe fixes, and show what is left.")
    ] = False,
    unsafe_fixes: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="With --fix, --diff: also those that change what the script does.",
        ),
    ] = False,
    diff: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the fixes as a diff; write nothing.")
    ] = False,
    verbose: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show informational findings, too.")
    ] = False,
    output: Annotated[LintOutput, Parameter(help="What stdout gets.")] = LintOutput.TEXT,
) -> int:
    """Find the distributed mistakes of training scripts. Exits with 1 where there are errors.

    Reads the scripts and what they import from their project; runs and imports nothing of them.
    """

    if not scripts and job is None:
        message("error: give at least one script or folder.\nSee `launch lint --help`.")
        return EXIT_USAGE
    if unsafe_fixes and not (fix or diff):
        raise Refusal("--unsafe-fixes says which fixes are made, and none are.", "Add --fix or --diff.")
    if diff and output is not LintOutput.TEXT:
        raise Refusal(f"--diff prints a diff, not {output}.", "Leave out --output.")
    selection = _selection(select, ignore)
    judge = _judge_of(scripts, job, selection)
    if fix or diff:
        from launcher.session.lint_scripts import repair

        done = repair(judge, unsafe=unsafe_fixes)
        _show_repair(done, None if diff else output, verbose=verbose)
        return exit_code(done.lint)
    result = judge({})
    print_lint(result, output, verbose=verbose, fixable=True)
    return exit_code(result)


def exit_code(result: Lint) -> int:
    """1 where an error was found that nobody accepts, else 0."""
    return 1 if any(finding.blocks for finding in result.findings) else 0


def _selection(select: Sequence[str] | None, ignore: Sequence[str] | None) -> Selection:
    from launcher.session.lint_scripts import Selection

    return Selection(_codes("--select", select), _codes("--ignore", ignore))


def _codes(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """The codes of an option, in capitals. Raises Refusal for one that does not exist."""
    from launcher.rules.script.acceptance import is_known_code, suggest_code

    codes = tuple(each.strip().upper() for word in given or () for each in word.split(","))
    for code in codes:
        if not is_known_code(code):
            raise Refusal(f"{option} {code}: there is no such code.", suggest_code(code))
    return codes


def _judge_of(
    scripts: Sequence[Path], job: Path | None, selection: Selection
) -> Callable[[Mapping[str, bytes]], Lint]:
    """The lint that was asked for, of files some of which may have changed."""
    from launcher.session.lint_scripts import lint as lint_scripts

    if job is None:
        return lambda changed: lint_scripts(scripts, selection, changed=changed)
    from launcher.cli.interaction import plan_offline, read
    from launcher.session.prepare_plan import lint_with_job

    loaded = read(job, None, None, None)
    with loaded.substitutions.refusals():
        plan = plan_offline(loaded, selection.ignore)

    def together(changed: Mapping[str, bytes]) -> Lint:
        with loaded.substitutions.refusals():
            return lint_with_job(loaded, plan, scripts, selection, changed=changed)

    return together


def _show_repair(done: Repair, output: LintOutput | None, *, verbose: bool) -> None:
    """Write what was repaired and show what is left; without an output show the diff, and write nothing."""

    if output is None:
        print_diff(done)
    else:
        done.write()
        print_lint(done.lint, output, verbose=verbose, fixable=False)
    message(repair_summary(done, written=output is not None))


# The findings as text: the message, the place, the line with a caret below, and what to do.


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
        print_json(sarif(result.findings, Path.cwd()))
        return
    told = list(visible_findings(result.findings, verbose=verbose))
    if output == "github":
        for line in workflow_commands(told):
            print(without_controls(line))
    else:
        style = _Style()
        for finding in told:
            print("\n".join(_lines(finding, style)), end="\n\n")
    message(summary(result, verbose=verbose, fixable=fixable))


def print_diff(done: Repair) -> None:
    """The changes of a repair as a unified diff that `patch -p1` and `git apply` take."""
    from launcher.rules.script.findings import SourceText

    for real in sorted(done.changed, key=lambda each: done.names[each]):
        name = Path(done.names[real])
        shown_as = os.path.relpath(name) if name.is_absolute() else str(name)
        before = SourceText.decode(Path(real).read_bytes()).text
        after = SourceText.decode(done.changed[real]).text
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
    text = f"{verb} {count_in_words(fixed, 'finding')} in {count_in_words(files, 'file')}"
    for each in done.refused:
        text += f"\nnot fixed: {each.code} at {each.location}: its edits would not have made it right"
    return text


def visible_findings(findings: Iterable[Finding], *, verbose: bool) -> Iterator[Finding]:
    """Those that are not accepted, and no informations unless they are asked for."""
    for finding in findings:
        if not finding.ignored and (verbose or finding.severity is not Severity.INFO):
            yield finding


def summary(result: Lint, *, verbose: bool, fixable: bool) -> str:
    """Such as `2 errors, 1 warning in 3 files of 1 program`, and below it what can be fixed."""
    if not result.programs and not result.findings:
        return NOTHING_JUDGED
    of = f"{count_in_words(result.files, 'file')} of {count_in_words(result.programs, 'program')}"
    text = f"{summary_of(result.findings)} in {of}"
    informations = sum(each.severity is Severity.INFO and not each.ignored for each in result.findings)
    if informations:
        text += f"; {informations} informational{'' if verbose else ' with --verbose'}"
    fixes = sum(each.fix is not None and each.fix.safe and not each.ignored for each in result.findings)
    if fixes and fixable:
        text += f"\n{fixes} can be fixed with --fix"
    return text


def count_in_words(number: int, word: str) -> str:
    """Such as `1 file`, `2 files`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


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


# The findings in SARIF 2.1.0 (OASIS), as code scanning services read it.
#
# Paths are relative to the folder in which the command was run. A result's fingerprint is made of its code,
# its file and the words of its line, so that it stays what it was when lines are added above it.


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE = "%SRCROOT%"
"""What relative paths begin at, by the name that GitHub has for it."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(findings: Iterable[Finding], here: Path) -> dict[str, Any]:
    """The log of one run; accepted findings are in it as suppressed ones."""
    listed = list(findings)
    codes = sorted({finding.code for finding in listed})
    prints = _fingerprints(listed, here)
    results = [
        _result(finding, codes.index(finding.code), print_, here)
        for finding, print_ in zip(listed, prints, strict=True)
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "slipway",
                        "semanticVersion": __version__,
                        "rules": [_rule(CATALOGUE[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    BASE: {"description": {"text": "The folder in which `launch lint` was run."}}
                },
                "results": results,
            }
        ],
    }


def _rule(mode: FailureMode) -> dict[str, Any]:
    sources = "".join(f"\n- {source.title}" for source in mode.sources)
    found = "".join(
        f"- {each.finds}\n  - Bad: {each.bad}\n  - Good: {each.good}\n" for each in descriptions_of(mode.code)
    )
    more = (f"In a script:\n\n{found}\n" if found else "") + f"Sources:\n{sources}"
    return {
        "id": mode.code,
        "shortDescription": {"text": mode.title},
        "fullDescription": {"text": mode.cause},
        "help": {
            "text": f"{mode.cause}\n\n{mode.remedy}\n\n{more}",
            "markdown": f"**Cause.** {mode.cause}\n\n**Remedy.** {mode.remedy}\n\n{more}",
        },
        "defaultConfiguration": {"level": _LEVELS[mode.severity]},
    }


def _result(finding: Finding, index: int, print_: str, here: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. {finding.remedy}"},
        "partialFingerprints": {"primaryLocationLineHash": print_},
    }
    if finding.location is not None:
        result["locations"] = [{"physicalLocation": _physical(finding.location, here)}]
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": number,
                "physicalLocation": _physical(each.location, here),
                "message": {"text": each.message},
            }
            for number, each in enumerate(finding.related, start=1)
        ]
    if finding.ignored:
        result["suppressions"] = [{"kind": "inSource" if finding.ignored_in_source else "external"}]
    if finding.fix is not None:
        result["fixes"] = [_fix(finding.fix, finding.remedy, here)]
    return result


def _physical(location: Location, here: Path) -> dict[str, Any]:
    region = {"startLine": location.line, "startColumn": location.column}
    if location.end_line is not None and location.end_column is not None:
        region |= {"endLine": location.end_line, "endColumn": location.end_column}
    return {"artifactLocation": _artifact(location.file, here), "region": region}


def _artifact(file: str, here: Path) -> dict[str, str]:
    """A file below `here` relative to it; any other by its whole URI."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(here):
        path = path.relative_to(here)
    if path.is_absolute() or ".." in path.parts:
        return {"uri": (here / path).resolve().as_uri()}
    return {"uri": quote(PurePath(path).as_posix(), errors="replace"), "uriBaseId": BASE}


def _fix(fix: Fix, remedy: str, here: Path) -> dict[str, Any]:
    files: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        files.setdefault(edit.file, []).append(edit)
    return {
        "description": {"text": remedy},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(file, here),
                "replacements": [
                    {
                        "deletedRegion": {"charOffset": edit.start, "charLength": edit.end - edit.start},
                        "insertedContent": {"text": edit.text},
                    }
                    for edit in edits
                ],
            }
            for file, edits in files.items()
        ],
    }


def _fingerprints(findings: Sequence[Finding], here: Path) -> list[str]:
    """One for each finding; equal lines of a file are told apart by their number among themselves."""
    seen: Counter[str] = Counter()
    prints = []
    for finding in findings:
        location = finding.location
        file, line = ("", "") if location is None else (location.file, line_of(location))
        words = " ".join((finding.code, str(_artifact(file, here).get("uri")), *line.split()))
        digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]
        seen[digest] += 1
        prints.append(f"{digest}:{seen[digest]}")
    return prints


# The findings as annotations of a GitHub workflow, one line each.
#
# https://docs.github.com/actions/reference/workflow-commands-for-github-actions says how they are written.


_KINDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_OF_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def workflow_commands(findings: Iterable[Finding]) -> Iterator[str]:
    """The workflow command of each finding; paths relative to the working folder, where they lie below it."""
    for finding in findings:
        properties = {"title": f"{finding.code}"}
        location = finding.location
        if location is not None:
            file = os.path.relpath(location.file)
            properties = {"file": file, "line": str(location.line), **properties}
            end = location.end_line or location.line
            properties["endLine"] = str(end)
            # GitHub takes columns only of a place within one line.
            if end == location.line:
                properties["col"] = str(location.column)
                if location.end_column is not None:
                    properties["endColumn"] = str(location.end_column)
        written = ",".join(f"{name}={value.translate(_OF_PROPERTIES)}" for name, value in properties.items())
        notes = [f"{each.message}: {each.location}" for each in finding.related]
        text = "\n".join([finding.message, *notes, finding.remedy]).translate(_OF_DATA)
        yield f"::{_KINDS[finding.severity]} {written}::{text}"
