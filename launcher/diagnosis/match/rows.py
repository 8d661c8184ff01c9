"""Which rows of the signatures a candidate line matches, which of them counts, and whether its digits
matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from re import _constants as regex  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from launcher.diagnosis.logs.lines import Line, may_be_indented, parse
from launcher.diagnosis.match.prefilter import Candidate, finder_of
from launcher.diagnosis.signatures.signature import Context, LineRole, Signature
from launcher.diagnosis.signatures.table import CONTEXTS, SIGNATURES
from launcher.diagnosis.storms.kinds import WIDEST, Spans, digit_kind, digit_shape
from launcher.failure_modes import training_script
from launcher.text.log_lines import LONGEST_LINE

ROLES = {role: position for position, role in enumerate(LineRole)}
_LINES_OF_A_RECORD = 3
_MOST_REMEMBERED = 10_000
_FINDER = finder_of(row.literal for row in SIGNATURES)
_NUMBERS = {literal.decode(): number for number, literal in enumerate(_FINDER.literals)}
_ROWS_OF: dict[frozenset[int], tuple[Signature, ...]] = {}
"""The rows by the literals that stand in a line, as lines are much alike."""

_MOST_SHAPES = 2048
_MATCHING: dict[bytes, tuple[Signature, ...]] = {}
"""The rows that match the lines of a shape, of which no pattern looks at single digits."""

_UNKNOWN_PREFIX = re.compile(
    r"\s*(?:\[[^\[\]]{1,80}\]:?|\([^()]{1,80}\):?|[\w./-]{1,80} ?\|"
    r"|(?:[A-Za-z][\w./-]{0,60}|\d{1,6}):(?<=\d:))\s|(?:ExitCode \d{1,4} )?ErrorMessage \""
    r"|(?:[\w.]{1,80}: )?Error (?:for Training job|training) \S{1,80}: Failed\.? Reason: "
    r"|\"?FailureReason\"?: \"?|\s*\"message\": \"|\*\*(?=\w)"
    r"|(?:[\w.]{1,80}: )?SageMaker job failed because "
)
"""What programs that are not known put before lines: in brackets, before a bar, a name with a number, or a
number alone, as of a piece of what srun labels (`logs.formats` reads the whole). The images' toolkit
tells so of the last lines of the script, the Python SDK, Airflow and the service's API of why a job failed,
torchrun's files of errors in JSON, people with asterisks."""
_MOST_UNKNOWN = 3
_PLACES = {id(row): place for place, row in enumerate(SIGNATURES)}
_AT_START = frozenset(id(row) for row in SIGNATURES if row.pattern.pattern.startswith("^"))


def best_row(
    candidate: Candidate, line: Line, uncovered: Callable[[str], str] = str
) -> tuple[Signature, dict[str, str]] | None:
    """The weightiest row that the line matches and what it captured, or None; of several the first one of
    the table.

    Where the line alone says little, its record is tried together with the next line, as if torn.
    `uncovered` as in `record_of`.
    """
    text = record_of(candidate, line, line.text, uncovered)
    matches = [*_match_behind_unknown_prefix(text), *rows_matching(text)]
    if all(says_little(row) for row, _ in matches) and candidate.after:
        following = parse(candidate.following(1)[0])
        if not are_of_two(line, following):
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
    told = [match for match in matches if not (known and _says_that_something_was_raised(match[0]))]
    return min(
        told, key=lambda match: (ROLES[match[0].role], match[0].vague, _PLACES[id(match[0])]), default=None
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


def _says_that_something_was_raised(row: Signature) -> bool:
    return row.mode is training_script.SCRIPT_RAISED and row.vague and row.role is not LineRole.INITIATOR


def says_little(row: Signature) -> bool:
    """Whether a row says so little that the next line is looked at, as if the two were one that is torn."""
    return row.role is LineRole.CASCADE and row.vague


def are_of_two(line: Line, following: Line) -> bool:
    """Whether two lines are known to be of two writers."""
    return None not in (line.writer, following.writer) and line.writer != following.writer


def record_of(candidate: Candidate, line: Line, text: str, uncovered: Callable[[str], str] = str) -> str:
    """What a line says, as `text`, and the indented lines of the same process that follow it.

    `uncovered` takes off what stands before each of them and is no known prefix.
    """
    if uncovered is str and not (candidate.after and may_be_indented(candidate.after[0])):
        return text
    lines = [text]
    for text in candidate.following(_LINES_OF_A_RECORD):
        following = parse(text)
        below = uncovered(following.text)
        if following.writer != line.writer or not below.startswith((" ", "\t")):
            break
        lines.append(below)
    return "\n".join(lines)


# In which numbers of a line single digits count, because a row's pattern looks at them.
#
# Most patterns take any digit for another. Some look for an error's number (`[Errno 104]`), an exit status,
# a code: such digits stand among other letters of the pattern, and only where a line has these they can
# count.


_ALL_DIGITS = frozenset("0123456789")
_REPEATS = (regex.MAX_REPEAT, regex.MIN_REPEAT, regex.POSSESSIVE_REPEAT)
_ASSERTIONS = (regex.ASSERT, regex.ASSERT_NOT)
_WITH_DIGITS = (regex.CATEGORY_DIGIT, regex.CATEGORY_WORD, regex.CATEGORY_NOT_SPACE)
_WIDTHS = (*WIDEST, 20, regex.MAXREPEAT)
"""How wide a number may be for a pattern that takes all of them; none of a log has more than 20 digits."""


class _AnyDigitCounts(Exception):
    """A pattern looks at how wide a number is, or takes digits that need not stand there."""


def parts_with_digits(pattern: re.Pattern[str]) -> frozenset[bytes] | None:
    """The kinds of the texts that a pattern wants where it wants certain digits; None where any digit of a
    number may count."""
    try:
        return frozenset(_parts(parser.parse(pattern.pattern, pattern.flags)))
    except _AnyDigitCounts:
        return None


def _parts(items: Iterable[Any], *, beside: bool = False) -> Iterator[bytes]:
    """`beside` are the items of a lookaround, in which a digit need not be the whole of a number."""
    text = ""
    for (code, value), following in pairwise([*items, (None, None)]):
        # Of an address no digit is told from another.
        is_pointer = (code, value) == (regex.LITERAL, ord("0")) and following == (regex.LITERAL, ord("x"))
        digits = _digits_of(code, value)
        if digits == _ALL_DIGITS and not beside and _is_digit(code, value):
            raise _AnyDigitCounts
        if digits and digits != _ALL_DIGITS and not is_pointer:
            text += "0"
        elif code is regex.LITERAL and not is_pointer:
            text += chr(value)
        else:
            yield from _kind_of_part(text)
            text = ""
            yield from _parts_within(code, value, beside=beside)
    yield from _kind_of_part(text)


def _kind_of_part(text: str) -> Iterator[bytes]:
    if "0" in text:
        yield digit_kind(text.lower().encode())


def _parts_within(code: Any, value: Any, *, beside: bool) -> Iterator[bytes]:
    """Those of what an item holds."""
    if code in _REPEATS:
        least, most, items = value
        if len(items) == 1 and _digits_of(*items[0]) == _ALL_DIGITS:
            if _is_digit(*items[0]) and (least > 1 or most not in _WIDTHS):
                raise _AnyDigitCounts
            return
        parts = list(_parts(items, beside=beside))
        if parts and len(items) == 1:
            raise _AnyDigitCounts
        yield from parts
    elif code is regex.SUBPATTERN:
        yield from _parts(value[3], beside=beside)
    elif code is regex.ATOMIC_GROUP:
        yield from _parts(value, beside=beside)
    elif code in _ASSERTIONS:
        yield from _parts(value[1], beside=True)
    elif code is regex.BRANCH:
        for items in value[1]:
            yield from _parts(items, beside=beside)


def _is_digit(code: Any, value: Any) -> bool:
    """Whether an item takes any digit and nothing else."""
    return code is regex.IN and value in (
        [(regex.CATEGORY, regex.CATEGORY_DIGIT)],
        [(regex.RANGE, (ord("0"), ord("9")))],
    )


def _digits_of(code: Any, value: Any) -> frozenset[str]:
    """The digits that an item takes."""
    if code is regex.LITERAL:
        return _ALL_DIGITS & {chr(value)}
    if code is regex.NOT_LITERAL:
        return _ALL_DIGITS - {chr(value)}
    if code is regex.ANY:
        return _ALL_DIGITS
    if code is regex.RANGE:
        return frozenset(digit for digit in _ALL_DIGITS if value[0] <= ord(digit) <= value[1])
    if code is regex.CATEGORY:
        return _ALL_DIGITS if value in _WITH_DIGITS else frozenset()
    if code is not regex.IN:
        return frozenset()
    taken = frozenset[str]().union(*(_digits_of(*member) for member in value))
    return _ALL_DIGITS - taken if value[0][0] is regex.NEGATE else taken


_ROWS_BY_KIND: Final[dict[bytes, list[Signature]]] = {}
"""The rows by the kinds of their literals."""
for _row in SIGNATURES:
    _ROWS_BY_KIND.setdefault(digit_kind(digit_shape(_row.literal.encode())), []).append(_row)


@lru_cache(maxsize=1024)
def telling_numbers(kind: bytes) -> Spans | None:
    """Where in lines of a kind, of lower case, there are numbers in which single digits count; None where
    all of them may."""
    parts: set[bytes] = set()
    for literal, rows in _ROWS_BY_KIND.items():
        if literal in kind:
            for row in rows:
                of_row = _parts_of_row(row)
                if of_row is None:
                    return None
                parts |= of_row
    return tuple(
        number.span()
        for number in re.finditer(rb"0+", kind)
        if any(_overlaps(part, kind, *number.span()) for part in parts)
    )


def _overlaps(part: bytes, kind: bytes, start: int, end: int) -> bool:
    """Whether a text stands in a kind so that it has something of the number from `start` to `end`."""
    return kind.find(part, max(0, start - len(part) + 1), end + len(part) - 1) >= 0


@lru_cache(maxsize=len(SIGNATURES))
def _parts_of_row(row: Signature) -> frozenset[bytes] | None:
    parts = parts_with_digits(row.pattern)
    of_literal = re.search(r"\d", row.literal) and digit_kind(digit_shape(row.literal.encode()))
    return parts | {of_literal} if parts is not None and of_literal else parts
