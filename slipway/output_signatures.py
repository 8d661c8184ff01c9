"""What the lines of one process show, by the launcher's log signatures.

The rules are those of `launch diagnose`. The weightiest role counts, whatever came first: initiator,
symptom, cascade. Within a role what is definite beats what is vague, then the earlier line counts.
`tools/generate/boot_signatures.py` writes the rows into `signatures.json`, and a test holds it current:
what the diagnosis knows of a failure and what the container reports of it are one knowledge.
"""

from __future__ import annotations

import json
import pkgutil
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

# The lines of an output as they are judged: without colours and control characters, without prefixes.


LONGEST = 4096
"""Characters of a line that are looked at: what is longer is data that was printed."""

_MOST_PREFIXES = 8
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_BREAK = re.compile(r"\r*\n|\r+")


@dataclass(frozen=True)
class OutputLine:
    """A line and who wrote it, where its prefix tells: `writer` is a rank or a local rank."""

    text: str
    writer: int | None = None


def lines_of(output: str) -> list[OutputLine]:
    """The lines of an output; a progress bar that writes over itself is as many as it wrote."""
    texts = _BREAK.split(output)
    return [line_of(text) for text in (texts if texts[-1] else texts[:-1])]


def line_of(text: str) -> OutputLine:
    """One line, without what stands before its message: ranks, times, hosts, NCCL's process and device."""
    text = text[:LONGEST]
    if not text.isprintable():
        text = _CONTROL.sub("", _ANSI.sub("", text))
    prefix = table().patterns["prefix"]
    start, rank, local_rank = 0, None, None
    for _ in range(_MOST_PREFIXES):
        match = prefix.match(text, start)
        if match is None:
            break
        start = match.end()
        rank = match["mpi"] or match["rank"] or rank
        local_rank = match["local"] or local_rank
    writer = local_rank if rank is None else rank
    return OutputLine(text[start:], int(writer) if writer is not None else None)


# The rows by which an output is judged, read from `signatures.json`.


ROLES = ("initiator", "symptom", "cascade", "teardown", "advisory")
"""What a line is in the story of a failure, in the order in which it can be the root cause; the last two
never are."""

_MADE_FOR_OLD_PYTHONS = "_atom"


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """A pattern, compiled when it is first needed: most rows never are."""
    return re.compile(pattern, flags)


@dataclass(frozen=True)
class SignatureRow:
    """One kind of line; `role` counts in ROLES, the other fields are those of the launcher's `Signature`."""

    code: str
    role: int
    literal: str
    pattern: str
    flags: int = 0
    says: str | None = None
    vague: bool = False

    def captured(self, text: str) -> dict[str, str] | None:
        """What the pattern captures in a text; None where it does not match."""
        match = compiled(self.pattern, self.flags).search(text)
        if match is None:
            return None
        return {
            name: value
            for name, value in match.groupdict().items()
            if value is not None and not name.startswith(_MADE_FOR_OLD_PYTHONS)
        }


@dataclass(frozen=True)
class ContextRow:
    """A line that, shortly before a symptom of the codes `symptoms`, tells what the symptom meant: `code`."""

    code: str
    symptoms: tuple[str, ...]
    literal: str
    pattern: str
    flags: int = 0

    def matches(self, text: str) -> bool:
        """Whether a line is one of these."""
        return bool(compiled(self.pattern, self.flags).search(text))


@dataclass(frozen=True)
class Table:
    """All rows, in the order in which they count, and how the lines that they judge are read; `meetings` is
    how the ranks of each framework meet."""

    rows: tuple[SignatureRow, ...]
    contexts: tuple[ContextRow, ...]
    patterns: Mapping[str, re.Pattern[str]]
    meetings: Mapping[str, str]


@lru_cache(maxsize=1024)
def table() -> Table:
    """The table, read once."""
    content: Any = json.loads((pkgutil.get_data(__package__ or "", "signatures.json") or b"").decode("utf-8"))
    return Table(
        tuple(SignatureRow(**{**row, "role": ROLES.index(row["role"])}) for row in content["signatures"]),
        tuple(ContextRow(**{**row, "symptoms": tuple(row["symptoms"])}) for row in content["contexts"]),
        {name: re.compile(*pattern) for name, pattern in content["patterns"].items()},
        content["meetings"],
    )


INITIATOR, SYMPTOM, CASCADE, _, ADVISORY = range(len(ROLES))

_LINES_OF_A_RECORD = 3
_CLOSE = 12
_SURVIVED = 500


@dataclass(frozen=True)
class Sign:
    """A failure mode's code, what is said of it, and the line that shows it, by its number.

    `rank` is the global rank that the line's own words name, which may be another one than the one that
    printed it.
    """

    code: str
    role: int
    vague: bool
    what: str
    index: int
    text: str
    rank: int | None = None

    @property
    def weight(self) -> tuple[int, bool]:
        """The lower, the likelier the cause."""
        return self.role, self.vague


def root_sign_of(lines: Sequence[OutputLine], raised: Sequence[Sign] = ()) -> Sign | None:
    """The root cause that the lines show, or None.

    `raised` are exceptions that the caller read in the same lines. The modes that count lines are the
    diagnosis': a mere mention that so many lines follow was survived.
    """
    contexts: dict[ContextRow, int] = {}
    signs: list[Sign] = []
    for index in _candidate_lines(lines):
        sign = _sign_at(lines, index)
        if sign is not None:
            signs.append(sign)
        _note_contexts(lines[index].text, index, contexts, {each.code for each in signs})
    possible = [
        sign
        for sign in [*raised, *signs]
        if sign.role <= CASCADE
        and not (sign.role == CASCADE and sign.vague and len(lines) - sign.index > _SURVIVED)
    ]
    root = min(possible, key=lambda sign: (*sign.weight, sign.index), default=None)
    return _explain_by_context(root, signs, contexts) if root is not None else None


def rows_matching(text: str) -> Iterator[tuple[SignatureRow, dict[str, str]]]:
    """The rows that match a text, in the order of the table, and what they captured."""
    text = text.rstrip(" \t")  # with which terminals fill lines up
    lower = text.lower()
    for row in table().rows:
        if row.literal in lower:
            captured = row.captured(text)
            if captured is not None:
                yield row, captured


def _candidate_lines(lines: Sequence[OutputLine]) -> list[int]:
    """The numbers of the lines in which the literal of a row begins.

    The lines are joined without a break, so that a literal torn over two lines is found as well.
    """
    # U+0130 is the one character whose lower-case form is longer; positions must stay what they are.
    text = "".join(line.text for line in lines).replace("\u0130", "I").lower()
    ends = list(accumulate(len(line.text) for line in lines))
    found = set()
    literals = {row.literal for row in table().rows} | {row.literal for row in table().contexts}
    for literal in literals:
        position = text.find(literal)
        while position >= 0:
            number = bisect_right(ends, position)
            found.add(number)
            # On from the next line: what else stands in this one does not matter.
            position = text.find(literal, ends[number])
    return sorted(found)


def _sign_at(lines: Sequence[OutputLine], index: int) -> Sign | None:
    """What a line shows by the weightiest row that it matches.

    Where the line alone says little, its record is tried together with the next line, as if torn.
    """
    line = lines[index]
    matches = list(rows_matching(_lines_of_record(lines, index)))
    if all(row.role == CASCADE and row.vague for row, _ in matches) and index + 1 < len(lines):
        following = lines[index + 1].text
        of_the_next = [row for row, _ in rows_matching(following)]
        matches += [match for match in rows_matching(line.text + following) if match[0] not in of_the_next]
    if not matches:
        return None
    row, captured = min(matches, key=lambda match: (match[0].role, match[0].vague))
    handled = row.role <= CASCADE and table().patterns["goes_on"].search(line.text)
    rank = captured.get("rank", "")
    return Sign(
        row.code,
        ADVISORY if handled else row.role,
        row.vague,
        _sign_text(row, captured, line.text),
        index,
        line.text,
        int(rank) if rank.isdecimal() else None,
    )


def _lines_of_record(lines: Sequence[OutputLine], index: int) -> str:
    """The line and the indented lines of the same process that follow it."""
    line = lines[index]
    texts = [line.text]
    for following in lines[index + 1 : index + 1 + _LINES_OF_A_RECORD]:
        if following.writer != line.writer or not following.text.startswith((" ", "\t")):
            break
        texts.append(following.text)
    return "\n".join(texts)


def _sign_text(row: SignatureRow, captured: dict[str, str], text: str) -> str:
    if row.says is None:
        return text.strip()
    try:
        return row.says.format_map(captured)
    except KeyError:  # an optional group that this line does not have
        return text.strip()


def _note_contexts(text: str, index: int, contexts: dict[ContextRow, int], seen: set[str]) -> None:
    """Remember the last line of each context before the symptoms that it explains."""
    lower = text.lower()
    for context in table().contexts:
        if context.literal in lower and not seen.intersection(context.symptoms) and context.matches(text):
            contexts[context] = index


def _explain_by_context(root: Sign, signs: Sequence[Sign], contexts: dict[ContextRow, int]) -> Sign:
    """The root cause, as what a line shortly before such a symptom reveals."""
    if root.role == INITIATOR:
        return root
    alike = [sign.index for sign in signs if sign.code == root.code]
    for context, index in sorted(contexts.items(), key=lambda entry: -entry[1]):
        if root.code in context.symptoms and any(0 < each - index <= _CLOSE for each in alike):
            return replace(root, code=context.code)
    return root
