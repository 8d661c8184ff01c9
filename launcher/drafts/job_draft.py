"""A job file that is being made: its fields with what is said about them, and the questions that are open.

The text is YAML as people write it: sections in the order of the documentation, a comment above what needs
one, and a question as a `TODO` where the field would stand, which leaves the file valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from launcher.documents import AsWritten
from launcher.frozen import frozen
from launcher.jobs.specification import JobSpec

Path = tuple[str, ...]
"""The keys that lead to a field, from the top of the file."""

_WIDTH = 110
_INDENT = "  "


@frozen
class SourceLine:
    """A line of what a draft was made of; `cell` is the number of a notebook's cell, None where there are no
    cells. All count from 1. `file` is another file than the source itself, such as one that it imports."""

    line: int
    cell: int | None = None
    file: str | None = None

    def __str__(self) -> str:
        line = f"line {self.line}" if self.cell is None else f"cell {self.cell} line {self.line}"
        return line if self.file is None else f"{self.file} {line}"


@frozen
class DraftField:
    """A field and its value, as plain data of YAML; `comment` tells where it comes from, empty where that is
    plain. `line` is that of the source, None where there is none."""

    path: Path
    value: Any
    comment: str = ""
    line: SourceLine | None = None


@frozen
class DraftQuestion:
    """What nobody could read: the field, the question, and an example of its value; `line` is that of the
    source, None where there is none."""

    path: Path
    text: str
    example: Any = None
    line: SourceLine | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape that `--output json` prints."""
        line = None if self.line is None else self.line.line
        return {"field": ".".join(self.path), "question": self.text, "example": self.example, "line": line}

    @property
    def sentence(self) -> str:
        """The question as it stands in the file."""
        where = "" if self.line is None else f" {self.line}"
        return f"TODO{where}: {self.text}"


@frozen
class DraftDefault:
    """What holds for a field that is left out: it stands commented out, to be changed from there. `computed`
    is the source of a value that only the program knows, in place of `value`."""

    path: Path
    value: Any
    computed: str = ""

    @property
    def line(self) -> str:
        """Such as `lr: 0.1`."""
        shown = f"{_flow(self.path[-1], None).removesuffix(' null')}  # {self.computed}"
        return " ".join(shown.split("\n")) if self.computed else _flow(self.path[-1], self.value)


@frozen
class DraftNote:
    """A comment above a field or section, which may be commented out itself."""

    path: Path
    text: str


@frozen
class JobDraft:
    """All fields, questions, defaults and notes, in any order; of two fields of one path the last one stands.
    `origin` says in a sentence what the file was made of. `kept_out` are fields that the source has and the
    file better has not: it is judged with them, and written without."""

    origin: str
    fields: tuple[DraftField, ...]
    questions: tuple[DraftQuestion, ...] = ()
    defaults: tuple[DraftDefault, ...] = ()
    notes: tuple[DraftNote, ...] = ()
    kept_out: tuple[DraftField, ...] = ()

    @property
    def open_in_words(self) -> str:
        """How many questions are open; empty where none is."""
        count = len(self.questions)
        return f"{count} {'question is' if count == 1 else 'questions are'} open (TODO)" if count else ""

    def data(self) -> dict[str, Any]:
        """The job file as plain data."""
        whole: dict[str, Any] = {}
        for each in self.fields:
            place = whole
            for key in each.path[:-1]:
                place = place.setdefault(key, {})
            place[each.path[-1]] = each.value
        return {key: whole[key] for key in sorted(whole, key=_order)}


def render_draft(draft: JobDraft) -> str:
    """The text of a draft's job file."""
    comments = {each.path: each.comment for each in draft.fields if each.comment}
    for note in draft.notes:
        comments[note.path] = f"{comments[note.path]}; {note.text}" if note.path in comments else note.text
    lines = [
        *_commented(draft.origin, ""),
        *_section(draft.data(), (), comments, (*draft.questions, *draft.defaults)),
    ]
    return "\n".join(lines) + "\n"


Open = DraftQuestion | DraftDefault
"""What stands in a file as a comment: it is asked, or holds without being said."""


def _section(
    data: Mapping[str, Any], path: Path, comments: Mapping[Path, str], left: Sequence[Open]
) -> Iterator[str]:
    margin = _INDENT * len(path)
    open_here = [each for each in left if each.path[:-1] == path]
    for key, value in data.items():
        place = (*path, key)
        yield from _commented(comments.get(place, ""), margin)
        for each in open_here:
            if each.path == place and isinstance(each, DraftQuestion):
                yield from _commented(each.sentence, margin)
        is_section = isinstance(value, Mapping) and (
            any(each[: len(place)] == place for each in comments if each != place)
            or any(each.path[: len(place)] == place for each in left if each.path != place)
            or len(_flow(key, value)) + len(margin) > _WIDTH
        )
        if is_section:
            yield f"{margin}{key}:"
            yield from _section(value, place, comments, left)
        else:
            yield f"{margin}{_flow(key, value)}"
    for each in open_here:
        if each.path[-1] not in data:
            yield from _left_open(each, margin, " ")
    for name in dict.fromkeys(each.path[len(path)] for each in left if _is_below(each.path, path)):
        if name not in data:
            yield from _commented(comments.get((*path, name), ""), margin)
            yield f"{margin}# {name}:"
            for each in left:
                if each.path[: len(path) + 1] == (*path, name):
                    yield from _left_open(each, margin, "   ")


def _left_open(each: Open, margin: str, lead: str) -> Iterator[str]:
    """The lines of what is asked, with its example, or of what holds without being said."""
    if isinstance(each, DraftDefault):
        yield f"{margin}#{lead}{each.line}"
        return
    yield from _commented(each.sentence, margin, lead)
    if each.example is not None:
        yield f"{margin}#{lead}{_flow(each.path[-1], each.example)}"


def _is_below(path: Path, section: Path) -> bool:
    """Whether a path leads into a section of the section."""
    return path[: len(section)] == section and len(path) > len(section) + 1


def _flow(key: str, value: Any) -> str:
    """`key: value` in one line."""
    if isinstance(value, (Mapping, list, tuple)) and value:
        inner = _dumped(value, flow=True)
        return f"{_dumped({key: None}, flow=False).removesuffix(' null')} {inner}"
    return _dumped({key: value}, flow=False)


class _Dumper(yaml.SafeDumper):
    """YAML 1.2, as job files are read: `1e-05` is a number without a point, numbers stay as they are written,
    and only a line feed or a carriage return ends a line."""

    def check_simple_key(self) -> bool:
        """Whether a key stands before its colon: each text does, also one of more than 128 characters."""
        return isinstance(self.event, yaml.ScalarEvent)


_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789."))


def _plain(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    tag = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return dumper.represent_scalar(tag, text)


_BREAKS_OF_YAML_1_1 = re.compile("[\x85\u2028\u2029]")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS_OF_YAML_1_1.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(AsWritten, _plain)
_Dumper.add_representer(float, lambda dumper, number: _plain(dumper, json.dumps(number)))


def _dumped(value: Any, *, flow: bool) -> str:
    written = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=flow, width=10_000, sort_keys=False, allow_unicode=True
    )
    return str(written).removesuffix("...\n").rstrip("\n")


def _commented(text: str, margin: str, lead: str = " ") -> Iterator[str]:
    """The words of a text as lines of a comment, each begun by `lead` after its sign."""
    line = f"{margin}#{lead}".rstrip()
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = f"{margin}#{lead}".rstrip()
        line = f"{line}{lead if line.endswith('#') else ' '}{word}"
    if text:
        yield line


def _order(key: str) -> int:
    """Where a section stands in the documentation; others last."""
    known = list(JobSpec.model_fields)
    return known.index(key) if key in known else len(known)
