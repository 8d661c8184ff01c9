"""The comments that accept findings: `# slipway: ignore[DDP004] reason`, and `ignore-file[...]`.

One stands on the line of a statement, or alone above it, and holds for all lines of the statement (of a
compound one, such as `if`, for its head). `ignore-file` holds for the whole file, wherever it stands.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.scripts.index import FileIndex

MARK = "slipway:"
"""What such a comment begins with, behind the `#`."""

_WORDS = {"ignore": False, "ignore-file": True}


@dataclass(frozen=True, slots=True)
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
    if MARK not in file.text:
        return ()
    try:
        return tuple(_read(file.text))
    except (tokenize.TokenError, SyntaxError):
        # `ast` has read the file, so that this is one of the few things on which the two differ.
        return ()


def _read(text: str) -> Iterator[IgnoreComment]:
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
                yield from (_comment(each, range(first, token.end[0] + 1)) for each in waiting)
                waiting, begun = [], None
            decorated = False
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            if begun is None:
                begun = token.start[0]
            if token.string == "@" and not token.line[: token.start[1]].strip():
                decorated = True


def _is_mark(comment: str) -> bool:
    said = comment.lstrip("#").lstrip()
    # Anything else behind the mark is somebody's prose about a slipway.
    return said.startswith(MARK) and said[len(MARK) :].lstrip().startswith("ignore")


def _comment(token: tokenize.TokenInfo, lines: range) -> IgnoreComment:
    line, column = token.start[0], token.start[1] + 1
    said = token.string
    behind = said[said.index(MARK) + len(MARK) :].lstrip()
    word, bracket, rest = behind.partition("[")
    word = word.strip()
    if word not in _WORDS:
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
    return IgnoreComment(line, column, tuple(codes), None if _WORDS[word] else lines, reason.strip())


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
