"""YAML with positions: a file as plain data, where each part of it stands, and whether it fits a model.

Values have YAML 1.2 meanings (`on` and `yes` are strings, `13e9` is a number); PyYAML's C parser speaks 1.1,
so scalars are resolved here by the 1.2 core schema. Files are untrusted: nothing is constructed but plain
data, and aliases expand to a bounded number of nodes. Against its pydantic model a document gives every error
at once, with what was meant.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from launcher.failure_modes import job_file
from launcher.failure_modes.model import FailureMode, Finding, Location, Path, Severity, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.text.regular_files import read_regular
from launcher.text.values import nearest

MAX_BYTES = 1_000_000
MAX_NODES = 10_000
MAX_DEPTH = 60
"""Bounds on a file; the node bound counts what aliases expand to."""


class AsWritten(str):
    """The text of an unquoted number, boolean or null, exactly as it stands in the file.

    A hyperparameter `lr: 1e-3` must reach the script as `1e-3`, not as `0.001`; that it was not a string
    still matters where the value is sent as JSON.
    """

    __slots__ = ()


def is_null(value: Any) -> bool:
    """Whether a value is YAML's null, also where its text was kept (`null`, `~`, or nothing)."""
    return value is None or (isinstance(value, AsWritten) and value in _NULL)


# YAML 1.2.2, chapter 10.3.2, tag resolution of the core schema.
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_KEY = re.compile(r'"([^"]+)"|([^."]+)')
_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
}
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


class DocumentError(Exception):
    """The text is not a document: what is wrong, and where."""

    def __init__(self, message: str, location: Location) -> None:
        super().__init__(message)
        self.message = message
        self.location = location


class Document:
    """A parsed file: `data` is plain Python data, and every path has a location."""

    def __init__(self, file: str, data: dict[str, Any], locations: dict[Path, Location]) -> None:
        self.file = file
        self.data = data
        self._locations = locations

    def location(self, *path: str | int) -> Location:
        """Where the value stands, or the nearest part around it that stands in the file.

        The location of a value that `override` has set names the option instead of the file.
        """
        while path and path not in self._locations:
            path = path[:-1]
        return self._locations.get(path, Location(self.file, 1, 1))

    def override(self, dotted: str, text: str, as_written: tuple[Path, ...]) -> None:
        """Set the value at `a.b.c` to what the text means in YAML (`--set`).

        A key with dots of its own stands in quotes: `a."b.c"`. Raises ValueError where the way leads
        through something that is not a mapping, or the text is not YAML.
        """
        keys = split_keys(dotted)
        keeps_text = _matches(tuple(keys), as_written)
        try:
            value = parse_document(
                f"value: {text}", "--set", as_written=(("value",),) if keeps_text else ()
            ).data["value"]
        except DocumentError as error:
            raise ValueError(f"the value {text!r} is not YAML: {error.message}") from error
        target: Any = self.data
        for depth, key in enumerate(keys[:-1]):
            target = target.setdefault(key, {})
            if not isinstance(target, dict):
                raise ValueError(f"{'.'.join(keys[: depth + 1])} is not a mapping")
        path = tuple(keys)
        target[keys[-1]] = value
        self._locations = {p: at for p, at in self._locations.items() if p[: len(path)] != path}
        self._locations[path] = Location(f"--set {dotted}", 1, 1)


def dotted_keys(keys: Iterable[str]) -> str:
    """The keys as `Document.override` takes them, those with dots in quotes."""
    return ".".join(f'"{key}"' if "." in key else key for key in keys)


def split_keys(dotted: str) -> list[str]:
    """The keys of a dotted path. Raises ValueError where it is none."""
    keys: list[str] = []
    position = 0
    while match := _KEY.match(dotted, position):
        keys.append(match[1] or match[2])
        position = match.end()
        if position == len(dotted):
            return keys
        if dotted[position] != ".":
            break
        position += 1
    raise ValueError(f"{dotted!r} is not a path of keys")


def read_document(file: pathlib.Path, as_written: tuple[Path, ...]) -> Document:
    """Parse the file; of one that is too large, no more is read than shows that it is.

    Raises OSError for what is not a regular file or cannot be read, DocumentError as `parse_document`.
    """
    return parse_document(read_regular(file, MAX_BYTES + 1), str(file), as_written)


def parse_document(
    text: str | bytes, file: str, as_written: tuple[Path, ...], *, lenient: bool = False
) -> Document:
    """Parse YAML into a document.

    `as_written` lists the paths (`"*"` matches any key or index) whose unquoted scalars keep their
    text, as `AsWritten`. `lenient` reads what programs of others read: of a key that is given twice the last
    value, as PyYAML does, lists and mappings with tags of their own by their form, and a text with one as
    `${text}`, which is to be filled in. Raises DocumentError for what is not readable, not a mapping or too
    large.
    """
    start = Location(file, 1, 1)
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        raise DocumentError(f"the file has more than {MAX_BYTES:,} bytes, which is the most", start)
    if isinstance(text, bytes):
        text = _decode(text, file)
    try:
        _check_depth(text, file)
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = start if mark is None else Location(file, mark.line + 1, mark.column + 1)
        raise DocumentError(_plain_problem(error, text), where) from error
    except yaml.YAMLError as error:
        raise DocumentError(f"not readable as YAML: {error}", start) from error
    if root is None:
        raise DocumentError("the file is empty", start)
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise DocumentError(f"the file holds {kind}; a mapping of fields is expected", start)
    reader = _Reader(file, as_written, lenient)
    data = reader.mapping(root, ())
    return Document(file, data, reader.locations)


def _decode(raw: bytes, file: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise DocumentError(
            f"the file is not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start}",
            Location(file, line, column),
        ) from error


def _check_depth(text: str, file: str) -> None:
    """Refuse text that nests too deeply; libyaml's composer would overflow the stack, and end the process.

    Its parser keeps no more than a list of what is open.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            if depth > MAX_DEPTH:
                mark = event.start_mark
                assert mark is not None  # The parser gives every event one.
                raise _too_deep(Location(file, mark.line + 1, mark.column + 1))
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_deep(where: Location) -> DocumentError:
    return DocumentError(f"nested more than {MAX_DEPTH} levels deep", where)


def _plain_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    if mark is not None:
        lines = text.splitlines()
        line = lines[mark.line] if mark.line < len(lines) else ""
        if "\t" in line[: mark.column + 1]:
            return "a tab is used for indentation; YAML allows spaces only"
    problem = error.problem or "syntax error"
    return f"not readable as YAML: {problem}"


class _Reader:
    """Turns composed nodes into plain data, and notes where each stands."""

    def __init__(self, file: str, as_written: tuple[Path, ...], lenient: bool) -> None:
        self.file = file
        self.lenient = lenient
        self.locations: dict[Path, Location] = {}
        self._as_written = as_written
        self._nodes = 0
        self._merge_depth = 0

    def value(self, node: yaml.Node, path: Path) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise DocumentError(f"the file expands to more than {MAX_NODES:,} values", self._locate(node))
        if len(path) > MAX_DEPTH:
            raise _too_deep(self._locate(node))
        if node.tag not in _TAGS and not self.lenient:
            raise DocumentError(f"the tag {node.tag} has no meaning here", self._locate(node))
        self.locations.setdefault(path, self._locate(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)  # YAML has no fourth kind of node
        if node.tag not in _TAGS:
            return f"${{{node.value}}}"
        return self._scalar(node, path)

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key == "<<" and not key_node.style:
                self._merge_depth += 1
                if self._merge_depth > MAX_DEPTH:
                    raise _too_deep(self._locate(key_node))
                for source in self._merge_sources(value_node):
                    for name, value in self.mapping(source, path).items():
                        merged.setdefault(name, value)
                self._merge_depth -= 1
                continue
            if key in own and not self.lenient:
                raise DocumentError(f"the key {key!r} is given twice", self._locate(key_node))
            # A value is best shown where its key stands: that is where one reads and corrects it.
            self.locations[(*path, key)] = self._locate(key_node)
            own[key] = self.value(value_node, (*path, key))
        return {**merged, **own}

    def _merge_sources(self, node: yaml.Node) -> Iterator[yaml.MappingNode]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                raise DocumentError("the merge key << takes a mapping or a list of them", self._locate(node))
            self._nodes += 1
            if self._nodes > MAX_NODES:
                raise DocumentError(f"the file expands to more than {MAX_NODES:,} values", self._locate(node))
            yield source

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise DocumentError("a key must be a single value", self._locate(node))
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = str(node.value)
        if node.style:  # quoted or a block: a string whatever it looks like
            return text
        value = _resolve(text)
        keeps_text = not isinstance(value, str) and _matches(path, self._as_written)
        return AsWritten(text) if keeps_text else value

    def _locate(self, node: yaml.Node) -> Location:
        return Location(self.file, node.start_mark.line + 1, node.start_mark.column + 1)


def _matches(path: Path, patterns: tuple[Path, ...]) -> bool:
    return any(
        len(pattern) == len(path) and all(p in ("*", q) for p, q in zip(pattern, path, strict=True))
        for pattern in patterns
    )


def _resolve(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text) and len(text) <= 4000:
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text, base)
    if _FLOAT.fullmatch(text):
        # Python writes the special values without YAML's leading dot.
        return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
    return text


# A document against its pydantic model: every error at once, with what was meant.


ModelT = TypeVar("ModelT", bound=BaseModel)

_REFUSAL: Final = "refusal"
_QUOTED = re.compile("'([^']*)'")
"""The values of a choice, as pydantic lists them: 'a', 'b' or 'c'."""


OF_THE_API: Final = "of the API"
"""Marks, in `Annotated`, a field whose pattern, length or count is the service's own: SPEC004 where it is
broken."""

_LIMITS = frozenset({"string_pattern_mismatch", "string_too_long", "too_long", "less_than_equal"})


def field_error(
    message: str, *, remedy: str, mode: FailureMode = job_file.INVALID_VALUE, below: Path = ()
) -> PydanticCustomError:
    """What a model's validator raises to give a remedy of its own, or another failure mode.

    `below` leads from the validated field to the part of it that is wrong: the finding is placed there.
    """
    context = {"message": message, "remedy": remedy, "mode": mode, "below": below}
    return PydanticCustomError(_REFUSAL, "{message}", context)


def refuse(
    problem: str | None, *, remedy: str, mode: FailureMode = job_file.INVALID_VALUE, below: Path = ()
) -> None:
    """Refuse the value that is being validated, if there is a problem with it.

    Raises:
        PydanticCustomError: with the problem, its remedy and its failure mode.
    """
    if problem is not None:
        raise field_error(problem, remedy=remedy, mode=mode, below=below)


class FilePart(BaseModel):
    """A mapping of a file that people write: unknown fields are errors, nothing changes once it is read.

    A YAML truth value is not a number: pydantic would read `instance_count: true` as 1. `OTHER_NAMES` is how
    others call its fields, each with the field that is meant, for who writes such a file by what they know.
    """

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_not_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        _refuse_truth(value, cls.model_fields[str(info.field_name)].annotation, ())
        return value


def _refuse_truth(value: Any, annotation: Any, below: Path) -> None:
    """Refuse a truth value where the annotation takes numbers; in lists and mappings, too."""
    if isinstance(value, bool):
        kinds = set(_alternatives(annotation))
        if kinds & {int, float} and not kinds & {bool, Any}:
            raise field_error(
                f"{str(value).lower()} is a truth value, not a number",
                remedy="Write a number, such as 1.",
                below=below,
            )
    elif isinstance(value, list | dict):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        inner = [get_args(each)[-1] for each in _alternatives(annotation) if get_origin(each) in (list, dict)]
        for key, part in parts:
            for each in inner:
                _refuse_truth(part, each, (*below, key))


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types of `A | B | None`, without what is annotated to them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


@finds(Stage.SPEC, job_file.UNKNOWN_FIELD, job_file.INVALID_VALUE, job_file.BREAKS_API_MODEL)
def validate_document(model: type[ModelT], document: Document) -> tuple[ModelT | None, list[Finding]]:
    """The document as the model, or None and every error that keeps it from being one, at its field."""
    try:
        return model.model_validate(document.data), []
    except ValidationError as error:
        return None, [_finding(detail, model) for detail in error.errors(include_url=False)]


def _finding(detail: ErrorDetails, model: type[BaseModel]) -> Finding:
    path: Path = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] == _REFUSAL:
        return _finding_of_validator(path, detail["ctx"])
    field = dotted(path)
    if detail["type"] == "extra_forbidden":
        return job_file.UNKNOWN_FIELD.at(path, f"unknown field `{field}`", remedy=_field_meant(model, path))
    if detail["type"] == "missing":
        parent = dotted(path[:-1])
        line = _with_example(str(path[-1]), _known_fields(model, path[:-1]).get(str(path[-1])))
        remedy = f"Add `{line}`" + (f" below `{parent}`." if parent else ".")
        return job_file.INVALID_VALUE.at(path, f"`{field}` is missing", remedy=remedy)
    remedy = f"Correct the value of `{field}`." if field else "Correct the fields that the message names."
    if detail["type"] in ("enum", "literal_error") and isinstance(detail["input"], str):
        near = nearest(detail["input"], _QUOTED.findall(detail["ctx"]["expected"]))
        remedy = f"Did you mean `{near[0]}`?" if near else remedy
    if detail["type"] == "string_pattern_mismatch":
        meaning = _field_description(model, path)
        remedy = f"Correct the value of `{field}`: {meaning}" if meaning else remedy
    breaks_api = detail["type"] in _LIMITS and _is_of_the_api(model, path)
    mode = job_file.BREAKS_API_MODEL if breaks_api else job_file.INVALID_VALUE
    return mode.at(path, _name_field(path, _error_in_words(detail)), remedy=remedy)


def _finding_of_validator(path: Path, context: dict[str, Any]) -> Finding:
    """A validator's own words; the value cannot stay, whatever the severity of the failure mode is."""
    path += context["below"]
    mode: FailureMode = context["mode"]
    message = _name_field(path, context["message"])
    return mode.at(path, message, remedy=context["remedy"], severity=Severity.ERROR)


def _name_field(path: Path, message: str) -> str:
    field = dotted(path)
    return f"`{field}`: {message}" if field else message


def _error_in_words(detail: ErrorDetails) -> str:
    """Pydantic's message in the words of a file's author, with the value."""
    context: dict[str, Any] = detail.get("ctx", {})
    value = detail["input"]
    shown = _value_in_words(value)
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "too_long":
            return f"{len(value)} are given; at most {context['max_length']} fit"
        case "string_pattern_mismatch":
            return f"{shown} does not have the form {context['pattern']}"
        case "string_too_long":
            return f"{shown} has {len(value)} characters; at most {context['max_length']} fit"
        case "enum" | "literal_error":
            return f"{shown} is not one of {context['expected'].replace(' or ', ', ')}"
        case "model_type" | "dict_type":
            return f"must be a mapping, not {shown}"
        case "list_type":
            return f"must be a list, not {shown}"
        case "bool_type" | "bool_parsing":
            return f"must be true or false, not {shown}"
        case _:
            return f"{shown} is not valid: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _value_in_words(value: object) -> str:
    """A value as the file's author wrote it, or what it is where it has parts."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else repr(value)


def _with_example(name: str, field: FieldInfo | None) -> str:
    """The line of a field as the schema gives an example of it; its name where there is none."""
    if field is None or not field.examples:
        return name
    return yaml.safe_dump({name: field.examples[0]}, default_flow_style=None, sort_keys=False).strip()


def _field_meant(model: type[BaseModel], path: Path) -> str:
    """What to write instead of a field that is unknown in its place: one of the same name elsewhere counts
    for more than one that is only spelt alike, but for a letter, and of several those that lie least deep."""
    name, known = str(path[-1]), _known_fields(model, path[:-1])
    if misspelt := nearest(name, known, likeness=_LIKENESS_OF_TYPOS):
        return f"Did you mean `{misspelt[0]}`?"
    other = model.OTHER_NAMES.get(name) if issubclass(model, FilePart) else None
    found = [other] if other else list(_places_of(name, model))
    depth = min((place.count(".") for place in found), default=0)
    places = [place for place in found if place.count(".") == depth]
    if not 0 < len(places) <= _MOST_PLACES:
        near = nearest(name, known)
        return f"Did you mean `{near[0]}`?" if near else f"Known here: {', '.join(sorted(known))}."
    if depth == 0 and len(path) == 1:
        return f"Did you mean `{places[0]}`?"
    return f"It belongs {', or '.join(map(_place_in_words, places))}."


def _place_in_words(place: str) -> str:
    section, _, field = place.rpartition(".")
    return f"{f'below `{section}`' if section else 'at the top of the file'}, as `{field}`"


def _places_of(name: str, model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The dotted fields of that name in the whole file; an entry that people name themselves is NAME."""
    for field, each in model.model_fields.items():
        inner, place = _model_in(each.annotation), above + field
        if field == name:
            yield place
        if inner is not None:
            is_named = any(get_origin(kind) is dict for kind in _alternatives(each.annotation))
            yield from _places_of(name, inner, f"{place}.NAME." if is_named else f"{place}.")


def _known_fields(model: type[BaseModel], path: Path) -> Mapping[str, FieldInfo]:
    """The fields that the schema knows at a place of the document."""
    inner = _model_in(_annotation_at(model, path))
    return inner.model_fields if inner else {}


_LIKENESS_OF_TYPOS = 0.95
_MOST_PLACES = 3
"""A name that more fields have says nothing."""


def _annotation_at(model: type[BaseModel], path: Path) -> Any:
    """The type that the schema has at a place of the document."""
    annotation: Any = model
    for part in path:
        inner = _model_in(annotation)
        if inner is not None and str(part) in inner.model_fields and annotation is not None:
            annotation = inner.model_fields[str(part)].annotation
    return annotation


def _field_description(model: type[BaseModel], path: Path) -> str | None:
    """What the schema says of the field at a path: a pattern alone tells nobody what to write."""
    known = _field_at(model, path)
    return known.description if known else None


def _is_of_the_api(model: type[BaseModel], path: Path) -> bool:
    """Whether the field at a path, or the one of which a name or an entry stands there, has that mark."""
    known = _field_at(model, path) or _field_at(model, path[:-1])
    return known is not None and OF_THE_API in known.metadata


def _field_at(model: type[BaseModel], path: Path) -> FieldInfo | None:
    inner = _model_in(_annotation_at(model, path[:-1])) if path else None
    return inner.model_fields.get(str(path[-1])) if inner else None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None`, `list[Model]` or `dict[str, Annotated[Model, ...]]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in reversed(get_args(annotation)))
    return next((model for model in found if model is not None), None)
