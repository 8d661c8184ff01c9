"""Where a program trains a wrapped model, and what the turns of a loop come to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calls_surely_run,
    calls_that_may_make,
    origins,
    parts_of,
)
from launcher.program.index import (
    BindingKind,
    FunctionNode,
    Scope,
    ancestors,
    ancestors_in_function,
    file_of,
    last_name,
    parameters_of,
    scope_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import DEFINITIONS, Reachability
from launcher.program.values import (
    DDP,
    FSDP,
    FULLY_SHARD,
    LIBRARY_TABLES,
    PROGRESS_BARS,
    UNKNOWN,
    Constant,
    Defined,
    Instance,
    Made,
    alternatives,
    elements_of,
    like,
    names_given,
    spread,
    with_names_replaced,
)

Loop = ast.For | ast.AsyncFor | ast.While

_SHARING_WORDS = (
    "reduce",
    "gather",
    "broadcast",
    "agree",
    "sync",
    "vote",
    "consensus",
    "any_rank",
    "all_ranks",
)
"""In the names of what makes ranks see the same."""

_NOT_SHARING_WORDS = ("batchnorm", "batch_norm", "synchronize", "reducelr")
"""In the names of what only sounds so: converting a model to SyncBatchNorm, waiting for the device."""


_TELLING_ONE = ("dist.reduce", "torch.distributed.reduce")
"""What gives one rank the sum, and leaves the others what they had."""


def wrapped_training_loops(program: Program) -> Iterator[Loop]:
    """The innermost loops that run a wrapped model forward and backward."""
    seen: set[ast.AST] = set()
    for file in program.files:
        for backward in file.calls_of.get("backward", ()):
            loop = next((each for each in ancestors_in_function(backward) if isinstance(each, Loop)), None)
            if loop is not None and loop not in seen:
                seen.add(loop)
                if runs_wrapped_model(program, loop):
                    yield loop


def calls_in(block: ast.AST) -> list[ast.Call]:
    """The calls in a statement or in a function, without those in functions within it."""
    known = file_of(block).calls_within
    if block in known:
        return known[block]
    found = known[block] = []
    pending = [block]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        if node is block or not isinstance(node, FunctionNode | ast.ClassDef):
            pending.extend(children_of(node))
    return found


def runs_wrapped_model(program: Program, block: ast.AST) -> bool:
    """Whether a block calls a model that DDP or FSDP wraps, and backward, with nothing like Join around."""
    calls = calls_in(block)
    if not any(last_name(each.func) == "backward" for each in calls):
        return False
    around = [each for each in ancestors_in_function(block) if isinstance(each, ast.With)]
    if any("join" in ast.unparse(item.context_expr).lower() for each in around for item in each.items):
        return False
    if any(program.qualified(each.func) in LIBRARY_TABLES["backward_calls"] for each in calls):
        return True
    return any(is_forward(program, each) for each in calls) or any(
        any(_is_wrapped(program, given) for given in all_arguments(each)) or _comes_to_forward(program, each)
        for call in calls
        if last_name(call.func) == "backward"
        for each in parts_of(program, call.func)
        if isinstance(each, ast.Call) and each in calls
    )


def _comes_to_forward(program: Program, call: ast.Call, deeper: int = 2) -> bool:
    """Whether a function of the program that a call runs, such as `self.step(batch)`, is where the wrapped
    model's forward pass stands."""
    called = program.value(call.func)
    function = called.node if isinstance(called, Defined) else None
    return isinstance(function, ast.FunctionDef) and any(
        is_forward(program, each) or (deeper > 1 and _comes_to_forward(program, each, deeper - 1))
        for each in calls_in(function)
    )


def is_forward(program: Program, call: ast.Call) -> bool:
    """Whether a call is the forward pass of a model that DDP or FSDP may wrap over all ranks."""
    model = call.func
    if isinstance(model, ast.Attribute) and model.attr == "forward":
        model = model.value
    return _is_wrapped(program, model)


def _is_wrapped(program: Program, model: ast.expr) -> bool:
    """Whether an expression is a model that DDP or FSDP may wrap over all ranks."""
    if not isinstance(model, ast.Name | ast.Attribute):
        return False
    wrappers = calls_that_may_make(program, model, DDP, FSDP) or _sharded_in_place(program, model)
    groups = ("process_group", "device_mesh", "mesh")
    return bool(wrappers) and not any(argument_of(each, name) for each in wrappers for name in groups)


def _sharded_in_place(program: Program, model: ast.expr) -> list[ast.Call]:
    """The calls of `fully_shard`, which changes the model that it is given, on a variable of this name."""
    if not isinstance(model, ast.Name):
        return []
    holder = scope_of(model).holder_of(model.id)
    return [
        call
        for call, _ in program.calls(FULLY_SHARD)
        if call.args
        and isinstance(given := call.args[0], ast.Name)
        and given.id == model.id
        and holder is not None
        and scope_of(given).holder_of(given.id) is holder
    ]


def calls_beside(call: ast.AST) -> list[ast.Call]:
    """The calls of the function in which a node stands, in their order."""
    return file_of(call).calls_in_scope.get(scope_of(call).node, [])


def steps_optimizer(program: Program, call: ast.Call) -> bool:
    """Whether a call is an optimizer's step, or a scaler's with an optimizer."""
    for each in calls_surely_run(program, call):
        name = (program.qualified(each.func) or "") if last_name(each.func) == "step" else ""
        is_of_torch = name.startswith("torch.optim.") and "lr_scheduler" not in name
        if is_of_torch or name.endswith("GradScaler.step"):
            return True
    return False


def clearings_with_steps(calls: list[ast.Call]) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The calls of `zero_grad` under no test of their own, each with a step of the same optimizer."""
    stepping: dict[str, ast.Call] = {}
    for call in calls:
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call
        if last_name(call.func) == "step":
            stepping |= {ast.dump(each): call for each in (owner, *call.args[:1])}
    for call in calls:
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call
        if last_name(call.func) == "zero_grad" and ast.dump(owner) in stepping:
            yield call, stepping[ast.dump(owner)]


def line_of_last_backward(calls: list[ast.Call]) -> int:
    """Where the last backward pass of these calls is started; 0 where none is."""
    return max((each.lineno for each in calls if last_name(each.func) == "backward"), default=0)


def trains_within(program: Program, block: ast.AST, deeper: int = 2) -> bool:
    """Whether a block, or a function that it calls, runs a wrapped model forward and backward."""
    if runs_wrapped_model(program, block):
        return True
    for call in calls_in(block) if deeper else ():
        called = program.value(call.func)
        node = called.node if isinstance(called, Defined) else None
        if isinstance(node, ast.FunctionDef) and trains_within(program, node, deeper - 1):
            return True
    return False


def ends_with_an_error(body: Sequence[ast.stmt]) -> bool:
    """Whether anything in a block raises or ends the process."""
    return any(statement in file_of(statement).ending_statements for statement in body)


_EXITS = ("sys.exit", "exit", "quit", "os._exit")


def ends_process_well(program: Program, statement: ast.AST) -> bool:
    """Whether a statement ends the process as if all were done, itself or in a function of the program."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    called = program.value(call.func)
    function = called.node if isinstance(called, Defined) else None
    return any(
        program.qualified(each.func) in _EXITS
        and (not each.args or program.value(each.args[0]) in (Constant(0), Constant(None)))
        for each in (calls_in(function) if isinstance(function, ast.FunctionDef) else [call])
    )


def makes_ranks_agree(call: ast.Call) -> bool:
    """Whether a call, by its name, makes the ranks see the same value."""
    name = ast.unparse(call.func).lower()
    shares = any(word in name for word in _SHARING_WORDS) and name not in _TELLING_ONE
    return shares and not any(word in name for word in _NOT_SHARING_WORDS)


def shares_its_result(program: Program, scope: Scope) -> bool:
    """Whether a decorator of the program makes all ranks see one result of the function of a scope."""
    decorators = getattr(scope.function.node, "decorator_list", ()) if scope.function is not None else ()
    made = [program.value(each) for each in decorators]
    within = [each for value in made if isinstance(value, Defined) for each in walk(value.node)]
    return any(isinstance(each, ast.Call) and makes_ranks_agree(each) for each in within)


def scaler_of(program: Program, backward: ast.Call) -> ast.expr | None:
    """The scaler of torch that multiplies a loss: of `scaler.scale(loss).backward()`."""
    owner = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    made = origins(program, owner) if isinstance(owner, ast.Name) else ()
    owner = made[0] if len(made) == 1 else owner
    if not isinstance(owner, ast.Call) or not isinstance(owner.func, ast.Attribute) or len(owner.args) != 1:
        return None
    scaler = owner.func.value
    if owner.func.attr != "scale" or not isinstance(scaler, ast.Name | ast.Attribute):
        return None
    value = program.value(scaler)
    if isinstance(value, Made):
        return None
    if isinstance(value, Instance):
        enabled = argument_of(value.call, "enabled")
        off = enabled is not None and program.value(enabled) == Constant(False)
        return None if off or not value.name.endswith("GradScaler") else scaler
    return scaler


def is_of_scaler(program: Program, call: ast.Call, written: set[str]) -> bool:
    """Whether a call is of a scaler: one that scales a loss by the same name, or any of torch."""
    owner = ast.unparse(call.func).rpartition(".")[0]
    return owner in written or "GradScaler." in (program.qualified(call.func) or "")


def losses(program: Program) -> set[str | ast.expr]:
    """The names of what backward begins from, and the expressions that make it."""
    calls = (each for file in program.files for each in file.calls_of.get("backward", ()))
    owners = [each.func.value for each in calls if isinstance(each.func, ast.Attribute)]
    made = {each for owner in owners for each in origins(program, owner) if each is not None}
    return made | {each.id for owner in owners for each in walk(owner) if isinstance(each, ast.Name)}


# What a loop runs in each of its turns, in its own function and in those that it comes to.


_DYNAMIC = (ast.Call, ast.Subscript)
"""What is called without a name: `getattr(hook, name)(self)`, `steps["update"]()`."""


class LoopReach:
    """The loops of one program, and what they come to: by the names of methods where more is unknown."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self._parts: dict[ast.AST, list[ast.AST]] = {}
        self._called: dict[ast.AST, list[ast.AST]] = {}

    @cached_property
    def loops(self) -> list[Loop]:
        """The loops of what the entry may come to."""
        reaches = self.program.analysis(Reachability).reaches
        kinds = (ast.For, ast.AsyncFor, ast.While)
        found = (each for file in self.program.files for kind in kinds for each in file.nodes(kind))
        return [each for each in found if isinstance(each, Loop) and reaches(each)]

    @cached_property
    def _methods(self) -> dict[str, list[ast.AST]]:
        """The functions in classes, by their names."""
        found: dict[str, list[ast.AST]] = {}
        for file in self.program.files:
            for each in file.functions:
                if isinstance(scope_of(each).node, ast.ClassDef):
                    found.setdefault(each.name, []).append(each)
        return found

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """The innermost loops whose turns may come to a node."""
        found = [each for each in self.loops if self.comes_to(each, node)]
        return [
            each
            for each in found
            if not any(
                other is not each and self.comes_to(each, other) and not self.comes_to(other, each)
                for other in found
            )
        ]

    def comes_to(self, loop: Loop, node: ast.AST) -> bool:
        """Whether a turn of a loop may come to a node."""
        outer = {node, *ancestors(node)}
        return any(part in outer for part in self.parts(loop))

    def parts(self, loop: Loop) -> list[ast.AST]:
        """The statements of a loop, and the functions that they may come to."""
        if loop not in self._parts:
            found: list[ast.AST] = list(loop.body)
            seen = set(found)
            for part in found:
                if part not in self._called:
                    self._called[part] = list(dict.fromkeys(self._called_in(part)))
                for each in self._called[part]:
                    if each not in seen:
                        seen.add(each)
                        found.append(each)
            self._parts[loop] = found
        return self._parts[loop]

    def nodes(self, loop: Loop) -> Iterator[ast.AST]:
        """All that a turn may evaluate."""
        for part in self.parts(loop):
            yield from walk(part)

    def ways(
        self,
        body: list[ast.stmt],
        kind_of: Callable[[ast.Call], str | None],
        depth: int = 3,
        turn: Mapping[str, ast.expr] = MappingProxyType({}),
    ) -> list[list[tuple[str, ast.Call]]]:
        """The calls of a kind in each of the ways through the branches of a body, in their order.

        Through the functions of the program, so deep; without exceptions, and loops once, but those over
        steps that are written out: `for step in (self.clip, self.update): step()`. `turn` is what the
        variables of such loops are.
        """
        ways: list[list[tuple[str, ast.Call]]] = [[]]
        for statement in body:
            following: list[list[tuple[str, ast.Call]]] = []
            for number, given in enumerate(self._written_steps(statement)):
                within = self.ways(statement.__dict__["body"], kind_of, depth, {**turn, **given})
                following = [[*way, *each] for way in following for each in within] if number else within
            if not following:
                bodies = _bodies_of(statement)
                following = [way for each in bodies for way in self.ways(each, kind_of, depth, turn)]
            simple = not following and not isinstance(statement, DEFINITIONS)
            for call in _calls_in_order(statement) if simple else ():
                called = self.program.value(_in_turn(call.func, turn))
                if isinstance(called, Made):
                    called = next(map(Defined, _methods_of(called.definition, "__call__")), called)
                kind = kind_of(call)
                if kind is not None:
                    following = [[*way, (kind, call)] for way in following or [[]]]
                elif isinstance(called, Defined) and isinstance(called.node, ast.FunctionDef) and depth:
                    within = self.ways(called.node.body, kind_of, depth - 1)
                    following = [[*way, *each] for way in following or [[]] for each in within]
            if following:
                ways = [[*way, *each] for way in ways for each in following][:_MOST_WAYS]
        return ways

    def _written_steps(self, statement: ast.stmt) -> list[dict[str, ast.expr]]:
        """What the variable of a loop is in each turn, where it is called and its list is written out."""
        if not isinstance(statement, ast.For) or not isinstance(statement.target, ast.Name):
            return []
        name = statement.target.id
        called = [each.func for each in calls_in(statement)]
        owners = [each.value if isinstance(each, ast.Attribute) else each for each in called]
        if not any(isinstance(each, ast.Name) and each.id == name for each in owners):
            return []
        elements = elements_of(self.program.value(statement.iter), self.program.value, statement.iter)
        return [{name: each} for each in elements or ()][:_MOST_WAYS]

    def is_open(self, loop: Loop) -> bool:
        """Whether a turn calls something that has no name, and may be anything of the program."""
        return any(isinstance(each, ast.Call) and self._is_dynamic(each) for each in self.nodes(loop))

    def _is_dynamic(self, call: ast.Call) -> bool:
        if isinstance(call.func, _DYNAMIC):
            return self.program.value(call.func) is UNKNOWN
        sources = self.program.evaluation.sources(call.func) if isinstance(call.func, ast.Name) else []
        return any(each.kind is BindingKind.LOOPED for each in sources)

    def _called_in(self, part: ast.AST) -> Iterator[ast.AST]:
        value_of = self.program.value
        for decorator in part.decorator_list if isinstance(part, ast.FunctionDef) else ():
            value = value_of(decorator)
            if isinstance(value, Defined):
                yield value.node
        for node in walk(part):
            if not isinstance(node, ast.Call):
                continue
            for value in alternatives(value_of(node.func)):
                if isinstance(value, Defined) and not isinstance(value.node, ast.ClassDef):
                    yield value.node
                elif isinstance(value, Defined):
                    yield from _methods_of(value.node, "__init__")
                elif isinstance(value, Made):
                    yield from _methods_of(value.definition, "__call__", "forward")
                elif value is UNKNOWN and isinstance(node.func, ast.Attribute):
                    yield from self._methods.get(node.func.attr, ())
            for each in node.args:  # `self.call("after_step")`.
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield from self._methods.get(each.value, ())


def _methods_of(definition: ast.AST, *names: str) -> Iterator[ast.FunctionDef]:
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    yield from (each for each in body if isinstance(each, ast.FunctionDef) and each.name in names)


_MOST_WAYS = 16


def _in_turn(called: ast.expr, turn: Mapping[str, ast.expr]) -> ast.expr:
    """What is called, where a variable in it is that of a loop over what is written out."""
    if isinstance(called, ast.Name):
        return turn.get(called.id, called)
    owner = called.value if isinstance(called, ast.Attribute) else None
    if isinstance(called, ast.Attribute) and isinstance(owner, ast.Name) and owner.id in turn:
        return like(called, ast.Attribute(turn[owner.id], called.attr, ast.Load()))
    return called


def _bodies_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement of which one runs; what stands one behind the other is one block."""
    if isinstance(statement, ast.If):
        return [statement.body, statement.orelse]
    if isinstance(statement, ast.Try):
        return [[*statement.body, *statement.orelse, *statement.finalbody]]
    return [statement.body] if isinstance(statement, ast.With | ast.For | ast.While) else []


def _calls_in_order(statement: ast.stmt) -> list[ast.Call]:
    found = [each for each in walk(statement) if isinstance(each, ast.Call)]
    return sorted(found, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0))


# What a loop goes through, one element at each turn.


_GOES_THROUGH = {"enumerate", "iter", "zip", "itertools.chain", *PROGRESS_BARS}
"""What gives the elements of what it is given."""


def iterated_object(program: Program, loop: Loop) -> Instance:
    """The object of a library over which a loop goes; an empty one where that is unknown."""
    iterated = None if isinstance(loop, ast.While) else loop.iter
    while isinstance(iterated, ast.Call) and iterated.args:
        if program.qualified(iterated.func) not in _GOES_THROUGH:
            break
        iterated = iterated.args[-1 if program.qualified(iterated.func) == "zip" else 0]
    value = None if iterated is None else program.value(looped_within(program, iterated))
    return value if isinstance(value, Instance) else Instance("", ast.Call(ast.Name(""), [], []))


def gives_places(program: Program, made: ast.expr | None) -> bool:
    """Whether a loop goes over places in a list, in whatever order: `torch.randperm(len(kept)).tolist()`."""
    if not isinstance(made, ast.Call):
        return False
    if last_name(made.func) not in ("tolist", "list", "sorted", "reversed", "sample", "numpy", "tqdm"):
        return last_name(made.func) in ("range", "trange", "randperm", "permutation", "arange")
    inner = made.args[0] if made.args else getattr(made.func, "value", made.func)
    return all(gives_places(program, each) for each in origins(program, inner))


def is_listed(program: Program, made: ast.expr | None) -> bool:
    """Whether something was put into a list as a whole, before anybody goes over it."""
    if isinstance(made, ast.Call):
        return program.qualified(made.func) in ("list", "tuple", "sorted")
    return isinstance(made, ast.ListComp)


def looped_within(program: Program, iterated: ast.expr, depth: int = 3) -> ast.expr:
    """What a generator of the program, or an object's `__iter__`, goes through for each that it yields."""
    if isinstance(iterated, ast.GeneratorExp):
        return looped_within(program, iterated.generators[0].iter, depth - 1) if depth else iterated
    value = program.value(iterated)
    called = program.value(iterated.func) if isinstance(iterated, ast.Call) else UNKNOWN
    function = called.node if isinstance(called, Defined) else None
    if isinstance(value, Made):
        own = program.evaluation.attributes.bindings_in_class(value.definition, "__iter__")
        function = own[0].node if own and isinstance(own[0].node, ast.FunctionDef) else None
    yields = file_of(function).yields_of.get(function, []) if isinstance(function, ast.FunctionDef) else []
    loops = {each for one in yields for each in ancestors_in_function(one) if isinstance(each, ast.For)}
    if len(loops) != 1 or not depth or not isinstance(function, ast.FunctionDef):
        return iterated
    inner = loops.pop().iter
    if isinstance(inner, ast.Name) and isinstance(iterated, ast.Call) and isinstance(called, Defined):
        given = bind_arguments(function, iterated, called.owner is not None) or {}
        inner = given.get(inner.id, inner)
    return looped_within(program, inner, depth - 1)


# What is written once and run for each of several things: by a loop over them, or a function.


def written_turns(program: Program, call: ast.Call) -> list[ast.Call]:
    """The calls for which one stands: `for name in ("a", "b"): add(f"--{name}")` is two.

    With what the loops around it go through, as far as it is written out, and what a helper's calls give.
    """
    turns = [call]
    for loop in ancestors_in_function(call):
        rounds = _rounds(program, loop) if isinstance(loop, ast.For) else None
        turns = [with_names_replaced(each, given) for each in turns for given in rounds or [{}]]
    within = scope_of(call).function
    function = within.node if within is not None and isinstance(within.node, FunctionNode) else None
    names = {each.id for given in all_arguments(call) for each in walk(given) if isinstance(each, ast.Name)}
    used = [each for each in parameters_of(function) if each.arg in names] if function else []
    sites = program.evaluation.callers.call_sites(function) if function and used else None
    pairs = [[(each.arg, site.given_or_default(each)) for each in used] for site in sites or ()]
    given_by = [{name: value for name, value in each if value is not None} for each in pairs]
    if given_by and all(map(len, given_by)):
        turns = [with_names_replaced(each, given) for each in turns for given in given_by]
    return [spread(each, program.value) for each in turns]


def _rounds(program: Program, loop: ast.For) -> list[dict[str, ast.expr]] | None:
    """What the variables of a loop are in each of its turns; None where that is not written out."""
    fields = loop.iter if isinstance(loop.iter, ast.Call) else None
    if fields is not None and fields.args and program.qualified(fields.func) == "dataclasses.fields":
        record = program.value(fields.args[0])
        node = record.definition if isinstance(record, Made) else getattr(record, "node", None)
        names = (
            program.evaluation.attributes.records.fields_of(node) if isinstance(node, ast.ClassDef) else ()
        )
        own = f"{ast.unparse(loop.target)}.name"
        return [{own: like(fields, ast.Constant(each))} for each in names]
    if _may_be_changed(program, loop.iter):
        return None
    elements = elements_of(program.value(loop.iter), program.value, loop.iter)
    rounds = [names_given(loop.target, each, program.value) for each in elements or ()]
    return None if None in rounds else [each for each in rounds if each is not None]


_CHANGING = ("add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update")


def _may_be_changed(program: Program, table: ast.expr) -> bool:
    """Whether anything gets or loses entries that has a name of what a table or list is made of."""
    parts = [each for each in parts_of(program, table) if isinstance(each, ast.Name | ast.Attribute)]
    names = {last_name(each) for each in parts}
    for file in program.files:
        calls = (each.func for name in _CHANGING for each in file.calls_of.get(name, ()))
        changed = {last_name(each.value) for each in calls if isinstance(each, ast.Attribute)}
        changed |= {each.name for bindings in file.set_items.values() for each in bindings}
        changed |= {last_name(each.target) for each in file.nodes(ast.AugAssign)}
        if not names.isdisjoint(changed - {None}):
            return True
    return False
