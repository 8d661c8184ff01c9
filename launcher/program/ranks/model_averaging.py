"""Whether a program averages its models or gradients by itself, as local SGD does.

By the names of what it calls, then by what that is given and does. A reduction of figures is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from launcher.program.dataflow import all_arguments, calls_surely_run, parts_of, returned_expressions
from launcher.program.index import (
    BindingKind,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    class_of,
    file_of,
    function_of_parameter,
    last_name,
    parent_of,
    positional_of,
    statement_of,
)
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.training_loops import calls_in
from launcher.program.values import UNKNOWN, Defined, External, Instance

_AVERAGING_WORDS = ("average", "reduce", "local_sgd", "localsgd")
"""In the names of what averages, and of much else."""

_MODEL_ATTRIBUTES = frozenset({"grad", "parameters", "named_parameters", "state_dict", "param_groups"})
"""The attributes by which models and optimizers are asked for what is averaged."""

_NUMBER_ENDINGS = ("norm", "norm_", "item", "float", "len", "numel")
"""The ends of the names of what gives a number, whatever it is given: `get_total_grad_norm(parameters)`."""

_OPTIMIZER_OPTIONS = frozenset({"lr", "initial_lr", "lr_scale", "momentum", "betas", "eps", "weight_decay"})
"""What a group of an optimizer's parameters holds beside them: `optimizer.param_groups[0]["lr"]`."""

_CALLS_ITS_ARGUMENT = tuple(map(External, ("map", "filter", "sorted", "max", "min", "functools.reduce")))
"""What calls a function with nothing but what stands beside it."""

_PLAIN_LIBRARIES = (
    "torch.",
    "horovod.",
    "accelerate.",
    "lightning.",
    "torchmetrics.",
    "functools.",
    "itertools.",
    "numpy.",
    "einops.",
    "tensorflow.",
)
"""Libraries whose functions average nothing but what they are given."""


def averages_models(program: Program) -> bool:
    """Whether a program may average models or gradients between its ranks."""
    given = _AveragedArguments(program)
    return any(
        _may_average(program, call, given)
        for file in program.files
        for name, calls in file.calls_of.items()
        if any(word in name.lower() for word in _AVERAGING_WORDS)
        for call in calls
    )


def _may_average(program: Program, call: ast.Call, given: _AveragedArguments) -> bool:
    called = program.value(call.func)
    if isinstance(called, External) and called.name.startswith("torch.optim."):
        return False  # ReduceLROnPlateau, AveragedModel: what each rank does by itself.
    if given.may_be_of_the_model(all_arguments(call)):
        return True
    if isinstance(called, Defined):
        return any(map(_asks_the_model, walk(called.node)))
    return not (isinstance(called, External | Instance) and called.name.startswith(_PLAIN_LIBRARIES))


def reductions_of_gradients(program: Program) -> list[ast.Call]:
    """Where a program surely adds up gradients between its ranks by itself: `all_reduce(p.grad)`, or what it
    calls with gradients and does so."""
    found: list[ast.Call] = []
    for file in program.files:
        for name, calls in file.calls_of.items():
            if "reduce" not in name.lower():
                continue
            for call in calls:
                called = program.qualified(call.func) or ""
                given = called.startswith(_REDUCING) and _is_given_gradients(program, call)
                if given and not program.analysis(Reachability).is_named_nowhere(call):
                    found.append(call)
    return found


_REDUCING = ("torch.distributed.", "horovod.torch.")


def _is_given_gradients(program: Program, call: ast.Call) -> bool:
    if not program.mentioning("grad"):
        return False
    parts = (part for each in all_arguments(call) for part in parts_of(program, each))
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in parts)


def _asks_the_model(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _MODEL_ATTRIBUTES


_COLLECTIVES = frozenset(
    {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather"}
    | {f"{by}allreduce{how}" for by in ("", "grouped_") for how in ("", "_", "_async", "_async_")}
)


def reduces_by_hand(program: Program) -> bool:
    """Whether the program may call a collective that its gradients or parameters go through."""
    return any(
        _near_gradients(program, each) and not program.analysis(Reachability).is_named_nowhere(each)
        for file in program.files
        for name in program.known_as({*_COLLECTIVES})
        for each in file.calls_of.get(name, ())
    )


_OF_GRADIENTS = frozenset({"grad", "parameters", "named_parameters", "state_dict", "param_groups", "data"})
"""Attributes by which code speaks of gradients, parameters or states."""


def _near_gradients(program: Program, call: ast.Call) -> bool:
    """Whether the function of a collective also speaks of gradients, parameters or states."""
    top: ast.AST = call
    for top in ancestors(call):
        if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            break
    around = [each.iter for each in ancestors_in_function(call) if isinstance(each, ast.For)]
    places: list[ast.AST] = [statement_of(call), *around]
    speaks = any(map(_speaks_of_gradients, places))
    if not speaks and not isinstance(top, ast.Module) and _speaks_of_gradients(top):
        # In a function that trains they are spoken of in any case.
        begun = (run for each in calls_in(top) for run in calls_surely_run(program, each))
        speaks = not any(last_name(each.func) == "backward" for each in begun)
    return speaks or _is_given_gradients(program, call)


def _speaks_of_gradients(place: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in _OF_GRADIENTS for each in walk(place))


class _AveragedArguments:
    """What calls are given: the parameters or gradients of a model, or something else."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._others = set[ast.AST]()
        """What was looked at, to its sources, without finding anything of a model."""

    def may_be_of_the_model(self, given: Iterable[ast.expr]) -> bool:
        """Whether parameters or gradients may be in one of these; also where nobody can say what is."""
        seen = set[ast.AST]()
        pending: list[ast.expr | None] = [*given]
        while pending:
            node = pending.pop()
            if node is None or _asks_the_model(node):
                return True
            if node not in seen and node not in self._others:
                seen.add(node)
                pending += self._made_of(node)
        self._others |= seen
        return False

    def _made_of(self, node: ast.expr) -> Iterator[ast.expr | None]:
        """What a value is made of; None for what nobody knows. Not the function or object that makes it."""
        if isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) in _OPTIMIZER_OPTIONS:
            return
        if isinstance(node, ast.Call):
            if (last_name(node.func) or "").endswith(_NUMBER_ENDINGS):
                return
            called = self.program.value(node.func)
            if isinstance(called, Defined):
                yield from returned_expressions(called.node)
            if isinstance(node.func, ast.Attribute):
                yield from (node.func,) if _asks_the_model(node.func) else (node.func.value,)
            yield from all_arguments(node)
            return
        if isinstance(node, ast.Name | ast.Attribute):
            for binding in self.program.evaluation.sources(node):
                if binding.kind is BindingKind.PARAMETER:
                    yield from self._given_as(binding.node)
                elif binding.value is not None:
                    yield binding.value
        for each in children_of(node):
            if isinstance(each, ast.expr):
                yield each
            elif isinstance(each, ast.comprehension):
                yield each.iter

    def _given_as(self, parameter: ast.AST) -> Iterator[ast.expr | None]:
        """What a parameter is given; None where its function is called from where nobody sees."""
        function = function_of_parameter(parameter)
        if function is None or not isinstance(parameter, ast.arg):
            yield None
            return
        if class_of(function) is not None and positional_of(function)[:1] == [parameter]:
            return  # The object itself, of whose attributes those are looked at that are used.
        sites = self.program.evaluation.callers.call_sites(function)
        if sites is None:
            yield from self._given_by_name(function)
            return
        for site in sites:
            if site.values.get(parameter.arg, UNKNOWN) is not UNKNOWN:
                continue
            given = site.given_or_default(parameter)
            # What goes into `**options`, or comes from `*given`, may be any argument of the call.
            yield from (given,) if given is not None else all_arguments(site.call)

    def _given_by_name(self, function: FunctionNode) -> Iterator[ast.expr | None]:
        """What all calls of this name are given, whatever they call."""
        if isinstance(function, ast.Lambda):
            yield from self._given_where_used(function)
            return
        owner = class_of(function)
        name = owner.name if owner is not None and function.name == "__init__" else function.name
        is_method = owner is not None and name == function.name
        for file in self.program.mentioning(name):
            named = () if is_method else file.names.get(name, ())
            for use in (*named, *file.attributes.get(name, ())):
                if isinstance(use, ast.Attribute) or not self._is_a_variable(use):
                    yield from self._given_where_used(use)

    def _is_a_variable(self, name: ast.Name) -> bool:
        """Whether a name that a function has, too, is that of something else."""
        sources = self.program.evaluation.sources(name)
        defining = (BindingKind.DEFINED, BindingKind.IMPORTED)
        return bool(sources) and not any(each.kind in defining for each in sources)

    def _given_where_used(self, use: ast.expr) -> Iterator[ast.expr | None]:
        """What a function is given where it is called, or handed on beside it: `map(f, values)`."""
        uses: list[ast.expr] = [use]
        holder = parent_of(use)
        if isinstance(holder, ast.Assign) and isinstance(holder.targets[0], ast.Name):
            sources = self.program.evaluation.sources
            named = file_of(holder).names.get(holder.targets[0].id, ())
            uses = [each for each in named if any(one.node is holder for one in sources(each))]
        for each in uses:
            user = parent_of(each)
            called = self.program.value(user.func) if isinstance(user, ast.Call) else None
            if isinstance(user, ast.Call) and (user.func is each or called in _CALLS_ITS_ARGUMENT):
                yield from all_arguments(user)
            else:
                yield None
