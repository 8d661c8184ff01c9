"""What followed from another rank's failure is told by where it was raised, not by when it was printed."""

from __future__ import annotations

import pytest

from launcher.diagnosis.plumbing import ends_in_plumbing
from launcher.diagnosis.tracebacks import opened
from tests.diagnosis.stories import raised, root, story, timed_out

CAUSE = raised(9, "KeyError: 'labels'")
ENDS = [
    "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.",
    "RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:81] Application timeout caused pair closure",
    "RuntimeError: Rank 0 successfully reached monitoredBarrier, but received errors while waiting",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
    "RuntimeError: Pin memory thread exited unexpectedly",
    "RuntimeError: CUDA error: the launch timed out and was terminated",
    "lightning.pytorch.utilities.exceptions.SIGTERMException",
]


def at(time: str, text: str) -> str:
    return "\n".join(f"2026-08-20 10:{time} {line}" for line in text.split("\n"))


@pytest.mark.parametrize("times", [None, ("00:10", "00:20"), ("00:10", "02:10"), ("02:10", "00:10")])
@pytest.mark.parametrize("end", ENDS)
def test_an_exception_of_the_plumbing_follows_from_another_ranks(end: str, times: tuple[str, str]) -> None:
    one, two = raised(0, end, "loss.backward()"), "printing\n" * 5 + CAUSE
    if times:
        one, two = at(times[0], one), at(times[1], two)
    assert root(story(algo_1=one, algo_2=two)) == ("CODE001", 9)


@pytest.mark.parametrize("end", ENDS)
def test_it_is_the_root_cause_where_nothing_else_failed(end: str) -> None:
    assert story(raised(0, end)).root_cause is not None


def test_who_did_not_come_to_a_barrier_did_not_wait_in_it() -> None:
    missed = "[rank0]: RuntimeError: [Rank 0]: Rank 9 failed to pass monitoredBarrier in 30000 ms"
    assert root(story(f"{missed}\n{CAUSE}")) == ("CODE001", 9)


@pytest.mark.parametrize(
    ("file", "exception", "is_plumbing"),
    [
        ("torch/distributed/distributed_c10d.py", "RuntimeError: a", True),
        ("torch/distributed/distributed_c10d.py", "ValueError: a", False),
        ("torch/distributed/checkpoint/filesystem.py", "RuntimeError: a", False),
        ("torch/utils/data/dataloader.py", "RuntimeError: a", True),
        ("ray/_private/worker.py", "RuntimeError: a", True),
        ("ray/_private/worker.py", "ray.exceptions.RayTaskError(KeyError): a", True),
        ("torch/nn/modules/module.py", "RuntimeError: a", False),
        ("torch/nn/modules/module.py", "ray.exceptions.RayTaskError: a", False),
    ],
)
def test_the_stack_tells_what_is_plumbing(file: str, exception: str, is_plumbing: bool) -> None:
    traceback = opened("Traceback (most recent call last):")
    assert traceback is not None
    for line in (
        '  File "train.py", line 3, in <module>',
        f'  File "/lib/site-packages/{file}", line 9, in f',
    ):
        traceback.add(line)
    traceback.add(exception)
    assert ends_in_plumbing(traceback) is is_plumbing


def test_memory_that_a_rank_wants_after_it_waited_in_vain_is_not_why_it_waited() -> None:
    wanted = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 900.00 GiB."
    assert root(story(timed_out(3, 7, "BROADCAST"), wanted)) == ("NCCL004", None)
    assert root(story(timed_out(2, 7, "BROADCAST"), wanted)) == ("MEM001", 3)


@pytest.mark.parametrize(
    "end", ["RuntimeError: connect() timed out.", "RuntimeError: Connection reset by peer"]
)
def test_what_torchruns_agents_raise_while_they_meet_is_the_rendezvous(end: str) -> None:
    file = "/usr/lib/python3/site-packages/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py"
    stack = f'Traceback (most recent call last):\n  File "{file}", line 113, in _call_store\n    call()\n'
    assert root(story(algo_1=f"{stack}RuntimeError: {end}")) == ("NCCL008", None)
    assert root(story(algo_1=f"{stack}ValueError: port must be a number"))[0] == "CODE001"


def test_a_lost_connection_that_the_watchdog_reports_is_no_time_out() -> None:
    text = (
        "[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to the asynchronous "
        "nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
        "[E ProcessGroupNCCL.cpp:460] To avoid data inconsistency, we are taking the entire process down.\n"
        "Last error: NET/IB : Got completion from peer 10.0.0.4<39138> with error 12, opcode 0, len 0"
    )
    assert root(story(text)) == ("NCCL006", None)


CLOSED = "RuntimeError: [gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:40001"


@pytest.mark.parametrize(
    "said",
    [
        "double free or corruption (!prev)",
        "terminate called after throwing an instance of 'std::out_of_range'",
    ],
)
def test_a_crash_in_its_own_words_is_what_others_noticed(said: str) -> None:
    found = story(algo_1=f"{said}\n{raised(1, CLOSED)}", algo_2=raised(9, CLOSED))
    assert root(found) == ("CODE004", None)
    assert found.root_cause.host == "algo-1"


@pytest.mark.parametrize(
    "algo_2",
    [
        f"{raised(9, CLOSED)}\ndouble free or corruption (!prev)",
        f"terminate called after throwing an instance of 'gloo::IoException'\n{raised(9, CLOSED)}",
    ],
)
def test_a_crash_after_a_closed_connection_followed_from_it(algo_2: str) -> None:
    found = story(algo_1=raised(1, CLOSED), algo_2=algo_2)
    assert root(found) == ("NCCL006", None)


LOST = "algo-2:126:199 [5] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer ip<4>"


def test_what_was_raised_without_a_traceback_before_others_lost_their_peer_is_the_cause() -> None:
    raised_alone = "AssertionError: First dimension of the tensor should be divisible by the parallel size"
    assert root(story(raised_alone, LOST)) == ("CODE001", None)
    assert root(story(LOST, raised_alone)) == ("NCCL006", None)
