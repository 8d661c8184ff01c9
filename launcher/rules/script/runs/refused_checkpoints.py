"""The checkpoints of a program that torch.load refuses when the program goes on from them, as it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.execution.objects import (
    OPEN,
    OWN,
    SETTING_OF_GROUPS,
    BoundCall,
    CallMade,
    DottedEntries,
    Function,
    Object,
    OpenDictionary,
    Symbol,
    is_of_numpy,
)
from launcher.program.execution.ranks import RankRun
from launcher.program.index import ancestors
from launcher.program.surroundings.saves import SAVERS
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import RankRuns
from launcher.rules.script.runs.saves_and_loads import idle_loads, text_of_path

_WITHOUT_REFUSAL = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
_REFUSED_SINCE = (2, 6)
"""The version of torch. Source: its release notes."""
_OF_THIS_TRAINING = re.compile(r"resum|last|latest|newest|auto|ckpt|checkpoint", re.IGNORECASE)
"""What the path of a checkpoint is called from which a training goes on."""
_OF_RESUMING = re.compile(r"resum|restor|restart|last|latest|newest", re.IGNORECASE)
_STATE_OF_OPTIMIZER = re.compile(r"torch\.optim\.\w+\(\)\.state_dict\(\)")
_OF_WEIGHTS = re.compile(r"model|net|state_dict|weights", re.IGNORECASE)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def checkpoints_can_be_read_again(runs: RankRuns) -> Iterator[Finding]:
    """A checkpoint with more in it than tensors and plain values, which the program loads without saying so.

    From torch 2.6 on torch.load takes weights_only=True by default and refuses it: the job that was to go on
    after an interruption ends there. Silent within a `try`, and where another file is loaded.

    Bad: `torch.save({"model": ..., "args": args}, path)` and `torch.load(path)`. Good: `vars(args)`, or
    `torch.load(path, weights_only=False)`. Source: the release notes of torch 2.6.
    """
    has = runs.packages.version_of("torch")
    if (
        has is None
        or _parts(has) < _REFUSED_SINCE
        or runs.first is None
        or _WITHOUT_REFUSAL in runs.first.variables
    ):
        return
    since = ".".join(map(str, _REFUSED_SINCE))
    for save in (each for run in runs.runs[:1] for each in run.calls("torch.save")):
        states = save.argument("obj", 0)
        refused = _refused_part(states) or _refused_state_of_optimizer(runs.first, save, states)
        loads = dict(_loads_of_state(runs, save))
        if refused is None or not loads:
            continue
        (load, is_idle), *others = loads.items()
        yield finding_at(
            training_script.SCRIPT_RAISED,
            load,
            f"the checkpoint holds {refused.what}, which torch.load of torch {has} refuses, as weights_only "
            f"is True by default since {since}: a run that goes on from it ends here",
            severity=_SEVERITIES[is_idle + (not _may_go_on(runs))],
            remedy=f"Save {refused.plain}, or pass weights_only=False to load what a job of yours wrote.",
            related=[
                related_at(save.node, "saved here"),
                *(related_at(each, "set here") for each in refused.places),
                *(related_at(each, "loaded here, too") for each, _ in others[:2]),
            ],
        )
        return


_SEVERITIES = (None, Severity.WARNING, Severity.INFO)
"""By how many reasons there are for which this job itself does not come to the load."""


def _may_go_on(runs: RankRuns) -> bool:
    """Whether the job is started again by itself, or keeps its checkpoints for another."""
    job = runs.subject.job
    return job.may_start_again or job.checkpoint is not None


_WHOLE_MODEL = re.compile(
    r"torch\.nn\.(?!functional|init|utils|[Pp]arameter)[\w.]+\(\)(\.(module|(half|float|eval|cpu|cuda|to)\(\)))*"
)
"""The names of models, as they are or put elsewhere."""


@frozen
class _RefusedPart:
    """What a checkpoint holds that is neither a tensor nor plain, what to save in its place, and where it is
    set if that is elsewhere."""

    what: str
    plain: str
    places: tuple[ast.Call, ...] = ()


def _loads_of_state(runs: RankRuns, save: CallMade) -> Iterator[tuple[ast.Call, bool]]:
    """The calls that may load what a call saves and do not say that they load all; those behind an option
    that this job does not give last, for which it is True."""
    assert runs.first is not None
    if _is_read_again(runs.first.keys, save.argument("obj", 0)):
        for load in sorted(runs.first.calls("torch.load"), key=_is_of_another_model):
            is_open = isinstance(load.keywords, OpenDictionary) or load.is_tried
            if not is_open and not _says_what(load.node) and _may_be_one_file(save, load):
                yield load.node, False
    for idle in idle_loads(runs, "torch.load"):
        around = [*ancestors(idle)]
        names = [each.name for each in around if isinstance(each, ast.FunctionDef)]
        tests = [ast.unparse(each.test) for each in around if isinstance(each, ast.If)]
        resumes = any(map(_OF_RESUMING.search, (ast.unparse(idle), *names, *tests)))
        if resumes and not any(isinstance(each, ast.Try) for each in around) and not _says_what(idle):
            yield idle, True


def _says_what(load: ast.Call) -> bool:
    """Whether a load is told, or may be, what it takes."""
    return any(each.arg in (None, "weights_only", "pickle_module") for each in load.keywords)


def _is_of_another_model(load: CallMade) -> bool:
    """Whether neither a load nor the function around it says that it is of a checkpoint of the same training,
    as `args.resume` does."""
    around = (each.name for each in ancestors(load.node) if isinstance(each, ast.FunctionDef))
    return not any(map(_OF_THIS_TRAINING.search, (ast.unparse(load.node), *around)))


def _refused_part(states: object) -> _RefusedPart | None:
    """The entry of a checkpoint, or of one within it, that is a configuration, an object or numpy's, or has
    such a one in a list."""
    if not isinstance(states, dict) or isinstance(states, DottedEntries):
        return None
    for key, value in states.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, DottedEntries | Object):
                return _RefusedPart(f"`{key}`, an object", f"plain values (`vars({key})`)")
            if isinstance(each, Symbol) and _WHOLE_MODEL.fullmatch(each.name):
                return _RefusedPart(f"`{key}`, a whole model", "its `state_dict()`")
            if is_of_numpy(each):
                return _RefusedPart(
                    f"`{key}`, a value of numpy's", f"a plain number (`float({key})`) or a list"
                )
            inner = _refused_part(each)
            if inner is not None:
                return inner
    return None


_SETTING_RATES_ANEW = (
    "torch.optim.lr_scheduler.LambdaLR().step",
    "torch.optim.lr_scheduler.OneCycleLR().step",
)
"""Steps of schedules that make a rate of the first one, and not of that which a group has.
Source: torch 2.10, lr_scheduler.py."""


def _refused_state_of_optimizer(run: RankRun, save: CallMade, states: object) -> _RefusedPart | None:
    """The state of an optimizer with a learning rate of numpy's, `group["lr"] = schedule[step]`, which no
    schedule sets anew before it is saved, or with a function among its defaults, which its groups hold and
    pickle names."""
    entries = states.items() if isinstance(states, dict) else ()
    keys = [str(key) for key, value in entries if "optim" in str(key) or _is_state_of_optimizer(value)]
    if not keys:
        return None
    made = [*run.calls(SETTING_OF_GROUPS, "torch.save", *_SETTING_RATES_ANEW)]
    made = made[: made.index(save)] if save in made else made
    anew = max((at for at, each in enumerate(made) if each.name in _SETTING_RATES_ANEW), default=-1)
    for at, event in enumerate(made):
        if event.name != SETTING_OF_GROUPS:
            continue
        key, value = event.args
        stays = at > anew if key == "lr" else event.is_sure
        if stays and is_of_numpy(value):
            what = f"`{keys[0]}`, where `{key}` is a number of numpy's"
            return _RefusedPart(what, f"a plain number: set `{key}` to `float(...)`", (event.node,))
    if next(run.calls("*.add_safe_globals", "*.safe_globals"), None) is not None:
        return None
    if any(".state_dict()" in each.name for each in run.calls("*.pop")):
        return None  # What it takes out of the groups before they are saved nobody knows.
    for event in run.calls("torch.optim.Optimizer"):
        groups = event.argument("params", 0)
        kept = [event.argument("defaults", 1), *(groups if isinstance(groups, list | tuple) else ())]
        held = (item for each in kept if isinstance(each, dict) for item in each.items())
        function = next((str(key) for key, value in held if _is_function(value)), None)
        if function is not None:
            what = f"`{keys[0]}`, whose groups hold a function as `{function}`"
            return _RefusedPart(what, "the state without the function", (event.node,))
    return None


def _is_state_of_optimizer(value: object) -> bool:
    return isinstance(value, Symbol) and _STATE_OF_OPTIMIZER.fullmatch(value.name) is not None


def _is_function(value: object) -> bool:
    """Whether a value is a function, which pickle keeps by its name, or a partial application of one."""
    of_torch = isinstance(value, Symbol) and re.fullmatch(r"torch\.nn\.(functional|init)\.\w+", value.name)
    return isinstance(value, Function | BoundCall) or bool(of_torch)


def _is_read_again(keys: frozenset[str], states: object) -> bool:
    """Whether a program reads what a checkpoint holds beside the weights."""
    return isinstance(states, dict) and any(
        isinstance(key, str) and key in keys and not _OF_WEIGHTS.search(key) for key in states
    )


def _may_be_one_file(save: CallMade, load: CallMade) -> bool:
    """Whether a path that is loaded may be the one that is saved to, by the names of the files."""
    names = [text_of_path(each) for each in (save.argument(*SAVERS["torch.save"]), load.argument("f", 0))]
    if names[0] is None or names[1] is None:
        return not _is_of_another_model(load)
    lasts = [re.sub(r"[.~_](tmp|temp|part|new)$", "", each.rpartition("/")[2]) for each in names if each]
    patterns = [re.split(f"[{OPEN}{OWN}]+", each) for each in lasts]
    texts = ["x".join(each) for each in patterns]
    stems = {each.partition(".")[0] for each in texts}
    return (len(stems) == 1 and any("." not in each for each in texts)) or any(
        re.fullmatch(".*".join(map(re.escape, one)), other) is not None
        for one, other in zip(patterns, reversed(texts), strict=True)
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".") if each.isdecimal())


REFUSED_RUN_RULES = (checkpoints_can_be_read_again,)
