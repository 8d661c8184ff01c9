"""Which calls are collectives or lead to one, which ranks their group has, and whether they communicate.

A collective is run by every rank of its group, or the ranks that run it wait. Point-to-point calls (send,
recv, isend, irecv) are none and do not stand here, nor is anything that waits for no other rank. Which
calls of a library are collectives, and where their group stands among the arguments, is in `libraries/`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from launcher.frozen import frozen
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    has_star_arguments,
    origins,
)
from launcher.program.index import (
    EXIT_NAMES,
    BindingKind,
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    is_property,
    last_name,
    parent_of,
    scope_of,
    statement_of,
    with_enclosing_statements,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.calculated_names import CallsByName, calls_by_getattr
from launcher.program.objects.handed_back import is_context_manager, is_run_in_thread
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.ranks.metrics import METRIC_CALLS, reduces_metrics
from launcher.program.ranks.sharded_models import Gathering, ShardedModels
from launcher.program.ranks.truths import Guard
from launcher.program.surroundings.sharding import Sharding
from launcher.program.values import (
    LIBRARY_TABLES,
    UNKNOWN,
    Constant,
    Defined,
    Dictionary,
    Environment,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Several,
    Value,
    alternatives,
    canonical_name,
)

_METHODS_OF_DATA = (
    frozenset({"item", "tolist", "numpy", "detach", "cpu", "clone", "float", "numel", "size", "mean", "sum"})
    | {"debug", "info", "warning", "error", "exception", "add_scalar", "set_postfix", "set_description"}
    | {
        "format",
        "strip",
        "split",
        "startswith",
        "endswith",
        "items",
        "keys",
        "values",
        "append",
        "max",
        "min",
    }
)
"""Methods of tensors, of loggers and of texts and tables, none of which waits for other ranks."""

_METHODS_OF_MANY = frozenset(
    {"add", "close", "eval", "fit", "forward", "get", "join", "load", "log", "put", "run", "save", "setup"}
    | {"step", "stop", "sync", "train", "update", "wait", "write", "reduce", "gather", "broadcast", "barrier"}
)
"""Methods that objects of many libraries have, too, so that the name does not say whose one is."""

_ASSIGNMENTS_TO_MODEL = 3
"""So many assignments lead at most from a loss to the model: `out = model(x)`, `loss = f(out)`."""

Ranks = frozenset[int] | None
"""The members of a group: None for all ranks."""


@frozen
class CollectiveRun:
    """A collective that a call runs: `node` is the call here, `origin` that of the collective itself.

    `known_group` is False where nobody can say which ranks take part; else `ranks` are they. `is_sure` says
    that a rank that comes to the call runs the collective, whatever the function that is called asks for.
    """

    collective: Collective
    node: ast.Call
    origin: ast.Call
    ranks: Ranks = None
    known_group: bool = True
    is_sure: bool = True

    @property
    def short_name(self) -> str:
        """The collective's short name, by which two are compared."""
        return self.collective.short_name

    def called_by(self, call: ast.Call, *, is_sure: bool) -> CollectiveRun:
        """The same collective as run by a call of the function in which it stands."""
        # Quicker than `replace`: of long chains of calls there are many.
        return CollectiveRun(self.collective, call, self.origin, self.ranks, self.known_group, is_sure)

    def perhaps(self) -> CollectiveRun:
        """The same collective as one that only may run."""
        return replace(self, is_sure=False)

    def concerns(self, guard: Guard) -> bool:
        """Whether ranks would wait in vain if only those of the guard ran it."""
        if not self.known_group:
            return False
        if (
            self.collective.name.startswith("smdistributed.modelparallel")
            and guard.kind is RankKind.COORDINATE
        ):
            return False  # `rdp_rank() == 0` is what its documentation asks for.
        return self.ranks is None or not guard.allows(self.ranks)


class CollectiveCalls:
    """The calls of one program that may lead to a collective."""

    def __init__(self, program: Program) -> None:
        """Only what gathers the shards of a model is looked for at once."""
        self.program = program
        self._gathering = ShardedModels(program).gathering

    @cached_property
    def paths(self) -> CollectivePaths:
        """The calls that are worth following."""
        return CollectivePaths(self.program, self._makes_ranks_wait, self._gathering)

    def matters(self, function: FunctionNode | ast.Module) -> bool:
        """Whether a function may lead to a collective."""
        return function in self.paths.functions

    def calls_of(self, statement: ast.stmt) -> Sequence[ast.Call]:
        """The calls of a statement that may lead to a collective, as they run: without its inner blocks."""
        return self.paths.calls_in(statement)

    def matters_here(self, statement: ast.stmt) -> bool:
        """Whether a statement may lead to a collective, or leave a loop, its function or the run."""
        return self.paths.contains(statement) or statement in file_of(statement).leaving_statements

    def _makes_ranks_wait(self, call: ast.Call) -> bool:
        return may_be_collective(self.program, call) or self.collective(call) is not None

    def collective(self, call: ast.Call, environment: Environment | None = None) -> CollectiveRun | None:
        """The collective that a call is, if it is one."""
        if call in self._gathering:
            return CollectiveRun(_OF_SHARDED_MODELS[self._gathering[call]], call, call)
        value = self.program.evaluation.value(call.func, environment)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and _may_be_tensors(value):
            return CollectiveRun(BACKWARD, call, call) if self._reduces(call.func.value, 0) else None
        named = last_name(call.func) if isinstance(call.func, ast.Attribute) else None
        name = value.name if isinstance(value, External) else None
        collective = COLLECTIVES.get(
            name or (_OF_ONE_LIBRARY.get(named, "") if value is Nothing.UNKNOWN else "")
        )
        if name is not None and reduces_metrics(self.program, call, name):
            collective = Collective(name, name.rpartition(".")[2])
        if collective is None or not communicates(self.program, call, collective):
            return None
        known, ranks = self._group(call, collective, environment)
        return CollectiveRun(collective, call, call, ranks, known)

    def _reduces(self, loss: ast.expr, depth: int) -> bool:
        """Whether a loss comes from a call of a model whose gradients the ranks reduce together."""
        if depth > _ASSIGNMENTS_TO_MODEL or _is_under_no_sync(loss):
            return False
        for node in walk(loss):
            if isinstance(node, ast.Call):
                made = self.program.value(node.func)
                if isinstance(made, Instance) and made.name in LIBRARY_TABLES["gradient_reducers"]:
                    return True
                returned = (
                    file_of(made.node).returns_of.get(made.node, ()) if isinstance(made, Defined) else ()
                )
                values = [each.value for each in returned]
                if values and all(each is not None and self._reduces(each, depth + 1) for each in values):
                    return True
            elif isinstance(node, ast.Name) and getattr(parent_of(node), "func", None) is not node:
                bindings = self.program.evaluation.sources(node)
                values = [each.value for each in bindings if each.kind is BindingKind.ASSIGNED]
                if values and all(each is not None and self._reduces(each, depth + 1) for each in values):
                    return True
        return False

    def called_functions(
        self, call: ast.Call, environment: Environment | None
    ) -> tuple[list[tuple[FunctionNode, Environment | None]], bool]:
        """The functions of the program that a call may run, and what their parameters are; whether it surely
        runs all of them, as in a loop over hooks that are written out."""
        if (method := self.paths.methods.get(call)) is not None:
            return [(method, None)], True
        values = alternatives(self.program.evaluation.value(call.func, environment))
        if is_run_in_thread(values[0]):
            named = [each.value for each in call.keywords if each.arg == "target"] or call.args[:1]
            values = alternatives(self.program.value(named[0])) if named else values
        defined = [each for each in values if isinstance(each, Defined)]
        if not defined and values == (UNKNOWN,) and self.paths.contains(statement_of(call)):
            by_name = self._methods_of_name(call)
            return [(each, None) for each in by_name], bool(by_name)
        found = [each for each in (self._called(value, call, environment) for value in defined) if each]
        return found, len(values) == 1 or self._belongs_to_loop(call.func)

    def _methods_of_name(self, call: ast.Call) -> list[ast.FunctionDef]:
        """The methods that a call of an object runs of which nobody knows the class: those of its name, where
        the program has no other and all of them may wait for other ranks."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if not name or name in _METHODS_OF_MANY or name in _METHODS_OF_DATA:
            return []
        found = [each for file in self.program.files for each in file.functions if each.name == name]
        held = [each for each in found if isinstance(each, ast.FunctionDef) and class_of(each) is not None]
        return held if len(held) == len(found) and all(map(self.matters, held)) else []

    def _belongs_to_loop(self, method: ast.expr) -> bool:
        """Whether a method is one of a loop's variable: `hook.close`, `getattr(hook, name)` by a name."""
        made = origins(self.program, method) if isinstance(method, ast.Name) else ()
        method = made[0] if len(made) == 1 and isinstance(made[0], ast.Call) else method
        if isinstance(method, ast.Call) and last_name(method.func) == "getattr" and method.args:
            owner = method.args[0]
        else:
            owner = method.value if isinstance(method, ast.Attribute) else method
        sources = self.program.evaluation.sources(owner)
        return bool(sources) and all(each.kind is BindingKind.LOOPED for each in sources)

    def asks_for_method(self, test: ast.expr) -> bool | None:
        """What a test whether an object in a loop has a method is where one is called: True, or False of
        `not hasattr(hook, name)`; None for all other tests."""
        holds = True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, False
        if isinstance(test, ast.Compare) and ast.unparse(test.comparators[0]) == "None":
            holds = isinstance(test.ops[0], ast.IsNot) is holds
            test = test.left
        test = test.target if isinstance(test, ast.NamedExpr) else test
        if isinstance(test, ast.Call) and last_name(test.func) == "callable" and test.args:
            test = test.args[0]
        made = origins(self.program, test) if isinstance(test, ast.Name) else (test,)
        read = made[0] if len(made) == 1 and isinstance(made[0], ast.Call) else None
        known = read is not None and last_name(read.func) in ("getattr", "hasattr") and bool(read.args)
        return holds if read and known and self._belongs_to_loop(read.args[0]) else None

    def _called(
        self, value: Defined, call: ast.Call, environment: Environment | None
    ) -> tuple[FunctionNode, Environment | None] | None:
        """The function that runs where this is called, and what its parameters are."""
        evaluation = self.program.evaluation
        node = value.node
        if isinstance(node, ast.ClassDef):
            made = next(
                (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"),
                None,
            )
            return None if made is None else (made, None)
        runs_elsewhere = node in file_of(node).yields_of and not is_context_manager(node)
        awaited = isinstance(parent_of(call), ast.Await) or _is_given_to(call, _RUNNING)
        elsewhere = not awaited if isinstance(node, ast.AsyncFunctionDef) else runs_elsewhere
        if elsewhere and not _is_consumed(call):
            return None  # Its body runs elsewhere.
        inside = evaluation.calls.environment_of(value, call, environment) or {}
        known = {
            each: given
            for each, given in inside.items()
            if isinstance(given, Constant | RankValue | Defined | External)
        }
        return node, evaluation.one_environment(known) if known else None

    def calls_the_unknown(self, nodes: Sequence[ast.AST], environment: Environment | None) -> bool:
        """Whether these statements or expressions call what nobody can resolve, which so may run anything."""
        pending: list[ast.AST] = list(nodes)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Call):
                value = self.program.evaluation.value(node.func, environment)
                unknown = any(isinstance(each, Nothing) for each in alternatives(value))
                if unknown and not self._is_method_of_data(node, environment):
                    return True
                made = not isinstance(value, Defined) or isinstance(value.node, ast.ClassDef)
                if made and self._hands_over(node, environment):
                    return True
            if isinstance(node, FunctionNode) and self._is_registered(node):
                return True
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                pending.extend(children_of(node))
        return False

    def _is_method_of_data(self, call: ast.Call, environment: Environment | None) -> bool:
        """Whether a method of Python's own is called: `"{}".format(x)`, `rows.clear()` of a written list.

        Or one that tensors and loggers have, and nothing in the program: `loss.item()`, whatever made it.
        """
        if not isinstance(call.func, ast.Attribute):
            return False
        name, owner = call.func.attr, call.func.value
        if name in _METHODS_OF_DATA and name not in self._own_names:
            return True
        kinds = {Several: list, Dictionary: dict, Constant: str}
        whole = alternatives(self.program.evaluation.value(owner, environment))
        plain = all(hasattr(kinds.get(type(each)), name) for each in whole)
        return plain or isinstance(owner, ast.Constant | ast.JoinedStr)

    @cached_property
    def _own_names(self) -> frozenset[str]:
        """The names of the functions and methods of the program."""
        functions = (each for file in self.program.files for each in file.functions)
        return frozenset(each.name for each in functions if not isinstance(each, ast.Lambda))

    def _hands_over(self, call: ast.Call, environment: Environment | None) -> bool:
        """Whether a library or an object is given what leads to a collective, and may call it at any time.

        A function, also within a list or `partial`, a lambda, or a class or object with such a method.
        """
        parts = [part for given in all_arguments(call) for part in _callables_named_in(given)]
        for part in parts:
            value = self.program.evaluation.value(part, environment)
            for each in alternatives(value):
                definition = each.definition if isinstance(each, Made) else getattr(each, "node", None)
                if isinstance(each, Defined | Made) and any(map(self.matters, _functions_of(definition))):
                    return True
        return False

    def _is_registered(self, function: FunctionNode) -> bool:
        """Whether a decorator hands a function that leads to a collective to something: `@app.post("/")`."""
        return (
            not isinstance(function, ast.Lambda) and bool(function.decorator_list) and self.matters(function)
        )

    def exits(self, call: ast.Call) -> bool | None:
        """Whether a call ends the process: True with an error, False without, None where it does not."""
        if last_name(call.func) not in EXIT_NAMES:
            return None
        value = self.program.evaluation.value(call.func)
        name = value.name if isinstance(value, External) else None
        if name == "os.abort":
            return True
        if name not in ("sys.exit", "exit", "quit", "os._exit"):
            return None
        status = self.program.evaluation.value(call.args[0]) if call.args else Constant(None)
        return status not in (Constant(None), Constant(0))

    def _group(
        self, call: ast.Call, collective: Collective, environment: Environment | None
    ) -> tuple[bool, Ranks]:
        """Whether the group of a call is known, and its members."""
        if has_star_arguments(call):
            return False, None
        given = next((each.value for each in call.keywords if each.arg in GROUP_KEYWORDS), None)
        if given is None and collective.group is not None and len(call.args) > collective.group:
            given = call.args[collective.group]
        if given is None:
            return True, None
        value = self.program.evaluation.value(given, environment)
        if value == Constant(None) or (
            isinstance(value, External) and value.name in LIBRARY_TABLES["world_groups"]
        ):
            return True, None
        if isinstance(value, Instance) and value.name in LIBRARY_TABLES["group_makers"]:
            return self._members(value.call)
        return False, None

    def _members(self, call: ast.Call) -> tuple[bool, Ranks]:
        """The ranks for which a group is made."""
        given = next((each.value for each in call.keywords if each.arg == "ranks"), None)
        given = call.args[0] if given is None and call.args else given
        if given is None:
            return True, None
        value = self.program.evaluation.value(given)
        if not isinstance(value, Several):
            return False, None
        numbers = [self.program.evaluation.value(each) for each in value.node.elts]
        ranks = [each.value for each in numbers if isinstance(each, Constant) and isinstance(each.value, int)]
        return (True, frozenset(ranks)) if len(ranks) == len(numbers) else (False, None)


def _may_be_tensors(method: Value) -> bool:
    """Whether a method may be one of a tensor: of what nobody knows, or of what a function of torch gives."""
    return method is Nothing.UNKNOWN or (isinstance(method, External) and method.name.startswith("torch."))


def _callables_named_in(given: ast.expr) -> list[ast.expr]:
    """The names, attributes and lambdas in what a call is given; of `self.path` not `self`."""
    kinds = ast.Name | ast.Attribute | ast.Lambda
    found = (each for each in walk(given) if isinstance(each, kinds))
    return [each for each in found if not isinstance(parent_of(each), ast.Attribute)]


def _functions_of(definition: ast.AST | None) -> list[FunctionNode]:
    """A function itself, or the methods of a class."""
    parts = definition.body if isinstance(definition, ast.ClassDef) else [definition]
    return [each for each in parts if isinstance(each, FunctionNode)]


def _is_under_no_sync(node: ast.AST) -> bool:
    """Whether a place stands under `no_sync()`, where gradients stay on their rank."""
    return any(
        "no_sync" in ast.unparse(item.context_expr)
        for outer in ancestors(node)
        if isinstance(outer, ast.With)
        for item in outer.items
    )


# Which calls of a program may lead to a collective, so that all others need not be followed.
#
# Two steps, both wide rather than narrow. A call is a collective by what it is, wherever it is called from.
# A call leads to one by its name alone, if a function of the program that is called by this name has a call
# of either kind. Most functions of a program are of neither.


class CollectivePaths:
    """The calls of one program that may lead to a collective, and the functions and modules they stand in.

    `methods` are those that run without their name: by the call of an object, or by the read of a property,
    for which a call stands here.
    """

    def __init__(
        self, program: Program, makes_ranks_wait: Callable[[ast.Call], bool], gathering: Iterable[ast.Call]
    ) -> None:
        """Look for them; `makes_ranks_wait` says of a call with a collective's name whether it is one, and
        `gathering` are those that put the shards of a model together."""
        self.program = program
        self.calls: set[ast.Call] = set()
        self.methods: dict[ast.Call, FunctionNode] = {}
        self.functions: set[ast.AST] = set()
        self._named: set[str] = set()
        imported = (each.module for file in program.files for each in file.imports if each.module)
        lasts = collective_last_names(imported)
        pending = [call for call in self._called(lasts) if makes_ranks_wait(call)]
        pending += gathering
        pending += [each for last in sorted(lasts) for each in self._handed_on(last)]
        while pending:
            call = pending.pop()
            if call not in self.calls:
                self.calls.add(call)
                pending += self._callers(call)
        self._of: dict[ast.stmt, list[ast.Call]] = {}
        for call in self.calls:
            if isinstance(scope_of(call).node, ast.Lambda):
                self.functions.add(scope_of(call).node)
            else:
                self._of.setdefault(statement_of(call), []).append(call)
                scope = scope_of(call).function
                self.functions.add(file_of(call).tree if scope is None else scope.node)
        for calls in self._of.values():
            calls.sort(key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
        self._holding = with_enclosing_statements(self._of)

    def calls_in(self, statement: ast.stmt) -> Sequence[ast.Call]:
        """Those of a statement, as they run: without its inner blocks."""
        return self._of.get(statement, ())

    def contains(self, statement: ast.stmt) -> bool:
        """Whether such a call stands in a statement or in its inner blocks."""
        return statement in self._holding

    def _called(self, lasts: set[str]) -> Iterator[ast.Call]:
        """The calls of what has one of these last names, or another name for that."""
        for last in sorted(self.program.known_as(lasts)):
            for file in self.program.mentioning(last):
                yield from file.calls_of.get(last, ())

    def _callers(self, call: ast.Call) -> Iterator[ast.Call]:
        """The calls of the function in which a call stands, by its name or by one that `getattr` is given."""
        scope = scope_of(call).node
        if isinstance(scope, ast.Lambda):
            yield from self._taking(scope)
        function = scope_of(call).function
        if function is not None and isinstance(function.node, FunctionNode):
            yield from self._unnamed_calls(function.node)
            yield from self.program.evaluation.callers.calls_as_kept(function.node)
            if is_property(function.node):
                return  # What it gives has its name, and not itself.
        name = _enclosing_function_name(call)
        if name is not None and name not in self._named:
            self._named.add(name)
            yield from self._called({name})
            yield from self._handed_on(name)
            yield from (each for read in self._calls_by_getattr if read.may_be(name) for each in read.calls)

    @cached_property
    def _calls_by_getattr(self) -> list[CallsByName]:
        return calls_by_getattr(self.program, self.program.evaluation.callers.names_asked_for)

    def _unnamed_calls(self, method: FunctionNode) -> Iterator[ast.Call]:
        """The calls of objects whose `__call__` or forward pass a method is, and the reads of a property."""
        if method in self.methods.values():
            return
        # Also of what nobody knows: no other attribute is likely to have the name of what waits for ranks.
        reads = self.program.evaluation.callers.possible_sites(method) if is_property(method) else ()
        found = [each.call for each in reads]
        if getattr(method, "name", "") in _CALLED_ON_OBJECTS:
            found += self._calls_of_objects.get(method, ())
        self.methods |= dict.fromkeys(found, method)
        yield from found

    def _runs_when_called(self, definition: ast.ClassDef) -> ast.AST | None:
        """The method that a call of an object of a class runs: of a module of torch, its forward pass."""
        bindings_of = self.program.evaluation.attributes.bindings_in_class
        is_module = any(self.program.qualified(each) == "torch.nn.Module" for each in definition.bases)
        for name in _CALLED_ON_OBJECTS if is_module else _CALLED_ON_OBJECTS[:1]:
            if found := bindings_of(definition, name):
                return found[0].node if len(found) == 1 else None
        return None

    @cached_property
    def _calls_of_objects(self) -> Mapping[ast.AST | None, list[ast.Call]]:
        """Where objects of the program's classes are called, by the method that then runs."""
        of_classes: dict[ast.ClassDef, list[ast.Call]] = {}
        for call in self.program.evaluation.callers.calls_of_what_is_kept:
            named = isinstance(call.func, ast.Name | ast.Attribute)
            made = self.program.value(call.func) if named else None
            if isinstance(made, Made):
                of_classes.setdefault(made.definition, []).append(call)
        found: dict[ast.AST | None, list[ast.Call]] = {}
        for definition, calls in of_classes.items():
            found.setdefault(self._runs_when_called(definition), []).extend(calls)
        return found

    def _handed_on(self, name: str) -> Iterator[ast.Call]:
        """The calls that hand on what has this name, and those of the parameter that gets it."""
        for known in sorted(self.program.known_as({name})):
            for file in self.program.mentioning(known):
                names = filter(self._may_be_function, file.names.get(known, ()))
                for use in (*names, *file.attributes.get(known, ())):
                    yield from self._taking(use)

    def _may_be_function(self, use: ast.Name) -> bool:
        """Whether a name may be that of a function, and not of a variable such as `step`."""
        holder = scope_of(use).holder_of(use.id)
        if holder is None or any(each.kind in _OF_DEFINITIONS for each in holder.bindings[use.id]):
            return True
        return any(isinstance(each, Defined) for each in alternatives(self.program.value(use)))

    def _taking(self, use: ast.expr) -> Iterator[ast.Call]:
        call = parent_of(use)
        call = parent_of(call) if isinstance(call, ast.keyword) else call
        if not isinstance(call, ast.Call) or call.func is use:
            return
        called = self.program.value(call.func)
        if is_run_in_thread(called):
            yield call
        if not isinstance(called, Defined) or isinstance(called.node, ast.ClassDef):
            return
        yield call
        given = bind_arguments(called.node, call, called.owner is not None) or {}
        for parameter in (each for each, value in given.items() if value is use):
            calls = file_of(called.node).calls_of.get(parameter, ())
            yield from (each for each in calls if called.node in ancestors(each))


def may_be_collective(program: Program, call: ast.Call) -> bool:
    """Whether what is called is a collective, or one among others."""
    called = alternatives(program.value(call.func))
    return any(isinstance(each, External) and each.name in COLLECTIVES for each in called)


_OF_DEFINITIONS = (BindingKind.DEFINED, BindingKind.IMPORTED)
_CALLED_ON_OBJECTS = ("__call__", "forward")
_CONSUMERS = frozenset({"list", "tuple", "set", "dict", "sum", "min", "max", "sorted"})


_RUNNING = frozenset({"run", "run_until_complete", "create_task", "gather"})
"""What runs the function of asyncio that it is given."""


def _is_consumed(generator: ast.Call) -> bool:
    """Whether all that a generator yields is taken where it is called."""
    around = parent_of(generator)
    taken = isinstance(around, ast.For) and around.iter is generator
    return taken or isinstance(around, ast.YieldFrom) or _is_given_to(generator, _CONSUMERS)


def _is_given_to(call: ast.Call, names: Collection[str]) -> bool:
    """Whether what a call gives is the first argument of something with one of these last names."""
    around = parent_of(call)
    return isinstance(around, ast.Call) and last_name(around.func) in names and around.args[:1] == [call]


def _enclosing_function_name(call: ast.Call) -> str | None:
    """The name by which the function in which a call stands is called."""
    scope = scope_of(call).function
    if scope is None or isinstance(scope.node, ast.Lambda):
        return None
    function = scope.node
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    holder = scope.parent.node if scope.parent is not None else None
    if function.name == "__init__" and isinstance(holder, ast.ClassDef):
        return holder.name
    return function.name


# Whether a call of a collective communicates at all, by its arguments and by the model that it is for.


_STATE_DICT_OPTIONS = "torch.distributed.checkpoint.state_dict.StateDictOptions"


def communicates(program: Program, call: ast.Call, collective: Collective) -> bool:
    """Whether a call surely needs the others: nothing tells it to do without them (`no_dist=True`)."""
    given = {each.arg: program.value(each.value) for each in call.keywords if each.arg}
    if collective.asked_by is not None and given.get(collective.asked_by) != Constant(True):
        return False
    if collective.of_shards and not program.analysis(Sharding).shards(collective.name):
        return False
    if collective.name.startswith("torch.distributed.checkpoint.state_dict.") and not _gathers_shards(
        program, call
    ):
        return False
    return all(
        given.get(name, Constant(needs)) == Constant(needs) for name, needs in COMMUNICATES_BY_DEFAULT.items()
    )


def _gathers_shards(program: Program, call: ast.Call) -> bool:
    """Whether get_model_state_dict and its like collect shards.

    Of FSDP 1 they always do; of FSDP 2 where the full state is asked for; of a replicated model never.
    Source: torch/distributed/checkpoint/state_dict.py of torch 2.13.
    """
    if any(program.calls("torch.distributed.fsdp.FullyShardedDataParallel")):
        return True
    options = argument_of(call, "options")
    value = None if options is None else program.value(options)
    if not isinstance(value, Instance) or value.name != _STATE_DICT_OPTIONS:
        return False
    full = argument_of(value.call, "full_state_dict", 0)
    return (
        full is not None
        and program.value(full) == Constant(True)
        and any(program.calls("torch.distributed.fsdp.fully_shard"))
    )


GROUP_KEYWORDS = frozenset(
    {
        "group",
        "process_group",
        "pg",
        "parent_pg",
        "groups",
        "replicas",
        "ordinals",
        "process_set",
        "device_mesh",
        "mesh",
        "sync_dist_group",
    }
)
"""The keywords by which a collective is given its group."""

COMMUNICATES_BY_DEFAULT = {
    "no_dist": False,
    "use_collectives": True,
    "use_local_synchronization": False,
    "init_sync": True,
    "rank_zero_only": False,
}
"""Keywords with which a call may do without the others: what it communicates with, also by default.

DCP's no_dist and use_collectives; new_group's use_local_synchronization, with which the members alone call
it; DDP's init_sync; rank_zero_only of Lightning's log.
"""


@frozen
class Collective:
    """A call that every rank of a group must make.

    `short_name` is its last name. `group` is the position of the group among its arguments, None where it is
    given by keyword only. `gathers_state` says that it collects or writes a checkpoint, `of_shards` that it
    waits for nobody where the parameters are not sharded. `asked_by` is the keyword that must be True for it
    to communicate at all.
    """

    name: str
    short_name: str
    group: int | None = None
    gathers_state: bool = False
    asked_by: str | None = None
    of_shards: bool = False


COLLECTIVES: dict[str, Collective] = (
    {
        name: Collective(name, name.rpartition(".")[2], group, gathers_state=key == "checkpoints")
        for key in ("collectives", "checkpoints")
        for name, group in LIBRARY_TABLES[key].items()
    }
    | {
        name: Collective(name, name.rpartition(".")[2], gathers_state=True, of_shards=True)
        for name in LIBRARY_TABLES["collects_shards"]
    }
    | {
        name: Collective(name, name.rpartition(".")[2], asked_by=keyword)
        for name, keyword in LIBRARY_TABLES["on_request"].items()
    }
)
"""All of them, by their one dotted name.

Not there, as it does not communicate where the tensor is replicated: DTensor's full_tensor, of which
`ShardedModels` knows where it does.
"""

_OF_ONE_LIBRARY: Mapping[str | None, str] = {
    "consolidate_state_dict": "torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict",
    "wait_for_everyone": "accelerate.Accelerator.wait_for_everyone",
    "gather_for_metrics": "accelerate.Accelerator.gather_for_metrics",
}
"""Methods that no other library's objects have: whose is known where nobody knows the object."""

BACKWARD = Collective("torch.Tensor.backward", "backward")
"""The backward pass of a loss that comes from a model whose gradients all ranks reduce."""


def collective_last_names(modules: Iterable[str]) -> set[str]:
    """The last names by which a call may be a collective, in a program that imports these modules."""
    libraries = {canonical_name(each).partition(".")[0] for each in modules}
    if "torch" in libraries:
        libraries.add("smdistributed")  # torch.sagemaker is its later name.
    return {name for library, names in _LAST_NAMES.items() if library in libraries for name in names}


_LAST_NAMES: dict[str, set[str]] = {}
for _collective_name in (*COLLECTIVES, BACKWARD.name, *METRIC_CALLS):
    _LAST_NAMES.setdefault(_collective_name.partition(".")[0], set()).add(_collective_name.rpartition(".")[2])


SHARDED_FORWARD = Collective("torch.distributed.fsdp.FullyShardedDataParallel.forward", "forward")
"""The forward pass of a sharded model."""

_OF_SHARDED_MODELS = {
    Gathering.FORWARD: SHARDED_FORWARD,
    Gathering.PARAMETERS: Collective("deepspeed.zero.GatheredParameters", "GatheredParameters"),
    Gathering.TENSOR: Collective("torch.distributed.tensor.DTensor.full_tensor", "full_tensor"),
    Gathering.STATE: Collective(
        "torch.distributed.tensor.DTensor.full_tensor", "full_tensor", gathers_state=True
    ),
}
