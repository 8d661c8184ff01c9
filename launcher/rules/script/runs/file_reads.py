"""The files that a rank of a job reads, as it runs: whether they are there."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath

from launcher.failure_modes import data, training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import (
    OPEN,
    OWN,
    CallMade,
    Object,
    OpenedFile,
    Symbol,
    is_known,
    known_beginning,
)
from launcher.program.execution.process import CODE_FOLDER
from launcher.program.execution.ranks import RankRun
from launcher.program.index import last_name, parent_of
from launcher.program.surroundings.saves import SAVERS
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import (
    OF_CHECKOUT,
    TRAINING,
    RankRuns,
    command_of,
    copied_into,
    is_come_to_later,
    settings_of,
)
from launcher.rules.script.runs.saves_and_loads import is_in, names_of_folder, shown_path, text_of_path
from launcher.rules.script.runs.shared_files import MADE_BY_SERVICE, MAKERS, exist_ok_of, folder_made

_READERS = {
    "builtins.open": ("file", 0),
    "os.listdir": ("path", 0),
    "os.scandir": ("path", 0),
    "numpy.load": ("file", 0),
    "numpy.loadtxt": ("fname", 0),
    "numpy.memmap": ("filename", 0),
    "numpy.fromfile": ("file", 0),
    "pandas.read_csv": ("filepath_or_buffer", 0),
    "pandas.read_json": ("path_or_buf", 0),
    "pandas.read_parquet": ("path", 0),
    "PIL.Image.open": ("fp", 0),
    "h5py.File": ("name", 0),
    "lmdb.open": ("path", 0),
    "torchvision.datasets.ImageFolder": ("root", 0),
    "torchvision.datasets.DatasetFolder": ("root", 0),
    "torchvision.datasets.ImageNet": ("root", 0),
    "torchvision.datasets.CocoDetection": ("root", 0),
    "datasets.load_from_disk": ("dataset_path", 0),
    **dict.fromkeys(("soundfile.read", "librosa.load", "librosa.core.load"), ("path", 0)),
    "torchaudio.load": ("uri", 0),
    "torch.load": ("f", 0),
    "scipy.io.wavfile.read": ("filename", 0),
}
"""What reads a file or folder, and raises where it is not there."""
_LISTINGS = ("os.walk", "glob.glob", "glob.iglob")
"""What lists files, and lists none where the folder is not there."""
_WRITERS = {
    **{"numpy.save": ("file", 0), "numpy.savez": ("file", 0), "numpy.savetxt": ("fname", 0)},
    **{"pathlib.Path.write_text": ("self", 0), "pathlib.Path.write_bytes": ("self", 0)},
    **{"logging.FileHandler": ("filename", 0), "logging.basicConfig": ("filename", None)},
}
"""What writes a file, and raises where its folder is not there. Of states it is said that they are lost."""
_LOADERS = ("torch.utils.data.DataLoader", "torchvision.datasets.ImageFolder", "datasets.load_dataset")
_OF_CHANNELS = re.compile(
    r"/opt/ml(/input|/?$|/(?!model|checkpoints|output|code))|SM_(CHANNEL|INPUT|TRAINING_ENV)|^SM_$|sagemaker",
    re.IGNORECASE,
)
"""What stands somewhere in a program that reads a channel, or in what it is given."""
_OF_TEXTS = re.compile(r"os\.path\.(?!exists|isfile|isdir|islink|getsize)\w+|pathlib\.\w+|print|logging\.\w+")
"""What is done with a path that neither makes nor looks for the file."""
_FETCHING = re.compile(
    r"download|fetch|retrieve|snapshot|extract|unpack|unzip|untar|gdown|wget|clone_from|mount", re.IGNORECASE
)
"""What functions of libraries are called that may bring files."""
_MAKING = re.compile(r"prepare|build|generate|convert|preprocess|clone", re.IGNORECASE)
"""What functions are called that may make files, of which nobody knows where they are from."""
_CALCULATING = re.compile(r"(torch\.(?!hub\.)|numpy\.|PIL\.|transformers\.|pycocotools\.|apex\.|timm\.)")
"""How the names of those begin that make no files, whatever they are called."""
_COMMANDS = re.compile(r"(subprocess|os\.(system|popen|exec\w*|chdir|symlink)|shutil\.unpack_archive)\b")
_BRINGING = re.compile(
    r"\b(wget|curl|aws|gsutil|rclone|rsync|scp|unzip|tar|7z|cp|mv|ln|git|gdown|kaggle|python\d*|bash|sh|make)\b"
    r"|\.(sh|py)\b"
)
"""The commands that may bring or make files."""
_CONFIGURATION = re.compile(r"\.(ya?ml|toml|ini|cfg|conf)$|config", re.IGNORECASE)
_OF_THE_IMAGE = re.compile(
    r"/(opt|fsx|efs|tmp|dev|proc|sys|etc|usr|bin|lib|lib64|var|root|run|boot|sbin|srv|s3)(/|$)"
)
"""The folders at the top that an image or the service may fill, and mounts."""
_OF_HYDRA = (
    "Hydra runs the program in a new folder: read the file from a channel, give its path to "
    "hydra.utils.to_absolute_path, or let the program stay where it is started (hydra.job.chdir=false)."
)
_OF_THE_SERVICE = re.compile(r"/opt/ml/(input|model|output|checkpoints|processing|config)(/|$)")


@finds(Stage.SCRIPT, data.CHANNELS_DIFFER, training_script.SCRIPT_RAISED)
def files_are_there(runs: RankRuns) -> Iterator[Finding]:
    """A file that every rank opens and that is neither in the source folder nor in a channel.

    Each rank ends there. Silent within a `try`, behind a test that nobody can tell or that asks whether it is
    there, and where the program may write, fetch or unpack it.

    Bad: `open("input.txt")` with no such file beside the script. Good: the same below
    os.environ["SM_CHANNEL_TRAIN"]. Source: SageMaker's documentation of training storage.
    """
    first = runs.first
    events = [each for run in runs.runs for each in (*run.events, *run.sampling)]
    if first is None or any(map(_may_bring_files, events)):
        return
    touched = _TouchedPaths(each for run in runs.runs for each in run.events)
    reported: set[object] = set()
    for event in (*first.events, *first.sampling):
        if not _is_read(event) or not event.is_sure or event.is_tried:
            continue
        path = text_of_path(event.argument(*_READERS[event.name]))
        if path is None:
            continue
        if event.name == "torch.load" and "/" not in path:
            continue  # Such a name is more often of what a run before has left.
        there = _needed_path(path, event.folder)
        folder = there and posixpath.dirname(there)
        if there is None or not reported.isdisjoint((there, event.node, folder)) or _is_there(runs, there):
            continue
        if touched.may_have(there):
            continue
        reported |= {there, event.node, folder} - {CODE_FOLDER}
        channels = ", ".join(f"/opt/ml/input/data/{each}" for each in sorted(runs.subject.job.inputs))
        of_script = event.name == "torch.load" or _CONFIGURATION.search(there)
        mode = training_script.SCRIPT_RAISED if of_script else data.CHANNELS_DIFFER
        yield finding_at(
            mode,
            event.node,
            f"`{_shown(there)}` is neither in the source folder nor in a channel (the job has "
            f"{channels or 'none'}): every rank ends here, as it is not there",
            remedy=_OF_HYDRA if OWN in there else "Read it from a channel, or put it into the source folder.",
            related=[*names_of_folder(runs, first, event.node, path)[:1], *settings_of(first, [event.node])],
        )


_ASKING = (
    *(f"os.path.{each}" for each in ("exists", "isfile", "isdir")),
    *(f"pathlib.Path.{each}" for each in ("exists", "is_file", "is_dir")),
)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def files_that_are_required_are_there(runs: RankRuns) -> Iterator[Finding]:
    """A file that a program asks for and ends without, and that is neither in the source folder nor made.

    Silent within a `try`, behind a test that nobody can tell, and where the program may write, fetch or
    unpack it.

    Bad: `assert os.path.exists("stats/train.npz")` with no such file in the source. Good: the same below
    os.environ["SM_CHANNEL_TRAIN"]. Source: SageMaker's documentation of training storage.
    """
    first = runs.first
    events = [each for run in runs.runs for each in (*run.events, *run.sampling)]
    if first is None or any(map(_may_bring_files, events)):
        return
    touched = _TouchedPaths(each for run in runs.runs for each in run.events if each.name not in _ASKING)
    for event in first.calls(*_ASKING):
        end = _end_without(event.node)
        path = text_of_path(event.argument("path", 0))
        if end is None or path is None or not is_known(path) or not event.is_sure or event.is_tried:
            continue
        there = _needed_path(path, event.folder)
        if there is None or _is_there(runs, there):
            continue
        if touched.may_have(there):
            continue
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"`{_shown(there)}` is neither in the source folder nor made by the program, and every rank ends "
            "without it",
            remedy="Put it into the source folder or into a channel, and give its path there.",
            related=[related_at(end, "ends here"), *settings_of(first, [event.node])],
        )
        return


def _end_without(asked: ast.Call) -> ast.stmt | None:
    """The statement that ends a program where what it asks for is not there; None where it goes on."""
    inner: ast.AST = asked
    outer = parent_of(asked)
    is_there = True
    if isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not):
        inner, outer, is_there = outer, parent_of(outer), False
    if isinstance(outer, ast.Assert) and is_there:
        return outer
    if not isinstance(outer, ast.If) or outer.test is not inner:
        return None
    body = outer.orelse if is_there else outer.body
    if len(body) == 1 and isinstance(body[0], ast.If) and isinstance(body[0].test, ast.Name):
        body = body[0].body  # As of `elif pretrained:`, which says that a file was asked for.
    return body[-1] if body and isinstance(body[-1], ast.Raise) else None


@finds(Stage.SCRIPT, data.CHANNELS_DIFFER)
def channels_are_named(runs: RankRuns) -> Iterator[Finding]:
    """A job with channels of which nothing in program, configuration or job names one.

    Every host downloads them, and the program trains on what lies elsewhere, or ends as it finds nothing. A
    warning, as something outside of the program may link them to where it looks.

    Bad: `ImageFolder("data/train")` in a job with `inputs: {train: ...}`. Good: the same with
    os.environ["SM_CHANNEL_TRAIN"]. Source: SageMaker's documentation of training storage.
    """
    first, job = runs.first, runs.subject.job
    if first is None or not runs.trains or not job.inputs or job.backend != "sagemaker":
        return
    if any(each.code == data.CHANNELS_DIFFER.code for each in files_are_there(runs)):
        return  # It has been said of what is read in place of the channel.
    files = runs.program.analysis(ConfigurationFiles)
    given = list(map(str, (*first.world.words, *job.hyperparameters.values(), *job.environment.values())))
    read = (text for name in first.documents for text, _ in files.texts_of(name))
    written = (text for file in runs.program.files for _, text in file.texts())
    modules = (each.module or "" for file in runs.program.files for each in file.imports)
    if any(map(_OF_CHANNELS.search, (*given, *read, *files.texts(), *written, *modules))):
        return
    loaders = [*first.calls(*_LOADERS), *first.calls(*TRAINING)]
    found: tuple[CallMade, str | None] = next(_reads_of_data(runs, first), (loaders[0], None))
    event, path = found
    is_given = path is None or any(is_in(path, each) for each in given)
    named = [] if is_given else names_of_folder(runs, first, event.node, str(path))[:1]
    names = " and ".join(f"`{each}`" for each in sorted(job.inputs))
    them = "them" if len(job.inputs) > 1 else "it"
    where = "elsewhere" if path is None else f"`{shown_path(posixpath.normpath(path))}`"
    finding = finding_at(
        data.CHANNELS_DIFFER,
        event.node,
        f"nothing in this job names the folder of {names}: every host downloads {them}, and the program "
        f"reads its data from {where}",
        severity=Severity.WARNING,
        related=[related_at(event.node, "read here")] if named else [],
        remedy=f"Give the program /opt/ml/input/data/{min(job.inputs)} as the folder of its data.",
    )
    yield replace(finding, location=named[0].location) if named else finding


def _reads_of_data(runs: RankRuns, run: RankRun) -> Iterator[tuple[CallMade, str]]:
    """What a rank reads that may be its data, and from where: what lies beside the code or is made by the
    program is something else. First what it opens or lists, then the folders that its datasets have."""
    made = {path for each in run.events if each.name in MAKERS for path in _paths_touched(each)}
    found: list[tuple[CallMade, object]] = []
    for event in (*run.events, *run.sampling):
        if event.name.startswith("torchvision.datasets.") or event.name in _LISTINGS:
            found.append((event, next(iter((*event.args, *event.keywords.values())), None)))
        elif _is_read(event) and event.name != "torch.load":
            found.append((event, event.argument(*_READERS[event.name])))
    for event in run.calls("torch.utils.data.DataLoader"):
        found += [(event, each) for each in _folders_of(event.argument("dataset", 0))]
    for event, given in found:
        path = text_of_path(given)
        there = path and _needed_path(path.partition("*")[0], event.folder)
        if not path or not there or _CONFIGURATION.search(path) or path.startswith("/proc") or "://" in path:
            continue
        is_of_code = is_in(there, CODE_FOLDER) and _is_there(runs, there)
        if not is_of_code and not any(
            is_in(there, each) or is_in(each, posixpath.dirname(there)) for each in made
        ):
            yield event, path


def _folders_of(dataset: object, deepest: int = 3) -> Iterator[str]:
    """The paths that a dataset keeps, or one that it is made of: what has a slash in it."""
    kept: Iterable[object] = ()
    if isinstance(dataset, Symbol) and dataset.made_by is not None:
        kept = (*dataset.made_by.args, *dataset.made_by.keywords.values())
    elif isinstance(dataset, Object):
        kept = dataset.attributes.values()
        yield from (str(each) for each in kept if isinstance(each, str | PurePosixPath) and "/" in str(each))
    elif isinstance(dataset, list):
        kept = dataset[:1]
    yield from (text for each in kept if deepest for text in _folders_of(each, deepest - 1))


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def folders_of_files_are_made(runs: RankRuns) -> Iterator[Finding]:
    """A file that is written into a folder which nothing in the program makes.

    Who writes it ends with a FileNotFoundError, often only after the first epoch. Silent within a `try`,
    behind a test that nobody can tell (a warning where it is of the progress), and where anything else in the
    program is given the folder.

    Bad: `open("logs/losses.csv", "w")` with no such folder in the source. Good: before it
    `os.makedirs("logs", exist_ok=True)`. Source: Python's open.
    """
    missing = ((run, each) for run in runs.runs for each in _writes_to_nowhere(runs, run))
    for run, (event, path, folder) in islice(missing, 1):
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"nothing makes the folder `{_shown(folder)}`, and it is not in the source folder: who writes "
            f"`{shown_path(path)}` here ends with a FileNotFoundError",
            severity=None if event.is_sure else Severity.WARNING,
            remedy=f'Make it before: `os.makedirs("{_shown(folder)}", exist_ok=True)`.',
            related=[
                *(related_at(each, "called from here") for each in event.callers[-1:]),
                *settings_of(run, [event.node]),
            ],
        )


def _writes_to_nowhere(runs: RankRuns, run: RankRun) -> Iterator[tuple[CallMade, str, str]]:
    """What a rank writes before anything may have made its folder: the call, the path and the folder."""
    own = {each.node for each in run.events}
    others = [each for other in runs.runs for each in other.events if each.node not in own]
    if any(_COMMANDS.match(each.name) for each in others):
        return
    made = {path for each in others if each.name in MAKERS for path in _paths_touched(each)}
    touched = {path for each in others if each.name not in MAKERS for path in _paths_touched(each)}
    for event in run.events:
        path = _written(event)
        if _COMMANDS.match(event.name):
            return
        if path is None:  # What it does later comes too late.
            (made if event.name in MAKERS else touched).update(_paths_touched(event))
        folder = posixpath.dirname(path) if path is not None else ""
        if path is None or not folder or event.is_tried or not is_come_to_later(event):
            continue
        whole = posixpath.normpath(posixpath.join(event.folder, folder))
        of_service = is_in(whole, "/opt/ml") and not is_in(whole, CODE_FOLDER)
        if (
            not is_known(whole)
            or MADE_BY_SERVICE.fullmatch(whole)
            or (not of_service and _is_there(runs, whole))
        ):
            continue
        may_be_made = any(is_in(each, whole) for each in (*made, *touched))
        if not may_be_made and not any(is_in(whole, each) for each in touched):
            yield event, path, whole


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def folders_may_be_there_again(runs: RankRuns) -> Iterator[Finding]:
    """With a job that may start again: a folder of its checkpoints that is made as if it never were there.

    What was saved in it is there again before a restarted job begins, and each start ends with a
    FileExistsError. Silent within a `try` and behind tests that nobody can tell.

    Bad: `os.makedirs("/opt/ml/checkpoints/models")` with `capacity: spot`. Good: the same with
    `exist_ok=True`. Source: developer guide, model-checkpoints; Python's os.makedirs.
    """
    job, planned = runs.subject.job, runs.subject.plan.checkpoints
    if runs.first is None or planned is None or not job.may_start_again:
        return
    theirs = set() if runs.neighbour is None else {each.node for each in runs.neighbour.calls(*MAKERS)}
    saves = (each for each in runs.first.calls(*SAVERS))
    asked = {path for each in runs.first.calls(*_ASKING) for path in _paths_touched(each)}
    saved = [path for each in saves if (path := text_of_path(each.argument(*SAVERS[each.name]))) is not None]
    for event in runs.first.calls(*MAKERS):
        path = folder_made(event)
        if path is None or not is_known(path) or exist_ok_of(event) not in (None, False):
            continue
        if not event.is_sure or event.is_tried:
            continue
        if event.node in theirs:
            continue  # Of what all make at once it is said already.
        is_kept = is_in(path, planned.local_path) and posixpath.normpath(path) not in asked
        if is_kept and any(is_in(each, path) for each in saved):
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"`{_shown(path)}` is there again when this job starts again, with what was saved in it: "
                "each further start ends here with a FileExistsError",
                remedy="Give `exist_ok=True`, or make it only where it is not there.",
            )
            return


def _written(event: CallMade) -> str | None:
    """The path of a file that a call makes or overwrites, None of any other call."""
    if event.name == "builtins.open":
        return (
            text_of_path(event.argument("file", 0)) if not {*"wax"}.isdisjoint(str(event.args[1])) else None
        )
    return text_of_path(event.argument(*_WRITERS[event.name])) if event.name in _WRITERS else None


def _needed_path(path: str, folder: str) -> str | None:
    """The absolute path that has to be there: of a path that is known in part the folder that is known; None
    where it is taken of a folder that nobody knows."""
    needed = path if is_known(path) else known_beginning(path).rpartition("/")[0]
    whole = posixpath.normpath(posixpath.join(folder, needed))
    return whole if needed.strip("./") and OPEN not in whole else None


def _is_there(runs: RankRuns, path: str) -> bool:
    """Whether a file is in the source folder, or anywhere but where neither job nor image has one."""
    if is_in(path, CODE_FOLDER):
        return Path(runs.program.root, path.removeprefix(CODE_FOLDER).lstrip("/")).exists()
    if is_in(path, "/opt/ml"):
        return bool(_OF_THE_SERVICE.match(path))
    return bool(_OF_THE_IMAGE.match(path))


def _shown(path: str) -> str:
    return path.removeprefix(f"{CODE_FOLDER}/").replace(OWN, "...")


def _may_bring_files(event: CallMade) -> bool:
    if _COMMANDS.match(event.name):
        command = command_of(event)
        if copied_into(event) is not None:
            return False
        return command is None or bool(_BRINGING.search(command) and not OF_CHECKOUT.match(command))
    last = event.name.rpartition(".")[2] or last_name(event.node.func) or ""
    is_open = not event.name and _MAKING.search(last)
    return bool((_FETCHING.search(last) and not _CALCULATING.match(event.name)) or is_open)


def _is_read(event: CallMade) -> bool:
    """Whether a call reads a file or folder, and raises where it is not there."""
    return str(event.args[1]).startswith("r") if event.name == "builtins.open" else event.name in _READERS


class _TouchedPaths:
    """The paths that calls write, make or ask for, or may."""

    def __init__(self, events: Iterable[CallMade]) -> None:
        self._written, self._made = set[str](), set[str]()
        for each in events:
            # To make a folder brings no file that is read below it.
            (self._made if each.name in MAKERS else self._written).update(_paths_touched(each))

    def may_have(self, path: str) -> bool:
        """Whether a file may be there, or a folder, by what was done with it or around it."""
        return any(is_in(each, path) or is_in(path, each) for each in self._written) or any(
            is_in(each, path) for each in self._made
        )


def _paths_touched(event: CallMade) -> Iterator[str]:
    """The paths that a call writes or asks for, or may."""
    if (_is_read(event) and not event.is_tried) or _OF_TEXTS.fullmatch(event.name):
        return
    copied = copied_into(event) if _COMMANDS.match(event.name) else None
    for each in (*event.args, *event.keywords.values()) if copied is None else (copied,):
        path = None if isinstance(each, OpenedFile) else text_of_path(each)
        if path is not None:
            known = known_beginning(path)
            whole = posixpath.normpath(posixpath.join(event.folder, known))
            if known.strip("./") and not is_in(CODE_FOLDER, whole):
                yield whole


FILE_RUN_RULES = (
    files_are_there,
    files_that_are_required_are_there,
    channels_are_named,
    folders_of_files_are_made,
    folders_may_be_there_again,
)
