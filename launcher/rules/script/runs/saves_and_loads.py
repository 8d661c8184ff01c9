"""Where the ranks of a job save the state of a training, and whether they load one, as they run."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, TypeVar

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import (
    OPEN,
    OWN,
    CallMade,
    Object,
    OpenedFile,
    Symbol,
    known_beginning,
    text_of,
    truth_of,
)
from launcher.program.execution.process import CODE_FOLDER
from launcher.program.execution.ranks import STARTING, RankRun, words_of_own
from launcher.program.index import file_of, last_name
from launcher.program.objects.nodes import walk
from launcher.program.surroundings.channels import CHANNEL_FOLDERS
from launcher.program.surroundings.options import options_in_words
from launcher.program.surroundings.saves import OF_STATES, SAVED_TO, SAVERS, is_a_cache
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import (
    TRAINING,
    RankRuns,
    copied_into,
    is_asked_of_ranks,
    loops_around,
    settings_of,
    tests_before,
    words_of_command,
)
from launcher.rules.script.starts.job_run import JobRun, failing_tests, may_run
from launcher.rules.script.states.kept_folders import (
    OUTPUT_FOLDER,
    KeptFolders,
    is_deleted,
    is_removed_again,
    kept_folders,
    lost_state,
    movers,
)
from launcher.rules.script.states.resuming import (
    ASKED_OF_TRAINERS,
    FROM_THE_BEGINNING,
    LEFT_OUT,
    LENGTHS,
    WITH_WEIGHTS_ALONE,
    nothing_resumed,
    resumes_nothing,
)

_MADE_FOR_SAVING = (
    *("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl.SFTConfig"),
    *("lightning.pytorch.callbacks.ModelCheckpoint", "timm.utils.CheckpointSaver"),
)
_PLACES = {
    **SAVERS,
    **{name: where for name, where in SAVED_TO.items() if name.rpartition(".")[2].startswith("save")},
    **{name: SAVED_TO[name] for name in _MADE_FOR_SAVING},
    "*.save_pretrained": ("save_directory", 0),
}
"""What saves the state of a training when it is called, and which argument says where."""
_PICKLERS = dict.fromkeys(("pickle.dump", "dill.dump", "cloudpickle.dump"), ("file", 1))
_READERS = {
    "torch.load": ("f", 0),
    "pickle.load": ("file", 0),
    "joblib.load": ("filename", 0),
    "safetensors.torch.load_file": ("filename", 0),
}
"""What reads a file that may hold a state, and which argument says which."""
_READERS_OF_STATES = ("torch.load", "timm.models.resume_checkpoint", "timm.models.helpers.resume_checkpoint")
"""What reads the state of a training, and what does so for a program."""
_MODULE = re.compile(r"torch\.(nn|optim)\.[\w.]+\(\)(\.\w+\(\))*$")
_KEPT_BY_TRACKERS = ("log_artifact", "log_artifacts", "log_model")
"""What brings a file to the records of a run, from where a restart does not take it."""
_COPIERS = re.compile(r"shutil\.(copy\w*|move)|(os|pathlib\.Path)\.(rename|replace)")
_OTHER_COMMANDS = re.compile(
    r"\b(get|download|fetch)_?\w*\.sh\b|^wget |^gsutil du |"
    r"^curl (?!.* (-T|--upload-file|-F|--form|-d|--data|-X|--request|-K|--config)\b)|"
    r"^(make|cmake|ninja|nvcc|gcc|g\+\+|nvidia-smi|pip3?|lscpu|uname|which|hostname)\b"
)
"""What scripts are called that bring data, and the commands that bring, build or tell something."""
_LOADING = re.compile(r"(auto_?)?(load|restore|resume|maybe_load|try_load|from_checkpoint)\w*")
_OTHER_STATES = re.compile(r"optim|sched|scaler|Scaler|ema|EMA|Averaged")
_MODELS = re.compile(r"model|net|backbone|encoder|decoder|generator|discriminator|critic|module|head|adapter")
"""What objects are called that have weights."""
_PROGRESS = re.compile(r"epoch|step|iter|optim|sched|scaler|best", re.IGNORECASE)
"""The objects and entries of a checkpoint beside the weights."""
_OTHER_FILES = (
    "data|dataset|item|sample|image|img|mask|label|annotation|audio|wav|mel|video|frame|clip|text|yaml|json|"
    "config|vocab|url|dotenv|inline|ext"
)
"""What else is loaded, as functions call it."""
_RESTORING = re.compile(
    rf"(?<!data)(?<!up)load(?!er|_state_dict|_({_OTHER_FILES})s?\b)|resum|restor|restart|recover|checkpoint|ckpt|pretrain",
    re.IGNORECASE,
)
"""What functions are called of which nobody knows whether they load a state."""
_OTHER_LOADS = (
    *("json.", "yaml.", "ruamel", "csv.", "toml.", "tomllib.", "omegaconf.", "hydra.", "dotenv.", "logging."),
    *("numpy.", "scipy.", "PIL.", "cv2.", "librosa.", "soundfile.", "torchaudio.", "torchvision.io."),
    *("datasets.", "nltk.", "spacy.", "gensim.", "pycocotools.", "clip.", "wandb.", "mlflow.", "ctypes."),
    *("torch.hub.", "torch.jit.", "torch.utils.cpp_extension.", "tensorflow.", "tflite_runtime.", "onnx"),
    *("openvino.", "tensorrt."),
)
"""How the names begin of what loads something else."""
_ASKED_FOR_OTHERS = (*_OTHER_LOADS, "transformers.file_utils.", "transformers.utils.", "argparse.")
"""How those begin that are asked to resume something else, or name a checkpoint in their documentation."""
_PRETRAINED = re.compile(r"(torch\.hub|torch\.utils\.model_zoo|timm|transformers|clip|huggingface_hub)\.")
_LISTING = frozenset({"os.listdir", "os.scandir", "glob.glob", "glob.iglob"})
"""What names the files of a folder, which is their first argument."""
_OTHER_THINGS = re.compile(rf"^load_({_OTHER_FILES})s?$|^load_ext\w*$|from_url")


def text_of_path(given: Any) -> str | None:
    """A path as far as it is known, None where not even its beginning is."""
    if isinstance(given, Symbol) and given.made_by is not None and "wb" in given.made_by.args:
        given = given.made_by.args[0]  # As of `fsspec.open(path, "wb")`, whoever opens it.
    if isinstance(given, OpenedFile):
        given = given.name
    if isinstance(given, PurePosixPath):
        given = str(given)
    if not isinstance(given, str) or not given or given[0] in (OPEN, OWN, "$"):
        return None
    return given


def _saves(run: RankRun, places: dict[str, tuple[str, int | None]]) -> Iterator[tuple[CallMade, str | None]]:
    for event in run.calls(*places):
        name = event.name if event.name in places else f"*.{event.name.rpartition('.')[2]}"
        yield event, _where(event, event.argument(*places[name]))
    for event in run.calls(*_PICKLERS):
        if _holds_modules(event.argument("obj", 0)):
            yield event, _where(event, event.argument(*_PICKLERS[event.name]))


def _where(event: CallMade, given: object) -> str | None:
    """The path that a call is given, of the folder to which the program has gone, as hydra lets it."""
    path = text_of_path(given)
    has_gone = path is not None and event.folder != CODE_FOLDER
    return posixpath.join(event.folder, path) if has_gone and path is not None else path


def _holds_modules(what: object) -> bool:
    """Whether an object or an entry of a table surely is a model, an optimizer or the state of one."""
    parts = what.values() if isinstance(what, dict) else [what]
    return any(_MODULE.match(each.name) for each in parts if isinstance(each, Symbol))


@finds(Stage.SCRIPT, checkpoints.PATH_NOT_KEPT)
def states_are_saved_where_they_are_kept(runs: RankRuns) -> Iterator[Finding]:
    """With a job: a state that is saved to a folder of the host, as its path is in this job.

    The folder is deleted with the host. A warning where others are saved to places that are kept, or that
    nobody can tell; silent where anything may bring the file to where it is kept.

    Bad: `torch.save(state, f"{config['output']}/last.pt")` with `"output": "checkpoints"` in config.json.
    Good: the same below /opt/ml/checkpoints. Source: developer guide, model-train-storage.
    """
    subject = runs.subject
    kept = kept_folders(subject)
    first: dict[ast.Call, tuple[RankRun, CallMade, str]] = {}
    others = 0
    for run in runs.runs:
        for event, path in _saves(run, _PLACES):
            if is_removed_again(event.node):
                continue
            if path is not None and _is_lost(path, kept) and not _is_of_data(runs, event):
                first.setdefault(event.node, (run, event, path))
            else:
                others += event.argument(*{**_PLACES, **_PICKLERS}.get(event.name, ("", 0))) is not None
    if not first:
        return
    job_run = JobRun(subject)
    called = {call for run in runs.runs for each in run.events for call in (each.node, *each.callers)}
    moving = [each for each in movers(subject, kept) if may_run(job_run, each)]
    # Runs follow a program that starts itself again, and into the folder in which hydra lets it run.
    seen = {each.node for each in runs.calls(*STARTING) if words_of_own(runs.program, each) is not None}
    if any(each.folder != CODE_FOLDER for run in runs.runs for each in run.events):
        seen |= {call for call, _ in runs.program.calls("hydra.main")}
    moving = [each for each in moving if each not in seen and not _moves_to_lost_folder(runs, each, kept)]
    moving = [each for each in moving if not _starts_other_command(runs, each)]
    tracked = [each for each in moving if last_name(each.func) in _KEPT_BY_TRACKERS]
    if any(runs.by_libraries or each in called for each in moving if each not in tracked):
        return
    others += len(tracked)
    severity = Severity.WARNING if others else None
    for (run, event, path), *more in _by_folder(first.values(), lambda each: each[2]):
        related = names_of_folder(runs, run, event.node, path)[:1]
        related += [related_at(each, "called here") for each in _calls_from_elsewhere(event)[-1:]]
        related += [related_at(each.node, "saved to the same folder here") for _, each, _ in more]
        yield lost_state(subject, _call_with_path(event), shown_path(path), severity, related)


_Saved = TypeVar("_Saved")


def _by_folder(saved: Iterable[_Saved], path_of: Callable[[_Saved], str]) -> list[list[_Saved]]:
    """What is saved, that of each folder together: one cause, and one line to change."""
    found: dict[str, list[_Saved]] = {}
    for each in saved:
        found.setdefault(path_of(each).rpartition("/")[0], []).append(each)
    return list(found.values())


def _starts_other_command(runs: RankRuns, call: ast.Call) -> bool:
    """Whether a call starts what moves no checkpoint, by its name: `bash scripts/get_coco.sh`, curl, make."""
    made = [each for run in runs.runs for each in run.events if each.node is call]
    return bool(made) and all(_OTHER_COMMANDS.search(words_of_command(each)) for each in made)


def _call_with_path(save: CallMade) -> ast.Call:
    """The call at which a path is written: that of the function around `torch.save(*args)`."""
    is_handed_on = any(isinstance(each, ast.Starred) for each in save.node.args)
    return save.callers[-1] if is_handed_on and save.callers else save.node


def _calls_from_elsewhere(save: CallMade) -> list[ast.Call]:
    """The calls in other files that come to a save, `save_on_master(state, path)`, the nearest last."""
    return [each for each in save.callers if file_of(each) is not file_of(save.node)]


def _moves_to_lost_folder(runs: RankRuns, call: ast.Call, kept: KeptFolders) -> bool:
    """Whether a call only copies or moves files to a folder that is deleted with the host as well."""
    events = [each for run in runs.runs for each in run.events if each.node is call]
    into = [
        text_of_path(each.argument("dst", 1)) if _COPIERS.fullmatch(each.name) else copied_into(each)
        for each in events
    ]
    return len(into) > 0 and all(each is not None and _is_lost(each, kept) for each in into)


def names_of_folder(runs: RankRuns, run: RankRun, call: ast.Call, path: str) -> list[Related]:
    """Where the text stands with which the path begins that a call is given: an entry of a configuration
    file, the default of an option, a constant. The longest text first."""
    own = {id(each) for each in walk(call)}
    files = runs.program.analysis(ConfigurationFiles)
    named = [(text, place) for name in run.documents for text, place in files.texts_of(name)]
    named += [
        (value, file_of(run.options[name]).location(run.options[name]))
        for name, value in options_in_words(run.world.words).items()
        if name in run.options
    ]
    for text, places in run.texts.items():
        others = [each for each in places if id(each) not in own]
        named += [(text, file_of(each).location(each)) for each in others if len(others) == 1]
    begins = [each for each in named if _begins(path, each[0])]
    begins.sort(key=lambda each: len(each[0]), reverse=True)
    return [Related(place, "the folder is named here") for _, place in begins]


def _begins(path: str, folder: str) -> bool:
    """Whether a path is in a folder, both as they are written."""
    folder = folder.removeprefix("./").rstrip("/")
    return folder != "" and is_in(path.removeprefix("./"), folder)


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_of_data(runs: RankRuns, event: CallMade) -> bool:
    """Whether what is saved is no state of a training: by the names of its parts, as a rank has them."""
    what = event.argument("obj", 0)
    if isinstance(what, dict):
        parts = [*what.keys(), *what.values()]
    elif isinstance(what, tuple | list):
        parts = list(what)
    else:
        parts = []
    if not parts:
        return is_a_cache(runs.program, event.node)
    names = (each if isinstance(each, str) else _name_of(each) for each in parts)
    return not any(OF_STATES.search(each.lower()) for each in names)


def _name_of(value: object) -> str:
    return value.kind.node.name if isinstance(value, Object) else getattr(value, "name", "")


def _is_lost(path: str, kept: KeptFolders) -> bool:
    known = known_beginning(path)
    if f"{known.rstrip('/')}/".startswith(f"{OUTPUT_FOLDER}/"):
        return not re.search(r"(^|/)(data|failure)(/|$)", known)
    return is_deleted(known, kept)


def shown_path(path: str) -> str:
    """A path for people, with dots for what is not known of it."""
    return re.sub(f"[{OPEN}{OWN}]", "...", path)


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def restarts_come_to_a_load(runs: RankRuns) -> Iterator[Finding]:
    """With a job on spot capacity or with retries: no rank comes to anything that loads a state.

    After an interruption it starts from the beginning, though its checkpoints are there. Silent where a
    library has a part in it that may load by itself.

    Bad: `if config["checkpoint_path"]: load(...)` where the configuration leaves it empty. Good: the newest
    checkpoint is looked for at the start. Source: developer guide, model-managed-spot-training.
    """
    job, planned = runs.subject.job, runs.subject.plan.checkpoints
    if not job.may_start_again or planned is None or runs.loads_by_libraries or not runs.trains:
        return
    loads = [each for run in runs.runs for each in run.events if _is_asked_to_resume(each)]
    loads += [
        each
        for run in runs.runs
        for each in _before_the_end(run)
        if _may_load(each) and not (each.name in _READERS and resumes_nothing(runs.program, each.node))
    ]
    files = [each for each in loads if each.name == "torch.load"]
    listed = _folders_listed(runs, planned.local_path)
    looked_in = [
        path for each in files if (path := text_of_path(each.argument("f", 0))) is not None
    ] or listed
    is_new = bool(looked_in) and all(OWN in each for each in looked_in)
    if listed and not (is_new or loads) and idle_loads(runs):
        return  # Nothing is there yet at the first start.
    others = [] if is_new else _reads_of_other_files(runs, loads)
    restored = others if any(each not in others for each in loads) else []
    loads = [] if is_new or others else loads
    if runs.may_call(_RESTORING, _OTHER_LOADS) or not all(map(_loads_weights, loads)):
        return
    if any(_is_passed_on(each, loads) for run in runs.runs for each in run.events):
        return
    if loads and any(_PROGRESS.search(each) and not LENGTHS.match(each) for each in _keys_of_states(runs)):
        return
    lacking = (
        f"what is loaded lies in a folder of this start's own, by the time or a random number in its name: "
        f"{FROM_THE_BEGINNING}"
        if is_new
        else f"`{shown_path(_path_read(restored[0]) or '')}`, which is loaded, is not saved by this program: "
        f"{FROM_THE_BEGINNING}"
        if restored
        else f"no rank loads more than weights in this job: {WITH_WEIGHTS_ALONE}"
        if loads
        else f"no rank comes to anything in this job that loads a checkpoint: {FROM_THE_BEGINNING}"
    )
    assert runs.first is not None
    trained = next(iter(_trainings(runs.first)), None)
    if trained is None:
        return
    idle = idle_loads(runs)
    related = [
        *(related_at(each.node, "loaded here") for each in (files if is_new else restored or loads)[:1]),
        *(related_at(each, LEFT_OUT) for each in idle[:2]),
        *(one for each in idle[:1] for one in runs.tests_against(each)),
    ]
    saved = [each.node for each in runs.first.calls(*SAVERS)]
    failing = (failing_tests(runs.program, runs.first.truths.get, each) for each in idle)
    tests = [] if is_new or restored else [test for found in failing for _, test in found]
    yield nothing_resumed(runs.subject, trained.node, lacking, related, saved, tests)


def _folders_listed(runs: RankRuns, kept: str) -> list[str]:
    """The folders below the one for checkpoints in which rank 0 looks for files."""
    before = [] if runs.first is None else _before_the_end(runs.first)
    paths = (text_of_path(each.args[0]) for each in before if each.name in _LISTING and each.args)
    return [each for each in paths if each is not None and is_in(each, kept)]


def _before_the_end(run: RankRun) -> list[CallMade]:
    """What a rank calls until its training is over: what it loads behind that is looked at, or shipped."""
    trained = _trainings(run)
    return run.events[: run.events.index(trained[-1])] if trained else run.events


def _trainings(run: RankRun) -> list[CallMade]:
    """The steps of a training, and what trains for the program."""
    by_trainers = (".fit", "Trainer().train")
    return [each for each in run.calls(*TRAINING) if loops_around(each) or each.name.endswith(by_trainers)]


def _reads_of_other_files(runs: RankRuns, loads: list[CallMade]) -> list[CallMade]:
    """The reads of files, where all that a program loads comes from folders to which it saves no state:
    data, and what others have trained; else none."""
    reads = [each for each in loads if each.name in _READERS]
    if any(each not in reads and not each.name.endswith(".load_state_dict") for each in loads):
        return []
    saves = [(event, path) for run in runs.runs for event, path in _saves(run, _PLACES)]
    saved = [path for event, path in saves if not _is_of_data(runs, event)]
    copies = (each for run in runs.runs for each in run.events if _COPIERS.fullmatch(each.name))
    saved += [text_of_path(each.argument("dst", 1)) for each in copies]
    saved += [None for each in runs.calls(*STARTING) if words_of_own(runs.program, each) is None]

    def is_other(read: CallMade) -> bool:
        path = _path_read(read)
        if path is None or is_in(path, CHANNEL_FOLDERS):
            return path is not None
        return bool(saved) and not any(each is None or _may_be_in_one_folder(path, each) for each in saved)

    return reads if all(map(is_other, reads)) else []


def _path_read(read: CallMade) -> str | None:
    return text_of_path(read.argument(*_READERS[read.name]))


def _may_be_in_one_folder(one: str, other: str) -> bool:
    """Whether two files may lie in one folder, as far as their paths are known."""
    beginnings = []
    for path in (one, other):
        whole = posixpath.normpath(posixpath.join(CODE_FOLDER, path))
        known = known_beginning(whole)
        beginnings.append((f"{posixpath.dirname(known)}/", known == whole))
    (short, is_whole), (longer, _) = sorted(beginnings, key=lambda each: len(each[0]))
    return short == longer if is_whole else longer.startswith(short)


def _keys_of_states(runs: RankRuns) -> set[str]:
    """The keys by which entries are read that states have which are saved; all that are read where nobody
    knows what the states have."""
    read = {key for run in runs.runs for key in run.keys}
    saved = [each for run in runs.runs for each in run.calls("torch.save") if not _is_of_data(runs, each)]
    states = [each.argument("obj", 0) for each in saved]
    if not states or not all(isinstance(each, dict) for each in states):
        return read
    return read & {key for each in states for key in each}


def idle_loads(runs: RankRuns, *names: str) -> list[ast.Call]:
    """The calls that read states and to which no rank comes: by the names of torch.load and others like it,
    unless some are given."""
    wanted = names or _READERS_OF_STATES
    made = {each.node for run in runs.runs for each in run.events}
    lasts = {each.rpartition(".")[2] for each in wanted}
    calls = (call for file in runs.program.files for name in lasts for call in file.calls_of.get(name, ()))
    return [each for each in calls if each not in made and runs.program.qualified(each.func) in wanted]


def _loads_weights(event: CallMade) -> bool:
    """Whether a call reads a file of torch's or puts weights into a model, and nothing into an optimizer."""
    if event.name in ("torch.load", "safetensors.torch.load_file"):
        return True
    if not event.name.endswith(".load_state_dict"):
        return False
    if event.name[0] == "?":  # What it is nobody knows, but what it is called.
        return bool(_MODELS.search(written := ast.unparse(event.node.func))) and not _OTHER_STATES.search(
            written
        )
    return not _OTHER_STATES.search(event.name)


def _is_passed_on(event: CallMade, loads: list[CallMade]) -> bool:
    """Whether a call of what nobody knows gets all that a load gave."""
    return event.name[:1] in ("", "?") and any(
        isinstance(each, Symbol) and each.made_by in loads and each.name.endswith("()")
        for each in (*event.args, *event.keywords.values())
    )


def _is_asked_to_resume(event: CallMade) -> bool:
    """Whether a call says from where to go on."""
    asked = [each for name, each in event.keywords.items() if ASKED_OF_TRAINERS.fullmatch(name)]
    if event.name == "lightning.pytorch.Trainer().fit":
        asked += event.args[4:5]
    if event.name.endswith("Trainer().train"):
        asked += event.args[:1]
        if not asked and any(each.arg is None for each in event.node.keywords):
            return True  # Nobody sees what stands in a table.
    return any(truth_of(each) is not False for each in asked) and not event.name.startswith(_ASKED_FOR_OTHERS)


def _may_load(event: CallMade) -> bool:
    """Whether a call may load the state of a training: not data, nor weights that others have trained, nor
    what one model gives another."""
    last = event.name.rpartition(".")[2] or last_name(event.node.func) or ""
    if not _LOADING.fullmatch(last) or event.name.startswith(_OTHER_LOADS) or _OTHER_THINGS.search(last):
        return False
    source = getattr(event.args[0], "name", "") if event.args else ""
    written = event.node.args[0] if event.node.args else None
    is_of_memory = isinstance(written, ast.Call) and last_name(written.func) == "state_dict"
    return not (is_of_memory or source.endswith("state_dict()") or _PRETRAINED.match(source))


@finds(Stage.SCRIPT, checkpoints.RANKS_WRITE_SAME_FILE)
def ranks_save_to_their_own_files(runs: RankRuns) -> Iterator[Finding]:
    """Two ranks that save to one file, by what they take themselves for in this job.

    They overwrite each other, on a shared file system in the middle of the write. Silent where a test decides
    about it that may be another one on each rank.

    Bad: `if args.rank == 0: torch.save(...)` with a `--rank` of which torchrun says nothing. Good: the same
    by `dist.get_rank()`. Source: developer guide, model-checkpoints.
    """
    first, neighbour, next_host = runs.first, runs.neighbour, runs.next_host
    if first is None or not runs.trains:
        return
    others = [
        (each, is_near) for each, is_near in ((neighbour, True), (next_host, False)) if each is not None
    ]
    told: set[ast.Call] = set()
    found: list[tuple[CallMade, str, bool]] = []
    for other, is_near in others:
        for event, path in _of_one_path(_paths(first), _paths(other)):
            if event.node not in told and runs.is_of_ranks(event):
                told.add(event.node)
                found.append((event, path, is_near))
    for (event, path, is_near), *more in _by_folder(found, lambda each: f"{each[2]}/{each[1]}"):
        tests = tests_before(event)[:2]
        who = "every rank" if is_near else "one rank of every host"
        yield finding_at(
            checkpoints.RANKS_WRITE_SAME_FILE,
            event.node,
            f"{who} saves to `{shown_path(path)}` in this job: they overwrite each other, on a shared file "
            "system in the middle of the write, and the file that is left may be torn",
            severity=None if is_near else Severity.WARNING,
            related=[
                *(related_at(each, "this holds on each of them") for each in tests[:1]),
                *settings_of(first, tests),
                *(related_at(each.node, "so too here") for each, _, _ in more),
            ],
        )


def _paths(run: RankRun) -> Iterator[tuple[CallMade, str]]:
    """What a rank saves to one file, and its path, of which parts may be open."""
    for event in run.calls(*SAVERS):
        given = event.argument(*SAVERS[event.name])
        yield event, given.name if isinstance(given, OpenedFile) else text_of(given)


def _of_one_path(
    mine: Iterable[tuple[CallMade, str]], theirs: Iterable[tuple[CallMade, str]]
) -> Iterator[tuple[CallMade, str]]:
    """The writes of a rank that another one makes as well to the same path, of which something is known."""
    paths = {event.node: path for event, path in theirs if _is_of_all(event)}
    for event, path in mine:
        same = bool(path.strip(f"{OPEN}./")) and paths.get(event.node) == path and OWN not in path
        if same and _is_of_all(event):
            yield event, path


_SMALL_WRITERS = {
    "builtins.open": ("file", 0),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile"), ("dst", 1)),
    "omegaconf.OmegaConf.save": ("f", 1),
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed"), ("file", 0)),
    "numpy.savetxt": ("fname", 0),
    **dict.fromkeys(("pathlib.Path.write_text", "pathlib.Path.write_bytes"), ("self", 0)),
}
"""What writes a file that is no checkpoint, and which argument is its path."""


@finds(Stage.SCRIPT, checkpoints.RANKS_WRITE_SAME_FILE)
def ranks_write_their_own_files(runs: RankRuns) -> Iterator[Finding]:
    """Files beside the checkpoints that all ranks of a host write at once: informational.

    They hold the same, but who reads one meanwhile may find it empty, and on a shared file system the last
    one to write need not be whole.

    Bad: `yaml.dump(config, open(f"{args.output}/config.yaml", "w"))`. Good: the same on rank 0. Source:
    developer guide, model-checkpoints.
    """
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None or not (runs.trains or runs.by_libraries):
        return
    written = _of_one_path(_written(first), _written(neighbour))
    found = {event.node: path for event, path in written if runs.is_of_ranks(event)}
    if found:
        (node, path), *more = found.items()
        yield finding_at(
            checkpoints.RANKS_WRITE_SAME_FILE,
            node,
            f"every rank writes `{shown_path(path)}` in this job: who reads it meanwhile may find it empty",
            severity=Severity.INFO,
            remedy="Write it on rank 0 alone.",
            related=[related_at(each, "so too here") for each, _ in more],
        )


def _written(run: RankRun) -> Iterator[tuple[CallMade, str]]:
    """What a rank writes to one file that is no checkpoint, and its path, of which parts may be open."""
    for event in run.calls(*_SMALL_WRITERS):
        mode = event.argument("mode", 1) if event.name == "builtins.open" else "w"
        path = text_of_path(event.argument(*_SMALL_WRITERS[event.name]))
        if isinstance(mode, str) and mode[:1] in ("w", "x") and path and not path.startswith("/dev/"):
            yield event, path


def _is_of_all(event: CallMade) -> bool:
    """Whether every rank that comes near a call makes it: the tests around it are the same on all of them."""
    return not any(is_asked_of_ranks(each) for each in event.tests)


STATE_RUN_RULES = (
    states_are_saved_where_they_are_kept,
    restarts_come_to_a_load,
    ranks_save_to_their_own_files,
    ranks_write_their_own_files,
)
