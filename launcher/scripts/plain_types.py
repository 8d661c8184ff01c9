"""Which plain Python type an expression surely has: what may go into os.environ, and what may not."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from launcher.scripts.scopes import Binding, BindingKind, function_of_parameter, last_name
from launcher.scripts.values import Constant, Instance

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_DEEPEST = 8
"""So many names behind each other; what lies deeper is unknown."""

_BUILTINS = {"int": "int", "float": "float", "len": "int", "bool": "bool", "str": "str", "ord": "int"}
_NUMBERS = (
    "torch.cuda.device_count",
    "torch.cuda.current_device",
    "torch.distributed.get_rank",
    "torch.distributed.get_world_size",
    "torch.distributed.get_node_local_rank",
    "torch_xla.xla_model.xrt_world_size",
    "torch_xla.xla_model.get_ordinal",
    "torch_xla.xla_model.get_local_ordinal",
    "torch_xla.runtime.world_size",
    "torch_xla.runtime.global_ordinal",
    "horovod.torch.rank",
    "horovod.torch.local_rank",
    "horovod.torch.size",
    "os.cpu_count",
    "os.getpid",
    "multiprocessing.cpu_count",
    "random.randint",
    "mpi4py.MPI.COMM_WORLD.Get_rank",
    "mpi4py.MPI.COMM_WORLD.Get_size",
)
_TYPE_OF_CALL = {**_BUILTINS, **dict.fromkeys(_NUMBERS, "int")}
_NUMERIC = frozenset({"int", "float", "bool"})
_PARSED = frozenset({"argparse.ArgumentParser.parse_args", "argparse.ArgumentParser.parse_known_args"})


def type_of(program: Program, node: ast.expr, depth: int = _DEEPEST) -> str | None:
    """Such as `int` or `str`; None where it is unknown, or one of several."""
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    if isinstance(node, ast.JoinedStr):
        return "str"
    if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return "bool"
    if isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set):
        return type(node).__name__.lower()
    if depth == 0:
        return None
    if isinstance(node, ast.Call):
        return _TYPE_OF_CALL.get(program.qualified(node.func) or "")
    if isinstance(node, ast.BinOp):
        sides = {type_of(program, node.left, depth - 1), type_of(program, node.right, depth - 1)}
        if not sides <= _NUMERIC:
            return None
        return "float" if "float" in sides or isinstance(node.op, ast.Div) else "int"
    if isinstance(node, ast.IfExp):
        return _same(type_of(program, each, depth - 1) for each in (node.body, node.orelse))
    if isinstance(node, ast.Name):
        bindings = program.evaluation.sources(node)
        return _same(_bound(program, each, depth - 1) for each in bindings)
    if isinstance(node, ast.Attribute):
        return _option(program, node)
    return None


def _same(types: Iterable[str | None]) -> str | None:
    found = set(types)
    return found.pop() if len(found) == 1 else None


def _bound(program: Program, binding: Binding, depth: int) -> str | None:
    if binding.kind is BindingKind.ASSIGNED and binding.value is not None and binding.item is None:
        return type_of(program, binding.value, depth)
    if binding.kind is BindingKind.LOOPED and isinstance(binding.value, ast.Call) and binding.item is None:
        ranged = program.qualified(binding.value.func) == "range"
        target = getattr(binding.node, "target", None)
        return "int" if ranged and isinstance(target, ast.Name) else None
    if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
        return _parameter(program, binding.node, depth)
    return None


def _parameter(program: Program, parameter: ast.arg, depth: int) -> str | None:
    """What every call gives a parameter."""
    function = function_of_parameter(parameter)
    sites = None if function is None else program.evaluation.callers.of(function)
    if not sites:
        return None
    types = set[str | None]()
    for site in sites:
        given = None if site.arguments is None else site.arguments.get(parameter.arg)
        if parameter.arg in site.values:
            types.add("int")  # The number that spawn gives.
        else:
            types.add(None if given is None else type_of(program, given, depth))
    return _same(types)


def _option(program: Program, node: ast.Attribute) -> str | None:
    """`args.n_gpus`, by what the parser makes of the option; nothing where the program sets it itself."""
    owner = program.value(node.value)
    if not isinstance(owner, Instance) or owner.name not in _PARSED:
        return None
    if any(node.attr in file.set_attributes for file in program.files):
        return None
    types = set[str | None]()
    for file in program.files:
        for call in file.calls_of.get("add_argument", ()):
            if node.attr in _destinations(program, call):
                types.add(_type_of_option(program, call))
    return _same(types)


def _destinations(program: Program, call: ast.Call) -> set[str]:
    for keyword in call.keywords:
        if keyword.arg == "dest":
            value = program.value(keyword.value)
            return {value.value} if isinstance(value, Constant) and isinstance(value.value, str) else set()
    words = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    long = [word for word in words if word.startswith("--")] or words
    return {long[0].lstrip("-").replace("-", "_")} if long else set()


def _type_of_option(program: Program, call: ast.Call) -> str | None:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "nargs" in given or None in given:
        return None
    action = given.get("action")
    if action is not None:
        flag = isinstance(action, ast.Constant) and action.value in ("store_true", "store_false")
        return "bool" if flag else None
    made = given.get("type")
    if made is None or "default" not in given:
        return None  # Without a default it may be None; without a type it is a string, or the default.
    kind = last_name(made) if isinstance(made, ast.Name) else None
    if kind not in _BUILTINS or program.qualified(made) != kind:
        return None
    default = given["default"]
    # A default that is written as a string goes through the type as well.
    if isinstance(default, ast.Constant) and default.value is None:
        return None
    return _BUILTINS[kind]
