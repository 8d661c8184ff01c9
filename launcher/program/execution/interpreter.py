"""The statements and calls of a program that is run on its syntax tree, as one rank."""

from __future__ import annotations

import ast
import builtins
import functools
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any

from launcher.program.execution.expressions import chosen, is_made, joined
from launcher.program.execution.objects import (
    MODULE_MISSING,
    NAME_MISSING,
    READ_UNBOUND,
    READ_UNSET,
    RECORD_MADE,
    STARS,
    UNMET,
    BoundCall,
    CallMade,
    Class,
    DottedEntries,
    Function,
    FunctionLeft,
    Module,
    Native,
    Object,
    OneOf,
    OpenDictionary,
    OutOfSteps,
    ProcessEnded,
    Raised,
    RankWorld,
    RecordEntries,
    RunScope,
    Super,
    Suspended,
    Symbol,
    Turns,
    bounded,
    is_known,
    is_member,
    setter_of,
)
from launcher.program.execution.process import CODE_FOLDER, Packaged, Process
from launcher.program.execution.python_functions import python_names
from launcher.program.execution.statements import record_fields
from launcher.program.execution.training_libraries import CALLING_PARTS
from launcher.program.execution.written_trees import (
    WrittenTrees,
    call_at,
    may_bind,
    place_of,
    shows_all_bindings,
    tests_against_bindings,
)
from launcher.program.index import (
    FileIndex,
    absolute_module_name,
    ancestors,
    file_of,
    is_package,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.values import canonical_name

_IMPORTS = (ast.Import, ast.ImportFrom)
_STEPS_OF_ONE_CALL = 50_000
_MOST_PASSED_OVER = 2
_DEEPEST_CALL = 40


class ProgramRun(Process):
    """Runs the statements of a program as one rank, and keeps its calls of libraries.

    `models` says what some of these calls give, by their names, and of some methods by their last names.
    """

    def __init__(
        self,
        program: Program,
        models: Mapping[str, Callable[..., object]],
        world: RankWorld,
        documents: Callable[[str | None], Any],
        packaged: Packaged,
        is_gone: Callable[[str], bool],
        lacks: Callable[[str], bool],
    ) -> None:
        """As one rank of a world. `documents` reads configuration files of the program by their names,
        `packaged` those of hydra; `is_gone` says which names the job's libraries no longer have,
        `lacks` which modules nothing brings that it installs."""
        super().__init__(world, documents, packaged)
        self.program, self.models = program, models
        self.python = python_names(self)
        self._put_back: set[str] = set()
        """The names of libraries that the program gives values itself."""
        self.is_gone = is_gone
        """Whether a library no longer has a name: it is kept that it is read."""
        self.lacks = lacks
        self._called_parts: dict[int, object] = {}
        self.lacking: dict[str, str] = {}
        """The names that say that a module is missing whose import a `try` is ready for."""
        self.passed_over = 0
        """How many calls were left before their end, as they took too many steps."""
        self._modules: dict[str, Module] = {}
        self._trees = program.analysis(WrittenTrees)
        self.statements_of = lambda name: self._trees.body(at) if (at := program.load(name)) else None
        self.ways |= {
            ast.FunctionDef: self._run_function,
            ast.AsyncFunctionDef: self._run_function,
            ast.ClassDef: self._run_class,
            ast.Import: self._run_import,
            ast.ImportFrom: self._run_import_from,
        }

    @property
    def script(self) -> str:
        """The program's file, as the command names it."""
        return os.path.relpath(self.program.entry.path, self.program.root)

    def entries(self, folder: str) -> list[str]:
        """The names in a folder of the program's modules, by its path in the job; none of any other."""
        whole = posixpath.normpath(posixpath.join(self.folder, folder))
        if whole != CODE_FOLDER and not whole.startswith(f"{CODE_FOLDER}/"):
            return []
        return self.program.entries(posixpath.relpath(whole, CODE_FOLDER))

    # Modules.

    def run_entry(self) -> None:
        """Run the program from its first statement, and then what it has registered for its end."""
        entry = self.program.entry
        try:
            self._run_module(self.program.module_name(entry), entry, is_main=True)
        except (Raised, ProcessEnded):
            self._exit()
            raise
        self._exit()

    def _exit(self) -> None:
        for function, args, keywords, node in reversed(self.at_exit):
            with suppress(Raised, ProcessEnded):
                self.call(function, args, keywords, node)

    def _run_module(self, name: str, file: FileIndex, *, is_main: bool = False) -> Module:
        scope = RunScope(file, None)
        module = self._modules[name] = Module(name, scope)
        scope.variables |= {"__name__": "__main__" if is_main else name, "__file__": self._path(file)}
        scope.variables["__doc__"] = ast.get_docstring(file.tree, clean=False)
        self.run(self._trees.body(file), scope)
        return module

    def _path(self, file: FileIndex) -> str:
        return f"{CODE_FOLDER}/{os.path.relpath(file.path, self.program.root)}"

    def path_of(self, node: ast.AST) -> str:
        """The path of the file in which something stands, in the job."""
        return self._path(file_of(place_of(node)))

    def module(self, name: str) -> Module | None:
        """A module of the program, run when it is first imported; a folder has no scope."""
        if name in self._modules:
            return self._modules[name]
        file = self.program.load(name)
        if file is None:
            below = any(each.startswith(f"{name}.") for each in self.program.modules)
            return self._modules.setdefault(name, Module(name, None)) if below else None
        if file is self.program.entry:
            return next((each for each in self._modules.values() if each.scope), None)
        above = name.rpartition(".")[0]
        if above:
            self.module(above)
        try:
            return self._modules.get(name) or self._run_module(name, file)
        except Raised:
            return self._modules[name]

    def imported(self, name: str, node: ast.AST) -> object:
        """A module of the program or of a library, by its whole name."""
        found = self.module(name)
        if found is None:
            if "." in name and self.lacks(name):
                self._fail_at(node, "ImportError", MODULE_MISSING, name)
            self._miss(name, node)
            for each in accumulate(name.split("."), "{}.{}".format):
                self._watch(canonical_name(each), node)
        return found or Symbol(canonical_name(name))

    def _miss(self, name: str, node: ast.AST) -> None:
        """Raise what the import of a module raises that nothing brings, where the program is ready for it."""
        top = name.partition(".")[0]
        if not self.is_caught("ModuleNotFoundError") or not self.lacks(top):
            return
        names = [each.asname or each.name for each in node.names] if isinstance(node, _IMPORTS) else []
        for each in (each for one in self.catching[-1].handlers for each in one.body):
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and not each.value.value:
                names += [target.id for target in each.targets if isinstance(target, ast.Name)]
        self.lacking |= dict.fromkeys(names, top)
        raise Raised("ModuleNotFoundError")

    def _watch(self, name: str, node: ast.AST) -> None:
        """Read a name that a library may no longer have."""
        if self.is_gone(name) and name not in self._put_back:
            is_import = isinstance(node, _IMPORTS)
            self._fail_at(node, "ImportError" if is_import else "AttributeError", name)

    def _fail_at(self, node: ast.AST, error: str, event: str, *args: object) -> None:
        """Raise what the program is ready for; elsewhere keep that it would be raised, and go on."""
        if self.is_caught(error):
            raise Raised(error)
        self.record(event, args, call_at(node))

    def _run_import(self, node: ast.Import, scope: RunScope) -> None:
        for each in node.names:
            found = self.imported(each.name, node)
            top = each.name.partition(".")[0]
            if each.asname:
                self.bind_name(scope, each.asname, found)
            else:
                self.bind_name(scope, top, self.imported(top, node))

    def _run_import_from(self, node: ast.ImportFrom, scope: RunScope) -> None:
        written = "." * node.level + (node.module or "")
        importer = self.program.module_name(scope.file)
        name = absolute_module_name(written, importer, is_package(scope.file))
        owner: object = self.imported(name, node) if name else Module("", None)
        for each in node.names:
            if each.name == "*":
                found = owner.scope if isinstance(owner, Module) else None
                for key, value in (found.variables if found else {}).items():
                    if not key.startswith("_"):
                        self.bind_name(scope, key, value)
            else:
                given = self.attribute(owner, each.name, node)
                if isinstance(owner, Module) and isinstance(given, Symbol) and not given.name:
                    self._miss_name(owner, each.name, node)
                self.bind_name(scope, each.asname or each.name, given)

    def _miss_name(self, owner: Module, name: str, node: ast.AST) -> None:
        if self.lacks(f"{owner.name}.{name}"):
            self._fail_at(node, "ImportError", MODULE_MISSING, f"{owner.name}.{name}")
        elif owner.scope is not None and not may_bind(owner.scope.file, name, self.program):
            self._fail_at(node, "ImportError", NAME_MISSING, name, owner.name)

    # Names and assignments.

    def unbound_name(self, node: ast.Name, scope: RunScope) -> object:
        """What Python has of a name to which the program has given nothing yet. It is kept that one is read
        to which nothing ever does."""
        found = self.python_name(node.id, scope)
        if not isinstance(found, Symbol) or found.name or not shows_all_bindings(node, self.program):
            return found
        # Behind what ends the program, it is read by none.
        tests = () if self.raised else tests_against_bindings(node, self.truths)
        if tests or not scope_of(place_of(node)).names(node.id):
            self._fail_at(node, "NameError", READ_UNBOUND, node.id, *tests)
        return found

    def note_unmet(self, node: ast.Assert) -> None:
        """Keep that an assertion on numbers does not hold."""
        self.record(UNMET, (place_of(node.test),), call_at(node))

    def note_raised(self, node: ast.AST) -> None:
        """Keep that a program ends as a module is missing, by the test that decides about it."""
        if not self.lacking:
            return
        outers = (each.test for each in ancestors(place_of(node)) if isinstance(each, ast.If))
        test = node.test if isinstance(node, ast.Assert) else next(outers, None)
        names = {each.id for each in walk(test) if isinstance(each, ast.Name)} if test is not None else set()
        module = next((self.lacking[each] for each in sorted(names) if each in self.lacking), None)
        if module is not None:
            self.record(MODULE_MISSING, (module,), call_at(node))

    def python_name(self, name: str, scope: RunScope) -> object:
        """What Python has of a name, or the one library of which a file imports all."""
        if name in self.python:
            return self.python[name]
        if hasattr(builtins, name):
            return Symbol(f"builtins.{name}")
        file = scope.file
        libraries = [each for each in file.stars if self.program.module(each, file) is None]
        tops = {each.partition(".")[0] for each in libraries}
        return Symbol(canonical_name(f"{libraries[0]}.{name}") if len(tops) == 1 and "" not in tops else "")

    def bind_name(self, scope: RunScope, name: str, value: object) -> None:
        """Give a name a value where a scope keeps it."""
        (scope.declared.get(name) or scope).variables[name] = value

    def set_attribute(self, owner: Any, name: str, value: object, node: ast.AST | None = None) -> None:
        """Give an attribute of anything a value."""
        at = call_at(self.at if node is None else node)
        entries = value.native if isinstance(value, Object) else value
        if isinstance(owner, Object) and name == "__dict__" and isinstance(entries, dict):
            owner.attributes = entries
        elif isinstance(owner, Object):
            setter = owner.kind.find(name)
            if isinstance(setter, BoundCall) and setter.keywords.get("*setter"):
                self.call(setter.keywords["*setter"], [owner, value], {}, at)
                return
            own = owner.kind.find("__setattr__")
            if isinstance(own, Function) and own not in self.active:
                self.call(own, [owner, name, value], {}, at)
            kept = entries if isinstance(entries := owner.native, DottedEntries) else owner.attributes
            kept[name] = self._perhaps(kept.get(name), value)
        elif isinstance(owner, DottedEntries):
            owner[name] = self._perhaps(owner.get(name), value)
        elif isinstance(owner, Class):
            owner.fields[name] = value
        elif isinstance(owner, Symbol | Function):
            owner.attributes[name] = value
            self._put_back.add(canonical_name(f"{owner.name}.{name}"))
        elif isinstance(owner, Module) and owner.scope is not None:
            owner.scope.variables[name] = value

    def _perhaps(self, before: object, value: object) -> object:
        """What something is that is set where nobody can tell whether that runs: a switch may be either."""
        is_open = self.tests and isinstance(before, bool) and isinstance(value, bool) and before is not value
        return Symbol() if is_open else value

    def set_item(self, owner: Any, key: Any, value: object, node: ast.AST) -> None:
        """Give an item of anything a value."""
        if isinstance(owner, Object):
            if self.call_method(owner, "__setitem__", [key, value], node) is not NotImplemented:
                return
            owner = owner.native
        if setter := setter_of(owner):
            self.record(setter, (key, value), call_at(node))
        if (isinstance(owner, dict) and is_known(key)) or (
            isinstance(owner, list) and isinstance(key, int) and -len(owner) <= key < len(owner)
        ):
            owner[key] = value
        elif isinstance(owner, Symbol) and isinstance(key, str):
            owner.attributes[key] = value
            self._put_back |= {key} if owner.name == "sys.modules" else set()

    # Attributes and calls.

    def attribute(self, owner: Any, name: str, node: ast.AST) -> object:
        """An attribute of anything."""
        if isinstance(owner, OneOf):
            return chosen([self.attribute(each, name, node) for each in owner.entries])
        if isinstance(owner, Symbol):
            if name in owner.attributes:
                return owner.attributes[name]
            made = owner.made_by
            if made is not None and name in made.keywords and is_made(owner.name):
                return made.keywords[name]  # As of `HParams(epochs=3)`, whoever wrote the class.
            whole = f"?.{name}" if owner.name[:1] in ("", "?") else canonical_name(f"{owner.name}.{name}")
            self._watch(whole, node)
            model = self.models.get(f"{whole}=")
            return Symbol(whole, owner=owner, is_own=owner.is_own) if model is None else model(self, owner)
        if isinstance(owner, Object):
            return self._attribute_of_object(owner, name, node)
        if isinstance(owner, Super):
            return self._attribute_behind(owner, name)
        if isinstance(owner, Class):
            return self._attribute_of_class(owner, name)
        if isinstance(owner, Module):
            if owner.scope is not None and name in (*owner.scope.variables, "__dict__"):
                return owner.scope.variables.get(name, owner.entries)
            below = self.module(f"{owner.name}.{name}".lstrip("."))
            if below is None and owner.scope is not None and self.is_caught("AttributeError"):
                raise Raised("AttributeError")
            return below or Symbol()
        if isinstance(owner, DottedEntries) and name in (*owner, "__dict__"):
            return owner[name] if name in owner else RecordEntries(owner)
        if isinstance(owner, Native) and name == "__name__":
            return owner.name
        if isinstance(owner, Function | BoundCall):
            if name == "__name__" and isinstance(owner, Function):
                return owner.name
            if name == "setter" and isinstance(owner, Function):
                return Native("setter", lambda each: BoundCall(owner, (), {"*setter": each}))
            kept = owner.attributes if isinstance(owner, Function) else {}
            return kept.get(name, Symbol())
        model = self.models.get(f".{name}")
        return Symbol() if model is None else model(self, owner)

    def _attribute_of_object(self, owner: Object, name: str, node: ast.AST) -> object:
        if name in owner.attributes:
            return owner.attributes[name]
        if name == "__dict__":
            return owner.attributes
        if name == "__class__":
            return owner.kind
        found = owner.kind.find(name)
        if found is not None:
            return self._read_of_object(found, owner, node)
        if isinstance(owner.native, dict) and name in owner.native:
            return owner.native[name]
        if name == "__setattr__":
            return self.models[f".{name}"](self, owner)
        lookup = owner.kind.find("__getattr__")
        if owner.native is not None and (lookup is None or hasattr(owner.native, name)):
            return self.attribute(owner.native, name, node)
        if isinstance(lookup, Function) and lookup not in self.active:
            self.tries += 1
            try:
                return self.call(lookup, [owner, name], {}, call_at(node))
            except Raised:
                return self.fail("AttributeError") if self.tries > 1 else Symbol()
            finally:
                self.tries -= 1
        base = owner.kind.library_base()
        of_base = canonical_name(f"{base}().{name}") if base else ""
        model = self.models.get(f"{of_base}=")
        return Symbol(of_base, owner=owner) if model is None else model(self, owner)

    def _read_of_object(self, found: object, owner: Object, node: ast.AST) -> object:
        getter = found.function if isinstance(found, BoundCall) and "*setter" in found.keywords else found
        if isinstance(getter, Function):
            if getter.kind == "property":
                return self.call(BoundCall(getter, (owner,)), [], {}, call_at(node))
            if getter.kind == "staticmethod":
                return getter
            return BoundCall(getter, (owner.kind if getter.kind == "classmethod" else owner,))
        return found

    def _attribute_behind(self, asked: Super, name: str) -> object:
        owner = asked.owner
        kind = owner.kind if isinstance(owner, Object) else owner
        line = kind.line() if isinstance(kind, Class) else []
        behind = line[line.index(asked.behind) + 1 :] if asked.behind in line else line
        for each in behind:
            if name in each.fields:
                found = each.fields[name]
                return (
                    self._read_of_object(found, owner, each.node)
                    if isinstance(owner, Object)
                    else BoundCall(found, (owner,))
                )
        if name == "__dict__" and isinstance(owner, Object):
            return owner.attributes
        native = owner.native if isinstance(owner, Object) else None
        if name == "__init__" and isinstance(native, dict | list):
            return Native(name, lambda *args, **given: self._fill_native(native, args, given))
        base = kind.library_base() if isinstance(kind, Class) else None
        if name == "__init__" and base is not None:
            return Native(name, lambda *args, **given: self._make_base(base, args, given, self.at))
        if name == "__setattr__" and isinstance(owner, Object):
            kept = native if isinstance(native, DottedEntries) else owner.attributes
            return Native(name, lambda key, value: kept.update({key: value}))
        if name in ("__init__", "__init_subclass__", "__setattr__"):
            return Native(name, lambda *_, **__: None)
        if name == "__new__":
            return Native(name, lambda kind, *_, **__: Object(kind))
        if native is not None:
            return self.attribute(native, name, asked.behind.node)
        return Symbol(canonical_name(f"{base}().{name}") if base else "", owner=owner)

    def _attribute_of_class(self, owner: Class, name: str) -> object:
        found = owner.find(name)
        if isinstance(found, Function) and found.kind == "classmethod":
            return BoundCall(found, (owner,))
        if found is not None:
            return found
        if name == "__name__":
            return owner.node.name
        base = owner.library_base()
        return Symbol(f"{base}.{name}" if base else "", owner=owner)

    def call_method(self, owner: object, name: str, args: list[Any], node: ast.AST) -> object:
        """What a special method of a program's object gives; NotImplemented where it has none."""
        found = owner.kind.find(name) if isinstance(owner, Object) else None
        return self.call(BoundCall(found, (owner,)), args, {}, call_at(node)) if found else NotImplemented

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        """What a call gives."""
        while isinstance(function, BoundCall):
            is_open = isinstance(keywords, OpenDictionary) or isinstance(function.keywords, OpenDictionary)
            kind = OpenDictionary if is_open else dict
            args, keywords = [*function.args, *args], kind({**function.keywords, **keywords})
            function = function.function
        if isinstance(function, Function):
            return self._call_function(function, args, keywords, node)
        if isinstance(function, Class):
            return self._make(function, args, keywords, node)
        if isinstance(function, Native):
            self.at = call_at(node)
            try:
                others = {STARS: Symbol()} if isinstance(keywords, OpenDictionary) else {}
                return bounded(function.call(*args, **keywords, **others))
            except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
                return Symbol()
        if isinstance(function, Object):
            for name in ("__call__", "forward"):
                found = function.kind.find(name)
                if found is not None:
                    return self.call(BoundCall(found, (function,)), args, keywords, node)
            base = function.kind.library_base()
            return self.call_library(
                Symbol(f"{base}()" if base else "", owner=function), args, keywords, node
            )
        if isinstance(function, OneOf):
            return self._call_any(function, args, keywords, node)
        if isinstance(function, Symbol):
            return self.call_library(function, args, keywords, node)
        return Symbol()

    def _call_any(self, one: OneOf, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        """What a call gives of one of several: each of them is called, under a test that nobody can tell."""
        found: list[Any] = []
        self.tests.append(node.func)
        try:
            for each in one.entries:
                with suppress(Raised, ProcessEnded):
                    found.append(self.call(each, args, keywords, node))
        finally:
            self.tests.pop()
        return functools.reduce(joined, found) if found else Symbol()

    def call_library(
        self, function: Symbol, args: list[Any], keywords: dict[str, Any], node: ast.Call
    ) -> Any:
        """What a library's function gives, or a class of it; and keep that it was called."""
        self.at = call_at(node)
        has_parts = function.name in CALLING_PARTS and function.made_by is not None
        owner = function if has_parts else function.owner
        event = self.record(function.name, tuple(args), self.at, keywords, owner)
        is_unknown = function.name[:1] in ("", "?")
        if has_parts and function.made_by is not None:
            self._call_parts(function.made_by, args, keywords, node)
        model = self.models.get(function.name)
        if model is not None:
            found = model(self, event)
            if found is not NotImplemented:
                return found
        return Symbol(
            "" if is_unknown else f"{function.name}()", event, function.owner, is_own=function.is_own
        )

    def _call_parts(self, made: CallMade, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> None:
        """Call the functions and modules of the program of which something of a library is made, each once;
        what they give is left open."""
        given = [each for one in made.args for each in (one if isinstance(one, list | tuple) else [one])]
        for each in given:
            if isinstance(each, Symbol) and each.name in CALLING_PARTS and each.made_by is not None:
                self._call_parts(each.made_by, [Symbol() for _ in args], {}, node)
            elif isinstance(each, Object | Function | BoundCall) and id(each) not in self._called_parts:
                self._called_parts[id(each)] = each
                with suppress(Raised, ProcessEnded):
                    self.call(each, args if each is given[0] else [Symbol() for _ in args], keywords, node)

    def unset_variable(self, environ: Any, key: Any, node: ast.AST) -> object:
        """What a variable is that is read and that nobody is known to set; where it surely is not, that is
        kept."""
        if environ.holds(key) is not False:
            return Symbol()
        if not self.is_tried():
            self.record(READ_UNSET, (key,), call_at(node))
        return self.fail("KeyError")

    def run_context(self, given: Suspended, body: Callable[[object], None]) -> None:
        """Run the function of a context manager, with what is run where it yields."""
        self._call_function(given.function, given.args, given.keywords, given.node, body)

    def _call_function(
        self,
        function: Function,
        args: list[Any],
        keywords: dict[str, Any],
        node: ast.Call,
        body: Callable[[object], None] | None = None,
    ) -> Any:
        if function.is_context and body is None:
            return Suspended(function, args, keywords, node)
        deep = len(self.active) >= _DEEPEST_CALL or self.active.count(function) > 1
        if deep:
            return Symbol()
        scope = RunScope(function.scope.file, function.scope)
        self._bind(function, scope, args, keywords)
        if body is not None:
            scope.variables["*body"] = body
        self.active.append(function)
        self.callers.append(call_at(node))
        entered_with, self.tests_outside = self.tests_outside, len(self.tests)
        period, steps = self.period, self.steps
        try:
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, scope)
            return self._run_body(function, function.node, scope)
        except OutOfSteps:
            if not self._is_passed_over(self.steps - steps):
                raise
            return Symbol()
        finally:
            self.active.pop()
            self.callers.pop()
            self.tests_outside, self.period = entered_with, period

    def _is_passed_over(self, taken: int) -> bool:
        """Whether the program is run on behind a call that has taken most of the steps: it goes through data
        that nobody has here, again and again. As often as there are steps for."""
        if taken < _STEPS_OF_ONE_CALL or self.passed_over == _MOST_PASSED_OVER:
            return False
        self.passed_over += 1
        self.most_steps = self.steps + _STEPS_OF_ONE_CALL
        return True

    def _run_body(
        self, function: Function, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: RunScope
    ) -> Any:
        is_generator = place_of(node) in function.scope.file.yields_of
        if is_generator:
            scope.variables["*yields"] = Turns()
        results: list[Any] = [None]
        try:
            self.run(node.body, scope)
        except FunctionLeft as end:
            results = [end.value]
        except (Raised, ProcessEnded):
            if not scope.results:
                raise
            results = []  # Another way has come back, on which the program goes on.
        return (
            scope.variables["*yields"] if is_generator else functools.reduce(joined, results + scope.results)
        )

    def _bind(self, function: Function, scope: RunScope, args: list[Any], keywords: dict[str, Any]) -> None:
        arguments = function.node.args
        is_open = isinstance(keywords, OpenDictionary)
        variables, rest = scope.variables, OpenDictionary(keywords) if is_open else dict(keywords)
        positional = [*arguments.posonlyargs, *arguments.args]
        for number, parameter in enumerate(positional):
            if number < len(args):
                variables[parameter.arg] = args[number]
        if arguments.vararg is not None:
            variables[arguments.vararg.arg] = tuple(args[len(positional) :])
        for parameter in (*positional, *arguments.kwonlyargs):
            if parameter.arg in rest:
                variables[parameter.arg] = rest.pop(parameter.arg)
            elif parameter.arg not in variables:
                default = Symbol() if is_open else function.defaults.get(parameter.arg, Symbol())
                variables[parameter.arg] = default
        if arguments.kwarg is not None:
            variables[arguments.kwarg.arg] = Symbol() if is_open else rest
        if function.owner is not None:
            variables["__class__"] = function.owner
            variables["*self"] = args[0] if args else None

    def _make(self, kind: Class, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> object:
        made = Object(kind)
        base = kind.library_base()
        if base in _ENUMERATIONS and args:
            return next((each for each in kind.fields.values() if is_member(each, args[0])), Symbol())
        if base is not None:
            maker = self.models.get(f"{base}:")
            given = (args, keywords) if kind.find("__init__") is None else ([], {})
            made.native = None if maker is None else maker(self, *given)
        creator = kind.find("__new__")
        if isinstance(creator, Function) and creator not in self.active:
            found = self.call(creator, [kind, *args], keywords, node)
            if not isinstance(found, Object):
                return found
            made = found
        starter = kind.find("__init__")
        if starter is not None:
            self.call(BoundCall(starter, (made,)), args, keywords, node)
        elif kind.is_record:
            self._fill_record(made, args, keywords, node)
        elif base is not None:
            self._make_base(base, tuple(args), keywords, node)
        return made

    def _make_base(self, base: str, args: tuple[Any, ...], keywords: dict[str, Any], node: ast.AST) -> None:
        """Keep that a class of a library made what an object of the program's own class has of it."""
        if not base.startswith("builtins."):
            self.record(canonical_name(base), args, call_at(node), keywords)

    def _fill_native(self, native: Any, args: Iterable[Any], keywords: dict[str, Any]) -> None:
        """Give an object what the constructor of its base, a dictionary or a list, is given."""
        for each in args:
            if isinstance(native, list):
                native.extend(self.items_of(each, self.at))
            elif isinstance(entries := each.native if isinstance(each, Object) else each, dict):
                native.update(entries)
        if isinstance(native, dict):
            native.update(keywords)

    def _fill_record(self, made: Object, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> None:
        names = record_fields(made.kind)
        given = dict(zip(names, args, strict=False)) | keywords
        for name in names:
            default = None if isinstance(keywords, OpenDictionary) else made.kind.find(name)
            if isinstance(default, BoundCall) and default.keywords.get("*field"):
                default = self.call(default.function, [], {}, node)
            made.attributes[name] = given.get(name, Symbol() if default is None else default)
        after = made.kind.find("__post_init__")
        if after is not None:
            self.call(BoundCall(after, (made,)), [], {}, node)

    # Definitions.

    def _run_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: RunScope) -> None:
        made: object = Function(node, scope.outside_of_class, self.defaults(node.args, scope))
        for each in reversed(node.decorator_list):
            made = self._decorated(made, each, scope)
        self.bind_name(scope, node.name, made)

    def _decorated(self, made: Any, decorator: ast.expr, scope: RunScope) -> object:
        value = self.evaluate(decorator, scope)
        value = (
            value.function if isinstance(value, BoundCall) and isinstance(value.function, Symbol) else value
        )
        last = value.name.rpartition(".")[2] if isinstance(value, Symbol | Native) else ""
        if last in ("property", "cached_property", "staticmethod", "classmethod") and isinstance(
            made, Function
        ):
            made.kind = last.removeprefix("cached_")
            return made
        if last in ("contextmanager", "asynccontextmanager") and isinstance(made, Function):
            made.is_context = True
            return made
        if isinstance(value, Symbol) and "dataclass" in value.name and isinstance(made, Class):
            made.is_record = True
            if value.name.startswith("dataclasses.dataclass"):
                self.record(RECORD_MADE, (made,), call_at(made.node))
            return made
        maker = self.models.get(f"@{value.name.removesuffix('()')}") if isinstance(value, Symbol) else None
        if maker is not None:
            return maker(self, value, made)
        if isinstance(value, Symbol):
            return made  # Those of libraries are taken for ones that change nothing of what it does.
        result = self.call(value, [made], {}, call_at(decorator))
        return made if result is None or (isinstance(result, Symbol) and not result.name) else result

    def _run_class(self, node: ast.ClassDef, scope: RunScope) -> None:
        bases = tuple(self.evaluate(each, scope) for each in node.bases)
        inner = RunScope(scope.file, scope, is_class=True)
        made: Any = Class(node, scope, bases, inner.variables)
        made.is_record = any(isinstance(each, Symbol) and each.name == "typing.NamedTuple" for each in bases)
        made.is_record |= any(isinstance(each, Class) and each.is_record for each in bases)
        self.run(node.body, inner)
        for each in inner.variables.values():
            function = each.function if isinstance(each, BoundCall) else each
            if isinstance(function, Function) and function.owner is None:
                function.owner = made
        if any(isinstance(each, Symbol) and each.name in _ENUMERATIONS for each in bases):
            for name, value in list(inner.variables.items()):
                if not isinstance(value, Function | BoundCall):
                    inner.variables[name] = Object(made, {"name": name, "value": value})
        hook = next((each.find("__init_subclass__") for each in bases if isinstance(each, Class)), None)
        if hook is not None:
            given = {each.arg: self.evaluate(each.value, scope) for each in node.keywords if each.arg}
            self.call(hook, [made], given, call_at(node))
        for each in reversed(node.decorator_list):
            made = self._decorated(made, each, scope)
        self.bind_name(scope, node.name, made)


_ENUMERATIONS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum")
