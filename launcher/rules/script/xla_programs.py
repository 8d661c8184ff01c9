"""Which programs train through torch_xla, how they start their workers, and the loops in which they train."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, scope_of
from launcher.scripts.values import Instance

SPAWNS = ("torch_xla.multiprocessing.spawn", "torch_xla.launch")
"""What starts workers."""

_OWNERS = frozenset({"transformers", "accelerate", "lightning", "pytorch_lightning", "fairseq", "optimum"})
"""Libraries that call torch_xla in the script's place."""

_OPTIMIZERS = "torch.optim."
_LOADER = "torch.utils.data.DataLoader"


def uses_xla(program: Program) -> bool:
    """Whether the program calls torch_xla itself, and no library does so in its place."""
    roots = {(each.module or "").partition(".")[0] for file in program.files for each in file.imports}
    return "torch_xla" in roots and not roots & _OWNERS


def names_any_of(program: Program, names: frozenset[str]) -> bool:
    """Whether any of these names is used at all: then nobody says that it is missing."""
    return any(
        name in file.names or name in file.attributes or name in file.calls_of
        for file in program.files
        for name in names
    )


def is_on_xla(program: Program) -> bool:
    """Whether the program asks for a device of torch_xla."""
    return any(True for _ in program.calls("torch_xla.xla_model.xla_device", "torch_xla.device"))


def has_workers(program: Program) -> bool:
    """Whether torch_xla starts workers: by spawn, or as Training Compiler's launcher does."""
    by_launcher = any(
        each.name == "_mp_fn" and scope_of(each).node is program.entry.tree
        for each in program.entry.functions
    )
    return by_launcher or any(True for _ in program.calls(*SPAWNS))


def training_loops(program: Program) -> Iterator[tuple[ast.For, ast.Call]]:
    """The loops over a DataLoader of torch that update a model, with the call that does."""
    for file in program.files:
        for name in ("step", "optimizer_step"):
            for step in file.calls_of.get(name, ()):
                loop = next((each for each in ancestors(step) if isinstance(each, ast.For)), None)
                if loop is not None and _is_over_a_loader(program, loop) and _updates(program, step):
                    yield loop, step


def _is_over_a_loader(program: Program, loop: ast.For) -> bool:
    iterated = loop.iter
    if isinstance(iterated, ast.Call) and program.qualified(iterated.func) in ("enumerate", "tqdm.tqdm"):
        iterated = iterated.args[0] if iterated.args else iterated
    value = program.value(iterated)
    return isinstance(value, Instance) and value.name == _LOADER


def _updates(program: Program, step: ast.Call) -> bool:
    name = program.qualified(step.func) or ""
    if name == "torch_xla.xla_model.optimizer_step":
        return True
    return (
        name.endswith(".step")
        and (name.startswith(_OPTIMIZERS) or ".amp." in name)
        and ("lr_scheduler" not in name)
    )
