"""The fields of records, such as dataclasses and named tuples, with what they are given."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from launcher.program.index import Binding, BindingKind, ProgramFiles, file_of, last_name, parent_of
from launcher.program.values import UNKNOWN, Defined, Instance, Made, Value, default_of_field, spread

_RECORD_DECORATORS = frozenset({"dataclass", "define", "frozen", "mutable", "attrs"})
_RECORD_BASES = frozenset({"NamedTuple", "TypedDict", "BaseModel", "BaseSettings"})
_REPLACING = ("replace", "_replace", "evolve")
_LOOKING = frozenset({"isinstance", "issubclass", "fields", "asdict", "field"})


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
        if isinstance(literal, ast.Call) and last_name(literal.func) == "field":
            literal = default_of_field(literal)
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
                for file in self.files.mentioning(definition.name)
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

    def _replaced(self, definition: ast.ClassDef, name: str) -> Iterator[Binding]:
        for file in self.files.mentioning(*_REPLACING):
            for call in (each for last in _REPLACING for each in file.calls_of.get(last, ())):
                owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
                for keyword in (each for each in call.keywords if each.arg in (name, None)):
                    if Made(definition) not in map(self.value, (*call.args[:1], *owner)):
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
        parts = [*ast.walk(called.node)] if isinstance(called, Defined) else []
        names = {last_name(each) for each in parts if isinstance(each, ast.Name | ast.Attribute)}
        return "argv" in names and names.isdisjoint({"open", "load", "safe_load", "read_text"})
