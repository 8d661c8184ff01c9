"""Forward passes that differ between ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.arguments import argument
from launcher.scripts.distributed import DDP
from launcher.scripts.origins import origins
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, class_of, dotted_name
from launcher.scripts.values import Constant, Defined, Instance, Made


@finds(Stage.SCRIPT, ddp.REDUCTION_NOT_FINISHED)
def forward_is_alike_on_every_rank(program: Program) -> Iterator[Finding]:
    """A branch by rank in the forward pass of a model that DDP wraps, which runs other layers in each arm.

    The layers of the other arm get no gradient on this rank: the next forward raises "Expected to have
    finished reduction", or the ranks hang. Layers are what `self` has and is called; printing by
    rank is right, so are layers that both arms call. find_unused_parameters=True covers it.

    Bad: `if self.rank == 0: x = self.left(x)` and `else: x = self.right(x)`. Good: the same layers on every
    rank. Source: torch's notes on DDP.
    """
    for definition, wrapper in _wrapped_classes(program):
        forward = next(
            (
                each
                for each in definition.body
                if isinstance(each, ast.FunctionDef) and each.name == "forward"
            ),
            None,
        )
        if forward is None:
            continue
        for branch in ast.walk(forward):
            if not isinstance(branch, ast.If | ast.IfExp):
                continue
            guard = program.guards.guard(branch.test)
            if guard is None or _is_inside_function(branch, forward):
                continue
            body, other = (
                _layers(program, definition, branch.body),
                _layers(program, definition, branch.orelse),
            )
            differing = sorted(body ^ other)
            if differing:
                names = ", ".join(f"`self.{each}`" for each in differing)
                yield found(
                    ddp.REDUCTION_NOT_FINISHED,
                    branch.test,
                    f"the forward pass runs {names} on some ranks only: on the others DDP waits in backward "
                    "for gradients that never come, and the next forward raises or hangs",
                    related=[note(wrapper, "wrapped here")],
                )


def _wrapped_classes(program: Program) -> Iterator[tuple[ast.ClassDef, ast.Call]]:
    """The classes of the program whose objects DDP wraps without looking for unused parameters."""
    seen: set[ast.ClassDef] = set()
    for call, _ in program.calls(DDP):
        model = argument(call, "module", 0)
        unused = argument(call, "find_unused_parameters")
        if model is None or (unused is not None and program.value(unused) != Constant(False)):
            continue
        for origin in origins(program, model):
            value = program.value(_unmoved(origin)) if origin is not None else None
            if isinstance(value, Made) and value.definition not in seen:
                seen.add(value.definition)
                yield value.definition, call


def _unmoved(node: ast.expr) -> ast.expr:
    """`Model()` of `Model().to(device)`."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "cuda", "train")
    ):
        node = node.func.value
    return node


def _is_inside_function(node: ast.AST, function: ast.AST) -> bool:
    """Whether a function within the function holds a node."""
    for outer in ancestors(node):
        if outer is function:
            return False
        if isinstance(outer, ast.FunctionDef | ast.Lambda):
            return True
    return True


def _layers(program: Program, definition: ast.ClassDef, arm: list[ast.stmt] | ast.expr) -> set[str]:
    """The attributes of the object that an arm calls and that hold modules: not methods of the class."""
    parts = arm if isinstance(arm, list) else [arm]
    found_here: set[str] = set()
    for part in parts:
        for node in ast.walk(part):
            if not isinstance(node, ast.Call):
                continue
            name = dotted_name(node.func) or ""
            if not name.startswith("self.") or name.count(".") != 1:
                continue
            value = program.value(node.func)
            if isinstance(value, Defined) and class_of(value.node) is not None:
                continue
            if _holds_a_module(program, node.func):
                found_here.add(name.removeprefix("self."))
    return found_here


def _holds_a_module(program: Program, attribute: ast.expr) -> bool:
    """Whether an attribute is set to a module of torch, or to an object of a class of the program."""
    for origin in origins(program, attribute):
        if origin is None:
            return False
        value = program.value(origin)
        module = isinstance(value, Instance) and value.name.startswith("torch.nn.")
        if not module and not isinstance(value, Made):
            return False
    return True


RULES = (forward_is_alike_on_every_rank,)
