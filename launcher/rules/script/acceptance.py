"""Which findings on programs are wanted and which are accepted: by comments beside the code, and by a section
of the project's pyproject.toml; and what of these is in vain."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import ALWAYS_COUNTED, FailureMode, Finding, Location, Severity, Stage
from launcher.failure_modes.registry import CATALOGUE, finds
from launcher.frozen import frozen
from launcher.program.index import FileIndex
from launcher.text.regular_files import relative_to_working_folder
from launcher.text.values import nearest

# The comments that accept findings: `# slipway: ignore[DDP004] reason`, and `ignore-file[...]`.
#
# One stands on the line of a statement, or alone above it, and holds for all lines of the statement (of a
# compound one, such as `if`, for its head). `ignore-file` holds for the whole file, wherever it stands.


IGNORE_MARK = "slipway:"
"""What such a comment begins with, behind the `#`."""

_IGNORE_WORDS = {"ignore": False, "ignore-file": True}


@frozen
class IgnoreComment:
    """One comment: the codes that it accepts, with the column of each, and the lines that it holds for.

    `lines` is None for the whole file. `reason` is what is written behind the bracket. `flaw` says what is
    wrong with a comment that begins as one and cannot be read; it accepts nothing then.
    """

    line: int
    column: int
    codes: tuple[tuple[str, int], ...] = ()
    lines: range | None = None
    reason: str = ""
    flaw: str = ""

    def accepts(self, code: str, line: int) -> bool:
        """Whether it accepts a finding of this code at this line."""
        return (self.lines is None or line in self.lines) and any(code == each for each, _ in self.codes)


def ignore_comments(file: FileIndex) -> tuple[IgnoreComment, ...]:
    """The comments of a file, in its order; a text that only looks like one, within a string, is none."""
    if IGNORE_MARK not in file.text:
        return ()
    try:
        return tuple(_read_comments(file.text))
    except (tokenize.TokenError, SyntaxError):
        # `ast` has read the file, so that this is one of the few things on which the two differ.
        return ()


def _read_comments(text: str) -> Iterator[IgnoreComment]:
    """Token by token, a logical line (what Python takes for one, in brackets or not) after the other."""
    waiting: list[tokenize.TokenInfo] = []
    begun: int | None = None
    decorated = False
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        if token.type == tokenize.COMMENT:
            if _is_mark(token.string):
                waiting.append(token)
        elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            first = token.start[0] if begun is None else begun
            # A comment above decorators is about what they decorate.
            if not decorated or token.type == tokenize.ENDMARKER:
                yield from (_parse_comment(each, range(first, token.end[0] + 1)) for each in waiting)
                waiting, begun = [], None
            decorated = False
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            if begun is None:
                begun = token.start[0]
            if token.string == "@" and not token.line[: token.start[1]].strip():
                decorated = True


def shell_comments(text: str) -> tuple[IgnoreComment, ...]:
    """The comments of a shell script; one that stands alone holds for the line below it."""
    found: list[IgnoreComment] = []
    for number, line in enumerate(text.splitlines(), start=1):
        before, mark, _ = line.partition(f"# {IGNORE_MARK}")
        if mark and _is_mark(line[len(before) :]):
            at = (number, len(before))
            token = tokenize.TokenInfo(tokenize.COMMENT, line[len(before) :], at, (number, len(line)), line)
            found.append(_parse_comment(token, range(number, number + (1 if before.strip() else 2))))
    return tuple(found)


def _is_mark(comment: str) -> bool:
    said = comment.lstrip("#").lstrip()
    # Anything else behind the mark is somebody's prose about a slipway.
    return said.startswith(IGNORE_MARK) and said[len(IGNORE_MARK) :].lstrip().startswith("ignore")


def _parse_comment(token: tokenize.TokenInfo, lines: range) -> IgnoreComment:
    line, column = token.start[0], token.start[1] + 1
    said = token.string
    behind = said[said.index(IGNORE_MARK) + len(IGNORE_MARK) :].lstrip()
    word, bracket, rest = behind.partition("[")
    word = word.strip()
    if word not in _IGNORE_WORDS:
        return IgnoreComment(line, column, flaw=f"`{_short(behind)}` is not known")
    listed, closed, reason = rest.partition("]")
    names = [name.strip() for name in listed.split(",")]
    if not bracket or not closed or not all(names):
        return IgnoreComment(line, column, flaw=f"`{word}` names no codes in brackets")
    start = len(said) - len(rest)
    codes = []
    for name in listed.split(","):
        codes.append((name.strip(), column + start + len(name) - len(name.lstrip())))
        start += len(name) + 1
    return IgnoreComment(line, column, tuple(codes), None if _IGNORE_WORDS[word] else lines, reason.strip())


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


# Which findings on programs are accepted, by comments and configuration; and what of that is in vain.


Comments = Mapping[str, tuple[IgnoreComment, ...]]
"""The ignore comments of each file, by its name as findings have it."""


@frozen
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
            return is_code_among(finding.code, self.select)
        return configuration.selects(finding.code)

    def judged(self, finding: Finding, configuration: LintConfiguration) -> Finding:
        """The finding, marked as ignored where it is accepted."""
        if finding.code in ALWAYS_COUNTED or finding.location is None:
            return finding
        in_source = any(_accepting_comments(self.comments, finding))
        outside = is_code_among(finding.code, self.ignore) or configuration.ignores(
            finding.code, Path(finding.location.file)
        )
        if not (in_source or outside):
            return finding
        return replace(finding, ignored=True, ignored_in_source=in_source)


def _accepting_comments(comments: Comments, finding: Finding) -> Iterator[IgnoreComment]:
    """The comments that accept a finding; those of the line before those of the whole file."""
    if finding.location is not None:
        for comment in comments.get(finding.location.file, ()):
            if comment.accepts(finding.code, finding.location.line):
                yield comment


def judge_comments(
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
            yield from _judge_unknown_codes(file, comment)
            if file in given:
                yield from _judge_unused_codes(file, comment, met, judged)


@finds(Stage.SCRIPT, job_file.UNKNOWN_FIELD)
def _judge_unknown_codes(file: str, comment: IgnoreComment) -> Iterator[Finding]:
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
                remedy=suggest_code(code),
                severity=Severity.WARNING,
                location=Location(file, comment.line, column, comment.line, column + len(code)),
                subject=code,
            )


@finds(Stage.SCRIPT, job_file.INVALID_VALUE)
def _judge_unused_codes(
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


# `[tool.slipway.lint]` of a project's pyproject.toml: which codes are looked for, and where not.


CONFIGURATION_FILE = "pyproject.toml"
MOST_CONFIGURATION_BYTES = 4_000_000
"""A larger file is not read."""

CONFIGURATION_SECTION = "tool.slipway.lint"
CONFIGURATION_KEYS = ("select", "ignore", "per-file-ignores", "exclude")


@frozen
class LintConfiguration:
    """What a project says of its lint. Codes may be whole (`DDP004`) or those of a family (`DDP`).

    `select` empty is all of them. Patterns are those of a shell, held against the path below `folder`,
    against each folder on the way and against the bare name; `*` matches `/` as well.
    """

    folder: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    """What is wrong with the section; what is right of it holds all the same."""

    def selects(self, code: str) -> bool:
        """Whether a code is looked for at all."""
        return not self.select or is_code_among(code, self.select)

    def ignores(self, code: str, file: Path) -> bool:
        """Whether the findings of a code in a file are accepted."""
        return is_code_among(code, self.ignore) or any(
            is_code_among(code, codes) and self._matches(file, pattern)
            for pattern, codes in self.per_file_ignores
        )

    def excludes(self, path: Path) -> bool:
        """Whether a file or folder that lies below a folder given to the lint is left out."""
        return any(self._matches(path, pattern) for pattern in self.exclude)

    def _matches(self, path: Path, pattern: str) -> bool:
        whole = path.absolute()
        if self.folder is not None and whole.is_relative_to(self.folder):
            whole = whole.relative_to(self.folder)
        names = (whole.name, *(each.as_posix() for each in (whole, *whole.parents)))
        return any(fnmatchcase(name, pattern.rstrip("/")) for name in names)


def is_code_among(code: str, codes: Iterable[str]) -> bool:
    """Whether a code, or the family that it begins with, is one of these."""
    return any(code == each or code.rstrip("0123456789") == each for each in codes)


def is_known_code(code: str) -> bool:
    """Whether there is such a code or family."""
    return code in CATALOGUE or any(is_code_among(each, (code,)) for each in CATALOGUE)


def suggest_code(code: str) -> str:
    """What to do about an unknown code."""
    near = nearest(code.upper(), CATALOGUE)
    return f"Did you mean {near[0]}?" if near else "`launch explain --all` lists all codes."


class Configurations:
    """The configurations of the folders asked for so far; each file is read once."""

    def __init__(self) -> None:
        """Start empty."""
        self._of_folder: dict[Path, LintConfiguration] = {}

    def configuration_for(self, path: Path) -> LintConfiguration:
        """That of the nearest pyproject.toml above a path that has the section; else the empty one."""
        folder = path.absolute()
        return self._of(folder if folder.is_dir() else folder.parent)

    def _of(self, folder: Path) -> LintConfiguration:
        for place in (folder, *folder.parents):
            found = self._of_folder.get(place)
            if found is None:
                found = read_configuration(place / CONFIGURATION_FILE)
                self._of_folder[place] = found = found or LintConfiguration()
            if found.folder is not None:
                return found
        return LintConfiguration()

    def findings(self) -> Iterator[Finding]:
        """What is wrong with those that were read."""
        for configuration in self._of_folder.values():
            yield from configuration.findings


@finds(Stage.SCRIPT, job_file.UNREADABLE)
def read_configuration(file: Path) -> LintConfiguration | None:
    """The section of one pyproject.toml; None without such a file or section."""
    try:
        if not file.is_file() or file.stat().st_size > MOST_CONFIGURATION_BYTES:
            return None
        text = file.read_text("utf-8")
        if "slipway" not in text:
            return None
        import tomllib  # here: few projects have such a section

        section: Any = tomllib.loads(text)
        for key in CONFIGURATION_SECTION.split("."):
            if not isinstance(section, dict):
                raise ValueError(f"what [{CONFIGURATION_SECTION}] stands in is no table, but {section!r:.40}")
            section = section.get(key, {} if key != "lint" else None)
    except OSError:
        return None
    except (ValueError, RecursionError) as error:
        finding = job_file.UNREADABLE.finding(
            Stage.SCRIPT,
            f"{CONFIGURATION_FILE} cannot be read, so that its [{CONFIGURATION_SECTION}] has no effect: "
            f"{error or 'nested too deeply'}",
            remedy="Correct it: https://toml.io shows the syntax.",
            location=Location(str(relative_to_working_folder(file)), 1, 1),
        )
        return LintConfiguration(file.parent, findings=(finding,))
    return None if section is None else _LintTable(file, text).read(section)


class _LintTable:
    def __init__(self, file: Path, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        self.findings: list[Finding] = []

    def read(self, section: Any) -> LintConfiguration:
        if not isinstance(section, dict):
            self.wrong(f"[{CONFIGURATION_SECTION}] is no table", "lint")
            section = {}
        for key in section:
            if key not in CONFIGURATION_KEYS:
                self.unknown(f"unknown key `{key}` in [{CONFIGURATION_SECTION}]", key, _suggest_key(key))
        per_file = section.get("per-file-ignores", {})
        if not isinstance(per_file, dict):
            self.wrong("`per-file-ignores` is no table of patterns with their codes", "per-file-ignores")
            per_file = {}
        return LintConfiguration(
            self.file.parent,
            select=self.codes(section, "select"),
            ignore=self.codes(section, "ignore"),
            per_file_ignores=tuple((pattern, self.codes(per_file, pattern)) for pattern in per_file),
            exclude=self.strings(section, "exclude"),
            findings=tuple(self.findings),
        )

    def strings(self, table: dict[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self.wrong(f"`{key}` of [{CONFIGURATION_SECTION}] is no list of strings", key)
        return ()

    def codes(self, table: dict[str, Any], key: str) -> tuple[str, ...]:
        named = self.strings(table, key)
        for code in named:
            if not is_known_code(code):
                self.unknown(
                    f"{code} in `{key}` of [{CONFIGURATION_SECTION}] is no code", code, suggest_code(code)
                )
        return named

    @finds(Stage.SCRIPT, job_file.UNKNOWN_FIELD)
    def unknown(self, message: str, word: str, remedy: str) -> None:
        self.note(job_file.UNKNOWN_FIELD, f"{message}, and has no effect", word, remedy)

    @finds(Stage.SCRIPT, job_file.INVALID_VALUE)
    def wrong(self, message: str, word: str) -> None:
        self.note(job_file.INVALID_VALUE, f"{message}, and has no effect", word, _CODES_EXAMPLE)

    def note(self, mode: FailureMode, message: str, word: str, remedy: str) -> None:
        place = self.place(word)
        self.findings.append(mode.finding(Stage.SCRIPT, message, remedy=remedy, location=place, subject=word))

    def place(self, word: str) -> Location:
        """Where a word stands: TOML's reader gives no positions, so it is looked for below the heading."""
        heading = next((number for number, line in enumerate(self.lines) if CONFIGURATION_SECTION in line), 0)
        for number, line in enumerate(self.lines[heading + 1 :], start=heading + 2):
            for written in (f'"{word}"', f"'{word}'", word):
                # In quotes anywhere, bare only as a key.
                at = line.find(written)
                if at >= 0 and (written != word or line.lstrip().startswith(word)):
                    return Location(
                        str(relative_to_working_folder(self.file)),
                        number,
                        at + 1,
                        number,
                        at + 1 + len(written),
                    )
        return Location(str(relative_to_working_folder(self.file)), heading + 1, 1)


_CODES_EXAMPLE = 'Write it as `select = ["DDP"]` or, of per-file-ignores, `"tests/*" = ["DDP006"]`.'


def _suggest_key(key: str) -> str:
    near = nearest(key, CONFIGURATION_KEYS)
    return f"Did you mean `{near[0]}`?" if near else f"Its keys are {', '.join(CONFIGURATION_KEYS)}."
