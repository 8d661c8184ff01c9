"""What no diagnosis depends on: the order of streams, healthy lines, and more consequences."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from tests.diagnosis.stories import DISK_FULL, ENDED, IGNORED, LOGGED, OUT_OF_MEMORY, raised, steps, timed_out

CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:24861"
PARTS = st.sampled_from(
    [
        OUT_OF_MEMORY,
        IGNORED,
        LOGGED,
        ENDED,
        DISK_FULL,
        CLOSED,
        steps(1, 4),
        timed_out(0, 7),
        timed_out(1, 6),
        raised(2, "KeyError: 'labels'"),
        raised(1, "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1."),
        "will restart worker group",
        "Training complete.",
        "2026-08-20 10:00:00 step 9 loss 1",
        "",
    ]
)
STREAMS = st.lists(st.lists(PARTS, max_size=4).map("\n".join), min_size=1, max_size=3)


def lines(host: str, text: str) -> list[Record]:
    return [Record(None, host, line) for line in text.split("\n")]


@settings(max_examples=60, deadline=None)
@given(STREAMS, st.randoms())
def test_the_order_of_the_streams_changes_nothing(texts: list[str], chance) -> None:
    streams = [lines(f"algo-{number}", text) for number, text in enumerate(texts, 1)]
    shuffled = list(streams)
    chance.shuffle(shuffled)
    told = diagnose([line for stream in streams for line in stream]).to_json()
    assert diagnose([line for stream in shuffled for line in stream]).to_json() == told


def test_of_lines_that_come_on_two_hosts_the_same_one_is_shown_in_either_order() -> None:
    first, second = (lines(host, "will restart worker group") for host in ("algo-1", "algo-2"))
    assert diagnose([*first, *second]).unusual == diagnose([*second, *first]).unusual


@settings(max_examples=60, deadline=None)
@given(STREAMS, st.integers(0, 30))
def test_healthy_lines_before_what_failed_change_nothing(texts: list[str], count: int) -> None:
    healthy = [f"INFO batch of {number} samples was read" for number in range(count)]
    plain = diagnose([line for number, text in enumerate(texts) for line in lines(f"algo-{number}", text)])
    padded = diagnose(
        [
            line
            for number, text in enumerate(texts)
            for line in lines(f"algo-{number}", "\n".join([*healthy, text]))
        ]
    )
    told, without = padded.to_json(), plain.to_json()
    if plain.root_cause is None:
        # Where nothing failed such lines may show that all is well.
        for name in ("verdict", "summary", "unusual"):
            del told[name], without[name]
    assert told == without


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([OUT_OF_MEMORY, raised(3, "KeyError: 'labels'"), DISK_FULL.replace("rank0", "rank3")]),
    st.lists(
        st.sampled_from(
            [
                CLOSED,
                raised(1, "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1."),
                raised(2, "RuntimeError: Pin memory thread exited unexpectedly"),
                timed_out(1, 7),
                "W0820 api.py:900] Sending process 105 closing signal SIGTERM",
            ]
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_a_consequence_changes_no_root(cause: str, followed: list[str], elsewhere: bool) -> None:
    alone = diagnose(lines("algo-1", cause)).root_cause
    more = [line for text in followed for line in lines("algo-2" if elsewhere else "algo-1", text)]
    found = diagnose([*lines("algo-1", cause), *more]).root_cause
    assert (found.finding.code, found.rank, found.host) == (alone.finding.code, 3, "algo-1")
