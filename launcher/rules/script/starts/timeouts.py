"""How long process groups wait for their ranks: not at all, too short for what one rank does alone, or
for ever."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    Known,
    argument_of,
    calculate_number,
    constant_argument,
    has_star_arguments,
)
from launcher.program.index import last_name
from launcher.program.process_environment import variables_in
from launcher.program.program import Program
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.truths import Guard
from launcher.program.values import INIT_PROCESS_GROUP, Constant, Defined, Instance
from launcher.rules.script.data.downloads import fetches
from launcher.rules.script.data.loaders import Loaders, loops_over_something
from launcher.rules.script.default_values import default_number
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at
from launcher.rules.script.starts.job_run import JobRun

SHORT_TIMEOUT = 300
"""Seconds: what catalogue and tutorials call short, and a large checkpoint or download may take longer."""

SHORTEST_PAUSE = 30
"""Seconds: a pause that a rank may make without any work that only it does."""

ENDLESS_TIMEOUT = 86400
"""Seconds: a day, in which nothing is waited for that will come."""

_POSITIONS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")

_LONG = {
    **dict.fromkeys(("save_pretrained", "save_model", "save_state", "save_file", "save_checkpoint"), "saves"),
    **dict.fromkeys(("upload_file", "upload_fileobj", "upload_folder", "push_to_hub"), "uploads"),
    **dict.fromkeys(("snapshot_download", "hf_hub_download", "load_dataset"), "downloads"),
    **dict.fromkeys(("save_to_disk", "to_parquet", "savez", "savez_compressed", "memmap"), "writes data"),
}
"""The names of what libraries do for minutes, and the word for it."""
_SMALL = re.compile("token|process|config|extractor")
"""In the names of what is saved in no time."""


@finds(Stage.SCRIPT, ddp.GROUP_TIMEOUT_UNSUITABLE)
def groups_have_a_fitting_timeout(program: Program) -> Iterator[Finding]:
    """A process group without a timeout, or with one shorter than what one rank does while others wait.

    Without one it is informational, of an Accelerator where one rank works alone; so is one of a day or more.
    A timeout of at most 300 s is a warning where the program lets some ranks alone save, download or unpack:
    the others are in their next collective meanwhile.

    Bad: `init_process_group("nccl", timeout=timedelta(seconds=60))` and a `torch.save` under
    `if rank == 0:`. Good: `timeout=timedelta(minutes=30)`. Source: torch.distributed's documentation.
    """
    plain = [
        call
        for call, _ in program.calls("accelerate.Accelerator")
        if argument_of(call, "kwargs_handlers") is None and not has_star_arguments(call)
    ]
    if plain and any(True for _ in _work_of_some_ranks(program, program.analysis(Participants))):
        yield from map(_without_timeout, plain)
    for call, name in program.calls(*_WITH_TIMEOUT):
        given = _timeout_of(call, name) or _spread_timeout(program, call)
        is_open = has_star_arguments(call) and name == INIT_PROCESS_GROUP
        makes = name in GROUP_MAKERS or (
            name == _MESH and not any(True for _ in program.calls(*GROUP_MAKERS))
        )
        if given is None and makes and not is_open:
            yield _without_timeout(call)
        if given is not None:
            yield from _unfitting(program, given, _seconds(program, given, partial(_default_number, program)))


@finds(Stage.SCRIPT, ddp.GROUP_TIMEOUT_UNSUITABLE)
def timeouts_fit_the_job(subject: ScriptSubject) -> Iterator[Finding]:
    """A timeout that this job makes short, by a variable that it sets or leaves out.

    Only where nothing but the job tells the number, as in the other rule on timeouts.

    Bad: `timedelta(seconds=int(os.environ.get("PG_SECONDS", "20")))` in a job that does not set PG_SECONDS.
    Good: a default of half an hour. Source: torch.distributed's documentation.
    """
    program, run = subject.program, JobRun(subject)

    def known(node: ast.expr) -> float | None:
        value = run.value(node)
        text = "" if value is None or isinstance(value.value, bool) else str(value.value)
        return float(text) if text.replace(".", "", 1).isdecimal() else None

    for call, name in program.calls(*_WITH_TIMEOUT):
        given = _timeout_of(call, name)
        if given is not None and _seconds(program, given, partial(_default_number, program)) is None:
            yield from _unfitting(program, given, _seconds(program, given, known))


GROUP_MAKERS = (
    INIT_PROCESS_GROUP,
    "deepspeed.init_distributed",
    "mmcv.runner.init_dist",
    "mmengine.dist.init_dist",
)
"""What makes the group of all ranks, and leaves it to the program how long it waits and when it ends."""

_MESH = "torch.distributed.device_mesh.init_device_mesh"
"""What makes the group of all ranks where nothing has made it."""
_ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig")

_WITH_TIMEOUT = {
    **dict.fromkeys(GROUP_MAKERS),
    INIT_PROCESS_GROUP: 2,
    "accelerate.InitProcessGroupKwargs": None,
    "accelerate.utils.InitProcessGroupKwargs": None,
    "lightning.pytorch.strategies.DDPStrategy": None,
    "lightning.pytorch.strategies.FSDPStrategy": None,
    "lightning.pytorch.strategies.DeepSpeedStrategy": None,
    "lightning.fabric.strategies.DDPStrategy": None,
    "lightning.fabric.strategies.FSDPStrategy": None,
    "torch.distributed.new_group": 1,
    "torch.distributed.monitored_barrier": 1,
    **dict.fromkeys(_ARGUMENTS),
    _MESH: None,
    **dict.fromkeys(("ignite.distributed.Parallel", "ignite.distributed.initialize")),
}
"""What makes a group or waits in one, and the place of the timeout that it is given."""


def _timeout_of(call: ast.Call, name: str) -> ast.expr | None:
    """The timeout that a call is given, by its name in that library; not of a group of some ranks."""
    if name == "torch.distributed.new_group" and argument_of(call, "ranks", 0) is not None:
        return None
    keyword = "ddp_timeout" if name.startswith("transformers.") else "timeout"
    return argument_of(call, keyword, _WITH_TIMEOUT[name])


def _spread_timeout(program: Program, call: ast.Call) -> ast.expr | None:
    """What `**options` give a call as its timeout, where the program writes but one in a table."""
    if not any(each.arg is None for each in call.keywords):
        return None
    found = [
        value
        for file in (program.mentioning("timedelta") if has_star_arguments(call) else ())
        for node in file.nodes(ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "timeout"
    ]
    return found[0] if len(found) == 1 else None


def _without_timeout(call: ast.Call) -> Finding:
    return finding_at(
        ddp.GROUP_TIMEOUT_UNSUITABLE,
        call,
        "no timeout is given: the default ends a rank that waits longer for another one's checkpoint or "
        "download, and is how long a real hang keeps the whole cluster",
        severity=Severity.INFO,
    )


def _unfitting(program: Program, given: ast.expr, seconds: float | None) -> Iterator[Finding]:
    if seconds is not None and seconds >= ENDLESS_TIMEOUT:
        yield finding_at(
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            given,
            f"the timeout is {seconds / 3600:g} hours, in effect none: a rank that hangs keeps the whole "
            "cluster until the job's own limit",
            severity=Severity.INFO,
        )
    if seconds is None or not 0 < seconds <= SHORT_TIMEOUT:
        return
    work = next(_work_of_some_ranks(program, program.analysis(Participants)), None)
    if work is None and seconds <= SHORTEST_PAUSE:
        yield finding_at(
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            given,
            f"the timeout is {seconds:g} s: a rank that is so late in one step, by a slow batch, a "
            "checkpoint or what its device compiles first, is taken for lost",
            severity=Severity.WARNING,
        )
    if work is not None:
        place, word, ranks = work
        yield finding_at(
            ddp.GROUP_TIMEOUT_UNSUITABLE,
            given,
            f"the timeout is {seconds:g} s, and {ranks} alone {word} while the others wait in "
            "their next collective: where that takes longer, they are killed",
            related=[related_at(place, f"run by {ranks} alone")],
        )


def _work_of_some_ranks(program: Program, participants: Participants) -> Iterator[tuple[ast.expr, str, str]]:
    """What some ranks do alone for minutes, the word for it, and which ranks these are."""
    yield from ((call, "saves its checkpoints", "rank 0") for call in _saving_trainers(program))
    for place, word in _long_work(program):
        who = participants.ranks_running(place)
        if isinstance(who, Guard):
            yield place, word, who.described


_TRAINERS = (
    "transformers.Trainer.train",
    "transformers.Seq2SeqTrainer.train",
    "lightning.pytorch.Trainer.fit",
)


def _saving_trainers(program: Program) -> Iterator[ast.expr]:
    """Where a library's trainer trains, whose rank 0 writes checkpoints meanwhile, unless it is told no."""
    told = [
        constant_argument(program, argument_of(call, keyword))
        for call, _ in program.calls(*_ARGUMENTS, "lightning.pytorch.Trainer")
        for keyword in ("save_strategy", "enable_checkpointing", "checkpoint_callback")
    ]
    if not any(each is not None and each.value in (False, "no") for each in told):
        yield from (call for call, _ in program.calls(*_TRAINERS))


def _long_work(program: Program) -> Iterator[tuple[ast.expr, str]]:
    """What one rank may do for minutes while the others wait, and the word for it."""
    saving = program.calls("torch.save", "accelerate.Accelerator.save", "numpy.save")
    yield from ((call, "saves") for call, _ in saving)
    waiting = program.calls(*(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")))
    yield from ((call, "waits for another program") for call, _ in waiting)
    yield from ((call, "fetches or unpacks files") for call, _ in fetches(program))
    loaders = program.analysis(Loaders)
    for file in program.files:
        for call in (each for name in _LONG for each in file.calls_of.get(name, ())):
            own = isinstance(program.value(call.func), Defined)
            if not own and not _SMALL.search(ast.unparse(call.func).lower()):
                yield call, _LONG[last_name(call.func) or ""]
        for _, given, _ in loops_over_something(program, file):
            if loaders.resolved(loaders.unwrapped(given)):
                yield given, "goes through a data set"


def _seconds(program: Program, node: ast.expr, known: Known) -> float | None:
    """How long a `timedelta(...)` of known numbers is, or a number of seconds."""
    value = program.value(node)
    if isinstance(value, Constant):
        return calculate_number(program, node, known)
    if (
        not isinstance(value, Instance)
        or value.name != "datetime.timedelta"
        or has_star_arguments(value.call)
    ):
        return None
    given = dict(zip(_POSITIONS, value.call.args, strict=False))
    given.update({each.arg: each.value for each in value.call.keywords if each.arg is not None})
    total = 0.0
    for unit, amount in given.items():
        number = calculate_number(program, amount, known)
        if number is None:
            return None
        total += number * (timedelta(**{unit: 1}).total_seconds() if unit in _POSITIONS else 0)
    return total


def _default_number(program: Program, node: ast.expr) -> float | None:
    """By the program and its options alone; of variables the job tells."""
    return None if variables_in(program, node) else default_number(program, node)


TIMEOUT_RULES = (groups_have_a_fitting_timeout,)
TIMEOUT_JOB_RULES = (timeouts_fit_the_job,)
"""The rules of this family; the second one needs a job."""
