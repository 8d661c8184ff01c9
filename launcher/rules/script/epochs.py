"""Whether a sampler learns which epoch it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.rules.script.loaders import Loaders, loaders_of
from launcher.scripts.arguments import argument, is_open, made_by
from launcher.scripts.edits import statement_before
from launcher.scripts.loops import LOADER, SAMPLER
from launcher.scripts.program import Program
from launcher.scripts.reaching import arms_of
from launcher.scripts.scopes import parent_of, scope_of
from launcher.scripts.values import Constant, Instance, alternatives


@finds(Stage.SCRIPT, data.SET_EPOCH_NEVER_CALLED)
def samplers_know_the_epoch(program: Program) -> Iterator[Finding]:
    """A DistributedSampler that shuffles, over which a program trains for several epochs without `set_epoch`.

    The sampler shuffles by its seed and the number of the epoch. That stays 0, and every epoch repeats one
    order, which costs accuracy without any error. Found as well: `set_epoch` on another sampler, such as that
    of the validation, and with a literal, which is the same epoch each time, where no sampler is told the
    epoch. Loaders that Accelerate, Lightning or a Trainer got are told by them.

    Bad: `for epoch in range(90): train(DataLoader(dataset, sampler=sampler))`
    Good: `for epoch in range(90): sampler.set_epoch(epoch); train(...)`

    Source: torch.utils.data documentation, DistributedSampler.
    """
    loaders = loaders_of(program)
    told: list[_EpochCall] | None = None
    reported = set[ast.Call]()
    for sampler, loop in _shuffling(loaders):
        if sampler in reported:
            continue
        if told is None:
            told = list(_told(loaders))
        about = [each for each in told if each.samplers is None or sampler in each.samplers]
        if any(not each.is_literal for each in about):
            continue
        if about and any(not each.is_literal for each in told):
            continue  # Who tells one sampler the epoch means another, of the validation, to stay as it is.
        epochs = list(loaders.epoch_loops(loop))
        if not epochs:
            continue
        reported.add(sampler)
        sampler_note = note(sampler, "the sampler")
        if about:
            yield found(
                data.SET_EPOCH_NEVER_CALLED,
                about[0].node,
                "set_epoch gets the same number in each epoch, so that each repeats the same order",
                related=[sampler_note],
            )
        elif told:
            yield found(
                data.SET_EPOCH_NEVER_CALLED,
                told[0].node,
                "set_epoch is called on another sampler than that of the training data, which repeats the "
                "same order in every epoch",
                related=[sampler_note],
            )
        else:
            epoch = epochs[0]
            yield found(
                data.SET_EPOCH_NEVER_CALLED,
                epoch.iter if isinstance(epoch, ast.For) else epoch.test,
                "set_epoch is never called on the sampler: every epoch repeats the same order",
                related=[sampler_note],
                fix=_set_at_the_head(epoch, sampler),
            )


def _set_at_the_head(epoch: ast.For | ast.While, sampler: ast.Call) -> Fix | None:
    """`sampler.set_epoch(epoch)` as the first statement of an epoch, where the sampler has a name there."""
    if not isinstance(epoch, ast.For) or not isinstance(epoch.target, ast.Name) or epoch.target.id == "_":
        return None
    name = _name_of(sampler, epoch)
    if name is None:
        return None
    edit = statement_before(epoch.body[0], f"{name}.set_epoch({epoch.target.id})")
    return None if edit is None else Fix(True, (edit,))


def _name_of(sampler: ast.Call, place: ast.For) -> str | None:
    """The one variable that surely is a sampler in a place."""
    statement = parent_of(sampler)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,) = statement.targets
    if not isinstance(target, ast.Name) or arms_of(statement) - arms_of(place):
        return None
    holder = scope_of(place).holder_of(target.id)
    if holder is not scope_of(statement) or len(holder.bindings[target.id]) != 1:
        return None
    if holder is scope_of(place) and place.lineno < statement.lineno:
        return None
    return target.id


def _shuffling(loaders: Loaders) -> Iterator[tuple[ast.Call, ast.For]]:
    """The distributed samplers that surely shuffle, with a loop that trains by them."""
    if not loaders.samplers:
        return
    for loop in loaders.training_loops:
        for loader in loop.loaders:
            for sampler in loaders.samplers_of(loader) or ():
                shuffle = argument(sampler, "shuffle", 3)
                shuffles = shuffle is None or loaders.program.value(shuffle) == Constant(True)
                if shuffles and not is_open(sampler):
                    yield sampler, loop.node


@dataclass(frozen=True, slots=True)
class _EpochCall:
    """A call of set_epoch: on which samplers (None: unknown which), and whether with a literal."""

    node: ast.expr
    samplers: frozenset[ast.Call] | None
    is_literal: bool


def _told(loaders: Loaders) -> Iterator[_EpochCall]:
    for file in loaders.program.files:
        for attribute in file.attributes.get("set_epoch", ()):
            call = parent_of(attribute)
            if isinstance(call, ast.Call) and call.func is attribute:
                literal = isinstance(argument(call, "epoch", 0), ast.Constant)
                yield _EpochCall(call, _receivers(loaders, attribute.value), literal)
            else:
                yield _EpochCall(attribute, None, False)


def _receivers(loaders: Loaders, node: ast.expr) -> frozenset[ast.Call] | None:
    """The samplers that an expression may be: itself, or `loader.sampler` and its like."""
    if isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler"):
        samplers = _receivers(loaders, node.value)
        if samplers is not None:
            return samplers
    found = frozenset[ast.Call]()
    for each in alternatives(loaders.program.value(node)):
        if each == Constant(None):
            continue
        one = made_by(each, SAMPLER)
        if one is None and isinstance(each, Instance) and each.name == LOADER:
            loader = made_by(each, LOADER)
            one = None
            for call in loader or ():
                one = loaders.samplers_of(call)
        if one is None:
            return None
        found |= one
    return found
