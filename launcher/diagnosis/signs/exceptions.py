"""What a Python exception or stack in a log is a sign of, where no row of the signatures knows it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from launcher.diagnosis.logs.attempts import is_first_line, says_started_again
from launcher.diagnosis.logs.lines import Line, Writer, parse
from launcher.diagnosis.logs.tracebacks import (
    HEADER,
    RankStack,
    Traceback,
    read_failed_collective,
    read_stacks,
    says_what_was_raised,
)
from launcher.diagnosis.match.prefilter import Candidate
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.readings import LastLine
from launcher.diagnosis.signs.sightings import Sighting, sighting_without_row
from launcher.failure_modes import checkpoints, data, debugger, disk, interruption, nccl, training_script
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds


@finds(Stage.LOG, training_script.SCRIPT_RAISED, nccl.RENDEZVOUS_TIMED_OUT)
def sign_of_exception(traceback: Traceback, candidate: Candidate, line: Line) -> tuple[object, Sighting]:
    """The kind and the sign of an exception that no row knows: the script's own, unless it reports another
    process' failure."""
    if traceback.kind.endswith("KeyboardInterrupt"):
        what = "interrupted with Ctrl-C (SIGINT)"
        stop = sighting_without_row(
            interruption.STOPPED, LineRole.CASCADE, what, candidate, line, vague=False
        )
        return "interrupted", with_traceback(stop, traceback)
    if ends_in_rendezvous(traceback):
        return "rendezvous", _not_met(traceback.exception, candidate, line, traceback)
    if known := _sign_by_place(traceback, candidate, line):
        return known.mode, known
    role = LineRole.CASCADE if traceback.follows_from_another else LineRole.INITIATOR
    return role, _of_script(traceback.exception, role, candidate, line, traceback)


# What an exception means by where it was raised: what it says is any program's, the stack tells whose file or
# device it is about. A file that ends too early, or is no JSON, is torn where nobody but a library writes it.
#
# Texts: smdebug's core/state_store.py; torch/_inductor, triton and torch/utils/cpp_extension.py of PyTorch
# 2.0 to 2.9; torch/serialization.py and torch/distributed/checkpoint; torch/utils/data/_utils/worker.py.


_TORN_FILE = re.compile(
    r"(?:^|\.)(?:JSONDecodeError|EOFError|UnpicklingError|BadZip[Ff]ile)$|^(?:zlib|struct)\.error$"
)
_OF_COMPILERS_CACHE = re.compile(
    r"/triton/(?:runtime/(?:cache|driver|autotuner)|compiler/compiler|backends/\w{1,40}/driver)\.py "
    r"|/torch/_inductor/(?:codecache|remote_cache|triton_heuristics|runtime/\w{1,40})\.py "
    r"|/torch/utils/cpp_extension\.py |/numba/core/caching\.py |/jax/_src/compilation_cache\.py "
)
_OF_COMPILERS_ENTRIES = re.compile(
    r"/triton/(?:runtime/cache|compiler/compiler)\.py |/torch/_inductor/(?:codecache|runtime/\w{1,40})\.py "
)
_MOVED_ENTRY = re.compile(r"\[Errno (?:2|17|39)\] [\w ]{1,60}: '/(?!.{0,300}/s?bin/)")
"""What is raised of an entry that another process has moved or made; not of a program that is missing."""

_BY_PLACE: Sequence[tuple[FailureMode, re.Pattern[str], re.Pattern[str], re.Pattern[str], str]] = (
    (
        debugger.WITH_CHECKPOINTS,
        re.compile(r"/smdebug/core/state_store\.py \S"),
        re.compile(r"(?:^|\.)(?:FileNotFound|JSONDecode|EOF|OS|Permission|IsADirectory)Error$"),
        re.compile(""),
        "Debugger read a checkpoint that another process was writing, moving or deleting",
    ),
    (
        disk.SHARED_CACHE,
        _OF_COMPILERS_CACHE,
        _TORN_FILE,
        re.compile(""),
        "an entry of a compiler's cache was read half written",
    ),
    (
        disk.SHARED_CACHE,
        _OF_COMPILERS_ENTRIES,
        re.compile(r"(?:^|\.)(?:FileNotFound|FileExists|OS)Error$"),
        _MOVED_ENTRY,
        "an entry of a compiler's cache was changed by another process",
    ),
    (
        checkpoints.NOT_WHAT_WAS_SAVED,
        re.compile(
            r"/torch/serialization\.py |/torch/distributed/checkpoint/|/trainer_callback\.py load_from_json"
            r"|\.py \w{0,40}(?:load|resume|restore|read)\w{0,40}"
            r"(?:checkpoint|ckpt|snapshot|trainer_state|train_state)"
            r"|\.py \w{0,40}(?:checkpoint|ckpt|snapshot)\w{0,40}(?:load|resume|restore)"
        ),
        _TORN_FILE,
        re.compile(""),
        "a file of the checkpoint is empty, or ends too early",
    ),
    (
        data.DESCRIPTORS_USED_UP,
        re.compile(r"/multiprocessing/popen_fork\.py |/subprocess\.py _execute_child"),
        re.compile(r"(?:^|\.)BlockingIOError$"),
        re.compile(""),
        "no more processes can be started: their limit is reached",
    ),
    (
        data.LOADER_WORKER_KILLED,
        re.compile(r"/torch/utils/data/_utils/worker\.py "),
        re.compile(r"(?:^|\.)(?:Runtime|Accelerator)Error$"),
        re.compile(r"CUDA (?:driver )?error: initialization error|CUDA driver initialization failed"),
        "a worker that was forked after CUDA had been initialised used CUDA",
    ),
)
"""The mode, a frame's file and function, the exception's type and what it says, and what that means."""


@finds(
    Stage.LOG,
    debugger.WITH_CHECKPOINTS,
    disk.SHARED_CACHE,
    checkpoints.NOT_WHAT_WAS_SAVED,
    data.DESCRIPTORS_USED_UP,
    data.LOADER_WORKER_KILLED,
)
def _sign_by_place(traceback: Traceback, candidate: Candidate, line: Line) -> Sighting | None:
    """The sign of an exception that says little itself and of which the stack tells what it is about."""
    if begins_no_process(traceback):
        return None
    for mode, place, kind, words, what in _BY_PLACE:
        raised = kind.search(traceback.kind) and words.search(traceback.exception)
        if raised and _stands_in(traceback, place):
            what = f"{what}: {traceback.exception}"
            sign = sighting_without_row(mode, LineRole.INITIATOR, what, candidate, line, vague=False)
            return with_traceback(sign, traceback)
    return None


def _stands_in(traceback: Traceback, place: re.Pattern[str]) -> bool:
    """Whether a stack leads through such a place: a file and the function in it."""
    return any(place.search(f"{frame.file} {frame.function}") for frame in traceback.frames)


_WAITS = re.compile(
    r"^(?:_?(?:monitored_)?barrier|all_reduce|all_gather\w*|reduce_scatter\w*|broadcast\w*|gather\w*|scatter\w*"
    r"|all_to_all\w*|recv|wait_for_everyone|synchronize|wait|init_process_group|_store_based_barrier)$"
)
IN_A_WAIT = "while it waited for other ranks"
"""What is said of a rank that Ctrl-C interrupted so."""

_OF_GROUPS = ("/torch/distributed/", "/horovod/", "/accelerate/", "/deepspeed/comm/")


def _waited_in(traceback: Traceback) -> str:
    """Where a stack stands that was interrupted, if it waits there for other ranks; else empty."""
    inside = [
        each
        for each in traceback.frames
        if _WAITS.match(each.function) and any(part in each.file for part in _OF_GROUPS)
    ]
    if not inside:
        return ""
    place = f" at {traceback.place}" if traceback.place else ""
    where = f"{inside[0].function}{place}"
    return f" {IN_A_WAIT} in {where}: if it stood there for long, a rank did not come"


def sign_of_cut(traceback: Traceback, header: Candidate, line: Line) -> Sighting:
    """A traceback whose exception is not in the log says only that there was one, and where; `line` is the
    first that is left of it."""
    if ends_in_rendezvous(traceback):
        return _not_met("an exception of which the log has only the stack", header, line, traceback)
    what, role = "an exception, of which the log has only the stack", LineRole.CASCADE
    if traceback.in_thread:
        # Python ends the thread alone: whether the job got over it stood in what is not there.
        what, role = f"{what}, in a thread of its own", LineRole.ADVISORY
    return _of_script(what, role, header, line, traceback)


def with_traceback(sighting: Sighting, traceback: Traceback | None) -> Sighting:
    """The sign with the traceback beside it, if there is one."""
    if traceback is None:
        return sighting
    if sighting.mode is checkpoints.NOT_WHAT_WAS_SAVED and begins_no_process(traceback):
        # What is torn is no file but the pipe to the process that starts this one.
        what = "the process that was starting it ended before it had told it what to run"
        sighting = replace(
            sighting,
            mode=training_script.SCRIPT_RAISED,
            role=LineRole.CASCADE,
            what=what,
            remedy=None,
            vague=True,
        )
    elif sighting.mode is checkpoints.NOT_WHAT_WAS_SAVED and _stands_in(traceback, _OF_COMPILERS_CACHE):
        what = f"an entry of a compiler's cache was read half written: {traceback.exception}"
        sighting = replace(sighting, mode=disk.SHARED_CACHE, what=what, remedy=None)
    if traceback.local_process is not None and sighting.rank is None:
        told = {"local_rank": str(traceback.local_process), **sighting.captured}
        sighting = replace(sighting, captured=told)
    if sighting.mode is interruption.STOPPED and traceback.kind.endswith("KeyboardInterrupt"):
        sighting = replace(sighting, what=f"{sighting.what}{_waited_in(traceback)}")
    return replace(
        sighting,
        role=LineRole.ADVISORY if traceback.ignored and sighting.role.may_be_root else sighting.role,
        details=traceback.where_in_words,
        place=traceback.place,
        fatal=traceback.is_fatal,
        plumbing=sighting.mode is training_script.SCRIPT_RAISED and ends_in_plumbing(traceback),
    )


def _not_met(why: str, candidate: Candidate, line: Line, traceback: Traceback) -> Sighting:
    mode, what = nccl.RENDEZVOUS_TIMED_OUT, f"the hosts did not meet: {why}"
    return with_traceback(
        sighting_without_row(mode, LineRole.SYMPTOM, what, candidate, line, vague=True), traceback
    )


def _of_script(what: str, role: LineRole, candidate: Candidate, line: Line, traceback: Traceback) -> Sighting:
    sighting = sighting_without_row(training_script.SCRIPT_RAISED, role, what, candidate, line, vague=True)
    return with_traceback(sighting, traceback)


# Whether an exception comes from where ranks and processes speak with one another.
#
# They speak through process groups, stores, queues and actors. Where one of them ends, the others fail in
# just that plumbing: an exception from there is a cause only where nothing else failed.


_PLUMBING_FILES = re.compile(
    r"/torch/distributed/(?!checkpoint/|fsdp/|tensor/|_tensor/|_shard/|_composable/|optim/|pipelining/)"
    r"|/torch/utils/data/(?:dataloader|_utils/(?:worker|pin_memory|signal_handling))\.py$"
    r"|/(?:site|dist)-packages/(?:ray|horovod|mpi4py|deepspeed/comm)/"
    r"|/(?:pytorch_lightning|lightning/pytorch)/trainer/connectors/signal_connector\.py$"
    r"|/multiprocessing/(?:connection|queues|synchronize|resource_sharer|reduction|managers|popen_\w{1,20})\.py$"
    r"|/concurrent/futures/process\.py$"
)
_RENDEZVOUS_FILES = "/torch/distributed/elastic/rendezvous/"
_PLUMBING_TYPES = ("ray.exceptions.", "torch.distributed.Dist")
_OF_THE_USERS = "ray.exceptions.RayTaskError"
"""Ray's word for an exception of the user's own code in another process."""

_PLUMBING_NAMES = (
    "BrokenProcessPool",
    "SIGTERM",
    "SignalException",
    "NCCL communicator",
    "NCCL error",
    "NCCL operations",
    "gloo/",
    "[gloo]",
    "ProcessGroup",
    "c10d",
    "TCPStore",
    "monitoredBarrier",
    "pair closure",
    "by peer",
    "DataLoader worker (",
    "Pin memory thread",
    "the launch timed out",
)
"""The parts that an exception names where its stack does not reach into them: those in C++."""

_OWN_MISTAKE = re.compile(
    r"(?:^|\.)(?:ValueError|TypeError|KeyError|AttributeError|IndexError|NameError|UnboundLocalError|ImportError"
    r"|ModuleNotFoundError|NotImplementedError|SyntaxError|AssertionError|ZeroDivisionError|FileNotFoundError"
    r"|PermissionError|OutOfMemoryError)$"
)
"""What a wrong call raises, wherever it is noticed: no other rank's end does."""


def ends_in_plumbing(traceback: Traceback) -> bool:
    """Whether an exception was raised where ranks and processes speak with one another."""
    if _OWN_MISTAKE.search(traceback.kind):
        return False
    kind, said = traceback.kind, traceback.exception
    if kind.startswith(_PLUMBING_TYPES) and not kind.startswith(_OF_THE_USERS):
        return True
    innermost = traceback.frames[-1].file if traceback.frames else ""
    return bool(_PLUMBING_FILES.search(innermost)) or any(name in said for name in _PLUMBING_NAMES)


def ends_in_rendezvous(traceback: Traceback) -> bool:
    """Whether an exception was raised where torchrun's agents meet, before there are ranks."""
    innermost = traceback.frames[-1].file if traceback.frames else ""
    return _RENDEZVOUS_FILES in innermost and not _OWN_MISTAKE.search(traceback.kind)


def begins_no_process(traceback: Traceback) -> bool:
    """Whether an exception was raised where multiprocessing reads what a new process is to run."""
    return bool(traceback.frames) and traceback.frames[-1].file.endswith("/multiprocessing/spawn.py")


# A stack of Python's at the end of a stream, of which the log has neither the beginning nor the error.
#
# People paste what fits on their screen, and a limit on a message's length cuts a traceback anywhere. Where
# it still has its header it is read as every other one (see `sign_of_cut`).


_PLACE = re.compile(r'^\s{0,40}File "[^"]{1,1000}", line \d{1,7}, in \S')
"""A place as a traceback tells it; in the stacks of faulthandler, which are no sign of an error, no comma
stands before `in`."""

_BEGINS = re.compile(
    rf"{re.escape(HEADER)}|Stack \(most recent call last\)|\(most recent call first\)|\bFound from ?:"
)
"""How a traceback begins, which is read as such, and the stacks that are printed where nothing was raised, as
by torch's compiler for what it leaves out (torch/_inductor/cudagraph_utils.py)."""

_INDENTED = (" ", "\t")

_Lines = Sequence[tuple[Candidate, Line]]


def signs_of_cut_stacks(tails: Iterable[tuple[Candidate, Line]]) -> Iterator[Sighting]:
    """The exceptions in the middle of whose stack a writer's last lines end; `tails` are the last lines of
    all streams, those of one stream in their order."""
    for _, lines in groupby(tails, key=lambda each: each[0].stream):
        of_stream = list(lines)
        for written in _by_writer(of_stream):
            stack = _stack_at_end(written)
            if any(_PLACE.match(line.text) for _, line in stack) and not _is_history(stack, of_stream):
                yield _sign_of(stack)


def _is_history(stack: _Lines, of_stream: _Lines) -> bool:
    """Whether all began once more after it."""
    last = stack[-1][0].index
    return any(
        candidate.index > last and (says_started_again(line.text) or is_first_line(line.text))
        for candidate, line in of_stream
    )


def _by_writer(lines: Iterable[tuple[Candidate, Line]]) -> Collection[_Lines]:
    written: dict[Writer, list[tuple[Candidate, Line]]] = {}
    for candidate, line in lines:
        if line.text.strip():
            written.setdefault(line.writer, []).append((candidate, line))
    return written.values()


def _stack_at_end(lines: _Lines) -> _Lines:
    """The lines of a stack with which a writer ends, but for the very last one, which may be cut anywhere.
    None where that one says what was raised: such a line is known without its stack."""
    end = len(lines) if _is_of_stack(lines[-1][1].text) else len(lines) - 1
    start = end
    while start and _is_of_stack(lines[start - 1][1].text):
        start -= 1
    if any(_BEGINS.search(line.text) for _, line in lines[max(start - 1, 0) : end]):
        return ()
    return () if says_what_was_raised(lines[-1][1].text) else lines[start:end]


def _is_of_stack(text: str) -> bool:
    return text.startswith(_INDENTED) or _PLACE.match(text) is not None


def _sign_of(stack: _Lines) -> Sighting:
    traceback = Traceback(0, "")
    for _, line in stack:
        traceback.add_line(line.text)
    return sign_of_cut(traceback, *stack[0])


# Data that several ranks of a host download or unpack into one folder, and what then fails.
#
# One reads what another has half written. Only the first sign is the same each time: that the archive, or
# what was made of it, is not whole, where the stack is of a download. So it counts where more than one rank
# is known to have been there. Texts: torchvision/datasets/utils.py and its datasets; CPython's zipfile,
# tarfile, gzip, zlib, lzma and os.


DOWNLOAD_LITERALS = (
    *("downloading http", "downloading s3:", "downloading package "),
    "extracting ",
    "unpacking ",
    "unzipping ",
    "unzip ",
    "untar",
    "terminated with the following error",
)
"""Lower-case parts of the lines by which a rank says that it downloads or unpacks, and torch.multiprocessing
which of several processes raised."""

_BEGUN = re.compile(
    r"(?:^|[\]:|] )(?P<what>downloading|extracting|unpacking|unzip(?:ping)?|untar(?:ring)?)\b"
    r"(?: \S{1,1000}){0,4}? (?:(?:to|into|in|->) )?(?P<path>\S{0,1000}/\S{0,1000}?)[.…]{0,3}(?=\s|$)",
    re.I,
)
_ONE_OF_SEVERAL = re.compile(r"^-- Process [1-9]\d{0,5} terminated with the following error")
_MOST_BEGUN = 10_000

_DOWNLOAD_FILES = re.compile(
    r"download|extract|unpack|unzip|untar|/(?:torchvision|torchaudio|torchtext)/datasets/", re.I
)
"""In the names of functions and files of a stack that leads to data that is fetched."""

_DOWNLOADS = re.compile(
    r"\.(?:extractall|extract|unpack_archive|_extract_member|download)\(|\bsnapshot_download\("
)
"""In the lines of code of such a stack."""

_TORN = re.compile(
    r"^(?:[\w.]{1,100}\.)?(?:BadZip[Ff]ile|BadGzipFile|ReadError|EOFError|LZMAError|FileExistsError)\b"
    r"|^zlib\.error: |^OSError: \[Errno 39\] Directory not empty|^OSError: CRC check failed"
    r"|^RuntimeError: (?:Dataset|File|The downloaded file)\b.{0,200} corrupted|^FileNotFoundError\b"
)
"""What is raised by an archive, a folder or a set of files that somebody else is writing."""

_MAY_BE_MISSING = ("Dataset not found or corrupted", "FileNotFoundError")
"""What is said of no data as well, so that it tells nothing unless two ranks were seen at it."""


class Downloads:
    """Who downloads or unpacks what, in one pass over the lines of all streams."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str, str], int | None] = {}
        self._shared: set[str] = set()
        self._spawned = False

    def note_line(self, line: Line, host: str) -> None:
        """Take a line into account; `host` is that of its stream."""
        self._spawned |= _ONE_OF_SEVERAL.match(line.text) is not None
        begun = _BEGUN.search(line.text)
        if begun is None:
            return
        host = line.host or host
        key = host, begun["what"].lower(), begun["path"]
        if key not in self._begun and len(self._begun) < _MOST_BEGUN:
            self._begun[key] = line.rank
        elif key in self._begun and (line.rank is None or self._begun[key] != line.rank):
            self._shared.add(host)

    @finds(Stage.LOG, data.EVERY_RANK_DOWNLOADS)
    def sign_of_torn(
        self, traceback: Traceback, candidate: Candidate, line: Line, world_size: int
    ) -> Sighting | None:
        """That an exception is of data which another rank was writing; None where it need not be.

        `world_size` is the largest that was told so far, 0 where none was.
        """
        said = traceback.exception
        if not _TORN.match(said) or not _is_of_download(traceback):
            return None
        seen = (line.host or candidate.host) in self._shared
        several = world_size > 1 or bool(line.rank) or bool(line.local_rank) or self._spawned
        if not seen and (not several or any(words in said for words in _MAY_BE_MISSING)):
            return None
        what = f"{said.rstrip('.')}: another rank was writing the same files"
        mode, role = data.EVERY_RANK_DOWNLOADS, LineRole.INITIATOR
        vague = not seen and not self._spawned
        return with_traceback(sighting_without_row(mode, role, what, candidate, line, vague=vague), traceback)


def _is_of_download(traceback: Traceback) -> bool:
    return any(
        _DOWNLOAD_FILES.search(frame.function)
        or _DOWNLOAD_FILES.search(frame.file)
        or _DOWNLOADS.search(frame.source)
        for frame in traceback.frames
    )


# Stacks that ranks print into their logs: faulthandler's at a signal or a timeout, and `py-spy dump`'s.
#
# A file that holds nothing but stacks is evidence by itself (`evidence/dumps.py`). Here they stand among
# other lines, each of a rank that its prefix or its stream tells.


STACK_LITERALS = ("thread 0x", '"mainthread"', "stack trace of the failed collective")
"""Lower-case parts of the lines above a thread's frames."""

_MOST_RANKS = 4096


class StackLines:
    """The newest stack of each rank and stream, as far as the lines after its heading reach."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], tuple[int, RankStack]] = {}

    def note_line(self, candidate: Candidate, line: Line, host: str) -> None:
        """Take the heading of a thread into account, with the frames below it."""
        if line.rank is None or len(self._newest) >= _MOST_RANKS:
            return
        below = [parse(text) for text in candidate.following()]
        if stack := read_failed_collective(line.text, [each.text for each in below], line.rank, host or None):
            self._newest[candidate.stream, line.rank] = (candidate.index, stack)
            return
        frames = [each.text for each in below if each.writer == line.writer]
        for stack in read_stacks("\n".join([line.text, *frames]), line.rank, host or None):
            # Of several threads the last with a line of the user's is the main one, or waits as it does.
            if stack.users is not None or (candidate.stream, stack.rank) not in self._newest:
                self._newest[candidate.stream, stack.rank] = (candidate.index, stack)

    def forget_stream(self, stream: str) -> None:
        """The ranks were started again."""
        self._newest = {key: told for key, told in self._newest.items() if key[0] != stream}

    def latest_stacks(
        self, tails: Mapping[str, Sequence[LastLine]], ended_well: Mapping[str, int]
    ) -> tuple[RankStack, ...]:
        """The stacks after which their rank, or whoever prints without a name, made no step and came to no
        good end."""
        if not self._newest:
            return ()
        further: dict[tuple[str, int | None], int] = {}
        for name, lines in tails.items():
            further.update({(name, each.line.rank): each.index for each in lines if each.shows_progress})
        return tuple(
            stack
            for (stream, rank), (index, stack) in sorted(self._newest.items())
            if index
            > max(
                further.get((stream, rank), -1), further.get((stream, None), -1), ended_well.get(stream, -1)
            )
        )
