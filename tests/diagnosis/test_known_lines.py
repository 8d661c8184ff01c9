"""What is left out because it is known changes no answer, and most of a storm is left out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis import scan
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.known_lines import KnownLines
from launcher.diagnosis.reader import LogReader
from launcher.diagnosis.record import LogStream
from tests.diagnosis.cases import cases
from tests.diagnosis.threads import threads

LOGS = [*(case.text for case in cases()), *(thread.text for thread in threads())]
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
    "nccl ope",
    "ration failed: \x1b[31mRuntimeError: CUDA error: unspecified launch failure",
)


def streams(text: str, block: int) -> list[LogStream]:
    whole = text.encode()
    blocks = iter([whole[at : at + block] for at in range(0, len(whole), block)])
    return [LogStream("one", "algo-1", None, None, blocks)]


def answer(text: str, block: int = 1 << 16) -> object:
    """What is noted, and what is told of it."""
    return LogReader().read([], streams(text, block)), diagnose([], streams=streams(text, block)).to_json()


def be_busy(patch: pytest.MonkeyPatch) -> None:
    """Look up what is known after the first line that was looked at, and from then on."""
    patch.setattr(scan, "_DENSE", 1 << 30)
    patch.setattr(scan, "_FEWEST", 1)


def without_memory(text: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnownLines, "learn", lambda *_: None)
        patch.setattr(KnownLines, "step", lambda *_: None)
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
            block += STORM[chance.choice(kinds)].format(k=k, n=chance.randrange(10), p=p).split("\n")
        taken = 1 if mixed else len(block)
        lines += block[:taken]
        del block[:taken]
    return "\n".join(lines) + "\n"


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.lists(st.sampled_from(range(len(STORM))), min_size=1, max_size=5),
    st.sampled_from([1 << 16, 999]),
    st.booleans(),
    st.booleans(),
)
def test_a_storm_has_the_same_answer_without_memory(
    seed: int, kinds: list[int], block: int, mixed: bool, busy: bool
) -> None:
    text = storm(seed, kinds, mixed=mixed)
    with pytest.MonkeyPatch.context() as patch:
        if busy:
            be_busy(patch)
        assert answer(text, block) == without_memory(text)


def test_the_labelled_logs_have_the_same_answer_without_memory_also_when_they_come_again_and_again() -> None:
    with pytest.MonkeyPatch.context() as patch:
        be_busy(patch)
        different = [text[:60] for text in LOGS if answer(text * 3) != without_memory(text * 3)]
    assert different == []
