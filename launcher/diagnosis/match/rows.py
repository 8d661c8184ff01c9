"""Which rows of the signatures a candidate line matches, which of them counts, and whether its digits
matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from launcher.diagnosis.logs.lines import Line, may_be_indented, parse
from launcher.diagnosis.match.prefilter import Candidate, finder_of
from launcher.diagnosis.signatures import CONTEXTS, SIGNATURES, Context, LineRole, Signature
from launcher.failure_modes import training_script
from launcher.text.log_lines import LONGEST_LINE, Spans, digit_kind, digit_shape

ROLES = {role: position for position, role in enumerate(LineRole)}
_LINES_OF_A_RECORD = 3
_FINDER = finder_of(row.literal for row in SIGNATURES)
_NUMBERS = {literal.decode(): number for number, literal in enumerate(_FINDER.literals)}
_MOST_SHAPES = 2048
_MATCHING: dict[bytes, tuple[Signature, ...]] = {}
"""The rows that match the lines of a shape, of which no pattern looks at single digits."""

_UNKNOWN_PREFIX = re.compile(
    r"\s*(?:\[[^\[\]]{1,80}\]:?|\([^()]{1,80}\):?|[\w./-]{1,80} ?\|"
    r"|(?:[A-Za-z][\w./-]{0,60}|\d{1,6}):(?<=\d:)"
    r"|(?:[Rr]ank|[Ww]orker|[Pp]rocess) \d{1,6}(?::| \|)"
    r"|(?!(?:caught|debug|error|fatal|hint|ignored|info|note|slipway|wandb|warn(?:ing)?):)[a-z][a-z_-]{1,30}:)\s"
    r"|[^|\n]{0,80}?\d{1,3}%\|[^|\n]{0,400}\|[^\n\[\]]{0,40}\[[^\[\]\n]{1,200}\] ?(?=\S)"
    r"|(?:ExitCode \d{1,4} )?ErrorMessage \""
    r"|(?:[\w.]{1,80}: )?Error (?:for Training job|training) \S{1,80}: Failed\.? Reason: "
    r"|\"?FailureReason\"?: \"?|\s*\"message\": \"|\*\*(?=\w)"
    r"|(?:[\w.]{1,80}: )?SageMaker job failed because "
)
"""What programs that are not known put before lines: in brackets, before a bar, a name with a number or in
small letters (`launcher: `, but no level of a logger's), or a number alone, as of a piece of what srun labels
(`logs.formats` reads the whole), a rank or worker by its word, and a bar of tqdm's, which ends no line. The
images' toolkit tells so of the last lines of the script, the Python SDK, Airflow and the service's API of
why a job failed, torchrun's files of errors in JSON, people with asterisks."""
_MOST_UNKNOWN = 3
_PLACES = {id(row): place for place, row in enumerate(SIGNATURES)}
_AT_START = frozenset(id(row) for row in SIGNATURES if row.pattern.pattern.startswith("^"))


def best_row(
    candidate: Candidate, line: Line, strip_prefix: Callable[[str], str] | None = None
) -> tuple[Signature, dict[str, str]] | None:
    """The weightiest row that the line matches and what it captured, or None; of several the first one of
    the table.

    Where the line alone says little, its record is tried together with the next line, as if torn.
    `strip_prefix` as in `record_of`.
    """
    text = record_of(candidate, line, line.text, strip_prefix)
    matches = [*_match_behind_unknown_prefix(text), *rows_matching(text)]
    if all(is_vague_cascade(row) for row, _ in matches) and candidate.after:
        following = parse(candidate.following(1)[0])
        if not have_different_writers(line, following):
            of_the_next = [row for row, _ in rows_matching(following.text)]
            torn = rows_matching(line.text + following.text)
            matches += [match for match in torn if match[0] not in of_the_next]
    return weightiest(matches)


def weightiest(
    matches: Sequence[tuple[Signature, dict[str, str]]],
) -> tuple[Signature, dict[str, str]] | None:
    """Of the rows that one text matches the one that counts, and what it captured; None of none.

    That something was raised says the least: where another row knows what, it counts.
    """
    known = any(row.mode is not training_script.SCRIPT_RAISED and row.role.may_be_root for row, _ in matches)
    counting = [match for match in matches if not (known and _says_that_something_was_raised(match[0]))]
    return min(
        counting,
        key=lambda match: (ROLES[match[0].role], match[0].vague, _PLACES[id(match[0])]),
        default=None,
    )


def _match_behind_unknown_prefix(text: str) -> list[tuple[Signature, dict[str, str]]]:
    """The rows that want the beginning of a line and match behind prefixes that nobody knows."""
    found: list[tuple[Signature, dict[str, str]]] = []
    prefix = _UNKNOWN_PREFIX.match(text)
    rows = [row for row in _rows_by_literals(text) if id(row) in _AT_START] if prefix else []
    for _ in range(_MOST_UNKNOWN):
        if prefix is None or not rows:
            break
        text = text[prefix.end() :]
        found = [*rows_matching(text, rows), *found]
        prefix = _UNKNOWN_PREFIX.match(text)
    return found


def rows_matching(
    text: str, rows: Sequence[Signature] = SIGNATURES
) -> Iterator[tuple[Signature, dict[str, str]]]:
    """The rows that match a text, in the order of the table, and what they captured.

    Blanks at its end, with which terminals fill lines up to their width, are no part of it.
    """
    text = text.rstrip(" \t")
    if rows is SIGNATURES:
        rows = _rows_of_shape(text)
    lower = text.lower()
    for row in rows:
        if row.literal in lower and (match := row.pattern.search(text)):
            yield row, {name: value for name, value in match.groupdict().items() if value is not None}


def _rows_of_shape(text: str) -> Sequence[Signature]:
    """The rows that can match a text; where the same match all that differ in their digits alone, only those
    that do."""
    if not text.isascii() or len(text) > LONGEST_LINE:
        return _rows_by_literals(text)
    shape = digit_shape(text.encode("ascii"))
    rows = _MATCHING.get(shape)
    if rows is None:
        rows = tuple(_rows_by_literals(text))
        if telling_numbers(digit_kind(shape.lower())) == ():
            rows = tuple(row for row, _ in rows_matching(text, rows))
            if len(_MATCHING) >= _MOST_SHAPES:
                _MATCHING.clear()
            _MATCHING[shape] = rows
    return rows


def _rows_by_literals(text: str) -> Sequence[Signature]:
    """The rows whose literals stand in a text, in the order of the table."""
    if not text.isascii():
        return SIGNATURES  # Some letters that are not ASCII have a lower case that is.
    found = frozenset([number for _, number in _FINDER.hits(text.encode("ascii"))])
    return _rows_of_literals(found)


@lru_cache(maxsize=10_000)
def _rows_of_literals(found: frozenset[int]) -> tuple[Signature, ...]:
    """The rows by the numbers of the literals that stand in a line, remembered as lines are much alike."""
    return tuple(row for row in SIGNATURES if _NUMBERS[row.literal] in found)


def contexts_of(text: str) -> list[Context]:
    """The contexts that match a line, in the order of the table."""
    lower = text.lower()
    return [row for row in CONTEXTS if row.literal in lower and row.pattern.search(text)]


def _says_that_something_was_raised(row: Signature) -> bool:
    return row.mode is training_script.SCRIPT_RAISED and row.vague and row.role is not LineRole.INITIATOR


def is_vague_cascade(row: Signature) -> bool:
    """Whether a row says so little that the next line is looked at, as if the two were one that is torn."""
    return row.role is LineRole.CASCADE and row.vague


def have_different_writers(line: Line, following: Line) -> bool:
    """Whether two lines are known to be of two writers."""
    return None not in (line.writer, following.writer) and line.writer != following.writer


def record_of(
    candidate: Candidate, line: Line, text: str, strip_prefix: Callable[[str], str] | None = None
) -> str:
    """What a line says, as `text`, and the indented lines of the same process that follow it.

    `strip_prefix` takes off what stands before each of them and is no known prefix.
    """
    if strip_prefix is None and not (candidate.after and may_be_indented(candidate.after[0])):
        return text
    lines = [text]
    for text in candidate.following(_LINES_OF_A_RECORD):
        following = parse(text)
        below = following.text if strip_prefix is None else strip_prefix(following.text)
        if following.writer != line.writer or not below.startswith((" ", "\t")):
            break
        lines.append(below)
    return "\n".join(lines)


# In which numbers of a line single digits count, because a row's pattern looks at them.
#
# Most patterns take any digit for another. Some look for an error's number (`[Errno 104]`), an exit status,
# a code: such digits stand among other letters of the pattern, and only where a line has these they can
# count (`Signature.digits`, found by tools/generate/telling_digits.py).


_DIGITS_BY_KIND: Final[dict[bytes, set[bytes] | None]] = {}
"""The kinds of texts in which the rows want certain digits, by the kinds of their literals."""
for _row in SIGNATURES:
    _kind = digit_kind(digit_shape(_row.literal.encode()))
    _known = _DIGITS_BY_KIND.setdefault(_kind, set())
    _DIGITS_BY_KIND[_kind] = None if _known is None or _row.digits is None else _known | _row.digits


@lru_cache(maxsize=1024)
def telling_numbers(kind: bytes) -> Spans | None:
    """Where in lines of a kind, of lower case, there are numbers in which single digits count; None where
    all of them may."""
    parts: set[bytes] = set()
    for literal, wanted in _DIGITS_BY_KIND.items():
        if literal in kind:
            if wanted is None:
                return None
            parts |= wanted
    return tuple(
        number.span()
        for number in re.finditer(rb"0+", kind)
        if any(_overlaps(part, kind, *number.span()) for part in parts)
    )


def _overlaps(part: bytes, kind: bytes, start: int, end: int) -> bool:
    """Whether a text stands in a kind so that it has something of the number from `start` to `end`."""
    return kind.find(part, max(0, start - len(part) + 1), end + len(part) - 1) >= 0
