"""What configurations hold: the fields of records, such as dataclasses, and the options of parsers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property

from launcher.program.index import (
    Binding,
    BindingKind,
    FileIndex,
    ProgramFiles,
    file_of,
    last_name,
    parent_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.values import (
    LIBRARY_TABLES,
    UNKNOWN,
    Constant,
    Defined,
    Environment,
    Instance,
    Made,
    RankKind,
    RankValue,
    Value,
    WorldSize,
    is_set_by_method,
    joined,
    like,
    spread,
)

_RECORD_DECORATORS = frozenset(
    {"dataclass", "define", "frozen", "mutable", "attrs", "s", "attributes", "chz", "configclass"}
)
_RECORD_BASES = frozenset({"NamedTuple", "TypedDict", "BaseModel", "BaseSettings", "Struct"})
REPLACING = ("replace", "_replace", "evolve")
"""The last names of what makes a copy of a record with other fields."""
_LOOKING = frozenset({"isinstance", "issubclass", "fields", "asdict", "field"})


FIELD_MAKERS = frozenset({"field", "Field", "ib", "attrib", "mutable_field", "field_default"})
"""The last names of what gives a field its default: of dataclasses, attrs, pydantic and their like."""


def default_of_field(field: ast.Call) -> ast.expr | None:
    """What `dataclasses.field` or its like gives a field: its default, or what its factory makes."""
    given = {each.arg: each.value for each in field.keywords}
    factory = given.get("default_factory", given.get("factory"))
    first = field.args[0] if field.args and last_name(field.func) in ("Field", "ib") else None
    return given.get("default", first) if factory is None else like(field, ast.Call(factory, [], []))


class RecordFields:
    """The fields of one program's dataclasses, named tuples and their like, with what they are given."""

    def __init__(self, files: ProgramFiles, value: Callable[[ast.expr], Value]) -> None:
        """Nothing is looked for before somebody asks; `value` says what an expression is."""
        self.files = files
        self.value = value
        self._constructions: dict[ast.ClassDef, list[ast.Call]] = {}

    def bindings(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a field gets its value: in each call of the class, or by its default where one gives none.

        Empty where the class is no record with such a field. A literal default is not sure to hold where the
        class is handed to a parser that makes the object.
        """
        fields = self.fields_of(definition)
        if name not in fields:
            return []
        position, default = [*fields].index(name), fields[name]
        calls = self._calls(definition)
        given = [self._given_to_field(spread(call, self.value), definition, name, position) for call in calls]
        found = [each for each in given if each is not None]
        if default is not None and (not calls or None in given):
            found.append(default)
        hidden = any(each is not None and each.node is definition for each in given)
        if default is not None and hidden and default not in found:
            found.append(default)
        literal = default and default.value
        if isinstance(literal, ast.Call) and last_name(literal.func) in FIELD_MAKERS:
            literal = default_of_field(literal)
            if literal is None:  # It is set by `__post_init__`, or every call must give it.
                found = [each for each in found if each is not default]
        if isinstance(literal, ast.Constant) and self._is_handed_on(definition):
            found.append(Binding(name, BindingKind.OTHER, definition))
        return [*found, *self._replaced(definition, name)]

    def fields_of(self, definition: ast.ClassDef, depth: int = 5) -> dict[str, Binding | None]:
        """The fields in the order of the constructor, with their defaults; none where it is no record."""
        found: dict[str, Binding | None] = {}
        is_record = any(
            last_name(getattr(each, "func", each)) in _RECORD_DECORATORS for each in definition.decorator_list
        )
        for base in definition.bases:
            is_record = is_record or last_name(base) in _RECORD_BASES
            parent = self.value(base) if depth else UNKNOWN
            if isinstance(parent, Defined) and isinstance(parent.node, ast.ClassDef):
                inherited = self.fields_of(parent.node, depth - 1)
                is_record = is_record or bool(inherited)
                found |= inherited
        if not is_record:
            return {}
        bound = file_of(definition).scopes[definition].bindings
        for statement in definition.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                found[name] = bound[name][-1] if name in bound else None
        return found

    def _calls(self, definition: ast.ClassDef) -> list[ast.Call]:
        known = self._constructions.get(definition)
        if known is None:
            self._constructions[definition] = []  # While we look, others wait in vain.
            names = {*self.files.known_as({definition.name}), "cls"}
            known = self._constructions[definition] = [
                call
                for file in dict.fromkeys((*self.files.mentioning(definition.name), file_of(definition)))
                for name in sorted(names)
                for call in file.calls_of.get(name, ())
                if self.value(call.func) == Defined(definition)
            ]
        return known

    def _is_handed_on(self, definition: ast.ClassDef) -> bool:
        """Whether the class itself is an argument, as of `HfArgumentParser(Settings)`."""
        name = definition.name
        for use in (each for file in self.files.mentioning(name) for each in file.names.get(name, ())):
            outer = parent_of(use)
            while isinstance(outer, ast.Tuple | ast.List | ast.keyword):
                outer = parent_of(outer)
            called = outer.func if isinstance(outer, ast.Call) else use
            if called is not use and last_name(called) not in _LOOKING:
                return True
        return False

    def _given_to_field(
        self, call: ast.Call, definition: ast.ClassDef, name: str, position: int
    ) -> Binding | None:
        """What a constructor gives a field; None where it gives nothing, OTHER where a star hides it: of the
        class where a parser of its own fields gives it all, `Settings(**vars(parser.parse_args()))`."""
        value = next((each.value for each in call.keywords if each.arg == name), None)
        starred = any(isinstance(each, ast.Starred) for each in call.args[: position + 1])
        if value is None and position < len(call.args) and not starred:
            value = call.args[position]
        if value is not None:
            return Binding(name, BindingKind.ASSIGNED, value, value)
        tables = [each.value for each in call.keywords if each.arg is None]
        if not tables and not starred:
            return None
        parsed = not starred and all(map(self._is_of_a_parser, tables))
        return Binding(name, BindingKind.OTHER, definition if parsed else call)

    def _is_of_a_parser(self, table: ast.expr) -> bool:
        """Whether a table is all that argparse has read: `vars(args)`, also with a test of each entry."""
        source = table.generators[0].iter if isinstance(table, ast.DictComp) else table
        if isinstance(source, ast.Call) and last_name(source.func) in ("items", "copy"):
            source = getattr(source.func, "value", source)
        read = self.value(source)
        asked = read.call.args if isinstance(read, Instance) and read.name.endswith("vars") else []
        if isinstance(source, ast.Attribute) and source.attr == "__dict__":
            asked = [source.value]
        made = self.value(asked[0]) if asked else UNKNOWN
        return isinstance(made, Instance) and made.name.startswith("argparse.")

    @cached_property
    def _replacements(self) -> list[tuple[ast.Call, ast.keyword]]:
        """What calls such as dataclasses.replace give by name: most others of that name are of texts."""
        return [
            (call, keyword)
            for file in self.files.mentioning(*REPLACING)
            for last in REPLACING
            for call in file.calls_of.get(last, ())
            for keyword in call.keywords
        ]

    def _replaced(self, definition: ast.ClassDef, name: str) -> Iterator[Binding]:
        for call, keyword in self._replacements:
            owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            replaces = keyword.arg in (name, None)
            if not replaces or Made(definition) not in map(self.value, (*call.args[:1], *owner)):
                continue
            if keyword.arg is not None:
                yield Binding(name, BindingKind.ASSIGNED, keyword, keyword.value)
            elif self._is_of_the_command_line(keyword.value):
                yield Binding(name, BindingKind.OTHER, definition)
            else:
                yield Binding(name, BindingKind.OTHER, call)

    def _is_of_the_command_line(self, table: ast.expr) -> bool:
        """Whether a function of the program makes a table of the words of the command line, and no file's."""
        called = self.value(table.func) if isinstance(table, ast.Call) else UNKNOWN
        parts = [*walk(called.node)] if isinstance(called, Defined) else []
        names = {last_name(each) for each in parts if isinstance(each, ast.Name | ast.Attribute)}
        return "argv" in names and names.isdisjoint({"open", "load", "safe_load", "read_text"})


class ParserOptions:
    """The options of one program's own parsers that hold ranks, by the launcher or by their defaults."""

    def __init__(
        self,
        files: ProgramFiles,
        value: Callable[[ast.expr], Value],
        value_of_binding: Callable[[Binding, Environment | None], Value],
    ) -> None:
        """Nothing is looked for before somebody asks."""
        self.files = files
        self.value = value
        self.value_of_binding = value_of_binding

    def value_of_option(self, name: str) -> Value:
        """The rank or size that an option of this name holds; UNKNOWN for all others."""
        if self._is_local_rank(name) and not self._is_set_otherwise(name):
            return RankValue(RankKind.LOCAL, "--local_rank")
        default = joined(map(self.value, self.defaults(name)))
        return default if isinstance(default, RankValue | WorldSize) else UNKNOWN

    def _is_local_rank(self, name: str) -> bool:
        """Whether an option is the one that launchers hand over, under this name: `dest="rank"`."""
        if name == "local_rank":
            return bool(self.handed_over)
        calls = self.declared.get(name, ()) if self.handed_over else ()
        return bool(calls) and all(map(_is_handed_over, calls))

    def _is_set_otherwise(self, name: str) -> bool:
        """Whether such an option may become another rank: the ranks of the hosts before are added."""
        return any(
            binding.kind is BindingKind.CHANGED or not self._keeps_local(binding, name)
            for file in self.files.mentioning(name)
            for binding in file.set_attributes.get(name, ())
        )

    def _keeps_local(self, binding: Binding, name: str) -> bool:
        """Whether what an attribute is set to is the rank on the host, or a literal."""
        if isinstance(binding.value, ast.Attribute) and binding.value.attr == name:
            return True  # `self.local_rank = args.local_rank`.
        if name != "local_rank" and is_set_by_method(binding):
            return True  # Another object's, as the option has a name that others have too.
        value = self.value_of_binding(binding, None)
        return isinstance(value, Constant) or (isinstance(value, RankValue) and value.kind is RankKind.LOCAL)

    @cached_property
    def declared(self) -> dict[str, list[ast.Call]]:
        """Where the options of the program's parsers are declared, by the names under which they are read.

        That is `dest`, or the first long option, or the first word (Python documentation, argparse).
        """
        found: dict[str, list[ast.Call]] = {}
        for file in self.files.mentioning("add_argument"):
            for call in declaring_calls(file):
                name = self._name_of_option(call)
                if name is not None:
                    found.setdefault(name, []).append(call)
        return found

    def _name_of_option(self, call: ast.Call) -> str | None:
        for given in (each.value for each in call.keywords if each.arg == "dest"):
            if isinstance(given, ast.Constant):  # Which somebody may ask who is too deep to evaluate.
                return given.value if isinstance(given.value, str) else None
            value = self.value(given)
            return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None
        words = [each.value for each in call.args if isinstance(each, ast.Constant)]
        texts = [word for word in words if isinstance(word, str)]
        long = [word for word in texts if word.startswith("--")] or texts
        return long[0].lstrip("-").replace("-", "_") if long else None

    @cached_property
    def handed_over(self) -> list[ast.Call]:
        """Where the option is declared that launchers hand over, `--local_rank`, under whatever name."""
        files = self.files.mentioning("add_argument")
        calls = (each for file in files for each in declaring_calls(file))
        return [each for each in calls if _is_handed_over(each)]

    def defaults(self, name: str) -> list[ast.expr]:
        """The defaults that are declared for an option."""
        calls = self.declared.get(name, ())
        return [each.value for call in calls for each in call.keywords if each.arg == "default"]


def declaring_calls(file: FileIndex) -> list[ast.Call]:
    """The calls that declare options of a parser, by whatever name: `arg = parser.add_argument`."""
    names = ("add_argument", *file.aliases.get("add_argument", ()))
    return [call for name in names for call in file.calls_of.get(name, ())]


def _is_handed_over(option: ast.Call) -> bool:
    """Whether an option that is declared is the one that launchers hand over."""
    named = LIBRARY_TABLES["local_rank_options"]
    return any(isinstance(each, ast.Constant) and each.value in named for each in option.args)
