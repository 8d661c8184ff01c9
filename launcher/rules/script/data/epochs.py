"""Whether a sampler that shuffles learns which epoch it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.bindings import branch_arms
from launcher.program.dataflow import (
    argument_of,
    calls_that_made,
    constant_argument,
    has_star_arguments,
    origins,
    parts_of,
)
from launcher.program.index import (
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability, runs_once
from launcher.program.surroundings.loader_classes import LOADER, SAMPLER
from launcher.program.surroundings.options import constant_by_default, is_registered_and_not_taken
from launcher.program.values import (
    Constant,
    Defined,
    Instance,
    Made,
    alternatives,
)
from launcher.rules.script.data.by_libraries import engine_runs
from launcher.rules.script.data.loaders import Loaders, endless_cycles, method_of
from launcher.rules.script.findings import finding_at, insert_before, related_at


@finds(Stage.SCRIPT, data.SET_EPOCH_NEVER_CALLED)
def samplers_know_the_epoch(program: Program) -> Iterator[Finding]:
    """A DistributedSampler that shuffles, over which a program trains for several epochs without `set_epoch`.

    The sampler shuffles by its seed and the number of the epoch. That stays 0, and every epoch repeats one
    order, which costs accuracy without any error. Found as well: `set_epoch` on another sampler, such as that
    of the validation, once before the epochs or with a literal, which is the same epoch each time, where no
    sampler is told the epoch; what stands in a class or function that nobody names is not called, nor, as a
    warning, a hook that is kept in a table and that no default takes from it. Loaders that Accelerate,
    Lightning or a Trainer got are told by them. Samplers that are made anew with a seed that counts need no
    telling. The loader that deepspeed.initialize makes of `training_data` has such a sampler. A sampler of
    the program's own is found at the seed by which its `__iter__` shuffles, where no epoch is in that.

    Bad: `for epoch in range(90): train(DataLoader(dataset, sampler=sampler))`
    Good: `for epoch in range(90): sampler.set_epoch(epoch); train(...)`

    Source: torch.utils.data documentation, DistributedSampler; deepspeed/runtime/dataloader.py.
    """
    loaders = program.analysis(Loaders)
    yield from _orders_that_repeat(loaders)
    told: list[EpochCall] | None = None
    reported = set[ast.Call]()
    for sampler, begun in _shuffling(loaders):
        epochs = begun.epochs
        if sampler in reported:
            continue
        if told is None:
            told = list(epoch_calls(loaders))
        about = [
            each
            for each in told
            if each.samplers is None
            or (sampler in each.samplers and not _are_others(program, each.made_by, begun.made_by, sampler))
        ]
        if any(not each.is_constant for each in about):
            continue
        if about and any(not each.is_constant for each in told):
            continue  # Who tells one sampler the epoch means another, of the validation, to stay as it is.
        if not epochs:
            continue
        reported.add(sampler)
        sampler_note = related_at(sampler, "the sampler")
        if about:
            yield finding_at(
                data.SET_EPOCH_NEVER_CALLED,
                about[0].node,
                "set_epoch gets the same number in each epoch, so that each repeats the same order",
                related=[sampler_note],
            )
        elif told:
            yield finding_at(
                data.SET_EPOCH_NEVER_CALLED,
                told[0].node,
                f"set_epoch is called on {_another(program, told[0].node)}: the sampler of the training data "
                "repeats the same order in every epoch",
                related=[sampler_note],
            )
        else:
            epoch = epochs[0]
            left = [
                each
                for file in loaders.program.files
                for each in file.attributes.get("set_epoch", ())
                if is_registered_and_not_taken(loaders.program, each)
            ]
            yield finding_at(
                data.SET_EPOCH_NEVER_CALLED,
                _place_of(epoch),
                "set_epoch is never called on the sampler: every epoch repeats the same order",
                severity=Severity.WARNING if left or not begun.is_sure else None,
                related=[
                    sampler_note,
                    *(related_at(each, "called where a run takes it by its name") for each in left[:1]),
                ],
                fix=_set_at_the_head(epoch, sampler),
            )


def _orders_that_repeat(loaders: Loaders) -> Iterator[Finding]:
    """The samplers of the program's own whose `__iter__` shuffles by a seed in which nothing ever changes,
    whoever calls `set_epoch`; a warning where nobody does, as one order may be wanted."""
    program = loaders.program
    reported = set[ast.AST]()
    for loop in loaders.training_loops:
        epochs = loaders.epochs_of(loop)
        for sampler in _own_samplers(loaders, loop.loaders) if epochs else ():
            seed = _seed_of_every_epoch(program, sampler)
            if seed is not None and seed not in reported:
                reported.add(seed)
                told = any("set_epoch" in file.attributes for file in program.files)
                yield finding_at(
                    data.SET_EPOCH_NEVER_CALLED,
                    seed,
                    "the sampler shuffles by this seed, which is the same in each epoch: each repeats the "
                    "same order",
                    severity=None if told else Severity.WARNING,
                    remedy="Add the epoch that set_epoch tells to the seed: `self.seed + self.epoch`.",
                    related=[related_at(_place_of(epochs[0]), "the epochs")],
                )


def _own_samplers(loaders: Loaders, over: frozenset[ast.Call]) -> Iterator[ast.ClassDef]:
    """The classes of the program of which these loaders surely have a sampler."""
    for loader in sorted(over, key=lambda each: (file_of(each).path, each.lineno)):
        for name in ("sampler", "batch_sampler"):
            given = loaders.given(loader, name)
            made = loaders.program.value(given) if given is not None else None
            if isinstance(made, Made):
                yield made.definition


_SHUFFLING = frozenset({"randperm", "shuffle", "permutation", "sample", "multinomial"})
_SEEDING = frozenset({"manual_seed", "seed", "Random", "default_rng", "RandomState"})
_PLAIN = frozenset({"int", "len", "abs", "Generator"})


def _seed_of_every_epoch(program: Program, sampler: ast.ClassDef) -> ast.expr | None:
    """The one seed by which the `__iter__` of a sampler shuffles, where it is the same each time."""
    method = method_of(sampler, "__iter__")
    calls = [each for each in walk(method) if isinstance(each, ast.Call)] if method else []
    names = {last_name(each.func) for each in calls}
    seeds = [each.args[0] for each in calls if last_name(each.func) in _SEEDING and each.args]
    if len(seeds) != 1 or names.isdisjoint(_SHUFFLING) or "__iter__" in names:
        return None
    for part in parts_of(program, seeds[0]):
        name = part.attr if isinstance(part, ast.Attribute) else None
        if isinstance(part, ast.AugAssign | ast.For | ast.comprehension):
            return None
        if isinstance(part, ast.Call) and last_name(part.func) not in _PLAIN:
            return None
        if name == "epoch" or (name is not None and _is_set_again(program, name)):
            return None
    return seeds[0] if _is_of_itself(program, seeds[0], method) else None


def _is_set_again(program: Program, name: str) -> bool:
    """Whether an attribute is set elsewhere than where an object is made."""
    bindings = (each for file in program.files for each in file.set_attributes.get(name, ()))
    scopes = (scope_of(each.node).function for each in bindings)
    return any(each is None or getattr(each.node, "name", "") != "__init__" for each in scopes)


def _is_of_itself(program: Program, seed: ast.expr, method: ast.FunctionDef | None) -> bool:
    """Whether a seed is made of literals, the sampler's attributes and variables of `__iter__` alone."""
    known = {"self", *_PLAIN}
    for part in walk(method) if method else ():
        if isinstance(part, ast.Assign) and all(each.id in known for each in _names_read(part.value)):
            known |= {each.id for target in part.targets for each in _names_read(target)}
    return all(each.id in known for each in _names_read(seed))


def _names_read(node: ast.AST) -> list[ast.Name]:
    return [each for each in walk(node) if isinstance(each, ast.Name)]


_Epochs = ast.For | ast.While | ast.Call
"""What goes through the data again and again: a loop, or the call of a library that does."""


def _place_of(epochs: _Epochs) -> ast.expr:
    if isinstance(epochs, ast.Call):
        return epochs
    return epochs.iter if isinstance(epochs, ast.For) else epochs.test


def _set_at_the_head(epoch: _Epochs, sampler: ast.Call) -> Fix | None:
    """`sampler.set_epoch(epoch)` as the first statement of an epoch, where the sampler has a name there."""
    if not isinstance(epoch, ast.For) or not isinstance(epoch.target, ast.Name) or epoch.target.id == "_":
        return None
    name = _name_of(sampler, epoch)
    if name is None:
        return None
    edit = insert_before(epoch.body[0], f"{name}.set_epoch({epoch.target.id})")
    return None if edit is None else Fix(True, (edit,))


def _name_of(sampler: ast.Call, place: ast.For) -> str | None:
    """The one variable that surely is a sampler in a place."""
    statement = parent_of(sampler)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,) = statement.targets
    if not isinstance(target, ast.Name) or branch_arms(statement) - branch_arms(place):
        return None
    holder = scope_of(place).holder_of(target.id)
    if holder is not scope_of(statement) or len(holder.bindings[target.id]) != 1:
        return None
    if holder is scope_of(place) and place.lineno < statement.lineno:
        return None
    return target.id


@frozen
class _Repeated:
    """What goes through the data of a sampler that shuffles, again and again; `made_by` are the calls of the
    program's functions that made what it goes through, None where they are not known. Not sure where only
    some who make such a sampler let it shuffle."""

    epochs: list[_Epochs]
    made_by: frozenset[ast.Call] | None = None
    is_sure: bool = True


def _shuffling(loaders: Loaders) -> Iterator[tuple[ast.Call, _Repeated]]:
    """The distributed samplers that shuffle, with what begins them again."""
    yield from _begun_by_libraries(loaders)
    if not loaders.samplers:
        return
    program = loaders.program
    begun = [(_Repeated([loop]), over) for loop, over in endless_cycles(loaders)]
    begun += [
        (_Repeated(loaders.epochs_of(each), _made_by(loaders, each.iter)), each.loaders)
        for each in loaders.training_loops
    ]
    for each, over in begun:
        for loader in sorted(over, key=lambda each: (file_of(each).path, each.lineno)):
            for sampler in loaders.samplers_of(loader) or ():
                if has_star_arguments(sampler) or _is_seeded_anew(loaders, sampler):
                    continue
                shuffle = argument_of(sampler, "shuffle", 3)
                if shuffle is None or program.value(shuffle) == Constant(True):
                    yield sampler, each
                elif _shuffles_in_training(program, shuffle):
                    yield sampler, replace(each, is_sure=False)


def _shuffles_in_training(program: Program, shuffle: ast.expr) -> bool:
    """Whether a sampler shuffles where it is made for the training: by the name of what it is for, as in
    `shuffle=split == "train"`, by what one of its callers says, or by default."""
    if constant_by_default(program, shuffle) is not None:
        return constant_by_default(program, shuffle) == Constant(True)
    made = origins(program, shuffle)
    by_name = [
        isinstance(each, ast.Compare)
        and isinstance(each.ops[0], ast.Eq | ast.In)
        and any(_is_of_training(program, one) for one in (each.left, *each.comparators))
        for each in made
    ]
    return any(by_name) or any(each is not None and program.value(each) == Constant(True) for each in made)


def _is_of_training(program: Program, node: ast.expr) -> bool:
    value = constant_argument(program, node)
    return value is not None and isinstance(value.value, str) and value.value.startswith("train")


def _made_by(loaders: Loaders, node: ast.expr, depth: int = 5) -> frozenset[ast.Call] | None:
    """The calls of the program's functions that made an expression, through variables and parameters; None
    where it may come from elsewhere."""
    program, node = loaders.program, loaders.unwrapped(node)
    if isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler"):
        return _made_by(loaders, node.value, depth)
    if isinstance(node, ast.Call):
        return frozenset({node}) if isinstance(program.value(node.func), Defined) else None
    found = frozenset[ast.Call]()
    named = depth and isinstance(node, ast.Name | ast.Attribute)
    for binding in program.evaluation.sources(node) if named else ():
        given: list[ast.expr | None] = [binding.value]
        if isinstance(binding.node, ast.arg):
            sites = program.evaluation.callers.call_sites_giving(binding.node)
            given = [site.given(binding.node) for site in sites or ()]
        inner = [None if each is None else _made_by(loaders, each, depth - 1) for each in given]
        if not inner or None in inner:
            return None
        found = found.union(*(each for each in inner if each is not None))
    return found or None


def _are_others(
    program: Program, one: frozenset[ast.Call] | None, other: frozenset[ast.Call] | None, sampler: ast.Call
) -> bool:
    """Whether two objects are surely not made together, though the same statement makes the sampler of both:
    `train = make("train"); valid = make("valid")`."""
    if one is None or other is None or one & other:
        return False
    function = scope_of(sampler).function
    makers = [program.value(each.func) for each in (*one, *other)]
    return function is not None and all(
        isinstance(each, Defined) and each.node is function.node for each in makers
    )


def _begun_by_libraries(loaders: Loaders) -> Iterator[tuple[ast.Call, _Repeated]]:
    """The calls of libraries that make a loader whose sampler shuffles and is told no epoch, with what begins
    it again."""
    program = loaders.program
    makers = [call for call, _ in program.calls(_ENGINE) if argument_of(call, "training_data", 3)]
    makers += [call for call, _ in program.calls(_LOADER_OF_IGNITE) if _shuffles_by_itself(program, call)]
    if not makers:
        return
    for file in program.files:
        for loop in file.nodes(ast.For):
            made = program.value(loaders.unwrapped(loop.iter))
            if not isinstance(made, Instance) or made.call not in makers or made.item != _ITEM[made.name]:
                continue
            if made.name == _ENGINE or loaders.trains(loop.body):
                yield made.call, _Repeated([*loaders.epoch_loops(loop)])
    for run in engine_runs(program):
        made = program.value(run.data)
        trains = run.step is None or loaders.trains(run.step.body)
        if isinstance(made, Instance) and made.call in makers and trains and run.repeats:
            yield made.call, _Repeated([run.call])


_ENGINE = "deepspeed.initialize"
_LOADER_OF_IGNITE = "ignite.distributed.auto_dataloader"
_ITEM = {_ENGINE: 2, _LOADER_OF_IGNITE: None}
"""Which part of what a call gives is the loader."""


def _shuffles_by_itself(program: Program, call: ast.Call) -> bool:
    """Whether the loader that Ignite makes gets a sampler that shuffles: of a dataset with a length."""
    shuffle, dataset = argument_of(call, "shuffle"), argument_of(call, "dataset", 0)
    own = any(argument_of(call, each) for each in ("sampler", "batch_sampler"))
    made = () if dataset is None else alternatives(program.value(dataset))
    has_length = bool(made) and all(
        isinstance(each, Instance) or (isinstance(each, Made) and method_of(each.definition, "__getitem__"))
        for each in made
    )
    shuffles = shuffle is None or program.value(shuffle) == Constant(True)
    return not own and has_length and shuffles and not has_star_arguments(call)


def _is_seeded_anew(loaders: Loaders, sampler: ast.Call) -> bool:
    """Whether the seed of a sampler counts, as the variable of a loop or by `+=`."""
    seed = argument_of(sampler, "seed", 4)
    return seed is not None and any(
        isinstance(part, ast.For | ast.comprehension | ast.AugAssign)
        for part in parts_of(loaders.program, seed)
    )


@frozen
class EpochCall:
    """A call of set_epoch: on which samplers (None: unknown which), and whether always with one number.
    `made_by` are the calls of the program's functions that made them, None where those are not known."""

    node: ast.expr
    samplers: frozenset[ast.Call] | None
    is_constant: bool
    made_by: frozenset[ast.Call] | None = None


def epoch_calls(loaders: Loaders) -> Iterator[EpochCall]:
    """The calls of set_epoch that something may come to, and stores of the epoch of a sampler."""
    program = loaders.program
    for file in program.files:
        for attribute in file.attributes.get("set_epoch", ()):
            call = parent_of(attribute)
            if program.analysis(Reachability).is_named_nowhere(attribute):
                continue
            if is_registered_and_not_taken(program, attribute):
                continue
            if isinstance(call, ast.Call) and call.func is attribute:
                epoch = argument_of(call, "epoch", 0)
                constant = constant_argument(program, epoch) is not None or runs_once(program, call)
                none = frozenset[ast.Call]()
                asked = none if _asks_the_loader(program, call) else receivers(loaders, attribute.value)
                yield EpochCall(call, asked, constant, _made_by(loaders, attribute.value))
            else:
                yield EpochCall(attribute, receivers(loaders, attribute.value), False)
        for call in file.calls_of.get("setup_common_training_handlers", ()):  # Of Ignite.
            told = argument_of(call, "train_sampler")
            if told is not None:
                yield EpochCall(call, receivers(loaders, told), False)
        for call in file.calls_of.get("methodcaller", ()):
            if constant_argument(program, argument_of(call, "name", 0)) == Constant("set_epoch"):
                yield EpochCall(call, None, False)
        for binding in file.set_attributes.get("epoch", ()):
            owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
            if isinstance(owner, ast.expr) and receivers(loaders, owner):
                yield EpochCall(owner, receivers(loaders, owner), False)


def _another(program: Program, call: ast.expr) -> str:
    of_loader = _asks_the_loader(program, call)
    return "the DataLoader, which has no such method" if of_loader else "another sampler"


def _asks_the_loader(program: Program, call: ast.expr) -> bool:
    """Whether a method is asked of torch's own DataLoader, and not of its sampler."""
    function = call.func if isinstance(call, ast.Call) else None
    made = alternatives(program.value(function.value)) if isinstance(function, ast.Attribute) else ()
    return bool(made) and all(
        isinstance(each, Instance) and program.qualified(each.call.func) == LOADER for each in made
    )


def receivers(loaders: Loaders, node: ast.expr) -> frozenset[ast.Call] | None:
    """The samplers that an expression may be: itself, or `loader.sampler` and its like."""
    if isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler", "dataset"):
        samplers = receivers(loaders, node.value)
        batched = node.attr == "sampler" and any(
            loaders.given(each, "batch_sampler") for each in loaders.resolved(node.value) or ()
        )
        if samplers is not None:  # Beside a batch sampler the loader's own deals in order.
            return frozenset() if batched or node.attr == "dataset" else samplers
    found = frozenset[ast.Call]()
    for each in alternatives(loaders.program.value(node)):
        if each == Constant(None):
            continue
        one = calls_that_made(each, SAMPLER)
        if one is None and isinstance(each, Instance) and each.name == LOADER:
            loader = calls_that_made(each, LOADER)
            one = None
            for call in loader or ():
                one = loaders.samplers_of(call)
        if one is None:
            return None
        found |= one
    return found
