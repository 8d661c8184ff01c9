"""What the ranks of a host do at the same moment to one file or folder, as they run."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from launcher.failure_modes import data, training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import OWN, CallMade, known_beginning
from launcher.program.execution.process import CODE_FOLDER
from launcher.program.execution.ranks import RankRun
from launcher.program.index import ancestors
from launcher.program.ranks.participants import is_behind_lock
from launcher.rules.script.data.downloads import DATASETS, short_name
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import RankRuns, command_of
from launcher.rules.script.runs.saves_and_loads import is_in, text_of_path

MAKERS = {
    "os.makedirs": ("name", 0, 2),
    "os.mkdir": ("path", 0, None),
    "pathlib.Path.mkdir": ("self", 0, 3),
}
"""What makes a folder: the names and places of the path, and the place of `exist_ok`."""


def folder_made(event: CallMade) -> str | None:
    """The folder that a call of MAKERS makes, as far as it is known."""
    name, place, _ = MAKERS[event.name]
    return text_of_path(event.argument(name, place))


def exist_ok_of(event: CallMade) -> object:
    """What such a call is told about a folder that is there already; None where it is told nothing."""
    permits = MAKERS[event.name][2]
    return None if permits is None else event.argument("exist_ok", permits)


_DESTINATIONS = {
    "torch.hub.download_url_to_file": ("dst", 1),
    "torchvision.datasets.utils.download_url": ("root", 1),
    "urllib.request.urlretrieve": ("filename", 1),
    "wget.download": ("out", 1),
    "gdown.download": ("output", 1),
    "nltk.download": ("download_dir", 1),
    "shutil.copytree": ("dst", 1),
    "shutil.unpack_archive": ("extract_dir", 1),
}
"""What fetches or unpacks in place, without a lock, and which argument says where to."""
_HUB = "torch.hub.load"
"""Unpacks a repository into one folder, which it empties first; weights alone come there under a name that
is changed at the end."""
_REMEDY_OF_HUB = (
    "Load it on one process of each host first: under `if local_rank == 0`, then `dist.barrier()`, then on "
    'the others. Or let the source folder bring the repository (`source="local"`).'
)
_SHELLS = (
    "os.system",
    "os.popen",
    *(f"subprocess.{each}" for each in ("run", "call", "check_call", "Popen")),
)
_FETCHING = re.compile(r"\b(wget|curl|gdown|unzip|gsutil|aws s3|tar -?\w*x)\b")
"""The commands that fetch or unpack."""
_WAITING = re.compile(
    r"(torch\.distributed\.(barrier|monitored_barrier|all_\w+|broadcast\w*|gather\w*|scatter\w*|reduce\w*)|"
    r".*(wait_for_everyone|synchronize|rendezvous|barrier))"
)
_ORDERING = re.compile(r"lock|first|zero|main|master|primary|leader|rank", re.IGNORECASE)
"""What a context manager or a function is called that may let one rank through before the others."""
_ASKS_FOR_FILE = re.compile(r"exist|is_?dir|is_?file|listdir|glob|access|missing|FileNotFound", re.IGNORECASE)
_CATCHING = re.compile(r"\b(FileExistsError|OSError|IOError|EnvironmentError|Exception|BaseException)\b")
MADE_BY_SERVICE = re.compile(r"/opt/ml(/(checkpoints|model|input(/data)?|output(/data)?|code))?")
"""The folders that are there before a job's ranks start."""


@finds(Stage.SCRIPT, data.EVERY_RANK_DOWNLOADS)
def ranks_fetch_one_after_another(runs: RankRuns) -> Iterator[Finding]:
    """A download into one folder that all ranks of a host run at the same moment in this job.

    One reads what another has half written. Silent where a lock or a test of the rank may let one through
    before the others.

    Bad: `CIFAR10("data", download=True)` on every rank. Good: the same under `if local_rank == 0:`, then a
    barrier. Source: torchvision/datasets/utils.py and torch/hub.py, which write to the final name, without a
    lock.
    """
    if not runs.trains:
        return
    for event, other in _by_both(runs):
        into = _place(event, _destination(event))
        if into is None or into != _place(other, _destination(other)):
            continue
        if not _is_at_once(runs, event, other) or _is_in_cache(runs, event):
            continue
        if event.tests and not all(map(_asks_for_file, event.tests)):
            continue
        yield finding_at(
            data.EVERY_RANK_DOWNLOADS,
            event.node,
            f"every rank runs {_shown_name(event)} at the same moment in this job, into one folder: one "
            "reads what another has half written",
            remedy=_REMEDY_OF_HUB if event.name == _HUB else None,
            related=[related_at(each, "called from here") for each in event.callers[-1:]],
        )
        return


def _is_in_cache(runs: RankRuns, event: CallMade) -> bool:
    """Whether the first rank has loaded the same repository of the hub before, which is kept."""
    if runs.first is None or event.name != _HUB:
        return False
    return any(
        each.name == _HUB and each.args[:1] == event.args[:1] for each in _calls_before(runs.first, event)
    )


def _calls_before(run: RankRun, event: CallMade) -> Iterator[CallMade]:
    """What a rank calls before a call of its own."""
    return takewhile(lambda each: each is not event, run.events)


def _shown_name(event: CallMade) -> str:
    command = command_of(event) if event.name in _SHELLS else None
    return f"`{command.split()[0]}`" if command else short_name(event.name)


def _place(event: CallMade, path: str | None) -> str | None:
    """The whole path that a call is given; None where nobody knows it, or each process has its own."""
    whole = None if path is None else posixpath.normpath(posixpath.join(event.folder, path))
    return None if whole is None or OWN in whole else whole


def _destination(event: CallMade) -> str | None:
    """Where a call writes what it fetches; None where it fetches nothing, or nobody knows where to."""
    if event.name.startswith(DATASETS):
        return text_of_path(event.argument("root", 0)) if event.keywords.get("download") is True else None
    if event.name in _SHELLS and _FETCHING.search(command_of(event) or ""):
        return "."  # Wherever it says: every rank says the same.
    if event.name == _HUB and event.keywords.get("source", "github") == "github":
        return "."
    if event.name in _DESTINATIONS:
        return text_of_path(event.argument(*_DESTINATIONS[event.name]))
    return None


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def folders_may_be_there_already(runs: RankRuns) -> Iterator[Finding]:
    """A folder that every rank of a host makes where it is missing, without `exist_ok=True`.

    All find it missing at the same moment, one makes it, and the others end with a FileExistsError. A
    warning, as it is a matter of moments. Silent within a `try`, and where one rank goes before the others.

    Bad: `if not os.path.exists(out): os.makedirs(out)` on every rank. Good: `os.makedirs(out,
    exist_ok=True)`. Source: Python's os.makedirs.
    """
    made: dict[ast.Call, CallMade] = {}
    for event, other in _by_both(runs):
        if event.name not in MAKERS or _is_caught(event) or event.node in made:
            continue
        path = _place(event, folder_made(event))
        if path is None or path != _place(other, folder_made(other)):
            continue
        if exist_ok_of(event) not in (None, False):
            continue
        if path in _made_by_all(runs, event):
            continue
        if all(map(_asks_for_file, event.tests)) and not _is_made_before(runs, path):
            made |= {event.node: event} if _is_at_once(runs, event, other) else {}
    for node in [*made][:1]:
        yield finding_at(
            training_script.SCRIPT_RAISED,
            node,
            f"each of the {runs.processes} ranks of a host makes this folder where it is missing: all "
            "find it missing at the same moment, and all but one end with a FileExistsError",
            severity=Severity.WARNING,
            remedy="Pass `exist_ok=True`.",
            related=[related_at(each, "so too here") for each in [*made][1:]],
        )


def _is_caught(event: CallMade) -> bool:
    """Whether a `try` around a call, or around one that leads to it, catches a FileExistsError."""
    outers = [outer for call in (event.node, *event.callers) for outer in ancestors(call)]
    handlers = [each for one in outers if isinstance(one, ast.Try) for each in one.handlers]
    return any(each.type is None or _CATCHING.search(ast.unparse(each.type)) for each in handlers)


def _by_both(runs: RankRuns) -> Iterator[tuple[CallMade, CallMade]]:
    """The calls that rank 0 and its neighbour on the same host both make, in order, each with the other's."""
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None:
        return
    names = (*MAKERS, *_DESTINATIONS, _HUB, *_SHELLS)
    theirs = [each for each in neighbour.events if each.name in names or each.name.startswith(DATASETS)]
    by_place = {(each.node, each.callers): each for each in reversed(theirs)}
    for event in first.events:
        other = by_place.get((event.node, event.callers))
        if other is not None and other.name == event.name and runs.is_of_ranks(event):
            yield event, other


def _is_at_once(runs: RankRuns, event: CallMade, other: CallMade) -> bool:
    """Whether nothing lets one rank come to a call before the other: a collective that the other calls
    first, a lock, or a context manager for one rank."""
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None or _waits(first, event) != _waits(neighbour, other):
        return False
    if is_behind_lock(event.node):
        return False
    around = [outer for call in (event.node, *event.callers) for outer in ancestors(call)]
    entered = [item.context_expr for each in around if isinstance(each, ast.With) for item in each.items]
    decorators = [one for each in around if isinstance(each, ast.FunctionDef) for one in each.decorator_list]
    return not any(_ORDERING.search(ast.unparse(each)) for each in (*entered, *decorators))


def _waits(run: RankRun, until: CallMade) -> int:
    """How many times a rank waits for others before it makes a call."""
    return sum(_WAITING.fullmatch(each.name) is not None for each in _calls_before(run, until))


def _asks_for_file(test: ast.AST) -> bool:
    return _ASKS_FOR_FILE.search(ast.unparse(test)) is not None


def _made_by_all(runs: RankRuns, event: CallMade) -> set[str]:
    """The folders that the first rank has surely made before a call, whether they were there or not."""
    assert runs.first is not None
    before = _calls_before(runs.first, event)
    made = [each for each in before if each.name in MAKERS and each.is_sure and exist_ok_of(each) is True]
    return {path for each in made if (path := _place(each, folder_made(each))) is not None}


def _is_made_before(runs: RankRuns, path: str) -> bool:
    """Whether a folder is there when the ranks start: in the source folder, or by the service."""
    if MADE_BY_SERVICE.fullmatch(path) or known_beginning(path).rstrip("/") in ("", CODE_FOLDER):
        return True
    below = path.removeprefix(CODE_FOLDER).lstrip("/")
    return is_in(path, CODE_FOLDER) and Path(runs.program.root, known_beginning(below)).is_dir()


SHARED_FILE_RUN_RULES = (ranks_fetch_one_after_another, folders_may_be_there_already)
