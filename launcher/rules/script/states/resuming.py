"""What a job that starts again goes on from: whether the program loads what it has saved."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Location, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, origins
from launcher.program.index import (
    BindingKind,
    ancestors,
    ancestors_in_function,
    class_of,
    file_of,
    last_name,
    parent_of,
    scope_of,
    statement_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability
from launcher.program.surroundings.options import option_of
from launcher.program.surroundings.saves import (
    SAVED_TO,
    state_saves,
)
from launcher.program.values import (
    Defined,
    Dictionary,
    External,
    entries_of,
)
from launcher.rules.script.configuration_files import ConfigurationFiles, location_in_file, words_of
from launcher.rules.script.data.loaders import Loaders
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at
from launcher.rules.script.starts.job_run import JobRun, failing_tests, may_run
from launcher.rules.script.states.writers import texts_in

_LOADERS = re.compile(
    "(^|_)load(_?from|_(state|model|ckpt|weights|objects))|restore|resum|checkpoint|snapshot"
)
_OTHER_CHECKPOINTS = re.compile(
    r"save|write|activation|gradient_|wrapper|_blocks?$|sequential|delete|remove|clean|modelcheckpoint|callback"
    r"|download|upload|load_from_(disk|json|yaml|hub|csv)|register|convert|consolidate|enable|disable|^(find|list|latest|newest|last|get_(last|latest"
    r"|newest))_|_(path|dir|folder|name|file)s?$"
)
"""What the names of functions hold that save, find or delete checkpoints, or compute activations again."""
_OF_WEIGHTS = re.compile(r"load_(model|weights?|params?|parameters|pretrained\w*|adapter|from(_\w+)?)")
"""What the functions of libraries are called that load a model's weights and no more."""
_PROGRESS = re.compile(
    r"epoch|step|iter|optim|sched|scaler|progress|trainer|(^|_)(opt|it|ep|round|batch_idx)(_|$)",
    re.IGNORECASE,
)
"""What the keys and objects are called of which a run that goes on needs the state, beside the weights."""
_NO_CHECKPOINTS = re.compile(
    r"(\w*_)?(args?|cfg|config|conf|hp|hparams|batch|sample|item|row|logs?|metrics?|history|results?|stats|"
    r"losses|meters?|inputs?|outputs?|data|params|kwargs|opts?|options|settings|defaults|groups?|os\.environ)"
)
"""What tables are called that are read by such keys too, and come from no checkpoint."""
LENGTHS = re.compile(
    r"(max|min|num|n|total|save|eval|val|test|log|warmup|print|every)_|\w+_(interval|freq|every)$"
)
"""What keys begin or end with that say how long a run is, or how often it does something."""
_OF_RESUMING = re.compile(r"resum|continu|restart|restor", re.IGNORECASE)
_OF_USES = re.compile(r"eval|test|valid|infer|predict|sampl|demo|distill|teacher|warm|tune", re.IGNORECASE)
"""What tests name that ask whether a run goes on, and whether a model is used or gets others' weights."""
_TRAINERS = re.compile(
    r"(transformers|trl|sentence_transformers|setfit)\.\w*Trainer\.train|lightning\.\w+\.Trainer\.fit"
)
"""What trains for a script, from the beginning unless it is told where to resume."""

_TRACKERS = ("wandb.", "mlflow.", "neptune.", "swanlab.", "clearml.", "comet_ml.")
"""What goes on with the records of a run, `wandb.init(resume="allow")`, and loads no state."""
_NOT_ASKED = (*_TRACKERS, "argparse.", "types.SimpleNamespace", "dict")

LOADED_THEN, LEFT_OUT = NOT_LOADED = ("loaded only then", "not come to here")
"""What is said of the loads to which a job does not come."""
FROM_THE_BEGINNING = "it would train from the beginning, and what was done until then is paid for twice"
WITH_WEIGHTS_ALONE = "it would begin again at the first step, with optimizer and schedule as new"
"""What becomes of a training after an interruption."""

_UNSET = ("", "none", "null", "no")
"""The defaults of options that ask for nothing."""
_OF_RESULTS = re.compile(
    r"_?(run_)?(test|eval|valid|infer|predict|export|visuali[sz])(uate|ate|ence|ion|ing|e)?(_\w+)?"
)
"""What functions are called that look at a model once it is trained."""

_DATA = re.compile(r"Data(set|Module)$|Sampler$")
_CHANNELS = ("SM_CHANNEL", "/opt/ml/input")
_ASKED = re.compile(r"(auto_?)?resume(?!_download)\w*")
ASKED_OF_TRAINERS = re.compile(rf"{_ASKED.pattern}|(ckpt|checkpoint)(_path)?|model_path")
"""What the arguments of others' functions are called that say from where to go on, and those of trainers."""
_TRAINING = ("fit", "train", "run", "launch")
_STATE_LIBRARIES = ("torch.", "safetensors.", "lightning.", "accelerate.", "deepspeed.", "joblib.", "pickle.")
"""What of others' libraries loads states by a function called `load`; there are loaders of all else."""
_OF_ALL_THINGS = ("joblib.", "pickle.")
_OTHER_LOADS = ("json.", "yaml.", "numpy.", "csv.", "toml", "torch.utils.cpp_extension.", "torch.hub.")


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_loads_a_checkpoint(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job on spot capacity or with retries: a program with a training loop that loads nothing.

    After an interruption it starts from the beginning, though its checkpoints are there. The same of one that
    loads weights alone: it puts no state into an optimizer, and reads how far it was by no key, nor of the
    name of a file; and of one that loads only with an option that the job does not give. Silent where it may
    hand what it loads to something that restores a whole run, or is told from where to go on.

    Bad: a loop that only saves, or `trainer.train()`. Good: `torch.load` of the newest checkpoint before it.
    Source: developer guide, model-managed-spot-training.
    """
    job, program = subject.job, subject.program
    if not job.may_start_again:
        return
    if subject.plan.checkpoints is None or program.unread or (loads := _loads(subject)) is None:
        return
    run = JobRun(subject, guesses=True)
    backwards = (call for file in program.files for call in file.calls_of.get("backward", ()))
    trained = (call for call in backwards if may_run(run, call))
    first = next(trained, None) or next(_training_by_libraries(program), None)
    if first is None:
        return
    saved = [call for call, _ in state_saves(program) if program.analysis(Reachability).reaches(call)]
    related = [
        *(Related(each.place, f"{each.name} is set here") for each in loads.held),
        *(related_at(each.load, LOADED_THEN) for each in loads.held),
        *(related_at(each, "loaded here") for each in loads.weights[:2]),
        *(related_at(each, LEFT_OUT) for each in ([] if loads.held else loads.idle[:2])),
    ]
    yield nothing_resumed(subject, first, _lack_of(loads), related, saved, loads.tests)


def nothing_resumed(
    subject: ScriptSubject,
    trained: ast.Call,
    lacking: str,
    related: Sequence[Related],
    saved: Sequence[ast.Call],
    tests: Sequence[ast.expr],
) -> Finding:
    """A training that would begin again after an interruption: what is lacking, what is `related` to that,
    and where states are saved. Its job keeps checkpoints. It is found at the test that keeps a load from
    running, of `tests`, else at the loop that would go on."""
    job, planned = subject.job, subject.plan.checkpoints
    assert planned is not None
    why = (
        "`capacity: spot` may be interrupted"
        if job.resources.capacity.kind == "spot"
        else f"`max_retries: {job.limits.max_retries}` starts again"
    )
    epochs = next(_epochs_around(subject.program, trained), None)
    loop = trained if epochs is None else epochs
    asking = [each for each in tests if not _OF_USES.search(ast.unparse(each))]
    test = min(asking, key=lambda each: not _OF_RESUMING.search(ast.unparse(each)), default=None)
    return finding_at(
        checkpoints.NOTHING_TO_RESUME_FROM,
        loop if test is None else test,
        f"{why}, and {lacking}",
        remedy=f"Load the newest checkpoint of {planned.local_path} at the start, with the states of model, "
        "optimizer and scheduler.",
        related=[
            *related,
            *(related_at(each, "saved here") for each in saved[:2]),
            *(() if test is None else (related_at(loop, "trained here"),)),
            *(() if epochs is None else (related_at(trained, "trained here"),)),
        ],
    )


def _epochs_around(program: Program, first: ast.Call) -> Iterator[ast.expr]:
    """What the loop goes over that trains for epoch after epoch, at the line where it would go on."""
    loop = next(program.analysis(Loaders).epoch_loops(first), None)
    if loop is not None:
        yield loop.iter if isinstance(loop, ast.For) else loop.test


def _training_by_libraries(program: Program) -> Iterator[ast.Call]:
    """The calls by which a library's trainer trains."""
    for file in program.files:
        for call in (*file.calls_of.get("train", ()), *file.calls_of.get("fit", ())):
            if _TRAINERS.fullmatch(program.qualified(call.func) or ""):
                yield call


@frozen
class _HeldLoad:
    """What would load a checkpoint, and what it waits for: an option that a job does not give, or an empty
    entry of a configuration, and where that is."""

    load: ast.AST
    name: str
    is_option: bool
    place: Location


@frozen
class _Loads:
    """What loads states in a program, where nothing resumes: weights and no more, what waits for an option,
    what this job does not come to, and the tests that keep that from running."""

    weights: list[ast.Call]
    held: list[_HeldLoad]
    idle: list[ast.Call]
    tests: list[ast.expr]


def _lack_of(loads: _Loads) -> str:
    if loads.held:
        named = " or ".join(f"`{each.name}`" for each in loads.held)
        lacking = (
            "which this job does not give"
            if loads.held[0].is_option
            else "which is empty in the configuration"
        )
        return f"this program loads a checkpoint only with {named}, {lacking}: {FROM_THE_BEGINNING}"
    if loads.weights:
        return f"this program loads weights alone: {WITH_WEIGHTS_ALONE}"
    if loads.idle:
        return f"nothing that this program comes to in this job loads a checkpoint: {FROM_THE_BEGINNING}"
    return f"nothing in this program loads a checkpoint: {FROM_THE_BEGINNING}"


def _loads(subject: ScriptSubject) -> _Loads | None:
    """The loads of a program in which nothing that may run resumes; else None.

    Weights to begin with, from a channel, are no checkpoint.
    """
    program, run = subject.program, JobRun(subject, guesses=True)
    weights: list[ast.Call] = []
    idle: list[ast.Call] = []
    others: list[ast.Call] = []
    asking: list[ast.expr] = []
    for file in program.files:
        if any(program.module(each, file) is None and not _is_known(each) for each in file.stars):
            return None
        for call in file.calls:
            name = (last_name(call.func) or "").lower()
            by_name = _loads_by_name(program, call, name)
            loads = by_name and not resumes_nothing(program, call)
            others += [call] if by_name and not loads else []
            asked = _asked(program, call, name)
            if not (loads or asked):
                continue
            if not may_run(run, call):
                idle += [call] if loads else []
                continue
            if not all(_is_nothing(run, each) for each in asked):
                return None
            asking += asked
            if loads:
                if not _loads_weights_alone(program, call, name):
                    return None
                weights.append(call)
    if (weights or any(may_run(run, each) for each in others)) and _reads_progress(run):
        return None
    whole = [
        each for each in idle if not _loads_weights_alone(program, each, (last_name(each.func) or "").lower())
    ]
    failing = [
        each
        for call in whole or ([] if weights else idle)
        for each in failing_tests(program, run.truth, call)
    ]
    waiting: list[tuple[ast.AST, ast.expr]] = [*failing, *((each, each) for each in asking)]
    held = [one for place, test in waiting for one in _waits_for(run, place, test)]
    alone = {each.name: each for each in reversed(held) if each.is_option is held[0].is_option}
    return _Loads(weights, [*alone.values()][::-1][:2], idle, [test for _, test in failing])


def _asked(program: Program, call: ast.Call, name: str) -> list[ast.expr]:
    """The arguments of others' functions that say from where to go on."""
    whole = program.qualified(call.func) or ""
    if isinstance(program.value(call.func), Defined) or whole.startswith(_NOT_ASKED):
        return []
    of_trainers = name in _TRAINING or name.endswith("trainer")
    asking = ASKED_OF_TRAINERS if of_trainers else _ASKED
    asked = [each.value for each in call.keywords if asking.fullmatch((each.arg or "").lower())]
    if of_trainers:
        asked += [
            one
            for each in call.keywords
            if each.arg is None
            for one in _unpacked(program, each.value, asking)
        ]
    if _TRAINERS.fullmatch(whole):
        asked += call.args[:1] if name == "train" else call.args[4:5]
    return asked


def _unpacked(program: Program, table: ast.expr, asking: re.Pattern[str]) -> Iterator[ast.expr]:
    """The entries of a table that a trainer is given as arguments, `**options`, which say from where to go
    on; the table itself where it is not written out."""
    for each in origins(program, table):
        value = None if each is None else program.value(each)
        if not isinstance(value, Dictionary):
            yield table
            return
        for key, one in entries_of(value.node):
            if key is None or asking.fullmatch(str(getattr(key, "value", "")).lower()):
                yield one
    for name, bindings in file_of(table).set_items.items():
        if asking.fullmatch(name.lower()):
            yield from (one.value or table for one in bindings if one.name == last_name(table))


def _is_known(star: str) -> bool:
    """Whether all names of a module are known that loads no checkpoint: `from typing import *`."""
    top = star.partition(".")[0]
    return top in sys.stdlib_module_names or top in ("torch", "numpy")


def _waits_for(run: JobRun, load: ast.AST, test: ast.expr) -> Iterator[_HeldLoad]:
    """The options that a test or an argument asks for and the job does not give, or entries of configuration
    files that are empty."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        failing = [each for each in test.values if run.truth(each) is False]
        yield from (one for each in failing for one in _waits_for(run, load, each))
        return
    program, words = run.program, words_of(run.job)
    parts = (each for each in walk(test) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript))
    for each in (one for part in parts for one in origins(program, part) if one is not None):
        option = option_of(program, each)
        value = run.value(each if option is None else option.default)
        if value is None or str(value.value or "").lower() not in _UNSET:
            continue
        entry = None if option else program.analysis(ConfigurationFiles).entry(each, words)
        if option is not None:
            yield _HeldLoad(load, option.written, True, file_of(option.node).location(option.node))
        elif entry is not None and entry.is_chosen and entry.sources:
            path, keys = entry.sources[0]
            yield _HeldLoad(load, ".".join(keys), False, location_in_file(path, keys))


def _is_defined(program: Program, call: ast.Call) -> bool:
    """Whether a call is of a function of the program, in which the load itself is looked for."""
    called = program.value(call.func)
    return isinstance(called, Defined) and isinstance(called.node, ast.FunctionDef)


def _loads_by_name(program: Program, call: ast.Call, name: str) -> bool:
    whole = program.qualified(call.func) or ""
    if isinstance(program.value(call.func), Defined) or _is_of_itself(call):
        return False  # What it loads, it loads by calls of its own.
    if name == "load" and not whole.startswith(_OTHER_LOADS):
        path = argument_of(call, "f", 0)
        if isinstance(program.value(call.func), External) and not whole.startswith(_STATE_LIBRARIES):
            return False
        if whole.startswith(_OF_ALL_THINGS) and not _LOADERS.search(ast.unparse(statement_of(call))):
            return False
        return path is None or not _is_of_a_channel(program, path)
    if name == "load_state_dict_from_url":
        return False  # What others trained: no run comes back to it.
    if name.startswith("load_state"):
        state = argument_of(call, "state_dict", 0)
        if state is not None and _is_of_another(program, call, state):
            return False
        found = () if state is None else origins(program, state)
        return not found or not all(
            isinstance(each, ast.Call) and last_name(each.func) == "load" for each in found
        )
    if whole in SAVED_TO or whole.startswith("torch.utils.checkpoint"):
        return False
    return bool(_LOADERS.search(name)) and not _OTHER_CHECKPOINTS.search(name)


def _is_of_itself(call: ast.Call) -> bool:
    """Whether a method calls the one that it stands for: `super().load_state_dict(state)`, which loads what
    the method is given."""
    function = next((each for each in ancestors(call) if isinstance(each, ast.FunctionDef)), None)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    called = last_name(owner.func) if isinstance(owner, ast.Call) else None
    return called == "super" and function is not None and function.name == last_name(call.func)


def _is_of_another(program: Program, load: ast.Call, state: ast.expr) -> bool:
    """Whether a state is that of another object in memory, and of no file:
    `ema.load_state_dict(net.state_dict())`. Into its own state a model may get what was loaded."""
    owner = ast.unparse(load.func.value) if isinstance(load.func, ast.Attribute) else None
    made = origins(program, state)
    givers = [
        ast.unparse(each.func.value)
        for each in made
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "state_dict"
    ]
    return bool(made) and len(givers) == len(made) and owner not in givers


def resumes_nothing(program: Program, load: ast.Call) -> bool:
    """Whether a file of data is read, `self.data, self.slices = torch.load(path)`, or a model that is trained
    is looked at; by the names of what is read, of the function and of the class."""
    for outer in ancestors(load):
        if isinstance(outer, ast.FunctionDef) and (
            _OF_RESULTS.fullmatch(outer.name) or _OF_DATA.search(outer.name)
        ):
            return True
        if isinstance(outer, ast.ClassDef) and any(
            _DATA.search(last_name(each) or "") for each in outer.bases
        ):
            return True
    holder = parent_of(load)
    targets = holder.targets if isinstance(holder, ast.Assign) else []
    names = [last_name(each) or "" for target in targets for each in getattr(target, "elts", [target])]
    path = argument_of(load, "f", 0)
    is_of_data = any(map(_OF_DATA.search, names)) or bool(path and _OF_DATA.search(last_name(path) or ""))
    return is_of_data and not any(map(_PROGRESS.search, names)) and last_name(load.func) == "load"


_OF_DATA = re.compile(
    r"(^|_)(data(set|loader)?s?|embeddings?|feat(ure)?s?|tokens?|vocab|labels?|stats|latents?|getitem)(_|$)"
)
"""What the names of data hold, and of functions that read them."""


def _loads_weights_alone(program: Program, call: ast.Call, name: str) -> bool:
    """Whether what a call loads becomes a model's weights, as far as is seen at the call and by its names.

    What is read of it elsewhere by a key, such as the epoch, `_reads_progress` looks for.
    """
    if name.startswith("load_state_dict"):
        return not (_is_of_progress(program, call) or _is_of_whatever(call))
    if _OF_WEIGHTS.fullmatch(name) and not _is_of_progress(program, call):
        return True
    if name != "load" or not (program.qualified(call.func) or "").startswith(_PLAIN_LOADS):
        return False
    holder = statement_of(call)
    targets = holder.targets if isinstance(holder, ast.Assign) else []
    names = [each for target in targets for each in walk(target) if isinstance(each, ast.Name)]
    if any(_PROGRESS.search(each.id) for each in names):
        return False
    uses = [use for each in names for use in file_of(call).names.get(each.id, ())]
    own = [each for each in uses if scope_of(each).function is scope_of(call).function]
    return not any(_may_restore_more(program, each) for each in (call, *own) if each not in names)


_PLAIN_LOADS = ("torch.load", "safetensors.", *_OF_ALL_THINGS)


def _is_of_whatever(load: ast.Call) -> bool:
    """Whether a state goes into each of several things that are listed elsewhere:
    `for name, each in parts.items(): each.load_state_dict(state[name])`."""
    owner = load.func.value if isinstance(load.func, ast.Attribute) else None
    if isinstance(owner, ast.Subscript):
        return not isinstance(owner.slice, ast.Constant)
    loops = (each.target for each in ancestors(load) if isinstance(each, ast.For | ast.comprehension))
    looped = {part.id for target in loops for part in walk(target) if isinstance(part, ast.Name)}
    return isinstance(owner, ast.Name) and owner.id in looped


def _may_restore_more(program: Program, use: ast.expr) -> bool:
    """Whether what was loaded is handed on whole to what may restore more than weights."""
    inner: ast.AST = use
    for outer in ancestors(use):
        match outer:
            case ast.Subscript(value=value, slice=key) if value is inner:
                return _names_progress(key) and not _is_told(outer)
            case ast.Attribute(attr=name) if _PROGRESS.search(name):
                return True
            case ast.Call(func=called) if called is not inner:
                return bool(_RESTORING.search(ast.unparse(called))) and not _is_defined(program, outer)
            case ast.For(body=body):
                calls = (each for one in body for each in walk(one) if isinstance(each, ast.Call))
                return any(_RESTORING.search(last_name(each.func) or "") for each in calls)
            case ast.stmt():
                return False
        inner = outer
    return False


_RESTORING = re.compile(
    r"restore|resum|go_?on|setattr|__dict__|vars\(|(^|\.)load$|load_(?!state_dict|model|weight|param|pre|from)"
)
"""What is called that puts what it is given into more than a model."""


def _is_of_progress(program: Program, load: ast.Call) -> bool:
    """Whether the state of an optimizer or of another thing that goes with the steps is loaded, by its name
    or by what makes it."""
    owner = load.func.value if isinstance(load.func, ast.Attribute) else None
    if owner is None or _PROGRESS.search(last_name(owner) or ""):
        return owner is not None
    made = (each.func for each in origins(program, owner) if isinstance(each, ast.Call))
    return isinstance(owner, ast.Name) and any(
        _PROGRESS.search(last_name(each) or ast.unparse(each))
        or _PROGRESS.search(program.qualified(each) or "")
        for each in made
    )


def _names_progress(key: ast.expr) -> bool:
    name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
    return bool(_PROGRESS.search(name)) and not LENGTHS.match(name)


def _reads_progress(run: JobRun) -> bool:
    """Whether the program reads how far it was, or loads an optimizer's state, where it may come to."""
    for file in run.program.files:
        for call in file.calls_of.get("load_state_dict", ()):
            state = argument_of(call, "state_dict", 0)
            if _is_of_itself(call) or (state is not None and _is_of_another(run.program, call, state)):
                continue
            if (_is_of_progress(run.program, call) or _is_of_whatever(call)) and may_run(run, call):
                return True
        numbers = (each for each in file.calls_of.get("int", ()) if _is_in_a_files_name(each))
        if any(may_run(run, each) for each in numbers):
            return True
        for node in walk(file.tree):
            match node:
                case ast.Subscript(value=table, slice=key, ctx=ast.Load()):
                    pass
                case ast.Call(func=ast.Attribute(value=table, attr="get" | "pop"), args=[key, *_]):
                    pass
                case _:
                    continue
            is_of_a_run = _names_progress(key) and not _is_told(node) and _may_be_loaded(run.program, table)
            if is_of_a_run and may_run(run, node):
                return True
    return False


def _is_told(read: ast.AST) -> bool:
    """Whether what is read is only put into a message: `f"loaded {path} (epoch {state['epoch']})"`."""
    outer = parent_of(read)
    called = last_name(outer.func) if isinstance(outer, ast.Call) else None
    return isinstance(outer, ast.FormattedValue) or called in ("print", "info", "debug", "warning", "format")


_PARTS_OF_NAMES = re.compile(
    r"\.(r?split|group|stem|findall|removeprefix|strip|search|match|splitext|basename)\b"
)
_OF_FILES = re.compile(r"ckpt|checkpoint|path|file|name|latest|last|resum|stem|match|\bm\b", re.IGNORECASE)


def _is_in_a_files_name(number: ast.Call) -> bool:
    """Whether a number is taken of the name of a file: `int(path.stem.split("_")[-1])`."""
    written = "".join(map(ast.unparse, number.args))
    return bool(_PARTS_OF_NAMES.search(written) and _OF_FILES.search(written))


def _may_be_loaded(program: Program, table: ast.expr) -> bool:
    """Whether a table may come from a checkpoint: not by its name, nor by what makes it."""
    root = table
    while isinstance(root, ast.Subscript | ast.Attribute | ast.Call):
        if _NO_CHECKPOINTS.fullmatch(last_name(root) or ""):
            return False
        root = root.func if isinstance(root, ast.Call) else root.value
    if isinstance(root, ast.Name) and _NO_CHECKPOINTS.fullmatch(root.id):
        return False
    made = origins(program, table)
    return not made or not all(isinstance(each, ast.Dict | ast.DictComp | ast.List) for each in made)


def _is_nothing(run: JobRun, value: ast.expr) -> bool:
    found = run.value(value)
    return found is not None and found.value in (None, False, "")


def _is_of_a_channel(program: Program, path: ast.expr) -> bool:
    """Whether a path leads into the job's inputs, as far as it is written."""
    return any(word in text for text in texts_in(program, path) for word in _CHANNELS)


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def states_are_loaded_into_what_is_made(program: Program) -> Iterator[Finding]:
    """`optimizer.load_state_dict(...)` before the same function makes the optimizer.

    Only a run that resumes comes to it, and ends there: no checkpoint of this program can be resumed from.
    Silent in loops, and where anything else may have made it before.

    Bad: `opt.load_state_dict(state["opt"])`, then `opt = AdamW(...)`. Good: the other way round.

    Source: Python's execution model, binding of names.
    """
    for file in program.files:
        for call in file.calls_of.get("load_state_dict", ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            made = _made_behind(call, owner) if isinstance(owner, ast.Name | ast.Attribute) else None
            if owner is not None and made is not None:
                yield finding_at(
                    checkpoints.NOTHING_TO_RESUME_FROM,
                    call,
                    f"`{ast.unparse(owner)}` is made only behind this: a run that resumes ends here with an "
                    "error, and none can",
                    severity=Severity.WARNING,
                    related=[related_at(made, "made here")],
                    remedy="Make it first, and load its state then.",
                )


def _made_behind(call: ast.Call, owner: ast.Name | ast.Attribute) -> ast.AST | None:
    """What first makes an object whose state is loaded, where all that does stands behind in one function."""
    scope = scope_of(call)
    if isinstance(owner, ast.Name):
        bindings = scope.bindings.get(owner.id, []) if scope.holder_of(owner.id) is scope else []
    elif isinstance(owner.value, ast.Name) and owner.value.id == "self":
        bindings = list(file_of(call).set_attributes.get(owner.attr, ()))
        within = class_of(scope.node)
        if within is None or within.bases or owner.attr in file_of(call).scopes[within].bindings:
            return None
    else:
        return None
    nodes = [each.node for each in bindings]
    looped = any(isinstance(each, ast.For | ast.While) for each in ancestors_in_function(call))
    behind = all(
        scope_of(each) is scope and getattr(each, "lineno", 0) > (call.end_lineno or 0) for each in nodes
    )
    assigned = all(each.kind is BindingKind.ASSIGNED for each in bindings)
    return nodes[0] if nodes and behind and assigned and not looped else None


RESUMING_RULES = (states_are_loaded_into_what_is_made,)

RESUMING_JOB_RULES = (what_restarts_loads_a_checkpoint,)
