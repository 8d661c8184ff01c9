"""Which incident counts, what is a copy or a consequence, and what came first."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import LogStream, Record
from launcher.diagnosis.logs.tracebacks import open_traceback
from launcher.diagnosis.model import Diagnosis, End, Ending
from launcher.diagnosis.signs.exceptions import ends_in_plumbing
from tests.diagnosis.stories import raised, root, steps, story

RESTART = (
    "slipway: restart {number} of 3: after 41 s and 25 steps CODE001 rank 2 on algo-2: KeyError: 7 "
    "(train.py:12); this may have been once (newest complete checkpoint: step 20)"
)
OUT_OF_MEMORY_LINES = "[rank3]:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def diagnosis(one: list[str], two: list[str], end: End | None = None) -> Diagnosis:
    lines = [Record(None, "algo-1", text) for text in one] + [Record(None, "algo-2", text) for text in two]
    return diagnose(lines, ending=Ending(end) if end else None)


def restart(number: int) -> str:
    return RESTART.replace("{number}", str(number))


def test_each_restart_is_told_once_whatever_came_of_the_job() -> None:
    for last in ("step 90", OUT_OF_MEMORY_LINES):
        found = diagnosis([restart(1), restart(2), last], [restart(1), restart(2)])
        told = [finding.message for finding in found.findings if "restart " in finding.message]
        assert [text.split(":")[0] for text in told] == ["restart 1 of 3", "restart 2 of 3"]


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
    traceback = open_traceback("Traceback (most recent call last):")
    assert traceback is not None
    for line in (
        '  File "train.py", line 3, in <module>',
        f'  File "/lib/site-packages/{file}", line 9, in f',
    ):
        traceback.add_line(line)
    traceback.add_line(exception)
    assert ends_in_plumbing(traceback) is is_plumbing


@pytest.mark.parametrize(("minute", "code"), [(0, "CODE004"), (5, "NCCL006")])
def test_many_ranks_in_one_stream_print_much_while_they_come_down(minute: int, code: str) -> None:
    crash = "2026-08-20T10:00:20.000Z double free or corruption (!prev)"
    closed = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4001"
    ends = [
        f"2026-08-20T10:{minute:02}:22.000Z {line}"
        for rank in range(1, 150)
        for line in raised(rank, closed).split("\n")
    ]
    assert root(story("\n".join([crash, *ends])))[0] == code


EARLIER = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 36, in fault\n'
    "    read(sample)\n"
    "OSError: a sample could not be read"
)
LATER = EARLIER.replace("read(sample)", "label(sample)").replace(
    "OSError: a sample could not be read", "IndexError: no such class"
)


def marked(text: str, rank: int) -> str:
    return "\n".join(f"[rank{rank}]:{line}" for line in text.split("\n"))


def of_streams(*streams: tuple[str, str, int | None, str]) -> Diagnosis:
    """The diagnosis of streams: each its name, host, rank and text."""
    return diagnose(
        (),
        streams=[
            LogStream(name, host, rank, None, iter([f"{text}\n".encode()]))
            for name, host, rank, text in streams
        ],
    )


HOST_LOG = f"{marked(steps(1, 20), 0)}\n{marked(EARLIER, 1)}\n{marked(steps(21, 60), 0)}"


def test_what_a_rank_survived_as_its_hosts_log_shows_it_survived_in_its_own_file() -> None:
    found = of_streams(
        ("algo-1.log", "algo-1", None, HOST_LOG),
        ("rank-1/stderr.log", "algo-1", 1, EARLIER),
        ("rank-3/stderr.log", "algo-2", 3, LATER),
    )
    assert root(found) == ("CODE001", 3)


def test_what_comes_back_after_it_was_survived_counts() -> None:
    found = of_streams(
        ("algo-1.log", "algo-1", None, f"{HOST_LOG}\n{marked(EARLIER, 1)}"),
        ("rank-1/stderr.log", "algo-1", 1, f"{EARLIER}\n{EARLIER}"),
    )
    assert root(found) == ("CODE001", 1)


def test_the_same_line_without_a_rank_is_no_rival_of_the_one_with_it() -> None:
    text = EARLIER.replace("OSError: a sample could not be read", "OSError: [Errno 24] Too many open files")
    found = of_streams(
        ("algo-1.log", "algo-1", None, marked(text, 1)),
        ("output/failure", "algo-1", None, f"DATA010 rank 1 on algo-1: files\n{text}"),
    )
    assert root(found) == ("DATA010", 1)


def test_the_same_line_of_another_host_is() -> None:
    text = EARLIER.replace("OSError: a sample could not be read", "OSError: [Errno 24] Too many open files")
    found = of_streams(
        ("algo-1.log", "algo-1", None, marked(text, 1)),
        ("algo-2.log", "algo-2", None, text),
    )
    assert root(found) == ("DATA010", None)


FIRST, SECOND = raised(0, "KeyError: 'labels'"), raised(9, "KeyError: 'labels'")


def at_clocks(minute: int, second: int, text: str) -> str:
    return "\n".join(f"2026-08-20 10:{minute:02}:{second:02} {line}" for line in text.split("\n"))


def test_the_streams_of_one_host_have_one_clock() -> None:
    lines = [Record(None, "algo-1", line, "0.log") for line in at_clocks(0, 20, FIRST).split("\n")]
    lines += [Record(None, "algo-1", line, "1.log") for line in at_clocks(0, 10, SECOND).split("\n")]
    assert root(diagnose(lines)) == ("CODE001", 9)
