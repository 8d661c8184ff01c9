"""The commands of a shell script as words, with the variables that it sets; nothing is run.

Enough of the POSIX shell and of bash for scripts that set variables and start a program: quotes, comments,
lines that go on, arrays, here documents, `$NAME`, `${NAME:-default}`, sums, and conditions that the script's
own values decide. What only a run would tell, such as the output of a command, makes its word open; so does a
variable that is set under a condition that is not decided. Within a variable's text such parts stand between
two marks, so that a text of several words is open only where it is.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """The words of a command, and the line of its first one, from 1.

    `uses` are the names of the variables that were put into it, also by way of others; `environment` those
    that are set for it alone (`A=1 program`), with their values.
    """

    words: tuple[Word, ...]
    line: int
    uses: frozenset[str] = frozenset()
    environment: Mapping[str, Word] = field(default_factory=dict)


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
_SKIPPED = frozenset({"function", "do", "{", "}", "!", "time", "exec", "nohup"})
_BRANCHES = frozenset({"elif", "then", "else"})
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=")
_EXPANSION = re.compile(
    r"\$\{(?P<braced>[A-Za-z_]\w*+|\d++|[@*])(?P<array>\[[@*]\])?"
    r"(?P<rest>(?:[^{}$]|\$(?!\{)|\$\{[^{}]*+\})*+)\}|\$(?P<plain>[A-Za-z_]\w*|[0-9@*#])"
)
_DEFAULT = re.compile(r":?[-=](?P<text>.*)", re.DOTALL)
_FROM = re.compile(r"(?::\s*(?P<first>\d{1,4}))?")
_ARITHMETIC = re.compile(r"\$\(\((?P<sum>[^()]*+(?:\([^()]*+\)[^()]*+)*+)\)\)")
_BARE_NAME = re.compile(r"(?<![\w$}])\$?(?P<plain>[A-Za-z_]\w*+)")
_ONLY_A_RUN = re.compile(
    r"\$\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)|`[^`]*+`|\$\(|`|\$[0-9@*#?!-]"
    r"|\$\{[^A-Za-z_}](?:[^}$]|\$(?!\{)|\$\{[^{}$]*+\})*+\}"
)
_PARTS = re.compile("|".join(each.pattern for each in (_EXPANSION, _ARITHMETIC, _ONLY_A_RUN)))
_FIELD = re.compile(r"(?:[^\s\x01]++|\x01++(?:[^\x01\x02]*+\x02)?+)++")
_PLACEHOLDER = re.compile(r"<[A-Za-z](?:[^<>\n|;&]*[^<>\n|;&\s])?>(?![\w/.])")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")

_OPEN, _SHUT = "\x01", "\x02"
"""Around the parts of a variable's text that only a run would tell."""

UNKNOWABLE = frozenset(
    {"PWD", "RANDOM", "HOSTNAME", "SECONDS", "LINENO", "BASH_SOURCE", "PPID", "UID", "OSTYPE"}
)
"""Variables that no environment hands on."""


@dataclass
class ShellScript:
    """What was read of a script: its commands in their order, and what its variables are at each.

    `variables` begins with those that are known before, as Slurm sets them, and holds in the end what the
    script has set; None is one of which only a run would tell. `exported` are those that it hands to what it
    starts, with the line of each.
    """

    text: str
    variables: dict[str, Value | None] = field(default_factory=dict)
    exported: dict[str, tuple[Word, int]] = field(default_factory=dict)
    _made_of: dict[str, frozenset[str]] = field(default_factory=dict)
    """By variable the names of those that were put into its value."""
    _is_certain: bool = True
    """Whether the command that is read runs whatever conditions say."""

    def commands(self) -> Iterator[Command]:
        """The commands with everything put in, as far as it is known where they stand.

        Those that a decided condition keeps from running are left out.
        """
        within: list[_Branch] = []
        for tokens, line in _split(self.text):
            first = _plain(tokens[0])
            if first in _OPENING:
                within.append(_Branch(self._outcome(tokens[1:]) if first == "if" else None, first == "if"))
                if first == "for" and len(tokens) > 1:
                    self.variables[_plain(tokens[1])] = None
                continue
            if first in _CLOSING:
                del within[-1:]
                continue
            if first in _BRANCHES and within:
                within[-1].go_on(first, self._outcome(tokens[1:]) if first == "elif" else None)
                tokens = [] if first == "elif" else tokens[1:]
            elif within and within[-1].is_tested:
                within[-1].runs = None  # The condition is of several commands.
                continue
            while tokens and _plain(tokens[0]) in _SKIPPED:
                tokens = tokens[1:]
            if tokens and _plain(tokens[0]) in _OPENING:
                within.append(_Branch(None, False))  # As in `else if`, or a loop behind `do`.
            elif tokens and not any(each.runs is False for each in within):
                yield from self._command(tokens, line, all(each.runs for each in within))

    def _outcome(self, tokens: Sequence[_Token]) -> bool | None:
        """Whether a condition holds; None where the script alone does not say."""
        words = [self._condition_word(each) for each in tokens]
        turned = False
        while words and words[0] in ("!", "[", "[[", "test"):
            turned ^= words[0] == "!"
            words = words[1:-1] if words[0] in ("[", "[[") else words[1:]
        found = _decide(words)
        return found if found is None or not turned else not found

    def _condition_word(self, token: _Token) -> str | None:
        text = "".join(self._put_in(each) for each in token)
        if re.fullmatch(r"\$\{?SLURM_JOB_?ID\}?", _plain(token)):
            return "1"  # Slurm sets it.
        return None if _OPEN in text or "${" in text else text

    def _command(self, tokens: list[_Token], line: int, is_certain: bool) -> Iterator[Command]:
        self._is_certain = is_certain
        exports = _plain(tokens[0]) in ("export", "declare", "local", "typeset", "readonly")
        by_export = _plain(tokens[0]) == "export"
        rest = [each for each in tokens[1:] if not _plain(each).startswith("-")] if exports else list(tokens)
        if not exports and (program := _behind_assignments(rest)):
            # They hold for this command alone: `A=1 program`.
            own = {found["name"]: self._assigned(token, found.end()) for found, token in program[0]}
            yield from self._started(program[1], line, own)
            return
        set_here: list[str] = []
        while rest and (found := _ASSIGNMENT.match(_plain(rest[0]))) is not None:
            set_here.append(found["name"])
            self._assign(found, rest.pop(0), is_certain)
        if exports:
            names = [*set_here, *(_plain(each) for each in rest if _plain(each).isidentifier())]
            for name in names if by_export else ():
                handed_on = self._handed_on(name)
                if not is_certain and name not in self.exported:
                    handed_on = Word(handed_on.text, is_open=True)
                self.exported[name] = handed_on, line
        elif rest:
            yield from self._started(rest, line, {})

    def _started(
        self, tokens: Sequence[_Token], line: int, environment: Mapping[str, Value | None]
    ) -> Iterator[Command]:
        if _plain(tokens[0]) == "read":
            self.variables.update({_plain(each): None for each in tokens[1:]})
            return
        if _plain(tokens[0]) == "unset":
            self._unset([_plain(each) for each in tokens[1:]], line)
            return
        if _plain(tokens[0]) in ("shift", "set", "getopts"):
            self._move_words([_plain(each) for each in tokens])
            return
        words = tuple(_shown(word.text) for each in tokens for word in self.expanded(each))
        if words:
            own = {name: _shown(value.text) for name, value in environment.items() if isinstance(value, Word)}
            yield Command(words, line, self._uses(tokens), own)

    def _handed_on(self, name: str) -> Word:
        """What the value of a variable is to those that have it of the script."""
        value = self.variables.get(name)
        if isinstance(value, Word):
            return _shown(value.text)
        return Word(f"${{{name}}}", is_open=name in self.variables)

    def _unset(self, names: Sequence[str], line: int) -> None:
        for name in names:
            if self._is_certain:
                self.variables[name] = Word("")
                self.exported.pop(name, None)
            elif name in self.variables:
                self.variables[name] = None
                if name in self.exported:
                    self.exported[name] = Word(f"${{{name}}}", is_open=True), line

    def _move_words(self, command: Sequence[str]) -> None:
        """Leave out the first of the script's own words, by `shift`; another command may make them others."""
        words = self.variables.get("@")
        count = (*command[1:], "1")[0]
        if command[0] == "set" and "--" not in command:
            return
        if command[0] == "shift" and self._is_certain and isinstance(words, tuple) and count.isdecimal():
            self.variables |= variables_of_words(words[int(count) :])
            self.variables[str(len(words))] = Word("")
        else:
            self.variables |= dict.fromkeys(each for each in self.variables if not each.isidentifier())
            self.variables.pop("@", None)

    def _uses(self, tokens: Sequence[_Token]) -> frozenset[str]:
        found = (_EXPANSION.finditer(piece.text) for each in tokens for piece in each)
        names = {_name(match) for matches in found for match in matches}
        return frozenset(names).union(*(self._made_of.get(name, ()) for name in names))

    def _assign(self, found: re.Match[str], token: _Token, is_certain: bool) -> None:
        name = found["name"]
        value = self._assigned(token, found.end())
        before = self.variables.get(name)
        if found["plus"]:
            value = _joined(before, value)
        is_same = name in self.variables and before == value
        self.variables[name] = value if is_certain or is_same else _perhaps_longer(before, value)
        self._made_of[name] = self._made_of.get(name, frozenset()) | self._uses([token])
        if name in self.exported:
            self.exported[name] = self._handed_on(name), self.exported[name][1]

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
        return Word("".join(self._put_in(each) for each in rest))

    def expanded(self, token: _Token) -> list[Word]:
        """The words that a word of the script becomes, with marks around what only a run would tell."""
        whole = "".join(each.text for each in token)
        found = _EXPANSION.fullmatch(whole)
        if found is not None and (found["array"] or isinstance(self.variables.get(_name(found)), tuple)):
            value = self.variables.get(_name(found))
            if isinstance(value, tuple):
                rest = _FROM.fullmatch(found["rest"] or "")
                # The script's own words are counted from 1, those of an array from 0.
                first = int(rest["first"] or 0) - (_name(found) in "@*") if rest is not None else 0
                return [Word(_marked(whole))] if rest is None else list(value[max(0, first) :])
            if value is None:
                return [Word(_marked(whole))]
        text = "".join(map(self._put_in, token))
        # An unquoted variable of several words becomes several.
        if len(token) == 1 and not token[0].is_quoted and "$" in token[0].text:
            return [Word(each[0]) for each in _FIELD.finditer(text)]
        return [Word(text)]

    def _put_in(self, piece: _ShellPiece) -> str:
        if piece.is_literal:
            return piece.text.replace("${", "$${")
        return _PARTS.sub(self._part_of, piece.text)

    def _part_of(self, match: re.Match[str]) -> str:
        if match["sum"] is not None:
            return self._calculated(match)
        return self._value_of(match) if match["braced"] or match["plain"] else _marked(match[0])

    def _value_of(self, match: re.Match[str]) -> str:
        name = _name(match)
        default = _DEFAULT.fullmatch(match["rest"] or "") if match["braced"] else None
        value = self.variables.get(name)
        if not name.isidentifier() and name not in self.variables:
            if "@" not in self.variables:
                return _marked(match[0])
            value = Word("")
        if isinstance(value, tuple):
            return " ".join(each.text for each in value)
        if isinstance(value, Word) and (value.text or default is None) and (default or not match["rest"]):
            return value.text
        if default is not None and (value is not None or name not in self.variables):
            inner = self._put_in(_ShellPiece(default["text"].strip("\"'"), is_quoted=True))
            if match["rest"].lstrip(":").startswith("="):
                self.variables[name] = Word(inner) if self._is_certain else None
            return inner
        unset = name not in self.variables and not match["rest"] and not name.startswith("SLURM")
        return f"${{{name}}}" if unset and name not in UNKNOWABLE else _marked(match[0])

    def _calculated(self, match: re.Match[str]) -> str:
        """The number that a sum comes to, where all its numbers are known."""

        def number_of(name: re.Match[str]) -> str:
            value = self.variables.get(name["plain"])
            return value.text if isinstance(value, Word) else name[0]

        text = _BARE_NAME.sub(number_of, re.sub(r"\$\{(\w+)\}", r"\1", match["sum"])).strip()
        try:
            return str(_sum_of(ast.parse(text, mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
            return _marked(match[0])


_SIGNS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


def _sum_of(node: ast.expr) -> int:
    """What a sum of the shell comes to, read as one of Python's. Raises ValueError where it is another."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_sum_of(node.left), _sum_of(node.right))
    raise ValueError(f"{ast.dump(node)} is no sum of numbers")


@dataclass
class _Branch:
    """Where in a condition, loop or case the reading is.

    `runs` says whether the commands here run: None where that is not decided. `is_tested` holds while the
    condition itself is read.
    """

    runs: bool | None
    is_tested: bool
    _earlier: list[bool | None] = field(default_factory=list)

    def go_on(self, word: str, outcome: bool | None) -> None:
        """Go on to `elif` with the outcome of its condition, to `then` or to `else`."""
        if word == "then":
            self.is_tested = False
            return
        self._earlier.append(self.runs)
        self.is_tested = word == "elif"
        here = outcome if word == "elif" else True
        if True in self._earlier or here is False:
            self.runs = False
        else:
            self.runs = None if None in self._earlier else here


def _decide(words: Sequence[str | None]) -> bool | None:
    """The outcome of a test whose words are known, None of one that is not or asks for more than texts."""
    if None in words:
        return None
    match [each or "" for each in words]:
        case ["-z", text]:
            return not text
        case ["-n", text] | [text]:
            return bool(text)
        case [left, "=" | "==", right] if not re.search(r"[*?\[]", right):
            return left == right
        case [left, "!=", right] if not re.search(r"[*?\[]", right):
            return left != right
        case [left, sign, right] if sign in _COMPARED and left.isdecimal() and right.isdecimal():
            return _COMPARED[sign](int(left), int(right))
    return None


_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt,
    "-ge": operator.ge,
}  # fmt: skip


def _behind_assignments(
    tokens: Sequence[_Token],
) -> tuple[list[tuple[re.Match[str], _Token]], list[_Token]] | None:
    """The assignments before a program, and the program's tokens; None where there are none of one."""
    own: list[tuple[re.Match[str], _Token]] = []
    for index, token in enumerate(tokens):
        found = _ASSIGNMENT.match(_plain(token))
        if found is None:
            return (own, list(tokens[index:])) if own else None
        own.append((found, token))
    return None


def _marked(text: str) -> str:
    """A part of which only a run would tell, between its marks, of which there are none within."""
    return f"{_OPEN}{text.replace(_OPEN, '').replace(_SHUT, '')}{_SHUT}"


def _shown(text: str) -> Word:
    """A word as others see it: without marks, open where there was one."""
    return Word(text.replace(_OPEN, "").replace(_SHUT, ""), is_open=_OPEN in text)


def _joined(before: Value | None, value: Value | None) -> Value | None:
    if isinstance(before, tuple) and isinstance(value, tuple):
        return (*before, *value)
    if isinstance(before, Word) and isinstance(value, Word):
        return Word(before.text + value.text)
    return None


def _perhaps_longer(before: Value | None, after: Value | None) -> Value | None:
    """A variable to which something is added under a condition: what it was, and the rest as open."""
    if isinstance(before, tuple) and isinstance(after, tuple) and after[: len(before)] == before:
        return (*before, *(Word(_marked(each.text)) for each in after[len(before) :]))
    if isinstance(before, Word) and isinstance(after, Word) and before.text:
        added = after.text.removeprefix(before.text)
        if added != after.text and added[:1].isspace():
            return Word(f"{before.text} {_marked(' '.join(added.split()))}")
    return None


def _name(match: re.Match[str]) -> str:
    return match["braced"] or match["plain"]


def _plain(token: _Token) -> str:
    return "".join(each.text for each in token)


def variables_of_words(words: Sequence[Word]) -> dict[str, Value | None]:
    """What a script finds of the words that it is given: `$1`, `$2`, all of them as `$@`, and how many."""
    numbered = {str(number): word for number, word in enumerate(words, start=1)}
    return {**numbered, "@": tuple(words), "*": tuple(words), "#": Word(str(len(words)))}


def read_commands(text: str, variables: Mapping[str, Value | None]) -> list[Command]:
    """The commands of a text such as that of `bash -c`."""
    return list(ShellScript(text, dict(variables)).commands())


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
            elif placeholder := _PLACEHOLDER.match(text, self.at):
                yield (_ShellPiece(_marked(placeholder[0]), is_quoted=True),), self.line
                self._advance(len(placeholder[0]))
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
