"""Which models DDP replicates without looking for unused parameters, itself or for a library, and which of
their layers have a gradient at each step by a term of zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.program.dataflow import argument_of, origins, parts_of, unmoved, unpacked_argument
from launcher.program.index import last_name
from launcher.program.program import Program
from launcher.program.values import DDP, Constant, Made

_LOOKING = ("find_unused_parameters", "static_graph")
"""The arguments of DDP by which some parameters may have no gradient."""

AUTO_MODEL = "ignite.distributed.auto_model"
_PREPARING = ("accelerate.Accelerator.prepare", "accelerate.Accelerator.prepare_model")
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")
_TRAINER_ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")


def replicated_models(program: Program) -> Iterator[tuple[ast.expr, ast.Call]]:
    """The models that DDP wraps without looking for unused parameters, each with the call that does so.

    By DDP itself, by Accelerate's `prepare`, ignite's `auto_model`, and by a Trainer of Transformers that is
    told not to look, as it looks by itself at what is no pretrained model.
    """
    if any("_set_static_graph" in file.calls_of for file in program.files):
        return
    for call, name in program.calls(DDP, AUTO_MODEL):
        model = argument_of(call, "module" if name == DDP else "model", 0)
        by_place = argument_of(call, _LOOKING[0], 7) if name == DDP else None
        if model is not None and not _may_look(program, call) and _is_off(program, by_place):
            yield model, call
    plugins = [call for call, _ in program.calls("accelerate.Accelerator") if _is_given_another_way(call)]
    handlers = [call for call, _ in program.calls("accelerate.utils.DistributedDataParallelKwargs")]
    handlers += [call for call, _ in program.calls("accelerate.DistributedDataParallelKwargs")]
    if not plugins and not any(_may_look(program, each) for each in handlers):
        for call, _ in program.calls(*_PREPARING):
            yield from ((each, call) for each in call.args if not isinstance(each, ast.Starred))
    told = [argument_of(call, "ddp_find_unused_parameters") for call, _ in program.calls(*_TRAINER_ARGUMENTS)]
    if told and all(each is not None and _is_off(program, each) for each in told):
        for call, _ in program.calls(*_TRAINERS):
            model = argument_of(call, "model", 0)
            yield from () if model is None else ((model, call),)


def _may_look(program: Program, call: ast.Call) -> bool:
    given = [argument_of(call, name) or unpacked_argument(program, call, name) for name in _LOOKING]
    return not all(_is_off(program, each) for each in given)


def _is_off(program: Program, given: ast.expr | None) -> bool:
    return given is None or program.value(given) == Constant(False)


def _is_given_another_way(accelerator: ast.Call) -> bool:
    """Whether Accelerate may be told of another way to share a model."""
    return any(each.arg is None or "plugin" in each.arg for each in accelerator.keywords)


def replicated_classes(program: Program) -> Iterator[tuple[ast.ClassDef, ast.Call]]:
    """The classes of the program whose objects DDP replicates so, each with the call that wraps one."""
    seen: set[ast.ClassDef] = set()
    for model, call in replicated_models(program):
        for origin in origins(program, model):
            for made in origins(program, unmoved(origin)) if origin is not None else ():
                value = program.value(made) if made is not None else None
                if isinstance(value, Made) and value.definition not in seen:
                    seen.add(value.definition)
                    yield value.definition, call


def layers_in_terms_of_zero(program: Program) -> set[str] | None:
    """The layers whose parameters go into a loss with the factor zero, so that each has a gradient; None for
    all of a model: `loss + 0.0 * sum(p.sum() for p in model.parameters())`."""
    found = set[str]()
    for file in program.files:
        for product in file.nodes(ast.BinOp):
            sides = (product.left, product.right)
            zeros = [each for each in sides if isinstance(each, ast.Constant) and each.value == 0]
            if not isinstance(product.op, ast.Mult) or len(zeros) != 1:
                continue
            parts = [*parts_of(program, sides[1] if sides[0] is zeros[0] else sides[0])]
            asked = [each for each in parts if isinstance(each, ast.Call) and last_name(each.func) in _ASKING]
            layers = {each.attr for each in parts if isinstance(each, ast.Attribute) and _is_of_self(each)}
            layers -= {*_ASKING}
            if asked and not layers:
                return None
            found |= layers if asked else set()
    return found


_ASKING = ("parameters", "named_parameters")


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
