"""The commands of a shell script as words, with the variables that it sets; nothing is run.

Enough of the POSIX shell and of bash for scripts that set variables and start a program: quotes, comments,
lines that go on, arrays, here documents, `$NAME`, `${NAME:-default}`. What only a run would tell, such as the
output of a command, makes its word open; so does a variable that is set under a condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from launcher.frozen import frozen


@frozen
class Word:
    """One word of a command; `is_open` says that the text is the script's own, and not what the shell makes
    of it. `${NAME}` in one that is not open is a variable of whoever starts the script."""

    text: str
    is_open: bool = False


@frozen
class Command:
    """The words of a command, and the line of its first one, from 1. `uses` are the names of the variables
    that were put into it."""

    words: tuple[Word, ...]
    line: int
    uses: frozenset[str] = frozenset()


@frozen
class _ShellPiece:
    """A part of a word before anything is put in for variables; `is_quoted` parts are never split."""

    text: str
    is_quoted: bool
    is_literal: bool = False


_Token = tuple[_ShellPiece, ...]
Value = Word | tuple[Word, ...]
"""A variable's: a text, or the words of an array."""

_ENDS = ("&&", "||", ";;", ";", "|", "&", "\n")
_OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac"})
_SKIPPED = frozenset({"function", "then", "else", "elif", "do", "{", "}", "!", "time", "exec", "nohup"})
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=")
_EXPANSION = re.compile(
    r"\$\{(?P<braced>[A-Za-z_]\w*+)(?P<array>\[[@*]\])?"
    r"(?P<rest>(?:[^{}$]|\$(?!\{)|\$\{[^{}]*+\})*+)\}|\$(?P<plain>[A-Za-z_]\w*)"
)
_DEFAULT = re.compile(r":?[-=](?P<text>.*)", re.DOTALL)
_ARITHMETIC = re.compile(r"\$\(\((?P<text>[^()]*)\)\)")
_SUM = re.compile(r"\s*(?P<left>\d+)\s*(?P<sign>[*+/-])\s*(?P<right>\d+)\s*")
_REDIRECTION = re.compile(r"(\d|&)?(>>?|<)&?\s*\S+")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")

UNKNOWABLE = frozenset(
    {"PWD", "RANDOM", "HOSTNAME", "SECONDS", "LINENO", "BASH_SOURCE", "PPID", "UID", "OSTYPE"}
)
"""Variables that no environment hands on."""


@dataclass
class ShellScript:
    """What was read of a script: its commands in their order, and what its variables are at each.

    `variables` begins with those that are known before, as Slurm sets them, and holds in the end what the
    script has set; None is one of which only a run would tell. `exported` are the names it hands to what it
    starts, with the line of each.
    """

    text: str
    variables: dict[str, Value | None] = field(default_factory=dict)
    exported: dict[str, int] = field(default_factory=dict)
    exported_values: dict[str, Word] = field(default_factory=dict)
    _is_certain: bool = True
    """Whether the command that is read runs whatever conditions say."""

    def commands(self) -> Iterator[Command]:
        """The commands with everything put in, as far as it is known where they stand."""
        depth = 0
        for tokens, line in _split(self.text):
            first = _plain(tokens[0])
            if first in _OPENING or first.endswith("()"):
                depth += first in _OPENING
            if first in _CLOSING:
                depth = max(0, depth - 1)
                continue
            while tokens and _plain(tokens[0]) in _SKIPPED:
                tokens = tokens[1:]
            if not tokens or _plain(tokens[0]) in _OPENING:
                if tokens and _plain(tokens[0]) == "for" and len(tokens) > 1:
                    self.variables[_plain(tokens[1])] = None
                continue
            yield from self._command(tokens, line, depth == 0)

    def _command(self, tokens: list[_Token], line: int, is_certain: bool) -> Iterator[Command]:
        self._is_certain = is_certain
        exports = _plain(tokens[0]) in ("export", "declare", "local", "typeset", "readonly")
        by_export = _plain(tokens[0]) == "export"
        rest = [each for each in tokens[1:] if not _plain(each).startswith("-")] if exports else list(tokens)
        set_here: list[str] = []
        while rest and (found := _ASSIGNMENT.match(_plain(rest[0]))) is not None:
            set_here.append(found["name"])
            self._assign(found, rest.pop(0), is_certain)
        if exports:
            names = [*set_here, *(_plain(each) for each in rest if _plain(each).isidentifier())]
            for name in names if by_export else ():
                value = self.variables.get(name)
                self.exported[name] = line
                self.exported_values[name] = (
                    value if isinstance(value, Word) else Word(f"${{{name}}}", is_open=name in self.variables)
                )
            return
        if rest:
            if set_here:  # They hold for this command alone: `A=1 program`.
                for name in set_here:
                    value = self.variables.get(name)
                    if isinstance(value, Word):
                        self.exported.setdefault(name, line)
                        self.exported_values[name] = value
            if _plain(rest[0]) == "read":
                self.variables.update({_plain(each): None for each in rest[1:]})
                return
            used = (_EXPANSION.finditer(piece.text) for each in rest for piece in each)
            uses = frozenset(_name(match) for found in used for match in found)
            yield Command(tuple(word for each in rest for word in self.expanded(each)), line, uses)

    def _assign(self, found: re.Match[str], token: _Token, is_certain: bool) -> None:
        name = found["name"]
        value = self._assigned(token, found.end())
        before = self.variables.get(name)
        if found["plus"]:
            value = _joined(before, value)
        is_same = name in self.variables and before == value
        self.variables[name] = value if is_certain or is_same else None

    def _assigned(self, token: _Token, start: int) -> Value | None:
        first = token[0]
        rest = (_ShellPiece(first.text[start:], first.is_quoted, first.is_literal), *token[1:])
        if first.text[start:].startswith("(") and not first.is_quoted:
            inner = "".join(each.text for each in rest).strip()[1:].removesuffix(")")
            words = [
                w
                for tokens, _ in _split(inner, is_array=True)
                for each in tokens
                for w in self.expanded(each)
            ]
            return tuple(words)
        parts = [self._put_in(each) for each in rest]
        text = "".join(each.text for each in parts)
        return Word(text, any(each.is_open for each in parts))

    def expanded(self, token: _Token) -> list[Word]:
        """The words that a word of the script becomes."""
        whole = "".join(each.text for each in token)
        found = _EXPANSION.fullmatch(whole)
        if found is not None and (found["array"] or isinstance(self.variables.get(_name(found)), tuple)):
            value = self.variables.get(_name(found))
            if isinstance(value, tuple):
                return list(value)
            if value is None:
                return [Word(whole, is_open=True)]
        parts = [(self._put_in(each), each.is_quoted) for each in token]
        text = "".join(part.text for part, _ in parts)
        is_open = any(part.is_open for part, _ in parts)
        if all(quoted for _, quoted in parts) or is_open:
            return [Word(text, is_open)]
        # An unquoted variable of several words becomes several.
        if any("$" in each.text and not each.is_quoted for each in token) and len(token) == 1:
            return [Word(each) for each in text.split()]
        return [Word(text)]

    def _put_in(self, piece: _ShellPiece) -> Word:
        if piece.is_literal:
            return Word(piece.text.replace("${", "$${"))
        is_open = False

        def value_of(match: re.Match[str]) -> str:
            nonlocal is_open
            name = _name(match)
            default = _DEFAULT.fullmatch(match["rest"] or "") if match["braced"] else None
            value = self.variables.get(name)
            if isinstance(value, tuple):
                is_open |= any(each.is_open for each in value)
                return " ".join(each.text for each in value)
            if isinstance(value, Word) and (value.text or default is None) and (default or not match["rest"]):
                is_open |= value.is_open
                return value.text
            if default is not None and (value is not None or name not in self.variables):
                inner = self._put_in(_ShellPiece(default["text"].strip("\"'"), is_quoted=True))
                is_open |= inner.is_open
                if match["rest"].lstrip(":").startswith("="):
                    self.variables[name] = inner if self._is_certain else None
                return inner.text
            unset = name not in self.variables and not match["rest"] and not name.startswith("SLURM")
            if not unset or name in UNKNOWABLE:
                is_open = True
                return match[0]
            return f"${{{name}}}"

        text = _EXPANSION.sub(value_of, piece.text)
        text = _ARITHMETIC.sub(_calculated, text)
        is_open |= re.search(r"\$\(|`|\$[0-9@*#?!-]|\$\{[^A-Za-z_]", text) is not None
        return Word(text, is_open)


def _calculated(match: re.Match[str]) -> str:
    found = _SUM.fullmatch(match["text"])
    if found is None:
        return match[0]
    left, right = int(found["left"]), int(found["right"])
    if found["sign"] == "/" and not right:
        return match[0]
    signs = {"*": left * right, "+": left + right, "-": left - right}
    return str(signs.get(found["sign"], left // max(right, 1)))


def _joined(before: Value | None, value: Value | None) -> Value | None:
    if isinstance(before, tuple) and isinstance(value, tuple):
        return (*before, *value)
    if isinstance(before, Word) and isinstance(value, Word):
        return Word(before.text + value.text, before.is_open or value.is_open)
    return None


def _name(match: re.Match[str]) -> str:
    return match["braced"] or match["plain"]


def _plain(token: _Token) -> str:
    return "".join(each.text for each in token)


def split_words(text: str, variables: Mapping[str, Value | None]) -> list[list[Word]]:
    """The commands of a text such as that of `bash -c`, as words."""
    script = ShellScript(text, dict(variables))
    return [list(each.words) for each in script.commands()]


# From text to tokens.


def _split(text: str, *, is_array: bool = False) -> Iterator[tuple[list[_Token], int]]:
    """The commands of a text as tokens, each with the line of its first one."""
    reading = _Lexer(text, is_array)
    tokens: list[_Token] = []
    line = 1
    for token, at in reading.tokens():
        if token is None:
            if tokens:
                yield tokens, line
            tokens = []
        else:
            if not tokens:
                line = at
            tokens.append(token)
    if tokens:
        yield tokens, line


class _Lexer:
    """Characters to tokens; None stands for the end of a command."""

    def __init__(self, text: str, is_array: bool) -> None:
        self.text, self.is_array = text, is_array
        self.at = 0
        self.line = 1
        self.pending: list[str] = []

    def tokens(self) -> Iterator[tuple[_Token | None, int]]:
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if text.startswith("\\\n", self.at):
                self._advance(2)
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif char == "\n" and not self.is_array:
                yield None, self.line
                self._advance(1)
                self._skip_here_documents()
            elif char.isspace():
                self._advance(1)
            elif not self.is_array and (sign := self._end_of_command()):
                yield None, self.line
                self._advance(len(sign))
            elif char in "()" and not self.is_array:
                yield None, self.line
                self._advance(1)
            elif (
                redirection := re.compile(r"\d?(>>?|<)&?\s*\S+").match(text, self.at)
            ) and not text.startswith("<<", self.at):
                self._advance(len(redirection[0]))
            elif (here := _HERE.match(text, self.at)) is not None:
                self.pending.append(here[2])
                self._advance(len(here[0]))
            else:
                line = self.line
                token = self._token()
                if token:
                    yield token, line

    def _end_of_command(self) -> str:
        return next((each for each in _ENDS[:-1] if self.text.startswith(each, self.at)), "")

    def _advance(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def _skip_here_documents(self) -> None:
        for mark in self.pending:
            found = re.compile(rf"^\s*{mark}\s*$", re.MULTILINE).search(self.text, self.at)
            self._advance((found.end() if found else len(self.text)) - self.at)
        self.pending.clear()

    def _token(self) -> _Token:
        pieces: list[_ShellPiece] = []
        begin = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text.startswith("\\\n", self.at):
                self._advance(2)
                if self.at < len(self.text) and self.text[self.at].isspace():
                    break
                continue
            if char.isspace() or (not self.is_array and self._end_of_command() and char != "&"):
                break
            if char == "&" and not self.is_array:
                break
            if char == "'":
                end = self.text.find("'", self.at + 1)
                end = len(self.text) if end < 0 else end
                pieces.append(_ShellPiece(self.text[self.at + 1 : end], is_quoted=True, is_literal=True))
                self._advance(end + 1 - self.at)
            elif char == '"':
                pieces.append(self._double_quoted())
            elif char == "`" or self.text.startswith("$(", self.at):
                pieces.append(_ShellPiece(self._substitution(), is_quoted=False))
            elif char == "(" and self.text[begin : self.at].endswith("="):
                pieces.append(_ShellPiece(self._array(), is_quoted=False))
            elif char in "()":
                if self.text[begin : self.at].isidentifier() and self.text.startswith("()", self.at):
                    pieces.append(_ShellPiece("()", is_quoted=False))
                    self._advance(2)
                break
            elif char == "\\":
                pieces.append(
                    _ShellPiece(self.text[self.at + 1 : self.at + 2], is_quoted=True, is_literal=True)
                )
                self._advance(2)
            elif self.text.startswith("${", self.at):
                pieces.append(_ShellPiece(self._braced(), is_quoted=False))
            else:
                found = re.compile(r"[^\s'\"`\\();&|$]+|\$\w+|\$[^\s({]?|[|;]").match(self.text, self.at)
                text = found[0] if found else char
                pieces.append(_ShellPiece(text, is_quoted=False))
                self._advance(len(text))
        return _merged(pieces)

    def _double_quoted(self) -> _ShellPiece:
        at, text = self.at + 1, self.text
        made = ""
        while at < len(text) and text[at] != '"':
            if text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n"):
                escaped = text[at + 1]
                # A sign that the shell leaves alone stands for itself on the hosts.
                made += "" if escaped == "\n" else escaped
                at += 2
            elif text.startswith("$(", at):
                end = _closing(text, at + 1)
                made += text[at:end]
                at = end
            else:
                made += text[at]
                at += 1
        self._advance(at + 1 - self.at)
        return _ShellPiece(made, is_quoted=True)

    def _substitution(self) -> str:
        begin = self.at
        if self.text[begin] == "`":
            end = self.text.find("`", begin + 1) + 1 or len(self.text)
        else:
            end = _closing(self.text, begin + 1)
        self._advance(end - begin)
        return self.text[begin:end]

    def _array(self) -> str:
        begin = self.at
        end = _closing(self.text, begin)
        self._advance(end - begin)
        return self.text[begin:end]

    def _braced(self) -> str:
        begin = self.at
        found = _EXPANSION.match(self.text, begin)
        end = found.end() if found else self.text.find("}", begin) + 1 or len(self.text)
        self._advance(end - begin)
        return self.text[begin:end]


def _closing(text: str, opening: int) -> int:
    """The place behind the bracket that closes the one at `opening`, quotes and comments left aside."""
    depth, at, quote = 0, opening, ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\" and quote == '"':
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "\\":
            at += 1
        elif char == "#" and text[at - 1].isspace():
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return len(text)


def _merged(pieces: list[_ShellPiece]) -> _Token:
    """Unquoted parts beside each other are one."""
    made: list[_ShellPiece] = []
    for each in pieces:
        last = made[-1] if made else None
        if last is not None and not each.is_quoted and not last.is_quoted:
            made[-1] = _ShellPiece(last.text + each.text, is_quoted=False)
        else:
            made.append(each)
    return tuple(made)
