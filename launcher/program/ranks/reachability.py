"""What of a program its entry reaches, what surely runs, and what the turns of a loop come to.

A converter that imports a helper of the training has the training's functions in its files, and runs none
of them. `Reachability` looks at names, generously: a function is reached where its name is read, a class
with all its methods where its name is; what a decorator or a registry gets where those are read. What is
not reached surely never runs. `surely_runs` is the other side: what every process of a training comes by.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from launcher.program.bindings import branch_arms
from launcher.program.call_graph import is_launched
from launcher.program.dataflow import origins
from launcher.program.index import (
    COMPREHENSIONS,
    FileIndex,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    class_of,
    file_of,
    is_main_guard,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.calculated_names import beginnings_of_calculated_names
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.guards import Guards
from launcher.program.surroundings.trainer_hooks import training_calls
from launcher.program.values import (
    UNKNOWN,
    Defined,
    ModuleOf,
    alternatives,
    canonical_name,
    is_import_of,
    library_names,
    like,
)

_NameInFile = tuple["FileIndex | None", str]
"""A name, and the file in which it means something; None where that may be any."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_FINDING_BY_TEXT = ("globals", "__subclasses__", "import_module", "instantiate")
"""By which a program may come to definitions whose names it only calculates; so do `eval` and `sys.modules`,
unlike `model.eval()` and `model.modules()`."""

_REPEATING = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)

_TRAINER_LIBRARIES = tuple(f"{name}." for name in library_names("trainer_imports"))
"""How the names of libraries begin whose loops run the backward pass themselves."""

_TRAINER_METHODS = ("train", "fit", "train_batch")
"""What those loops are called: Trainer.train, Trainer.fit, engine.train_batch."""

_PASSIVE_DECORATORS = ("torch", "functools", "contextlib", "dataclasses", "typing", "abc")
"""Where decorators come from that call nothing by themselves."""


class Reachability:
    """What of a program its entry may come to."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self._found = set[ast.AST]()
        self._coming = _reached_definitions(program)
        self._calculated = beginnings_of_calculated_names(program)

    def reaches_definition(self, definition: ast.AST) -> bool:
        """Whether the entry may come to a definition, or reads a constant: looked for only until found."""
        while definition not in self._found:
            following = next(self._coming, None)
            if following is None:
                return False
            self._found.add(following)
        return True

    @cached_property
    def is_alone(self) -> bool:
        """Whether the program surely stays one process: its calls that would join it are never come to."""
        calls = [call for call, _ in joining_calls(self.program)]
        if not calls or any(file_of(call) is self.program.entry for call in calls):
            return False
        imported = (each.module or "" for file in self.program.files for each in file.imports)
        return not any(
            is_import_of(canonical_name(each), "joining_imports") for each in imported
        ) and not any(map(self.reaches, calls))

    def joins_others(self, calls: Iterable[ast.Call]) -> bool:
        """Whether the entry may come to one of the calls that make a process group."""
        return any(map(self.reaches, calls))

    def is_one_of_several(self, calls: Collection[ast.Call]) -> bool:
        """Whether the entry is meant to be one of several processes: it may come to one of the calls that
        make a process group, and makes it itself, or trains.

        What does neither is inference, a conversion or a look at data, and mostly one process, though it
        imports what can join others.
        """
        if not self.joins_others(calls):
            return False
        return any(file_of(call) is self.program.entry for call in calls) or self._trains

    @cached_property
    def _trains(self) -> bool:
        """Whether the entry may come to a backward pass, or hands its loop to a library that runs one."""
        files = self.program.files
        if any(self.reaches(call) for file in files for call in file.calls_of.get("backward", ())):
            return True
        return any(
            (self.program.qualified(call.func) or "").startswith(_TRAINER_LIBRARIES) and self.reaches(call)
            for file in files
            for name in _TRAINER_METHODS
            for call in file.calls_of.get(name, ())
        )

    def reaches(self, node: ast.AST) -> bool:
        """Whether the entry may come to a statement or expression."""
        if file_of(node) is self.program.entry:
            return True
        outer = [node, *ancestors(node)]
        if any(isinstance(each, ast.If) and is_main_guard(each.test) for each in outer):
            return False  # What a module does when it is started is not done when it is imported.
        definitions = [each for each in outer if isinstance(each, DEFINITIONS)]
        return not definitions or self.reaches_definition(definitions[-1])

    def is_named_nowhere(self, node: ast.AST) -> bool:
        """Whether a node stands in a class or function that the program never names, so that it never runs.

        Not where decorators, registries of subclasses or texts may lead to it. That the entry imports a name
        and does not use it names nothing.
        """
        if self.is_in_unused_method(node):
            return True
        definitions = [each for each in ancestors(node) if isinstance(each, DEFINITIONS)]
        outer = definitions[-1] if definitions else None
        if outer is None or self._is_found_by_text:
            return False
        if isinstance(outer, ast.FunctionDef) and is_launched(outer):
            return False
        if any(_may_call(self.program, each) for each in outer.decorator_list):
            return False
        if isinstance(outer, ast.ClassDef) and outer.keywords:
            return False
        is_named = any(
            outer.name in file.names
            or outer.name in file.attributes
            or any(
                file is not self.program.entry or each in file.names
                for each in file.imported_as.get(outer.name, ())
            )
            for file in self.program.files
        )
        return not is_named and outer.name not in self._words

    def is_in_unused_method(self, node: ast.AST) -> bool:
        """Whether a node stands in a method of a class of its own that nothing which is reached names."""
        return any(map(self._is_an_unused_method, ancestors(node)))

    def _is_an_unused_method(self, method: ast.AST) -> bool:
        owner = class_of(method)
        if not isinstance(method, ast.FunctionDef) or owner is None or method.decorator_list:
            return False
        if any(ast.unparse(each) != "object" for each in owner.bases):
            return False
        if method.name.startswith(("__", *self._calculated)) or self._is_found_by_text:
            return False
        is_named = any(
            method not in ancestors(each) and self.reaches(each)
            for file in self.program.files
            for each in file.attributes.get(method.name, ())
        )
        return not is_named and method.name not in self._words

    @cached_property
    def _is_found_by_text(self) -> bool:
        """Whether the program may come to definitions that it does not name."""
        value = self.program.value
        return bool(self.program.mentioning(*_FINDING_BY_TEXT)) or any(
            "eval" in file.names
            or any(last_name(each.value) == "sys" for each in file.attributes.get("modules", ()))
            or any(each.name == "__init_subclass__" for each in file.functions)
            or any(isinstance(value(each.args[0]), ModuleOf) for each in file.calls_of.get("getattr", ()))
            for file in self.program.files
        )

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of all texts of the program: to be asked last, as every node is looked at for them."""
        return frozenset(
            word
            for file in self.program.files
            for _, text in file.texts()
            for word in re.findall(r"\w+", text)
        )

    def reaches_line(self, path: str, line: int) -> bool:
        """Whether the entry may come to what stands in a line of one of the program's files."""
        file = next((each for each in self.program.files if str(each.path) == path), None)
        if file is None or file is self.program.entry:
            return True
        for part in file.tree.body:
            if part.lineno <= line <= (part.end_lineno or part.lineno):
                if isinstance(part, DEFINITIONS):
                    return self.reaches_definition(part)
                return not (isinstance(part, ast.If) and is_main_guard(part.test))
        return True


_MAKING_CONSTANTS = frozenset(
    {"NewType", "Path", "TypeVar", "compile", "dict", "frozenset", "getLogger", "get_logger", "list"}
    | {"namedtuple", "set", "tuple"}
)
"""The last names of what modules call to make their constants, which changes nothing else."""


def without_unused_files(program: Program) -> Program:
    """A program without the files of which it runs nothing but imports, definitions and constants.

    Of a package of hundreds of models a script mostly uses one. What is wrong in the others is no finding of
    this program; their modules can still be asked for by name.
    """
    reach = program.analysis(Reachability)
    files = tuple(each for each in program.files if each is program.entry or _is_used(reach, each))
    return program if len(files) == len(program.files) else replace(program, files=files)


def _is_used(reach: Reachability, file: FileIndex) -> bool:
    """Whether a definition of a file is come to, a constant read, or its import does more than to define."""
    return any(_does_something(part, reach) for part in _import_time_parts(file))


def _does_something(part: ast.AST, reach: Reachability) -> bool:
    match part:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return reach.reaches_definition(part)
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
            return False
        case ast.Assign(targets=targets, value=value) if all(isinstance(each, ast.Name) for each in targets):
            return _calls_something(value) or reach.reaches_definition(part)
        case ast.expr():
            return _calls_something(part)
    return True


def _calls_something(node: ast.AST) -> bool:
    calls = (each for each in walk(node) if isinstance(each, ast.Call))
    return any(last_name(each.func) not in _MAKING_CONSTANTS for each in calls)


def runs_once(program: Program, node: ast.AST, depth: int = 6) -> bool:
    """Whether a run of the program surely comes to a node once at most: no loop stands around it, nor around
    the calls of its function."""
    outer = list(ancestors_in_function(node))
    if depth == 0 or any(isinstance(each, _REPEATING) for each in outer):
        return False
    scope = scope_of(node).function
    if scope is None:
        return True
    function = scope.node
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or class_of(function):
        return False
    sites = program.evaluation.callers.call_sites(function)
    if sites is None or len(sites) != 1 or sites[0].arguments is None:  # A library may call it each time.
        return False
    return runs_once(program, sites[0].call, depth - 1)


def _reached_definitions(program: Program) -> Iterator[ast.AST]:
    """The functions and classes of modules that the entry may come to, the nearest first."""
    read: dict[_NameInFile, list[ast.AST]] = {}
    """What is come to where a name is read."""
    waiting = deque[_NameInFile]()
    renamed: dict[str, set[str]] = {}
    own = {name.partition(".")[0] for name in program.modules}
    readers = {file: _FileReads(file, own) for file in program.files}
    for file, reader in readers.items():
        for last, names in file.aliases.items():
            for name in names:
                renamed.setdefault(name, set()).add(last)
        if file is program.entry:
            waiting += reader.read_in(file.tree)
            continue
        for part in _import_time_parts(file):
            keys = _names_that_reach(program, part)
            if keys is None:
                waiting += reader.read_in(part)
                keys = [part.name] if isinstance(part, DEFINITIONS) else []
                waiting += [(file, key) for key in keys]
            for key in keys:
                read.setdefault((file, key), []).append(part)
                read.setdefault((None, key), []).append(part)
    found, seen = set[ast.AST](), set[_NameInFile]()
    while waiting:
        asked = waiting.popleft()
        if asked in seen:
            continue
        seen.add(asked)
        where, name = asked
        waiting += [(where, last) for last in renamed.get(name, ())]
        for part in read.get(asked, ()):
            if part not in found:
                found.add(part)
                yield part
                waiting += readers[file_of(part)].read_in(part)


def _names_that_reach(program: Program, part: ast.AST) -> list[str] | None:
    """The names by which a part of a module is come to; None where it runs, or may be called otherwise."""
    if isinstance(part, DEFINITIONS):
        kept = [each for each in part.decorator_list if _may_call(program, each)]
        holders = [_registry_name(each) for each in kept]
        return None if None in holders else [part.name, *(each for each in holders if each)]
    if isinstance(part, ast.Assign) and not any(isinstance(each, ast.Call) for each in walk(part.value)):
        return [name for target in part.targets for name in _names_in(target)]
    if isinstance(part, ast.Expr):
        holder = _registry_name(part.value)
        return None if holder is None else [holder]
    return None


def _registry_name(call: ast.expr) -> str | None:
    """`REGISTRY` of `REGISTRY.add(thing)`: the thing is come to where somebody else reads the registry."""
    called = call.func if isinstance(call, ast.Call) else call
    if not isinstance(called, ast.Attribute):
        return None
    return _first_name(called)


def _first_name(node: ast.expr) -> str | None:
    """`a` of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _import_time_parts(file: FileIndex) -> Iterator[ast.AST]:
    """The definitions, and all else that a module runs when it is imported: no main guard."""
    waiting: list[ast.AST] = list(file.tree.body)
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.If) and is_main_guard(part.test):
            continue
        if isinstance(part, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            waiting += children_of(part)
        elif not _lists_exports(part):
            yield part


def _lists_exports(part: ast.AST) -> bool:
    """Whether a statement gives `__all__` its names, which reads none of them."""
    targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets)


def _may_call(program: Program, decorator: ast.expr) -> bool:
    """Whether a decorator may keep what it gets, and call it by another way than its name."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (program.qualified(named) or "").partition(".")[0] not in _PASSIVE_DECORATORS


def _names_in(target: ast.AST) -> Iterator[str]:
    """The names and attributes in what is assigned to."""
    for each in walk(target):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


class _FileReads:
    """What the code of one file reads, by the file in which a name means something; None: in any."""

    def __init__(self, file: FileIndex, own: Collection[str]) -> None:
        """`own` are the topmost names of the program's modules."""
        self.file = file
        self._imported: dict[str, str] = {}
        """What the file imports of the program, and what it is called there."""
        self._foreign: set[str] = set()
        for binding in file.imports:
            module = binding.module or "."
            if module.startswith(".") or module.partition(".")[0] in own:
                self._imported[binding.name] = module.rpartition(".")[2]
            else:
                self._foreign.add(binding.name)
        self._foreign -= self._imported.keys()

    def read_in(self, node: ast.AST) -> set[_NameInFile]:
        """The names that are read in something, and what texts there name.

        What another library's module has is nobody's here: `init` of `torch.nn.init.normal_` is no function
        of that name. A bare name means what its own file defines or imports, or imports with a star.
        """
        names, elsewhere = set[str](), set[str]()
        for each in walk(node):
            if isinstance(each, ast.Name):
                names.add(each.id)
            elif isinstance(each, ast.Attribute):
                if each.attr not in elsewhere and _first_name(each) not in self._foreign:
                    elsewhere.add(each.attr)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value) < 200:
                elsewhere.add(each.value.rpartition(".")[2])
        names -= self._foreign
        elsewhere |= {self._imported[each] for each in names & self._imported.keys()}
        if self.file.stars:
            elsewhere |= names
        return {(self.file, each) for each in names} | {(None, each) for each in elsewhere}


# Whether a statement surely runs when a program trains on several processes.


_DEEPEST_CALL = 6
"""So many calls from the entry's own code; what is deeper is not sure."""

COMMAND_LINE_RUNNERS = frozenset(
    {"fire.Fire", "tyro.cli", "typer.run", "absl.app.run", "jsonargparse.CLI", "draccus.wrap"}
)
"""What calls the function that it is handed, with arguments of the command line."""

_AVAILABILITY_TESTS = frozenset(
    {"torch.cuda.is_available", "torch.distributed.is_available", "torch.distributed.is_nccl_available"}
)

Known = Callable[[ast.expr], bool | None]
"""What somebody who knows the run knows of a test; None where that is nothing."""


def knows_nothing(test: ast.expr) -> bool | None:
    """Of any run."""
    return None


def surely_runs(
    program: Program, node: ast.AST, deepest: int = _DEEPEST_CALL, known: Known = knows_nothing
) -> bool:
    """Whether every process of a training comes by here.

    Not what stands under a test that nobody can tell, behind a return under such a test, or in a function
    that is called from nowhere or from where nobody sees.
    """
    inner = node
    outer = parent_of(node)
    while outer is not None:
        if isinstance(outer, ast.If | ast.IfExp) and not _is_taken(program, outer, inner, known):
            return False
        if isinstance(outer, ast.ExceptHandler | ast.Lambda | ast.BoolOp):
            return False
        if isinstance(outer, ast.match_case) and not _is_matched(outer, known):
            return False
        if isinstance(inner, ast.stmt) and any(
            _may_leave(program, each, known) for each in statements_before(outer, inner)
        ):
            return False
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) and _is_in_body(outer, inner):
            return _is_called(program, outer, deepest, known)
        inner, outer = outer, parent_of(outer)
    return True


def never_runs(program: Program, node: ast.AST, known: Known, deepest: int = _DEEPEST_CALL) -> bool:
    """Whether no process comes by here: by a test around it, or around each call of its function."""
    inner, outer = node, parent_of(node)
    while outer is not None:
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            truth = _truth_in_training(program, outer.test, known)
            if truth is not None and truth is not _is_first(outer, inner):
                return True
        if isinstance(inner, ast.stmt) and any(
            isinstance(each, ast.If) and _surely_leaves(program, [each], known)
            for each in statements_before(outer, inner)
        ):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) and _is_in_body(outer, inner):
            sites = (program.evaluation.callers.call_sites(outer) if deepest else None) or ()
            return bool(sites) and all(never_runs(program, each.call, known, deepest - 1) for each in sites)
        inner, outer = outer, parent_of(outer)
    return False


def _surely_leaves(program: Program, block: list[ast.stmt], known: Known) -> bool:
    """Whether a block surely ends its function or its loop's round, by the arm that is taken of its tests."""
    for each in block:
        if _leaves(each):
            return True
        if isinstance(each, ast.If):
            truth = _truth_in_training(program, each.test, known)
            arms = [each.body, each.orelse] if truth is None else [each.body if truth else each.orelse]
            if all(arm and _surely_leaves(program, arm, known) for arm in arms):
                return True
    return False


def _is_matched(case: ast.match_case, known: Known) -> bool:
    """Whether a case is the one that is taken, as a comparison with what is matched."""
    match = parent_of(case)
    if not isinstance(match, ast.Match) or case.guard is not None:
        return False
    for each in match.cases:
        values = [one.value for one in walk(each.pattern) if isinstance(one, ast.MatchValue)]
        plain = isinstance(each.pattern, ast.MatchValue | ast.MatchOr) and bool(values)
        if each is case and isinstance(each.pattern, ast.MatchAs) and each.pattern.pattern is None:
            return True
        if not plain or each.guard is not None:
            return False
        tests = [like(one, ast.Compare(match.subject, [ast.Eq()], [one])) for one in values]
        truths = [known(test) for test in tests]
        if each is case:
            return True in truths
        if any(truth is not False for truth in truths):
            return False
    return False


def _is_first(branching: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    body = branching.body
    return any(each is inner for each in body) if isinstance(body, list) else body is inner


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return | ast.Continue | ast.Break)


def _is_in_body(function: ast.FunctionDef | ast.AsyncFunctionDef, inner: ast.AST) -> bool:
    """Not among its decorators and defaults, which run where it is defined."""
    return any(each is inner for each in function.body)


def _is_called(program: Program, function: FunctionNode, deepest: int, known: Known) -> bool:
    if deepest == 0:
        return False
    found = program.analysis(_CalledFunctions).found
    key = (function, deepest, known)
    if key not in found:
        found[key] = False  # Where it calls itself.
        found[key] = _is_called_anew(program, function, deepest, known)
    return found[key]


class _CalledFunctions:
    """Which functions of a program are surely called, within so many calls."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: dict[tuple[FunctionNode, int, Known], bool] = {}


def _is_called_anew(program: Program, function: FunctionNode, deepest: int, known: Known) -> bool:
    sites = program.evaluation.callers.call_sites(function)
    sure = [each.call for each in sites or () if not each.is_chosen]
    if any(surely_runs(program, call, deepest - 1, known) for call in sure):
        return True
    return any(_is_handed_to_a_caller(program, function, deepest, known)) or (
        not sites and _is_called_as_hook(program, function, deepest, known)
    )


def _is_called_as_hook(program: Program, function: FunctionNode, deepest: int, known: Known) -> bool:
    """Whether a method is surely called on objects that nobody can tell, of which one is made of its class.

    By its name, by `getattr(hook, name)` where that may be its name, or by the trainer of a library.
    """
    owner = class_of(function)
    if owner is None or isinstance(function, ast.Lambda) or function.name.startswith("__"):
        return False
    made = program.evaluation.callers.constructions(owner)
    calls = (*_hook_calls(program, function.name), *training_calls(program, owner, function.name))
    ways = (any(surely_runs(program, call, deepest - 1, known) for call in each) for each in (made, calls))
    return all(ways)


def _hook_calls(program: Program, name: str) -> Iterator[ast.Call]:
    for file in program.files:
        for call in file.calls_of.get(name, ()):
            if isinstance(call.func, ast.Attribute) and UNKNOWN in alternatives(program.value(call.func)):
                yield call
        for inner in file.calls_of.get("getattr", ()):
            outer = parent_of(inner)
            if isinstance(outer, ast.Call) and outer.func is inner and len(inner.args) > 1:
                names = origins(program, inner.args[1])
                if any(isinstance(each, ast.Constant) and each.value == name for each in names):
                    yield outer


def _is_handed_to_a_caller(
    program: Program, function: FunctionNode, deepest: int, known: Known
) -> Iterator[bool]:
    """Whether a function is given to what surely calls it: of a library, or `launch(main, gpus)`."""
    if isinstance(function, ast.Lambda):
        return
    for file in program.files:
        for use in file.names.get(function.name, ()):
            call = parent_of(use)
            if isinstance(call, ast.Call) and call.func is not use:
                launcher = getattr(program.value(call.func), "node", None)
                yield program.qualified(call.func) in COMMAND_LINE_RUNNERS or (
                    isinstance(launcher, ast.FunctionDef)
                    and use in call.args
                    and _is_called_by(launcher, call.args.index(use))
                    and surely_runs(program, call, deepest - 1, known)
                )


def _is_called_by(launcher: ast.FunctionDef, place: int) -> bool:
    """Whether a function calls its parameter on every way: itself, or by processes that it hands it to."""
    if place >= len(launcher.args.args):
        return False
    name = launcher.args.args[place].arg
    for statement in launcher.body:
        arms = [statement.body, statement.orelse] if isinstance(statement, ast.If) else [[statement]]
        named = [
            any(isinstance(node, ast.Name) and node.id == name for each in arm for node in walk(each))
            for arm in arms
        ]
        called = any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
            for node in walk(statement)
        )
        if called and all(named):
            return True
    return False


def _is_taken(program: Program, branching: ast.If | ast.IfExp, inner: ast.AST, known: Known) -> bool:
    if inner is branching.test:
        return True
    truth = _truth_in_training(program, branching.test, known)
    return truth is not None and _is_first(branching, inner) is truth


def _truth_in_training(program: Program, test: ast.expr, known: Known) -> bool | None:
    """What a test is in a training on several GPUs; None where nobody can tell, or ranks differ."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        truth = _truth_in_training(program, test.operand, known)
        return None if truth is None else not truth
    if isinstance(test, ast.BoolOp):
        truths = [_truth_in_training(program, each, known) for each in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive
    if is_main_guard(test):
        return file_of(test) is program.entry
    truth = known(test)
    if truth is not None:
        return truth
    name = _name_asked(program, test)
    if name in _AVAILABILITY_TESTS:
        return True
    if name == "torch.distributed.is_initialized":
        return False  # Before the group is made, of which the rules on a start speak.
    found = program.analysis(Guards).truth(test)
    return found if isinstance(found, bool) else None


def _name_asked(program: Program, test: ast.expr, depth: int = 3) -> str | None:
    """The name of a library's that a test calls, itself or by a function that does nothing else."""
    called = program.value(test.func) if isinstance(test, ast.Call) else None
    node = called.node if isinstance(called, Defined) else None
    if isinstance(node, ast.FunctionDef) and depth:
        body = [each for each in node.body if not isinstance(getattr(each, "value", None), ast.Constant)]
        only = body[0] if len(body) == 1 else None
        inner = only.value if isinstance(only, ast.Return) else None
        return None if inner is None else _name_asked(program, inner, depth - 1)
    return program.qualified(test.func) if isinstance(test, ast.Call) else None


def statements_before(outer: ast.AST, inner: ast.stmt) -> list[ast.stmt]:
    """The statements beside one that come before it."""
    for _, block in ast.iter_fields(outer):
        if isinstance(block, list) and any(each is inner for each in block):
            return block[: next(number for number, each in enumerate(block) if each is inner)]
    return []


def _may_leave(program: Program, statement: ast.stmt, known: Known) -> bool:
    """Whether a statement may end the function, without an error, under a test that nobody can tell."""
    if not isinstance(statement, ast.If):
        return False
    truth = _truth_in_training(program, statement.test, known)
    return (truth is not False and _leaves_block(program, statement.body)) or (
        truth is not True and _leaves_block(program, statement.orelse)
    )


def _leaves_block(program: Program, block: list[ast.stmt]) -> bool:
    """Not by the end of the process: then there is no training."""
    for statement in block:
        if _leaves(statement):
            return True
        if isinstance(statement, ast.If) and (
            _leaves_block(program, statement.body) or _leaves_block(program, statement.orelse)
        ):
            return True
    return False


def runs_wherever(program: Program, node: ast.AST, call: ast.Call, deepest: int = 3) -> bool:
    """Whether a statement runs wherever a call does, or every call of its function: in the same function,
    under no other tests. Not in a function that nothing in the program calls."""
    function = scope_of(call).function
    called = function.node if function is not None and isinstance(function.node, FunctionNode) else None
    sites = None if called is None else program.evaluation.callers.call_sites(called)
    if sites == []:
        return False
    if scope_of(node).function is function:
        return file_of(node) is file_of(call) and branch_arms(node) <= branch_arms(call)
    calls = [each.call for each in sites or ()] if deepest else []
    return bool(calls) and all(runs_wherever(program, node, each, deepest - 1) for each in calls)
