"""Which rows of the signatures a candidate line matches, and which of them counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from launcher.diagnosis.literals import finder_of
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.signatures.signature import Context, LineRole, Signature
from launcher.diagnosis.signatures.table import CONTEXTS, SIGNATURES

ROLES = {role: position for position, role in enumerate(LineRole)}
_LINES_OF_A_RECORD = 3
_MOST_REMEMBERED = 10_000
_FINDER = finder_of(row.literal for row in SIGNATURES)
_NUMBERS = {literal.decode(): number for number, literal in enumerate(_FINDER.literals)}
_ROWS_OF: dict[frozenset[int], tuple[Signature, ...]] = {}
"""The rows by the literals that stand in a line, as lines are much alike."""

_UNKNOWN_PREFIX = re.compile(
    r"\s*(?:\[[^\[\]]{1,80}\]:?|\([^()]{1,80}\):?|[\w./-]{1,80} ?\|"
    r"|(?:[A-Za-z][\w./-]{0,60}|\d{1,6}):(?<=\d:))\s|(?:ExitCode \d{1,4} )?ErrorMessage \""
)
"""What programs that are not known put before lines: in brackets, before a bar, a name with a number, or a
number alone, as of a piece of what srun labels (`formats.task_labels` reads the whole). The images' toolkit
tells so of the last lines of the script."""
_MOST_UNKNOWN = 3
_AT_START = tuple(row for row in SIGNATURES if row.pattern.pattern.startswith("^"))


def best_row(candidate: Candidate, line: Line) -> tuple[Signature, dict[str, str]] | None:
    """The weightiest row that the line matches and what it captured, or None.

    Where the line alone says little, its record is tried together with the next line, as if torn.
    """
    text = record_of(candidate, line, line.text)
    matches = [*_behind_unknown(text), *rows_matching(text)]
    if all(says_little(row) for row, _ in matches) and candidate.after:
        following = parse(candidate.following(1)[0])
        if not are_of_two(line, following):
            of_the_next = [row for row, _ in rows_matching(following.text)]
            torn = rows_matching(line.text + following.text)
            matches += [match for match in torn if match[0] not in of_the_next]
    return min(matches, key=lambda match: (ROLES[match[0].role], match[0].vague), default=None)


def _behind_unknown(text: str) -> list[tuple[Signature, dict[str, str]]]:
    """The rows that want the beginning of a line and match behind prefixes that nobody knows."""
    found: list[tuple[Signature, dict[str, str]]] = []
    for _ in range(_MOST_UNKNOWN):
        prefix = _UNKNOWN_PREFIX.match(text)
        if prefix is None:
            break
        text = text[prefix.end() :]
        found = [*rows_matching(text, _AT_START), *found]
    return found


def rows_matching(
    text: str, rows: Sequence[Signature] = SIGNATURES
) -> Iterator[tuple[Signature, dict[str, str]]]:
    """The rows that match a text, in the order of the table, and what they captured."""
    if rows is SIGNATURES:
        rows = _rows_by_literals(text)
    lower = text.lower()
    for row in rows:
        if row.literal in lower and (match := row.pattern.search(text)):
            yield row, {name: value for name, value in match.groupdict().items() if value is not None}


def _rows_by_literals(text: str) -> Sequence[Signature]:
    """The rows whose literals stand in a text, in the order of the table."""
    if not text.isascii():
        return SIGNATURES  # Some letters that are not ASCII have a lower case that is.
    found = frozenset([number for _, number in _FINDER.hits(text.encode("ascii"))])
    rows = _ROWS_OF.get(found)
    if rows is None:
        rows = tuple(row for row in SIGNATURES if _NUMBERS[row.literal] in found)
        if len(_ROWS_OF) < _MOST_REMEMBERED:
            _ROWS_OF[found] = rows
    return rows


def contexts_of(text: str) -> list[Context]:
    """The contexts that match a line, in the order of the table."""
    lower = text.lower()
    return [row for row in CONTEXTS if row.literal in lower and row.pattern.search(text)]


def says_little(row: Signature) -> bool:
    """Whether a row says so little that the next line is looked at, as if the two were one that is torn."""
    return row.role is LineRole.CASCADE and row.vague


def are_of_two(line: Line, following: Line) -> bool:
    """Whether two lines are known to be of two writers."""
    return None not in (line.writer, following.writer) and line.writer != following.writer


def record_of(candidate: Candidate, line: Line, text: str) -> str:
    """What a line says, as `text`, and the indented lines of the same process that follow it."""
    lines = [text]
    for text in candidate.following(_LINES_OF_A_RECORD):
        following = parse(text)
        if following.writer != line.writer or not following.text.startswith((" ", "\t")):
            break
        lines.append(following.text)
    return "\n".join(lines)
