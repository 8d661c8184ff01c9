"""What one rank prepares for all: whether the others wait for it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from itertools import islice

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.index import (
    FunctionNode,
    ancestors,
    ancestors_in_function,
    last_name,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program, is_of_a_library, joining_calls
from launcher.program.ranks.collective_calls import may_be_collective
from launcher.program.ranks.divergence import FunctionSummaries
from launcher.program.ranks.guards import Guards, is_in_body
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.sequence import calls_behind
from launcher.program.ranks.truths import Guard
from launcher.program.surroundings.saves import is_a_cache, spelling_of_path
from launcher.program.values import External, alternatives, is_path
from launcher.rules.script.data.downloads import (
    DATASETS,
    WRITERS,
    calls_of_writing_methods,
    fetches,
    is_made_once,
    opened_to_write,
    opens_to_write,
)
from launcher.rules.script.findings import finding_at, related_at

_DESTINATIONS = {
    "torch.hub.download_url_to_file": ("dst", 1),
    "urllib.request.urlretrieve": ("filename", 1),
    "wget.download": ("out", 1),
    "gdown.download": ("output", 1),
    "shutil.copytree": ("dst", 1),
    "shutil.unpack_archive": ("extract_dir", 1),
    **dict.fromkeys(
        ("tarfile.open.extractall", "tarfile.TarFile.extractall", "zipfile.ZipFile.extractall"), ("path", 0)
    ),
    "boto3.client.download_file": ("Filename", 2),
}
"""Where what fetches files puts them."""

_FOLDERS = ("extractall", "unpack_archive", "copytree", "save_to_disk")
"""What writes more than the file that it is told."""

_READERS = {
    "open": ("file", 0),
    **dict.fromkeys(("numpy.load", "numpy.loadtxt"), ("file", 0)),
    "numpy.fromfile": ("file", 0),
    "numpy.memmap": ("filename", 0),
    "torch.load": ("f", 0),
    "joblib.load": ("filename", 0),
    "safetensors.torch.load_file": ("filename", 0),
    "datasets.load_from_disk": ("dataset_path", 0),
    "tokenizers.Tokenizer.from_file": ("path", 0),
    "sentencepiece.SentencePieceProcessor": ("model_file", 0),
    "torchvision.datasets.ImageFolder": ("root", 0),
    "os.listdir": ("path", 0),
    **dict.fromkeys(("pandas.read_csv", "pandas.read_pickle"), ("filepath_or_buffer", 0)),
    **dict.fromkeys(("pandas.read_parquet", "pandas.read_feather"), ("path", 0)),
}
"""What reads a file or folder, and which argument says which."""

_READING_METHODS = ("read_text", "read_bytes", "iterdir")
_WAITING = re.compile(
    r"barrier|wait|sync|sleep|broadcast|gather|reduce|rendezvous|agree|first|poll|retry|(?<![bc])lock|Lock"
)
"""In the names of what may let a rank wait for another one."""

_LIBRARIES_OF_RANKS = (
    *("torch.distributed.", "torch.nn.parallel.", "accelerate.", "deepspeed.", "horovod.", "ignite."),
    *("lightning.", "transformers.Trainer", "smdistributed.", "torch_xla.", "ray.", "mpi4py.", "filelock."),
)
"""Whose calls may let a rank wait, but for those that ask for a rank or a size."""

_MOST_CALLS = 2000
"""So many calls are followed behind a write."""


@finds(Stage.SCRIPT, data.EVERY_RANK_DOWNLOADS)
def ranks_wait_for_what_one_prepares(program: Program) -> Iterator[Finding]:
    """A file that one rank makes, and that all read next without a word between them.

    The other ranks come by the test of the rank at once, and read a file that is not there yet or half
    written: FileNotFoundError on some of them, or a vocabulary of which the end is missing. Followed through
    the functions and classes of the program. Silent where anything between may let ranks wait: a collective,
    the making of the group or of a wrapped model, a loop that sleeps, a lock, or a call that nobody can
    resolve; and where the read stands under a test or in a `try`. A warning where the file is only made if it
    is not there, as the next run finds it.

    Bad: `if local_rank == 0: np.save(path, tokens)`, then `np.load(path)` on every rank
    Good: the same with `dist.barrier()` between them

    Source: torch.distributed's documentation, of barrier; torchvision/datasets/utils.py.
    """
    reachability = program.analysis(Reachability)
    if not reachability.joins_others(call for call, _ in joining_calls(program)):
        return
    participants = program.analysis(Participants)
    for write, path, name in _writes(program):
        who = participants.ranks_running(write)
        if not isinstance(who, Guard) or who.members != frozenset({0}) or who.outside:
            continue
        read = None if _others_wait(program, write) else _read_behind(program, write, path, name)
        if read is not None:
            made = ast.unparse(path)
            yield finding_at(
                data.EVERY_RANK_DOWNLOADS,
                write,
                f"{who.described} writes `{made}` here, and no other rank waits for it: a faster one reads "
                f"it in line {read.lineno} before it is there, or half written",
                severity=Severity.WARNING if is_made_once(program, write, path) else None,
                remedy="Let all ranks meet between them: `dist.barrier()` behind the test of the rank, where "
                "every rank comes by.",
                related=[
                    *([] if who.test is None else [related_at(who.test, "true on one rank")]),
                    related_at(read, "read by every rank"),
                ],
            )


def _writes(program: Program) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    """What writes files or folders of data: the call, the path, and by what."""
    for call, name in program.calls(*WRITERS, *_DESTINATIONS):
        path = argument_of(call, *(WRITERS.get(name) or _DESTINATIONS[name]))
        if path is not None and opens_to_write(call, name):
            yield call, path, name
    for call, name in fetches(program):
        root = argument_of(call, "root", 0) if name.startswith(DATASETS) else None
        if root is not None:
            yield call, root, name
    for call, path in opened_to_write(program):
        yield call, path, "open"
    for call, name in program.calls("torch.save"):
        path = argument_of(call, "f", 1)
        if path is not None and is_a_cache(program, call):
            yield call, path, name
    for call in calls_of_writing_methods(program):
        yield call, call.args[0], last_name(call.func) or ""


def _read_behind(program: Program, write: ast.Call, path: ast.expr, name: str) -> ast.Call | None:
    """Where every rank surely reads next what a call writes, with nothing between that may let it wait."""
    written = spelling_of_path(program, path)
    ranks_running = program.analysis(Participants).ranks_running
    for call in islice(calls_behind(program, write), _MOST_CALLS) if written else ():
        if may_wait(program, call):
            return None
        for read in _paths_read(program, call, name):
            spelled = spelling_of_path(program, read) or ""
            within = name.endswith(_FOLDERS) and spelled.startswith(f"{written}/")
            if (spelled == written or within) and ranks_running(call) is True and _is_open(program, call):
                return call
    return None


def _paths_read(program: Program, call: ast.Call, name: str) -> Iterator[ast.expr]:
    """The files or folders that a call reads."""
    called = program.qualified(call.func) or ""
    path = argument_of(call, *_READERS[called]) if called in _READERS else None
    if called == "open" and _mode(call, 1)[:1] not in ("r", "b"):
        return
    if called == name and name.startswith(DATASETS):
        path = argument_of(call, "root", 0)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    method = last_name(call.func) or ""
    if owner is not None and is_path(program.value(owner)):
        opens = method == "open" and _mode(call, 0)[:1] in ("r", "b")
        path = owner if opens or method in _READING_METHODS else path
    if path is not None:
        yield path


def _mode(call: ast.Call, position: int) -> str:
    mode = argument_of(call, "mode", position)
    return "r" if mode is None else str(getattr(mode, "value", "?"))


def _is_open(program: Program, read: ast.Call) -> bool:
    """Whether a rank that runs the function of a read comes by it, and fails where the file is missing."""
    inner: ast.AST = read
    for outer in ancestors_in_function(read):
        if isinstance(outer, ast.Try | ast.While):
            return False
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            truth = program.analysis(Guards).truth(outer.test)
            if truth is not is_in_body(outer, inner):
                return False
        inner = outer
    return True


def may_wait(program: Program, call: ast.Call) -> bool:
    """Whether a call may let a rank wait for another one, or may run what nobody sees."""
    if may_be_collective(program, call) or _WAITING.search(last_name(call.func) or ""):
        return True
    for each in alternatives(program.value(call.func)):
        if isinstance(each, External) and _is_of_ranks(each.name):
            return True
    return program.analysis(FunctionSummaries).collective_calls.calls_the_unknown([call], None)


def _is_of_ranks(name: str) -> bool:
    """Whether a library's call may let a rank wait; of a library that nobody knows each may."""
    library, last = name.partition(".")[0], name.rpartition(".")[2]
    if name.startswith(_LIBRARIES_OF_RANKS):
        return not last.startswith(("get_", "is_", "local_", "global_"))
    return not is_of_a_library(name) and not hasattr(builtins, library)


def _others_wait(program: Program, node: ast.AST, depth: int = 5) -> bool:
    """Whether the ranks that do not come here may wait in the other arm of a test, in a context around, or in
    the `finally` of a `try`."""
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, ast.With):
            contexts = [each for item in outer.items for each in walk(item.context_expr)]
            if any(isinstance(each, ast.Call) and may_wait(program, each) for each in contexts):
                return True
        if isinstance(outer, ast.Try) or (isinstance(outer, ast.If) and inner is not outer.test):
            if isinstance(outer, ast.Try):
                other = [] if inner in outer.finalbody else outer.finalbody
            else:
                other = outer.orelse if is_in_body(outer, inner) else outer.body
            calls = [one for each in other for one in walk(each) if isinstance(one, ast.Call)]
            if any(may_wait(program, each) for each in calls):
                return True
        if isinstance(outer, FunctionNode):
            sites = program.evaluation.callers.call_sites(outer) if depth else None
            return any(_others_wait(program, each.call, depth - 1) for each in sites or ())
        inner = outer
    return False
