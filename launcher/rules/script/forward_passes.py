"""Forward passes of wrapped models that leave layers out: on some ranks, in some steps, or always.

DDP waits in each backward pass for a gradient of every parameter. A layer that has none, on one rank or on
all of them, ends in an error in the next forward pass, or the ranks wait for one another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TypeGuard

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.dataflow import (
    all_arguments,
    calls_that_may_make,
    makes_no_gradients,
    origins,
)
from launcher.program.index import (
    Binding,
    BindingKind,
    ancestors,
    ancestors_in_function,
    class_of,
    default_of,
    file_of,
    last_name,
    parameters_of,
    parent_of,
    scope_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.ranks.guards import Guards, ends_block
from launcher.program.ranks.training_loops import calls_in, iterated_object, makes_ranks_agree
from launcher.program.ranks.truths import Guard
from launcher.program.values import (
    DDP,
    UNKNOWN,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    RankValue,
    alternatives,
)
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.steps.replicas import AUTO_MODEL, layers_in_terms_of_zero, replicated_classes

_BY_RANK = "by the rank"
_BY_OWN_DRAW = "by a number that each rank draws for itself"
_BY_BATCH = "by what is in its own part of the batch"
_BY_DRAW = "by a number that is drawn anew each time"
_BY_STEP = "by how far the training is"
_BY_KEY = "by what this step is given"
_BY_DEFAULT = "no call asks for it"
_OF_SOME_RANKS = (_BY_RANK, _BY_OWN_DRAW, _BY_BATCH)

_MODELS = ("torch.nn.", "torchvision.models.", "timm.", "transformers.")
"""How the names begin of what makes modules."""

_WITHOUT_PARAMETERS = re.compile(
    r"(ReLU|GELU|SiLU|ELU|Dropout|Pool|Identity|Flatten|Softmax|Sigmoid|Tanh|Upsample|Loss)"
)
"""In the names of modules that need no gradients."""


@finds(Stage.SCRIPT, ddp.REDUCTION_NOT_FINISHED)
def forward_is_alike_on_every_rank(program: Program) -> Iterator[Finding]:
    """A forward pass, of a model that DDP wraps, that leaves layers out which the model has.

    By the rank (an error), by a number that is drawn, by what is in its part of the batch, by the step or by
    what the step asks for (warnings). The layers that are not run get no gradient: the next forward raises
    "Expected to have finished reduction", or the ranks hang. Layers are what `self` has and is called;
    printing by rank is right, so are layers that the other way runs or mentions, or whose parameters go into
    the loss with the factor zero. Likewise layers that nothing in the program uses, and outputs of layers
    that the loss leaves out. Also of what Accelerate, ignite or Trainer wrap. find_unused_parameters=True
    covers all of it.

    Bad: `if self.rank == 0: x = self.left(x)` and `else: x = self.right(x)`. Good: the same layers on every
    rank and in every step. Source: torch's notes on DDP.
    """
    trains = any("backward" in file.calls_of for file in program.files)
    calls_of = cache(partial(_calls_of_model, program))
    replicated = [*replicated_classes(program)]
    touched = layers_in_terms_of_zero(program) if replicated else None
    for definition, wrapper in replicated if touched is not None else ():
        calls = calls_of(wrapper)
        for held in _classes_within(program, definition, set()):
            for forward in _methods_of_forward(held):
                if any(makes_ranks_agree(each) for each in calls_in(forward)):
                    continue
                outermost = held is definition and forward.name == "forward"
                given = _given_to(program, forward, calls) if outermost else {}
                looking = _Forward(program, forward, _Difference(program, forward, given))
                for place, layers, reason in _choices(looking):
                    if left := layers - (touched or set()):
                        yield _left_out(place, left, reason, wrapper)
                if outermost and trains:
                    for step, layers, reason in _outputs_left_out(looking, calls):
                        yield _left_out(step, layers, reason, wrapper)
            for made, layer in _layers_never_used(program, held) if trains else ():
                yield _left_out(made, {layer}, _BY_DEFAULT, wrapper)


def _left_out(place: ast.AST, layers: set[str], reason: str, wrapper: ast.Call) -> Finding:
    names = ", ".join(f"`self.{each}`" for each in sorted(layers))
    if reason in _OF_SOME_RANKS:
        message = f"the forward pass runs {names} on some ranks only ({reason}): on the others DDP waits in "
        message += "backward for gradients that never come; the next forward raises or hangs"
    elif reason == _BY_DEFAULT:
        message = f"no step needs {names}: DDP waits in backward for gradients that never come, and the next "
        message += "forward raises"
    else:
        message = f"{names} is left out of some steps ({reason}): DDP waits in backward for gradients that "
        message += "never come, and the next forward raises"
    return finding_at(
        ddp.REDUCTION_NOT_FINISHED,
        place,
        message,
        related=[related_at(wrapper, "wrapped here")],
        severity=None if reason == _BY_RANK else Severity.WARNING,
    )


def _methods_of_forward(definition: ast.ClassDef) -> list[ast.FunctionDef]:
    """The forward pass of a class, and the methods that it calls."""
    methods = _methods_of(definition)
    found = [methods[name] for name in ("forward",) if name in methods]
    for method in found:
        called = {each.func.attr for each in calls_in(method) if _is_of_self(each.func)}
        found += [each for name, each in methods.items() if name in called and each not in found]
    return found


def _methods_of(definition: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in definition.body if isinstance(each, ast.FunctionDef)}


def _classes_within(
    program: Program, definition: ast.ClassDef, seen: set[ast.ClassDef]
) -> Iterator[ast.ClassDef]:
    """A class of modules, and the classes of the program whose objects it makes."""
    if definition not in seen:
        seen.add(definition)
        yield definition
        for each in walk(definition):
            made = program.value(each.func) if isinstance(each, ast.Call) else None
            if isinstance(made, Defined) and isinstance(made.node, ast.ClassDef):
                yield from _classes_within(program, made.node, seen)


def _calls_of_model(program: Program, wrapper: ast.Call) -> list[ast.Call]:
    """The calls of a model that a wrapper made, from which gradients are made.

    What surely is no object of a library is none, and quicker told than where it comes from.
    """
    return [
        call
        for call in program.evaluation.callers.calls_of_what_is_kept
        if isinstance(call.func, ast.Name | ast.Attribute | ast.Subscript)
        and any(
            each is UNKNOWN or isinstance(each, Instance) for each in alternatives(program.value(call.func))
        )
        and wrapper in calls_that_may_make(program, call.func, DDP, AUTO_MODEL)
    ]


def _given_to(
    program: Program, forward: ast.FunctionDef, calls: Sequence[ast.Call]
) -> dict[str, list[ast.expr]]:
    """What the calls of a wrapped model give the parameters of its forward pass.

    And the test of the rank that decides between calls which give a parameter different literals.
    """
    found: dict[str, list[ast.expr]] = {}
    by_rank: list[tuple[Guard | None, dict[str, ast.expr]]] = []
    for call in calls:
        given = bind_arguments(forward, call, bound=True) or {}
        for name, each in given.items():
            found.setdefault(name, []).append(each)
        if not makes_no_gradients(call):
            by_rank.append((program.analysis(Guards).guard_around(call), given))
    both = [(one, other) for one in by_rank for other in by_rank]
    for (guard, given), (opposite, taken) in both:
        if guard is None or guard.test is None or opposite is None or not guard.complements(opposite):
            continue
        for parameter in parameters_of(forward)[1:]:
            name, default = parameter.arg, default_of(forward, parameter.arg)
            one, two = given.get(name, default), taken.get(name, default)
            are_flags = isinstance(one, ast.Constant) and isinstance(two, ast.Constant)
            if one is not None and two is not None and are_flags and ast.dump(one) != ast.dump(two):
                found.setdefault(name, []).append(guard.test)
    trained = [each for each in calls if not makes_no_gradients(each)]
    if trained and all(bind_arguments(forward, each, bound=True) is not None for each in trained):
        for parameter in parameters_of(forward)[1:]:
            if parameter.arg not in found and (default := default_of(forward, parameter.arg)) is not None:
                found[parameter.arg] = [default]
    return found


@frozen
class _Forward:
    """A forward pass of a class, and what differs between the ranks or the steps in it."""

    program: Program
    function: ast.FunctionDef
    difference: _Difference

    def layers_of(self, nodes: Iterable[ast.AST]) -> set[str]:
        """The attributes of the object that hold modules with parameters and that these nodes call.

        `x` of `self.x(...)`, of `self.x[key](...)` and of the call of a loop's variable over `self.x`; also
        in the methods of the object that they call.
        """
        held: list[ast.AST] = []
        for function in (each.func for each in self._with_methods(nodes) if isinstance(each, ast.Call)):
            held.append(function.value if isinstance(function, ast.Subscript) else function)
            for source in self.program.evaluation.sources(function) if isinstance(function, ast.Name) else ():
                if isinstance(source.node, ast.For | ast.comprehension):
                    held += walk(source.node.iter)
        return {each.attr for each in held if self.holds_layers(each)}

    def mentioned_in(self, nodes: Iterable[ast.AST]) -> set[str]:
        """The attributes of the object that these nodes name, or methods that they call."""
        return {each.attr for each in self._with_methods(nodes) if _is_of_self(each)}

    def holds_layers(self, node: ast.AST) -> TypeGuard[ast.Attribute]:
        """Whether this is an attribute of the object that holds modules with parameters."""
        return _is_of_self(node) and _holds_a_module(self.program, node)

    def _with_methods(self, nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
        definition = class_of(self.function)
        methods = {} if definition is None else _methods_of(definition)
        for node in nodes:
            yield node
            called = node.func if isinstance(node, ast.Call) else None
            method = methods.pop(called.attr, None) if called is not None and _is_of_self(called) else None
            if method is not None and method is not self.function:
                yield from walk(method)


def _is_of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _choices(forward: _Forward) -> Iterator[tuple[ast.expr, set[str], str]]:
    """Where a forward pass chooses between layers by what differs: where, which, and why that differs."""
    for node in walk(forward.function):
        if _is_aside(node, forward.function):
            continue
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            always = forward.difference.always(node.test)
            reason = forward.difference.reason(node.test) if always is None else _BY_DEFAULT
            if reason and (layers := _layers_chosen(forward, node, always)):
                yield node.test, layers, reason
        elif isinstance(node, ast.comprehension) and node.ifs:
            held = {each.attr for each in walk(node.iter) if forward.holds_layers(each)}
            reason = next(filter(None, map(forward.difference.reason, node.ifs)), None)
            if held and reason is not None:
                yield node.ifs[0], held, reason
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            reason = forward.difference.reason_of_key(node.func.slice)
            if reason is not None and (layers := forward.layers_of([node])):
                yield node, layers, reason
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Call):  # random.choice(self.heads)(x)
            drawn = forward.difference.reason(node.func)
            held = {each.attr for one in node.func.args for each in walk(one) if forward.holds_layers(each)}
            if held and drawn is not None:
                yield node, held, drawn


def _layers_chosen(forward: _Forward, node: ast.If | ast.IfExp | ast.While, always: bool | None) -> set[str]:
    """The layers that one arm of a test runs and nothing else does; where it is always the same, those of the
    arm that never runs."""
    arms = [each if isinstance(each, list) else [each] for each in (node.body, node.orelse)]
    body, other = arms[0], [*arms[1], *(_behind(node) if isinstance(node, ast.If) else ())]
    if isinstance(body[-1], ast.Raise):
        return set()
    layers = set() if always is True else _layers_of_one(forward, body, other)
    layers |= set() if always is False else _layers_of_one(forward, other, body)
    here = {each for part in (node, *other) for each in walk(part)}
    return layers - forward.layers_of(each for each in walk(forward.function) if each not in here)


def _layers_of_one(forward: _Forward, one: Sequence[ast.AST], other: Sequence[ast.AST]) -> set[str]:
    """The layers that one arm runs and the other does not even mention, as in `0 * sum(parameters())`."""
    mentioned = forward.mentioned_in(each for part in other for each in walk(part))
    return forward.layers_of(each for part in one for each in walk(part)) - mentioned


def _behind(branch: ast.If) -> list[ast.stmt]:
    """What stands behind a test in its block, where the arm leaves that."""
    outer = parent_of(branch)
    blocks = [getattr(outer, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((each for each in blocks if isinstance(each, list) and branch in each), [])
    return block[block.index(branch) + 1 :] if ends_block(branch.body) else []


def _is_aside(node: ast.AST, function: ast.AST) -> bool:
    """Whether a node stands in a function within the function, or where no gradients are made."""
    inside = next((each for each in ancestors(node) if isinstance(each, ast.FunctionDef | ast.Lambda)), None)
    return inside is not function or makes_no_gradients(node)


def _holds_a_module(program: Program, attribute: ast.expr) -> bool:
    """Whether an attribute is set to a module with parameters, of torch or of a class of the program."""
    for origin in origins(program, attribute):
        value = UNKNOWN if origin is None else program.value(origin)
        module = isinstance(value, Instance) and value.name.startswith(_MODELS)
        if module and isinstance(value, Instance) and _WITHOUT_PARAMETERS.search(value.name):
            return False
        if not module and not isinstance(value, Made):
            return False
    return True


# Layers of which no step has any use.


_GOING_THROUGH = re.compile(
    r"getattr|setattr|children|modules|named_parameters|requires_grad|__dict__|freeze"
)
"""In the names by which a program comes to layers without theirs, or takes their gradients away."""


def _layers_never_used(program: Program, definition: ast.ClassDef) -> Iterator[tuple[ast.AST, str]]:
    """The layers of a plain module that nothing in the program mentions but the line that makes them."""
    if [program.qualified(each) for each in definition.bases] != ["torch.nn.Module"]:
        return
    if any(
        _GOING_THROUGH.search(each) for file in program.files for each in (*file.calls_of, *file.attributes)
    ):
        return
    file = file_of(definition)
    methods = _methods_of(definition)
    if "forward" not in methods or "__init__" not in methods:
        return
    for name, bindings in file.set_attributes.items():
        own = [each.node for each in bindings if scope_of(each.node).node is methods["__init__"]]
        uses = (use for each in program.files for use in each.attributes.get(name, ()) if use not in own)
        if not own or any(True for _ in uses) or any(f"{name}" in each for each in _texts_of(program)):
            continue
        if _is_of_self(own[0]) and _holds_a_module(program, own[0]):
            yield own[0], name


def _texts_of(program: Program) -> Iterator[str]:
    """The literal texts of a program, in which a layer may be named."""
    for file in program.files:
        yield from (text for _, text in file.texts())


# Outputs of layers that the loss leaves out.


def _outputs_left_out(
    forward: _Forward, calls: Sequence[ast.Call]
) -> Iterator[tuple[ast.AST, set[str], str]]:
    """Where a step takes apart what a forward pass gives, and does without one that alone is of a layer:
    always, or by a test that differs."""
    returns = file_of(forward.function).returns_of.get(forward.function, ())
    given = returns[0].value if len(returns) == 1 else None
    if not isinstance(given, ast.Tuple):
        return
    nodes = [each for each in walk(forward.function) if not isinstance(each, ast.Attribute)]
    for place, element in enumerate(given.elts):
        inside = set(walk(element))
        if not isinstance(element, ast.Call):
            continue
        others = forward.mentioned_in(each for each in walk(forward.function) if each not in inside)
        layers = forward.layers_of(each for each in nodes if each in inside) - others
        for call in calls if layers else ():
            statement = parent_of(call)
            targets = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(targets, ast.Tuple) or len(targets.elts) != len(given.elts):
                continue
            taken = targets.elts[place]
            if isinstance(taken, ast.Name) and not makes_no_gradients(call) and _is_of_step(call):
                yield from ((where, layers, reason) for where, reason in _left_aside(forward, call, taken))


def _is_of_step(call: ast.Call) -> bool:
    """Whether a backward pass stands in the function of a forward pass."""
    return any(scope_of(each) is scope_of(call) for each in file_of(call).calls_of.get("backward", ()))


def _left_aside(forward: _Forward, call: ast.Call, taken: ast.Name) -> Iterator[tuple[ast.AST, str]]:
    scope = scope_of(taken)
    uses = [
        each
        for each in file_of(taken).names.get(taken.id, ())
        if isinstance(each.ctx, ast.Load) and scope_of(each).holder_of(taken.id) is scope.holder_of(taken.id)
    ]
    if not uses:
        yield call, _BY_DEFAULT
        return
    tests = [_test_of_step(each, call) for each in uses]
    test = tests[0] if all(each is tests[0] for each in tests) else None
    reason = forward.difference.reason(test)
    if test is not None and reason is not None:
        yield test, reason


def _test_of_step(use: ast.AST, call: ast.Call) -> ast.expr | None:
    """The outermost test under which something is used, and behind a call."""
    around = {call, *ancestors(call)}
    found: ast.expr | None = None
    for outer in ancestors_in_function(use):
        if isinstance(outer, ast.If | ast.IfExp) and outer not in around:
            found = outer.test
    return found


# What surely differs between the ranks, or between the steps.


_FACTS = frozenset(
    {
        "any",
        "all",
        "item",
        "sum",
        "max",
        "min",
        "amax",
        "amin",
        "mean",
        "numel",
        "norm",
        "std",
        "var",
        "median",
    }
    | {"prod", "argmax", "argmin", "count_nonzero"}
)
"""What makes one number of a tensor: methods, and functions of torch."""

_DRAWING = ("random.", "numpy.random.", "torch.rand", "torch.bernoulli")
"""How the names of what draws random numbers begin."""

_DRAWING_METHODS = frozenset({"uniform_", "bernoulli_", "random_", "normal_", "exponential_"})
_COUNTING = ("range", "enumerate", "tqdm.trange", "itertools.count")
_DEEPEST = 8


@frozen
class _Difference:
    """What differs between the ranks, or between the steps, in a forward pass of a part of a batch.

    `given` is what its calls give its parameters; of the other parameters the values are the rank's own.
    """

    program: Program
    function: ast.FunctionDef
    given: Mapping[str, Sequence[ast.expr]]

    def reason(self, node: ast.expr | None, depth: int = _DEEPEST) -> str | None:
        """Why a number, a truth or a key is not always the same; None where it may be."""
        if node is None or not depth:
            return None
        by_rank = self.program.analysis(Guards).guard(node)
        if by_rank is not None or isinstance(self.program.value(node), RankValue):
            return _BY_RANK
        parts: Sequence[ast.expr] = []
        match node:
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=bool())]):
                parts = [node.left]
            case ast.Compare(ops=[ast.Is() | ast.IsNot(), *_]):
                parts = self._tests_of_nothing(node.left)
            case ast.Compare(ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str())]) if any(
                map(self._is_of_a_step, self._made_of(node.left))
            ):
                return _BY_BATCH
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp() | ast.BinOp() | ast.IfExp() | ast.Subscript():
                parts = [each for each in children_of(node) if isinstance(each, ast.expr)]
            case (
                ast.NamedExpr(value=inner)
                | ast.Call(func=ast.Name(id="bool" | "int" | "float"), args=[inner])
            ):
                parts = [inner]
            case ast.Name() | ast.Attribute():
                if self._counts_steps(node):
                    return _BY_STEP
                parts = self._made_of(node)
            case ast.Call():
                return self._reason_of_call(node, depth)
        return next((found for each in parts if (found := self.reason(each, depth - 1))), None)

    def always(self, test: ast.expr) -> bool | None:
        """What a switch among the parameters always is, as all calls of the model give it or leave it out."""
        name = test.id if isinstance(test, ast.Name) else None
        given = self.given.get(name, ()) if name else ()
        known = [self.program.value(each) for each in given]
        truths = {bool(each.value) for each in known if isinstance(each, Constant)}
        own = isinstance(test, ast.Name) and any(
            each.node in parameters_of(self.function) for each in self.program.evaluation.sources(test)
        )
        is_one = own and len(truths) == 1 and all(isinstance(each, Constant) for each in known)
        return truths.pop() if is_one else None

    def reason_of_key(self, key: ast.expr) -> str | None:
        """Why another layer of several is taken each time: by a key or a place that the step is given."""
        found = self.reason(key)
        if found is not None or not isinstance(key, ast.Name):
            return found
        given = self._made_of(key)
        return _BY_KEY if any(map(self._is_of_a_step, given)) else None

    def _reason_of_call(self, node: ast.Call, depth: int) -> str | None:
        drawn = _reason_of_draw(self.program, node)
        if drawn is not None:
            return drawn
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if owner is not None and last_name(node.func) in _FACTS:
            is_function = self.program.value(owner) == External("torch") and bool(node.args)
            if self._is_of_the_batch(node.args[0] if is_function else owner, depth):
                return _BY_BATCH
        parts = [*([] if owner is None else [owner]), *self._origins_of(node)]
        return next((found for each in parts if (found := self.reason(each, depth - 1))), None)

    def _origins_of(self, node: ast.expr) -> Sequence[ast.expr]:
        """What makes an attribute, by a property too, or the result of a function of the program."""
        return [each for each in origins(self.program, node) if each is not None and each is not node]

    def _made_of(self, node: ast.expr) -> Sequence[ast.expr]:
        """What gives a variable or an attribute its value: assignments, and the calls of its function."""
        if not isinstance(node, ast.Name):
            return self._origins_of(node)
        found: list[ast.expr] = []
        for binding in self.program.evaluation.sources(node):
            if binding.kind is BindingKind.PARAMETER:
                found += self._given_as(binding, node.id)
            elif binding.value is not None and binding.item is None:
                found.append(binding.value)
        return found

    def _given_as(self, binding: Binding, name: str) -> Sequence[ast.expr]:
        """What the calls of its function give a parameter."""
        if binding.node in parameters_of(self.function) and self.given:
            return self.given.get(name, ())
        sites = self.program.evaluation.callers.call_sites_giving(binding.node) or ()
        given = [each.given(binding.node) for each in sites if isinstance(binding.node, ast.arg)]
        return [each for each in given if each is not None]

    def _tests_of_nothing(self, node: ast.expr) -> Sequence[ast.expr]:
        """The tests by which something is None: of `None if draw() < p else text`, and where it is set so."""
        found: list[ast.expr] = []
        for each in [node, *self._made_of(node)]:
            if isinstance(each, ast.IfExp) and any(_is_nothing(arm) for arm in (each.body, each.orelse)):
                found.append(each.test)
            for binding in self.program.evaluation.sources(each) if isinstance(each, ast.Name) else ():
                if binding.value is not None and _is_nothing(binding.value):
                    around = ancestors_in_function(binding.node)
                    found += [outer.test for outer in around if isinstance(outer, ast.If)][:1]
        return found

    def _counts_steps(self, node: ast.expr) -> bool:
        """Whether this counts epochs or steps: the variable of a loop that trains, or what is counted up."""
        for binding in self.program.evaluation.sources(node):
            if binding.kind is BindingKind.LOOPED and isinstance(node, ast.Name):
                loop = binding.node
                if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and _trains(loop):
                    name, target = self.program.qualified(loop.iter.func), loop.target
                    first = target.elts[0] if isinstance(target, ast.Tuple) else None
                    if name in _COUNTING and (name != "enumerate" or getattr(first, "id", "") == node.id):
                        return True
            elif binding.kind is BindingKind.CHANGED and isinstance(node, ast.Attribute):
                return isinstance(binding.value, ast.Constant)
        return False

    def _is_of_a_step(self, node: ast.expr) -> bool:
        """Whether something is made of what a loop that trains has in this turn, and in no other."""
        return any(
            isinstance(each.node, ast.For) and _trains(each.node)
            for part in walk(node)
            if isinstance(part, ast.Name)
            for each in self.program.evaluation.sources(part)
        )

    def _is_of_the_batch(self, node: ast.expr, depth: int) -> bool:
        """Whether a tensor is made of what the function is given, or of what a loader gives a loop."""
        for part in walk(node):
            for each in self.program.evaluation.sources(part) if isinstance(part, ast.Name) else ():
                if each.node in self.function.args.args[1:]:
                    return True
                loop = each.node if isinstance(each.node, ast.For) else None
                if loop and iterated_object(self.program, loop).name == "torch.utils.data.DataLoader":
                    return True
                if each.value is not None and depth and self._is_of_the_batch(each.value, depth - 1):
                    return True
        return False


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _trains(loop: ast.For) -> bool:
    """Whether a loop runs backward, or something that is called so or so begins a training."""
    names = {last_name(each.func) or "" for each in calls_in(loop)}
    return "backward" in names or any("train" in each or "fit" in each for each in names)


def _reason_of_draw(program: Program, call: ast.Call) -> str | None:
    """Why what a call draws is another number each time, or on each rank.

    torch's generator begins with the same seed in each process, those of Python and NumPy do not.
    """
    name = program.qualified(call.func) or ""
    if last_name(call.func) in _DRAWING_METHODS:
        return _BY_DRAW
    if not name.startswith(_DRAWING) or "seed" in name:
        return None
    owner = program.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, Instance):
        seeded = all_arguments(owner.call)
        own = not seeded or any(_is_of_a_rank(program, each) for each in seeded)
        return _BY_OWN_DRAW if own else _BY_DRAW
    calls_of = [item for file in program.files for item in file.calls_of.items()]
    seeding = [call for last, calls in calls_of if "seed" in last for call in calls]
    library = name.partition(".")[0]
    seeds = [each for each in seeding if (program.qualified(each.func) or "").startswith(f"{library}.")]
    if any(_is_of_a_rank(program, given) for seed in seeds for given in all_arguments(seed)):
        return _BY_OWN_DRAW
    return _BY_DRAW if seeding or library == "torch" else _BY_OWN_DRAW


def draws_for_itself(program: Program, call: ast.Call) -> bool:
    """Whether a call draws a number from a generator that is not seeded alike on all ranks."""
    return _reason_of_draw(program, call) == _BY_OWN_DRAW


def _is_of_a_rank(program: Program, node: ast.expr) -> bool:
    parts = (each for each in walk(node) if isinstance(each, ast.expr))
    return any(isinstance(program.value(each), RankValue) for each in parts)


FORWARD_RULES = (forward_is_alike_on_every_rank,)
