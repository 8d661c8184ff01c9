"""Gradients that nobody reduces: of a bare model in a process group, or of one that is trained beside a
wrapped one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calls_that_may_make,
    may_run_wrapped_model,
    origins,
    parts_of,
    unmoved,
)
from launcher.program.index import Scope, file_of, last_name, parent_of, scope_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.model_averaging import reduces_by_hand
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import never_runs
from launcher.program.ranks.training_loops import steps_optimizer
from launcher.program.values import (
    DDP,
    INIT_PROCESS_GROUP,
    UNKNOWN,
    Defined,
    External,
    Instance,
    Made,
    Value,
    WorldSize,
    library_names,
)
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import finding_at, related_at

REDUCING = re.compile(
    r"ddp|parallel|fsdp|shard|zero|deepspeed|prepare|pipeline|horovod|hvd|colossal|bagua|strategy|"
    r"replicate|distribute|average|sync|rpc|comm_hook|register_hook|setup|send|recv|gossip|apex|grad"
)
"""In the names of what may reduce gradients, or of what shares a model otherwise: one of these, and nothing
is said."""
HARMLESS = re.compile(
    r"DistributedSampler|set_epoch|synchronize|is_distributed|zero_grad|zero_|zeros|zeros_like|"
    r"no_grad|requires_grad_|enable_grad|set_grad_enabled|clip_grad_norm_|clip_grad_value_|"
    r"GradScaler|setup_logging|convert_sync_batchnorm|SyncBatchNorm|setdefault"
)
"""Names that hold a hint, and are none."""


@finds(Stage.SCRIPT, ddp.GRADIENTS_NOT_REDUCED)
def gradients_are_reduced(program: Program) -> Iterator[Finding]:
    """A process group, and a training step whose gradients nobody reduces.

    Each rank then trains a model of its own on its part of the data, and the one that is saved has seen a
    fraction of it. So too where a run of the defaults leaves out all wrappers (a warning), and with Horovod
    without its DistributedOptimizer. With Accelerate, a model that `prepare` is not given is not wrapped.

    Silent where anything in the program may reduce: a wrapper, a collective near `.grad`, a function whose
    name hints at it, or a file that could not be read. A wrapper does not where nobody calls the wrapped
    model, and the loss is made by the very module that it holds.

    Bad: `init_process_group`, `DistributedSampler`, `loss.backward(); optimizer.step()` on the bare model.
    Good: `model = DistributedDataParallel(model)`. Source: torch's DDP documentation.
    """
    yield from _never_prepared(program)
    groups = [call for call, _ in program.calls(INIT_PROCESS_GROUP, "horovod.torch.init")]
    samplers = [call for call, _ in program.calls("torch.utils.data.DistributedSampler")]
    parting: list[ast.expr] = [*samplers] or [*_parts_by_rank(program)]
    if not groups or not parting or program.unread or _may_reduce(program):
        return
    if not any(
        steps_optimizer(program, each) for file in program.files for each in file.calls_of.get("step", ())
    ):
        return
    wrappers = [call for call, _ in program.calls(DDP)]
    left_out = bool(wrappers) and all(_is_left_out(program, each) for each in wrappers)
    left_out = left_out and not _is_left_out(program, groups[0])
    for file in program.files:
        for call in file.calls_of.get("backward", ()):
            if program.analysis(Participants).ranks_running(call) is not True:
                continue
            around = _call_around(program, call, wrappers) if wrappers else None
            if around is None and wrappers and not left_out and not _are_never_called(program, wrappers):
                continue
            unused = (
                "no run of the defaults comes to this wrapper"
                if left_out
                else "wrapped here, and never called"
            )
            yield finding_at(
                ddp.GRADIENTS_NOT_REDUCED,
                around or call,
                "nobody reduces the gradients that this makes: each rank trains a model of its own on "
                "its part of the data, and what is saved has seen that part alone",
                severity=Severity.WARNING if not samplers or (wrappers and around is None) else None,
                related=[
                    *(related_at(each, unused) for each in wrappers[:1]),
                    related_at(groups[0], "the process group"),
                    related_at(parting[0], "the data is divided"),
                ],
            )
            return


def _is_left_out(program: Program, call: ast.Call) -> bool:
    """Whether a run of the defaults, or with what a job gives it, never comes to a call."""

    def known(test: ast.expr) -> bool | None:
        found = default_constant(program, test)
        return None if found is None else bool(found.value)

    return never_runs(program, call, known)


def _parts_by_rank(program: Program) -> Iterator[ast.expr]:
    """What a program cuts into parts for its ranks by itself: `files[rank::world]`, `data.shard(n, rank)`."""
    for file in program.files:
        for call in (*file.calls_of.get("shard", ()), *file.calls_of.get("split_dataset_by_node", ())):
            if any(isinstance(program.value(each), WorldSize) for each in all_arguments(call)):
                yield call
        for cut in file.nodes(ast.Slice):
            if cut.step is not None and isinstance(program.value(cut.step), WorldSize):
                yield cut.step


def _are_never_called(program: Program, wrappers: list[ast.Call]) -> bool:
    """Whether nobody calls the models that DDP wraps, or hands them on, by whatever name they are kept."""
    names = set[str | None]()
    for each in wrappers:
        statement = parent_of(each)
        if not isinstance(statement, ast.Assign):
            return isinstance(statement, ast.Expr) and not may_run_wrapped_model(program)
        names |= {last_name(target) for target in statement.targets}
    called = {name for file in program.files for name in file.calls_of}
    return not names & called and None not in names and not may_run_wrapped_model(program)


def _call_around(program: Program, backward: ast.Call, wrappers: list[ast.Call]) -> ast.Call | None:
    """The forward pass of a loss through the module inside a DDP model, where nobody calls that model."""
    held = {
        unmoved(each)
        for wrapper in wrappers
        if (module := argument_of(wrapper, "module", 0)) is not None
        for each in origins(program, module)
        if each is not None
    }
    for call in (each for each in parts_of(program, backward.func) if isinstance(each, ast.Call)):
        called = [call.func]
        value = program.value(call.func)
        if isinstance(call.func, ast.Attribute) and (
            not isinstance(value, External) or _is_inside_ddp(program, call.func.value)
        ):
            called.append(call.func.value)  # A method of the module makes the loss: `model.module.loss(x)`.
        for each in called:
            named = isinstance(each, ast.Name | ast.Attribute | ast.Call)
            made = origins(program, each) if named else ()
            if made and all(one and _is_bare(program, one, held) for one in made):
                return None if may_run_wrapped_model(program) else call
    return None


def _is_bare(program: Program, made: ast.expr, held: set[ast.expr]) -> bool:
    """Whether this is a module that DDP holds, without DDP: itself, `model.module`, or compiled."""
    inner = unmoved(made)
    named = (
        origins(program, inner) if inner is not made and isinstance(inner, ast.Name | ast.Attribute) else ()
    )
    return (
        inner in held
        or _is_inside_ddp(program, inner)
        or (bool(named) and all(one and unmoved(one) in held for one in named))
    )


def _is_inside_ddp(program: Program, node: ast.expr) -> bool:
    """Whether this is `model.module` of a model that DDP wraps."""
    if not isinstance(node, ast.Attribute) or node.attr != "module":
        return False
    made = origins(program, node.value)
    return bool(made) and all(
        isinstance(each, ast.Call) and program.qualified(each.func) == DDP for each in made
    )


def _may_reduce(program: Program) -> bool:
    if program.analysis(reduces_by_hand) or any(True for _ in program.calls(*_OTHER_WRAPPERS)):
        return True
    if not any(True for _ in program.calls(DDP)) and _is_wrapper_handed_on(program):
        return True
    for file in program.files:
        if file.stars:
            return True
        for name, calls in file.calls_of.items():
            lowered = name.lower()
            if HARMLESS.fullmatch(name):
                continue
            if REDUCING.search(lowered) and not all(_is_of_torch(program, each) for each in calls):
                return True
    return False


def _is_wrapper_handed_on(program: Program) -> bool:
    """Whether something gets DDP as an argument, as `functools.partial(DDP, device_ids=[0])` does."""
    return any(
        isinstance(each, ast.Name | ast.Attribute) and program.qualified(each) == DDP
        for file in program.files
        for call in file.calls
        if last_name(call.func) not in ("isinstance", "issubclass")
        for each in call.args
    )


_OTHER_WRAPPERS = library_names("model_wrappers") - {DDP}
"""Wrappers that are not looked at further, under whatever name they are called."""


def _is_of_torch(program: Program, call: ast.Call) -> bool:
    """Whether a call is one of torch's, or of the program itself, that reduces nothing by its name alone."""
    value = program.value(call.func)
    if isinstance(value, Defined | Made):
        return True
    name = value.name if isinstance(value, External) else ""
    return name.startswith("torch.cuda.") or name in (
        DDP,
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        INIT_PROCESS_GROUP,
        "torch.distributed.destroy_process_group",
    )


# What is trained beside a DDP model, and not wrapped.


_OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "RAdam", "NAdam", "Adamax", "Adagrad")


@finds(Stage.SCRIPT, ddp.GRADIENTS_NOT_REDUCED)
def every_trained_model_is_wrapped(program: Program) -> Iterator[Finding]:
    """A model that nobody wraps, trained beside a DDP model by the same optimizer or by one of its own.

    Its gradients are never reduced: the ranks' copies drift apart. A warning. Silent where it may be part of
    a wrapped one, is put into anything that hints at a reduction, or knows the ranks itself.

    Bad: `net = DDP(net)` and `Adam([*net.parameters(), *head.parameters()])`. Good: `head = DDP(head)`, too.
    Source: torch's DDP documentation.
    """
    wrappers = [call for call, _ in program.calls(DDP)]
    held = {each for call in wrappers for part in call.args[:1] for each in _made_of(program, part)}
    for name in _OPTIMIZERS if wrappers and not program.analysis(reduces_by_hand) else ():
        for call, _ in program.calls(f"torch.optim.{name}"):
            params = argument_of(call, "params", 0)
            parts = () if params is None else parts_of(program, params)
            asked = [each.func for each in parts if isinstance(each, ast.Call)]
            owners = [
                each.value for each in asked if isinstance(each, ast.Attribute) if each.attr == "parameters"
            ]
            joint = any(calls_that_may_make(program, each, DDP) for each in owners)
            if not joint and not _steps_beside(program, call):
                continue
            for model in (each for each in owners if isinstance(each, ast.Name)):
                made = _made_of(program, model)
                if not held & {*made} and _is_trained_alone(program, model):
                    yield finding_at(
                        ddp.GRADIENTS_NOT_REDUCED,
                        model if joint or not made else made[0],
                        f"nobody wraps `{model.id}`, which this optimizer trains beside a DDP model: its "
                        "gradients are not reduced, and the ranks' copies drift apart",
                        severity=Severity.WARNING,
                        remedy=f"Wrap it, too: `{model.id} = DistributedDataParallel({model.id})`.",
                        related=[related_at(each, "made here") for each in made],
                    )


def _made_of(program: Program, model: ast.expr) -> list[ast.expr]:
    """The calls that make a model, without what moves it to a device."""
    return [unmoved(each) for each in origins(program, model) if each is not None]


def _is_trained_alone(program: Program, model: ast.Name) -> bool:
    """Whether a variable surely holds a module of the program that is called, and is no part of another."""
    value, scope = program.value(model), scope_of(model).holder_of(model.id)
    if not _is_a_bare_module(program, value):
        return False
    is_called = False
    for use in file_of(model).names.get(model.id, ()):
        if scope_of(use).holder_of(model.id) is not scope:
            continue
        outer = parent_of(use)
        while isinstance(outer, ast.List | ast.Tuple | ast.keyword):
            outer = parent_of(outer)
        if isinstance(outer, ast.Call) and outer.func is not use:
            given = program.value(outer.func)
            is_class = isinstance(given, Defined) and isinstance(given.node, ast.ClassDef)
            if is_class or given is UNKNOWN or REDUCING.search((last_name(outer.func) or "").lower()):
                return False
        is_called |= isinstance(outer, ast.Call) and outer.func is use
        is_called |= isinstance(outer, ast.Attribute) and outer.attr == "forward"
    return is_called


def _is_a_bare_module(program: Program, value: Value) -> bool:
    """Whether something is a module of torch, or of a class of the program that knows nothing of ranks."""
    if isinstance(value, Instance):
        return value.name.startswith("torch.nn.") and not value.name.startswith("torch.nn.parallel.")
    if not isinstance(value, Made) or not program.evaluation.attributes.member_of(
        value.definition, "forward"
    ):
        return False
    words = {each.id for each in walk(value.definition) if isinstance(each, ast.Name)}
    return not any(hint in word.lower() for word in words for hint in ("rank", "dist", "world"))


def _steps_beside(program: Program, optimizer: ast.Call) -> bool:
    """Whether an optimizer is stepped on all ranks in a function that steps another one, too."""
    for step, beside in program.analysis(_steps_together):
        owner = step.func.value if isinstance(step.func, ast.Attribute) else None
        if (
            owner is not None
            and program.analysis(Participants).ranks_running(step) is True
            and optimizer in origins(program, owner)
            and any(steps_optimizer(program, each) for each in beside)
        ):
            return True
    return False


def _steps_together(program: Program) -> list[tuple[ast.Call, list[ast.Call]]]:
    """The calls of something's `step` that stand in one function with others, and these others."""
    of_functions: dict[Scope, list[ast.Call]] = {}
    for file in program.files:
        for call in file.calls_of.get("step", ()):
            of_functions.setdefault(scope_of(call), []).append(call)
    return [
        (step, [each for each in steps if each is not step])
        for steps in of_functions.values()
        if len(steps) > 1
        for step in steps
    ]


# What is trained with Accelerate, and not prepared.


_OTHER_THAN_MODELS = ("torch.optim.", "torch.utils.data.", "transformers.get_", "transformers.optimization.")
"""How the names begin of what is prepared beside a model."""


def _never_prepared(program: Program) -> Iterator[Finding]:
    """Models that are trained with Accelerate and that no `prepare` is given, where all that is prepared is
    something else."""
    prepared = [call for call, _ in program.calls(*(f"{_ACCELERATOR}.{each}" for each in _PREPARING))]
    if not prepared or program.unread or program.analysis(reduces_by_hand):
        return
    names = {name for file in program.files for name in (*file.names, *file.attributes)}
    if names & {"DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"}:
        return
    if not all(_is_no_model(program, each) for call in prepared for each in all_arguments(call)):
        return
    for backward, _ in program.calls(f"{_ACCELERATOR}.backward"):
        parts = parts_of(program, backward.args[0]) if backward.args else ()
        for made in (each for each in parts if isinstance(each, ast.Call)):
            value = program.value(made.func)
            is_model = isinstance(value, Instance) and value.name.startswith(
                ("transformers.Auto", "torchvision.")
            )
            if is_model or _is_a_bare_module(program, value):
                yield finding_at(
                    ddp.GRADIENTS_NOT_REDUCED,
                    prepared[0],
                    f"`{ast.unparse(made.func)}` is trained and never prepared: nobody reduces its "
                    "gradients, and each rank trains a model of its own",
                    remedy="Give the model to `prepare`, too, and train with what that gives.",
                    related=[related_at(made, "its forward pass"), related_at(backward, "its backward pass")],
                )
                return


_ACCELERATOR = "accelerate.Accelerator"
_PREPARING = ("prepare", "prepare_model", "prepare_optimizer", "prepare_data_loader", "prepare_scheduler")


def _is_no_model(program: Program, given: ast.expr) -> bool:
    """Whether what `prepare` is given surely is an optimizer, a loader or a schedule."""
    if isinstance(given, ast.Starred):
        return False
    value = program.value(given)
    return isinstance(value, Instance) and value.name.startswith(_OTHER_THAN_MODELS)


REDUCTION_RULES = (every_trained_model_is_wrapped, gradients_are_reduced)
