"""What is left out because it is known changes no answer, and most of a storm is left out."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from launcher.diagnosis import storms
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import TAIL, LogStream
from launcher.diagnosis.match import prefilter, rows
from launcher.diagnosis.match.prefilter import PatternFinder
from launcher.diagnosis.signatures import SHORTLY
from launcher.diagnosis.signs import reader
from launcher.diagnosis.signs.reader import LogReader
from launcher.diagnosis.storms import KnownLines
from tests.exhaustive import share_and_all
from tests.logs.cases import log_cases

LOGS = [case.text for case in log_cases()]
RAISED = (
    "{p}Traceback (most recent call last):\n"
    '{p}  File "/opt/ml/code/train.py", line 8{n}, in <module>\n'
    "{p}    run()\n"
)
STORM = (
    "algo-{k}:7{n}:10{n} [{n}] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
    "ip-10-0-{k}-{n}.ec2.internal<4000{n}>",
    "{p}2026-08-20 11:00:0{n},00{k} torch.distributed.DistBackendError: NCCL error in: "
    "ProcessGroupNCCL.cpp:2006, remote process exited or there was a network error, "
    "NCCL version 2.21.5 ncclRemoteError",
    RAISED + "{p}ValueError: bad value {n}",
    RAISED + "{p}RuntimeError: NCCL error: unhandled system error {n}",
    RAISED + "{p}OSError: [Errno {n}] Cannot allocate memory",
    RAISED,
    "{p}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.96 GiB. GPU {k}",
    "[E820 11:00:0{n}.1 ProcessGroupNCCL.cpp:10] [PG ID {k} PG GUID {k} Rank {n}] failure detected by "
    "watchdog",
    "[Rank {k}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, "
    "NumelIn=1) ran for 600000 milliseconds before timing out.",
    "{p}RuntimeError: rank {k} failed to pass monitoredBarrier in {n}000 ms",
    "{p}ExitCode 13{n}",
    "{p}Exception ignored in: <function f at 0x{n}>",
    "{p}NVRM: Xid (PCI:0000:0{k}:00): 4{n}, pid=1",
    "{p}step {n} loss: 2.1",
    "{p}  and more",
    "world size: {k}",
    "slipway: restart {k} of 9: after {n} s and 10 steps CODE001 of rank 1",
    "Training complete.",
    "will restart worker group",
    "{p}INFO reading the next batch",
    "slipway: CODE001 rank {k} on algo-1: ValueError: bad value {n} (in train.py:8{n})",
    RAISED + "{p}RuntimeError: Error(s) in loading state_dict for Net:\n"
    '{p}\tMissing key(s) in state_dict: "module.bn{n}.weight".',
    RAISED + "{p}ValueError: bad value {n}\n{p}\n"
    "{p}During handling of the above exception, another exception occurred:\n{p}\n"
    + RAISED
    + "{p}RuntimeError: CUDA error: device-side assert triggered",
    '{p}Traceback (most recent call last):\n{p}  File "/opt/ml/code/train.py", line {n}, in <module>\n'
    '{p}    raise RuntimeError("NCCL error in {k}")\n{p}  RuntimeError: NCCL error in {k}',
    "{p}loading:  {n}%|   | {n}/9 " + RAISED + "{p}KeyError: 'labels'",
    "(RayTrainWorker pid=95{k}, ip=10.0.0.{n}) RuntimeError: NCCL communicator was aborted on rank {k}.",
    "  rank      : {k} (local_rank: {n})\n  exitcode  : -{n} (pid: 10{k})",
    "algo-{k}:7{n}:10{n} [{k}] NCCL WARN Call to recv from 10.0.{k}.{n}<4{n}> failed : Connection reset by "
    "peer",
    "{p}RuntimeError: NCCL communicator was aborted on rank {k}. Original reason for failure was: Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, Timeout(ms)=600000)",
    "algo-{k}:7{k}:10{n} [{k}] NCCL INFO comm 0x7f{n}a{k} rank {k} nranks {k} cudaDev {k} - Abort COMPLETE",
    "{p}last enqueued work: {n}, last completed work: {k}",
    "{p}OSError: [Errno 1{n}] Connection reset by peer",
    "{p}urllib.error.HTTPError: HTTP Error 4{n}: not this time",
    "{p}failed (exitcode: -{n}) local_rank: {k} (pid: 7{n})",
    '{p}Thread 0x7f{n} (most recent call first):\n{p}  File "/opt/ml/code/train.py", line {n} in step',
    "nccl ope",
    "ration failed: \x1b[31mRuntimeError: CUDA error: unspecified launch failure",
)


def streams(text: str, block: int) -> list[LogStream]:
    whole = text.encode()
    blocks = iter([whole[at : at + block] for at in range(0, len(whole), block)])
    return [LogStream("one", "algo-1", None, None, blocks)]


def answer(text: str, block: int = 1 << 16) -> object:
    """All that is noted, of which the diagnosis is made."""
    return LogReader().read([], streams(text, block))


def hide_hyperscan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prefilter, "hyperscan", None)
    patch.setattr(rows, "_FINDER", PatternFinder(rows._FINDER.literals))


def have_little_room(patch: pytest.MonkeyPatch) -> None:
    """Forget what is known again and again, and follow few tracebacks at a time."""
    patch.setattr(storms, "_MOST_BYTES", 6_000)
    patch.setattr(storms, "_MOST_UNDER_WAY", 2)
    patch.setattr(storms, "_LONGEST_TRACEBACK", 6)


def be_busy(patch: pytest.MonkeyPatch) -> None:
    """Look up what is known after the first line that was looked at, and from then on."""
    patch.setattr(prefilter, "_DENSE", 1 << 30)
    patch.setattr(prefilter, "_FEWEST", 1)


def without_memory(text: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnownLines, "learn", lambda *_: None)
        patch.setattr(KnownLines, "learn_step", lambda *_: None)
        return answer(text)


def storm(seed: int, kinds: list[int], length: int = 250, *, mixed: bool = False) -> str:
    """Lines of these kinds in blocks of a few, from a few ranks, some of them torn or without a prefix.

    Where they are `mixed`, those of several ranks lie between one another line by line.
    """
    chance = random.Random(seed)
    under_way: dict[str, list[str]] = {}
    lines: list[str] = []
    while len(lines) < length:
        k = chance.randrange(4)
        p = chance.choice(("", f"[rank{k}]: ", f"[rank{k}]: "))
        block = under_way.setdefault(p, [])
        if not block:
            n = chance.randrange(10 ** chance.choice((1, 1, 1, 2, 3, 6)))
            block += STORM[chance.choice(kinds)].format(k=k, n=n, p=p).split("\n")
        taken = 1 if mixed else len(block)
        lines += block[:taken]
        del block[:taken]
    return "\n".join(lines) + "\n"


CIRCUMSTANCES = st.sets(st.sampled_from([be_busy, hide_hyperscan, have_little_room]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("examples", [15, 60])
def test_a_storm_has_the_same_answer_without_memory(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(
        st.integers(0, 1 << 30),
        st.lists(st.sampled_from(range(len(STORM))), min_size=1, max_size=5),
        st.sampled_from([1 << 16, 999]),
        st.booleans(),
        CIRCUMSTANCES,
    )
    @example(0, [20, 5], 1 << 16, False, set())
    def holds(
        seed: int,
        kinds: list[int],
        block: int,
        mixed: bool,
        circumstances: set[Callable[[pytest.MonkeyPatch], None]],
    ) -> None:
        text = storm(seed, kinds, mixed=mixed)
        with pytest.MonkeyPatch.context() as patch:
            for arrange in circumstances:
                arrange(patch)
            told = answer(text, block)
        assert told == without_memory(text)

    holds()


@pytest.mark.parametrize("logs", share_and_all(LOGS))
def test_the_labelled_logs_have_the_same_answer_without_memory_also_when_they_come_again_and_again(
    logs: list[str],
) -> None:
    different = []
    for number, text in enumerate(logs):
        with pytest.MonkeyPatch.context() as patch:
            be_busy(patch)
            if number % 2:
                hide_hyperscan(patch)
            told = answer(text * 3)
        if told != without_memory(text * 3):
            different.append(text[:60])
    assert different == []


@pytest.mark.parametrize("logs", share_and_all(LOGS))
def test_the_labelled_logs_have_the_same_answer_where_every_context_is_looked_at(logs: list[str]) -> None:
    """Of what follows nothing is in reach of the contexts, and they are not among the last lines."""
    follows = "".join(f"reading shard {number}\n" for number in range(2 * TAIL))
    checkpoint = "INFO Saving checkpoint of the model\n"
    texts = [
        f"{checkpoint}{between}{text}\n{follows}"
        for text in logs
        for between in ("", "reading\n" * (SHORTLY - 1), "reading\n" * SHORTLY)
        if "timeout" in text
    ]
    told = [diagnose([], streams=streams(text, 1 << 16)) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_CONTEXT_LITERALS", set())
        assert told == [diagnose([], streams=streams(text, 1 << 16)) for text in texts]
    explained = [each for each in told if each.root_cause and each.root_cause.finding.code == "CKPT003"]
    assert len(texts) / 10 < len(explained) < len(texts)


# Each is left out after the first time; what is last in it counts all the same.
COUNTS = {
    "a rank that was not heard before": ["[rank1]: ValueError: bad value 1"] * 9
    + ["[rank2]: ValueError: bad value 1"],
    "a literal of digits": ["[rank1]: RuntimeError: s3://data/a: 404 Forbidden", "[rank1]: reading"] * 9
    + ["[rank1]: RuntimeError: s3://data/a: 403 Forbidden", "[rank1]: reading"],
    "the same once more after a restart": ["[rank1]: ValueError: bad value 1"] * 9
    + ["will restart worker group", "[rank1]: ValueError: bad value 1"],
    "an error's number among wider ones": ["[rank1]: RuntimeError: [Errno 1040] Disk quota exceeded"] * 9
    + [f"[rank1]: RuntimeError: [Errno {number}] Disk quota exceeded" for number in (122, 1040)],
    "another place in the collectives": [
        f"[Rank {rank}] last enqueued work: 9, last completed work: {done}"
        for rank in (1, 2)
        for done in (8, 8, 8, 8, 5)
    ],
    "a later collective of a rank": ["[Rank 1] Timeout at NCCL work: 17, last enqueued NCCL work: 18"] * 9
    + [f"[Rank 1] Timeout at NCCL work: {number}, last enqueued NCCL work: 9001" for number in (9000, 17)],
    "places of a rank that are far apart, so of several groups": [
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
        "OpType=ALLREDUCE, NumelIn=9) ran"
        for rank in (1, 2)
        for number in (5, 6, 7, 6, 5, 7, 6, 5, 999)
    ],
    "the elements of a rank that told its place without": [
        *(f"[PG 0 Rank {rank}] Timeout at NCCL work: 4000, last enqueued" for rank in (1, 1, 1, 1, 2, 2)),
        *(
            f"[PG 0 Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
            f"OpType=ALLREDUCE, NumelIn={number}) ran"
            for rank in (1, 2)
            for number in (4001, 4002, 4000)
        ),
    ],
    "a larger communicator": ["algo-1:70:9 [0] NCCL INFO comm 0x7f rank 0 nranks 8 busId 0 - Init START"] * 9
    + [f"algo-1:70:9 [0] NCCL INFO comm 0x7f rank 0 nranks {size} busId 0 - Init START" for size in (16, 8)],
    "what another text of the same sign leaves out": [
        *(f"[rank{rank}]:[Rank {rank}] Watchdog caught collective operation timeout" for rank in (1, 2) * 5),
        *(
            f"[rank{rank}]:[Rank {rank}] Watchdog caught collective operation timeout, last enqueued work: "
            "7, last completed work: 6"
            for rank in (1, 1, 1, 2)
        ),
    ],
    "the rest of a record": ["[rank1]: RuntimeError: failed", "[rank2]: reading"] * 9
    + ["[rank1]: RuntimeError: failed", "[rank1]:   CUDA out of memory. Tried to allocate 2.00 GiB."],
}


@pytest.mark.parametrize("name", COUNTS)
def test_what_is_new_among_what_is_known_counts(name: str) -> None:
    text = "\n".join([*COUNTS[name], "[rank3]: the end", ""])
    with pytest.MonkeyPatch.context() as patch:
        be_busy(patch)
        told = answer(text)
    assert told == without_memory(text)


# Of each number any digit and any width, as the errors of many ranks have them.
TEXTS = {
    "a socket": "algo-{host}:{pid}:{n} [{local}] NCCL WARN Call to recv from 10.0.{host}.{local}<4{rank}> "
    "failed : Connection reset by peer",
    "a communicator": "algo-{host}:{pid}:{n} [{local}] NCCL INFO comm 0x55{n:x} rank {rank} nranks 512 "
    "cudaDev {local} busId {local}000 - Abort COMPLETE",
    "a watchdog": "[rank{rank}]: RuntimeError: NCCL communicator was aborted on rank {rank}. Original reason "
    "for failure was: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4000, OpType=ALLREDUCE, "
    "Timeout(ms)=600000) ran for 600{n} milliseconds before timing out.",
    "a collective": "[rank{rank}]:[E820 11:30:40.{n} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn={n}, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600{n} milliseconds before timing out.",
    "a collective of a group": "[rank{rank}]:[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Timeout at NCCL "
    "work: {n}, last enqueued NCCL work: {n}, last completed NCCL work: {n}.",
    "a GPU": "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 MiB. "
    "GPU {local} has a total capacity of 79.15 GiB of which {n}.25 MiB is free.",
}


@pytest.mark.parametrize("name", TEXTS)
def test_most_of_a_storm_is_left_out_whatever_its_numbers(name: str) -> None:
    chance = random.Random(3)
    lines = []
    for _ in range(6000):
        rank = chance.randrange(40)
        n = chance.randrange(10 ** chance.randrange(1, 7))
        lines.append(TEXTS[name].format(rank=rank, host=rank // 8 + 1, local=rank % 8, pid=70 + rank, n=n))
    assert 0 < len(looked_at("\n".join(lines) + "\n")) < len(lines) / 10


@pytest.mark.parametrize("prefix", ["", "[rank{}]: ", "[1,{}]<stderr>:"], ids=["none", "rank", "mpirun"])
def test_most_of_a_storm_of_tracebacks_is_left_out(prefix: str) -> None:
    """Of ranks that are mixed line by line each has to be looked at, but for its first traceback no more."""
    ranks, each = (40, 30) if prefix else (1, 400)
    chance = random.Random(7)
    waiting = {
        rank: [line for n in range(each) for line in raised(prefix.format(rank), n)] for rank in range(ranks)
    }
    count = sum(map(len, waiting.values()))
    lines = []
    while waiting:
        rank = chance.choice(list(waiting))
        lines.append(waiting[rank].pop(0))
        if not waiting[rank]:
            del waiting[rank]
    assert 0 < len(looked_at("\n".join(lines) + "\n")) < count / 10


def test_what_is_printed_now_and_then_is_left_out_as_well() -> None:
    """A log of which most lines are not looked at has its own that come again and again."""
    lines = [
        f"[rank1]: retry {number} of 9999: Connection reset by peer"
        if number % 200 == 0
        else "[rank1]: reading"
        for number in range(8000)
    ]
    assert 0 < len(looked_at("\n".join(lines) + "\n")) < 10


def looked_at(text: str) -> list[object]:
    """The lines that were not left out."""
    looked: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        look = LogReader._look_at
        patch.setattr(LogReader, "_look_at", lambda self, each: (looked.append(each), look(self, each)))
        answer(text)
    return looked


def raised(prefix: str, number: int) -> list[str]:
    """The twenty lines of a traceback."""
    frames = [
        f'  File "/opt/ml/code/model.py", line {line}, in forward\n    return x' for line in range(10, 19)
    ]
    text = "\n".join(["Traceback (most recent call last):", *frames, f"ValueError: bad value {number}"])
    return [prefix + line for line in text.split("\n")]
