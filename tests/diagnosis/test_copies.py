"""What a rank printed lies in several streams: what one of them shows holds for all."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.record import LogStream
from tests.diagnosis.stories import root, steps

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
