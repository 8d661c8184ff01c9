"""What ends every rank of a job early: names without a value, numbers that do not fit, variables that nobody
sets, commands and keys that are not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.execution.objects import (
    NAME_MISSING,
    READ_UNBOUND,
    READ_UNSET,
    UNMET,
    Symbol,
)
from launcher.program.execution.process import CODE_FOLDER
from launcher.program.index import ancestors
from launcher.program.objects.nodes import walk
from launcher.program.values import WorldSize
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import (
    OF_CHECKOUT,
    RankRuns,
    command_of,
    end_of,
    settings_of,
    sure_events,
)

_OF_MPI = re.compile(r"(HOROVOD|OMPI|DMLC|PMI|PMIX)_")
_OF_LAUNCHERS = re.compile(rf"{_OF_MPI.pattern}|(LOCAL_)?RANK$|(LOCAL_)?WORLD_SIZE$|MASTER_(ADDR|PORT)$")
"""The variables of another launcher, of which DIST005 says that the job has the wrong one."""


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def names_are_bound(runs: RankRuns) -> Iterator[Finding]:
    """A name that a rank reads and to which nothing gives a value: it ends with a NameError or ImportError.

    Nothing in its file does, or only what the tests of a function keep this job from, which is Python's
    UnboundLocalError; or it is imported from a module of the program that has none. Silent within a `try`,
    where a file imports all of a module, where names may be made in other ways, and where a later turn of a
    loop may give it one.

    Bad: `transform=transform_fintune` beside `transform_finetune = ...`. Good: the name as it is written
    there. Source: Python's reference, naming and binding.
    """
    told: set[object] = set()
    events = [(each, end_of(each)) for each in sure_events(runs)]
    for each in (each for run in runs.begun[1:] for each in run.events if each.is_sure and not each.is_tried):
        events.append((each, "the ranks but the first end here"))
    for event, end in events:
        if event.name not in (READ_UNBOUND, NAME_MISSING) or (event.args[1:] and not event.is_sure):
            continue
        name, *rest = event.args
        if not told.isdisjoint({name, *rest}):
            continue
        told |= {name, *rest}
        error, related = "a NameError", []
        if event.name == NAME_MISSING:
            cause, error = f"the program's `{rest[0]}` has no `{name}`", "an ImportError"
        elif rest:
            cause = f"`{name}` gets no value before it is read"
            related = [related_at(each, "this keeps them from what would give it one") for each in rest]
        else:
            cause = f"nothing gives `{name}` a value"
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"{cause}: {end} with {error}",
            severity=None if event.is_sure else Severity.WARNING,
            related=related,
        )


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def sizes_can_be_divided(runs: RankRuns) -> Iterator[Finding]:
    """An assertion that a number can be divided by another, which does not hold with those of the job.

    Every rank ends there: of a batch that the number of ranks or GPUs does not divide. Silent where one of
    the numbers is not known; what is asserted of the world is told as its topology.

    Bad: `assert args.batch_size % world_size == 0` with `--batch_size 4` on eight GPUs. Good: the same with
    `--batch_size 8`. Source: Python's assert.
    """
    for event in (each for run in runs.begun[:1] for each in run.calls(UNMET) if each.is_sure):
        (test,) = event.args
        if _divides_a_literal(test) or _asks_for_world(runs, test):
            continue  # It is told as the topology that the program is written for.
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"`{ast.unparse(test)}` does not hold with the numbers of this job: every rank ends here",
            remedy="Give the job numbers that can be divided.",
            related=settings_of(runs.begun[0], [test]),
        )
        return


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def batches_hold_a_sample(runs: RankRuns) -> Iterator[Finding]:
    """A loader whose batches have no sample, by the numbers of the job: every rank ends where it is made.

    As a rule the batch of all is divided by more processes or GPUs than it has samples, and rounded down.

    Bad: `DataLoader(data, batch_size=4 // world_size)` on eight GPUs. Good: the same with a batch of 64.
    Source: torch/utils/data/sampler.py (BatchSampler raises ValueError).
    """
    for event in (each for each in sure_events(runs) if each.name in _BATCHED):
        size, place = event.argument("batch_size", 1), argument_of(event.node, "batch_size", 1)
        if type(size) is int and size < 1 and event.argument("batch_sampler", 5) is None:
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"a batch has {size} samples with the numbers of this job: {end_of(event)} with a ValueError",
                severity=None if event.is_sure else Severity.WARNING,
                remedy="Let the batch that is divided have a sample for each process, or give each its own.",
                related=[] if place is None else settings_of(runs.begun[0], [place]),
            )
            return


_BATCHED = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.BatchSampler"})


def _divides_a_literal(test: ast.expr) -> bool:
    divided = [
        each.left for each in walk(test) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)
    ]
    return all(isinstance(each, ast.Constant) for each in divided)


def _asks_for_world(runs: RankRuns, test: ast.expr) -> bool:
    values = (runs.program.value(each) for each in walk(test) if isinstance(each, ast.expr))
    return any(isinstance(each, WorldSize) for each in values)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def variables_are_set(runs: RankRuns) -> Iterator[Finding]:
    """A variable of the environment that a rank reads by its name and that neither job nor launcher sets.

    The rank ends there with a KeyError, and the others wait for it. A warning, as an image may set it. Silent
    within a `try`, about variables that images often set, and where a file of them is read.

    Bad: `os.environ["ENTITY"]`. Good: the same with `environment: {ENTITY: ...}` in the job file, or
    `os.environ.get("ENTITY")`. Source: Python's os.environ.
    """
    if next(runs.calls("*.load_dotenv", "*.read_env", "os.environ.update"), None) is not None:
        return
    told: set[str] = set()
    for run in runs.runs:
        for event in run.calls(READ_UNSET):
            (name,) = event.args
            of_another = _OF_LAUNCHERS if runs.strategy == "mpi" else _OF_MPI
            if not event.is_sure or name in told or of_another.match(name):
                continue
            told.add(name)
            ranks = [
                one.world.rank
                for one in runs.runs
                if any(name in each.args for each in one.calls(READ_UNSET))
            ]
            who = "every rank" if len(ranks) == len(runs.runs) else f"rank {ranks[0]}"
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"{name} is set neither by the job nor by its launcher: {who} ends here with a KeyError, "
                "unless the image sets it",
                severity=Severity.WARNING,
                remedy=f"Set it in the job file (`environment: {{{name}: ...}}`), or read it with a default.",
            )


_RAISING = ("subprocess.check_output", "subprocess.check_call", "subprocess.run")
_SIZE_OF_TERMINAL = "stty size"


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def commands_find_what_they_need(runs: RankRuns) -> Iterator[Finding]:
    """A command that fails in the container and ends every rank: git, or its library, without a checkout,
    `stty` without a terminal.

    The source folder is uploaded without `.git`. Silent within a `try`, behind a test that nobody can tell,
    and where the failure raises nothing.

    Bad: `COMMIT = subprocess.check_output(["git", "rev-parse", "HEAD"])`. Good: the same within a `try`, or
    `subprocess.run` without `check`. Source: launcher/source (what is packed); stty of GNU coreutils.
    """
    if runs.subject.job.backend != "sagemaker":
        return
    for event in (each for run in runs.runs[:1] for each in run.calls(*_RAISING, "os.popen", _CHECKOUT)):
        command = _CHECKOUT if event.name == _CHECKOUT else command_of(event)
        if not event.is_sure or event.is_tried or command is None:
            continue
        if event.name == _CHECKOUT:
            fails = event.argument("path", 0) in (None, ".", CODE_FOLDER)
            lacking = "the source folder is uploaded without .git: InvalidGitRepositoryError"
        elif event.name == "os.popen":
            fails = command.strip() == _SIZE_OF_TERMINAL and _is_unpacked(event.node)
            lacking = "without a terminal it prints nothing, and there is nothing to unpack"
        else:
            checked = event.name != "subprocess.run" or event.keywords.get("check") is True
            fails = checked and bool(OF_CHECKOUT.match(command)) and "||" not in command
            lacking = "the source folder is uploaded without .git, and the command raises CalledProcessError"
        if fails:
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"`{command.strip()}`: {lacking}: every rank ends here",
                remedy="Put it into a `try`, or give the value as a hyperparameter or variable of the job.",
            )


_CHECKOUT = "git.Repo"
"""GitPython's checkout, by default of the folder in which the program runs."""


def _is_unpacked(call: ast.Call) -> bool:
    """Whether several names take what comes of a call."""
    taken = next((each for each in ancestors(call) if isinstance(each, ast.stmt)), None)
    return isinstance(taken, ast.Assign) and isinstance(taken.targets[0], ast.Tuple | ast.List)


_KEY_OF_WANDB = "WANDB_API_KEY"
_WITHOUT_KEY = ("WANDB_MODE", "WANDB_DISABLED", "WANDB_ANONYMOUS", "WANDB_IDENTITY_TOKEN_FILE", ".netrc")
"""What lets Weights & Biases go without a key, or find one elsewhere."""


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def trackers_get_their_key(runs: RankRuns) -> Iterator[Finding]:
    """Weights & Biases begun in a job that gives it no key: without a terminal to ask, it raises an error.

    Silent within a `try`, behind a test that nobody can tell, and where program or job name its key or its
    mode.

    Bad: `wandb.init(project="mine")` without `secrets: {WANDB_API_KEY: ...}`. Good: the same with it, or
    with `environment: {WANDB_MODE: offline}`. Source: wandb 0.31 ("No API key configured"), and its versions
    before ("api_key not configured (no-tty)").
    """
    job, first = runs.subject.job, runs.first
    if first is None or job.backend != "sagemaker":
        return
    names = {*job.environment, *job.secrets}
    if not names.isdisjoint((_KEY_OF_WANDB, *_WITHOUT_KEY)):
        return
    if any(mark in file.text for file in runs.program.files for mark in (_KEY_OF_WANDB, *_WITHOUT_KEY)):
        return
    calls = [*first.calls("wandb.init", "wandb.login")]
    if any(each.name == "wandb.login" and each.argument("key", 1) is not None for each in calls):
        return
    for event in calls:
        settings = event.argument("settings")
        made = settings.made_by if isinstance(settings, Symbol) else None
        known = {} if made is None else made.keywords
        asked = [event.argument(each) or known.get(each) for each in ("mode", "anonymous")]
        is_open = any(each not in (None, "online") for each in asked) or "api_key" in known
        is_open = is_open or (settings is not None and made is None)
        if event.is_sure and not event.is_tried and not is_open:
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"{event.name} asks for a key, and this job gives none: without a terminal it raises an "
                "error",
                remedy=f"Give the key as a secret (`secrets: {{{_KEY_OF_WANDB}: NAME}}`), or log without the "
                "network (`environment: {WANDB_MODE: offline}`).",
            )
            return


ENDING_RUN_RULES = (
    names_are_bound,
    sizes_can_be_divided,
    batches_hold_a_sample,
    variables_are_set,
    commands_find_what_they_need,
    trackers_get_their_key,
)
