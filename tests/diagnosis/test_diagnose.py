"""Who failed first and why, over ranks and hosts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import LogStream, Record
from launcher.diagnosis.signatures import SIGNATURES
from tests.diagnosis.cases import cases, records

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
    "79.11 GiB of which 1.06 GiB is free."
)
CLOSED = (
    "algo-1:77:79 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer algo-2<5>"
)
TIMED_OUT = (
    "[rank0]:[E820 11:30:44.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation "
    "timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600071 milliseconds before timing out."
)
TRACEBACK = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/ml/code/train.py", line 44, in main
[rank3]:     step(batch)
[rank3]:   File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1511, in _call
[rank3]:     return forward(*args)
[rank3]: KeyError: 'labels'"""


def root_of(*lines: Record, **more: object) -> str | None:
    root = diagnose(lines, **more).root_cause  # type: ignore[arg-type]
    return root.finding.code if root else None


def test_a_progress_bar_glued_to_an_error_hides_nothing() -> None:
    assert (
        root_of(Record(None, "", f"step:  3%|█  | 3/99 [00:01<00:20]\r\x1b[31m{OUT_OF_MEMORY}\x1b[0m"))
        == "MEM001"
    )


@pytest.mark.parametrize("cut", range(1, len(OUT_OF_MEMORY) - 100, 7))
def test_a_torn_line_is_put_together(cut: int) -> None:
    torn = [Record(None, "", OUT_OF_MEMORY[:cut]), Record(None, "", OUT_OF_MEMORY[cut:])]
    assert root_of(*records("starting"), *torn) == "MEM001"


def test_a_torn_line_is_found_over_the_edge_of_two_chunks() -> None:
    for before in range(1018, 1038):
        lines = [Record(None, "", "step")] * before
        torn = [Record(None, "", OUT_OF_MEMORY[:33]), Record(None, "", OUT_OF_MEMORY[33:])]
        assert root_of(*lines, *torn, *lines) == "MEM001", before


def test_the_json_has_the_designed_shape() -> None:
    shape = diagnose(records(OUT_OF_MEMORY, "algo-1")).to_json()
    assert list(shape) == [
        "verdict",
        "root_cause",
        "consequences",
        "findings",
        "retry",
        "runner_up",
        "ranks",
        "summary",
        "unusual",
        "checked",
    ]
    assert shape["root_cause"].keys() >= {"code", "stage", "message", "rank", "host", "log_line", "evidence"}
    assert shape["root_cause"]["stage"] == "log"
    assert diagnose([]).to_json() == {
        "verdict": "unknown",
        "root_cause": None,
        "consequences": [],
        "findings": [],
        "retry": None,
        "runner_up": None,
        "ranks": [],
        "summary": "there is not one line to read",
        "unusual": [],
        "checked": [],
    }


def test_the_order_in_which_the_streams_come_does_not_matter() -> None:
    labelled = cases()
    for seed in range(10):
        chosen = random.Random(seed).sample(labelled, 6)
        streams = [records(case.text, f"algo-{number}") for number, case in enumerate(chosen)]
        forwards = diagnose([line for stream in streams for line in stream])
        backwards = diagnose([line for stream in reversed(streams) for line in stream])
        assert forwards.to_json() == backwards.to_json()


PIECES = st.one_of(
    st.text(max_size=60),
    st.sampled_from([line for case in cases() for line in case.text.split("\n")]),
    st.sampled_from(TRACEBACK.split("\n")),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["", "algo-1", "algo-2"]), st.lists(PIECES, max_size=3).map("".join)))
)
def test_no_text_makes_it_fail(lines: list[tuple[str, str]]) -> None:
    diagnose(
        [Record(None, host, text) for host, text in lines], "".join(text for _, text in lines[:2])
    ).to_json()


def test_memory_does_not_grow_with_the_lines() -> None:
    def many() -> object:
        for number in range(60_000):
            yield Record(float(number), f"algo-{number % 8}", CLOSED)

    assert len(diagnose(many()).findings) == 1  # type: ignore[arg-type]


def test_an_error_in_passing_that_training_survived_is_none() -> None:
    mention = "ValueError: could not log to the tracker\n"
    assert root_of(*records(mention + "step 1 loss 2.0")) == "CODE001"
    assert root_of(*records(mention + "step 1 loss 2.0\n" * 600)) is None


def test_what_a_failing_job_prints_while_it_comes_down_does_not_hide_its_failure() -> None:
    mention = "ValueError: could not log to the tracker\n"
    assert root_of(*records(mention + "closing\n" * 450)) == "CODE001"
    assert root_of(*records(mention + "closing\n" * 550)) is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Retry 1/3: botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint "
        'URL: "https://data.s3.us-west-2.amazonaws.com/shard"',
        "Caught CUDA out of memory, trying batch size 32",
        "ValueError: broken record in shard 7, skipping the sample",
    ],
)
def test_an_error_of_which_its_own_line_says_that_it_was_dealt_with_is_none(line: str) -> None:
    assert root_of(*records(f"{line}\nstep 2 loss 2.0")) is None


def test_what_a_service_advises_to_retry_is_a_failure_all_the_same() -> None:
    text = "CapacityError: Unable to provision. Please retry using a different ML instance type."
    assert root_of(*records(text)) == "CAP001"


def test_an_exception_with_its_module_is_no_host_and_neither_is_a_script() -> None:
    for line in (
        "boto3.exceptions.S3UploadFailedError: Failed to upload a to b: An error occurred (AccessDenied) "
        "when calling the PutObject operation: Access Denied",
        "train2.py: error: unrecognized arguments: --local-rank=0",
    ):
        root = diagnose(records(line)).root_cause
        assert (root.finding.code in ("S3002", "CODE002"), root.host) == (True, None)


def test_torchruns_own_exception_loses_against_what_the_ranks_waited_for() -> None:
    torchrun = (
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/bin/torchrun", line 8, in <module>\n'
        "    sys.exit(main())\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    assert root_of(*records(f"{torchrun}{TIMED_OUT}", "algo-1")) == "NCCL004"


def test_who_writes_for_its_process_group_is_named_where_no_prefix_names_the_rank() -> None:
    text = "[E ProcessGroupNCCL.cpp:915] [Rank 3] NCCL watchdog thread terminated: CUDA error: unknown error"
    root = diagnose(records(text)).root_cause
    assert (root.finding.code, root.rank) == ("HW002", 3)


def stream(name: str, text: str, host: str = "", rank: int | None = None) -> LogStream:
    whole = text.encode()
    return LogStream(name, host, rank, None, iter([whole[at : at + 7] for at in range(0, len(whole), 7)]))


def test_streams_in_blocks_are_read_like_records() -> None:
    for case in cases():
        of_records = diagnose(records(case.text, "algo-1"))
        of_blocks = diagnose([], streams=[stream("one", case.text, "algo-1")])
        assert of_blocks.to_json() == of_records.to_json(), case.name


def test_the_path_of_a_stream_tells_the_rank_where_its_lines_do_not() -> None:
    streams = [stream("0/stderr.log", "step 1"), stream("3/stderr.log", OUT_OF_MEMORY, "algo-1", 3)]
    root = diagnose([], streams=streams).root_cause
    assert (root.rank, root.host) == (3, "algo-1")


def test_two_streams_of_one_host_are_not_glued_together() -> None:
    header, rest = TRACEBACK.split("\n", 1)
    for other, place in (("2/stderr.log", True), ("3/stderr.log", False)):
        two = [Record(None, "algo-1", header, "2/stderr.log")]
        two += [Record(None, "algo-1", line, other) for line in rest.split("\n")]
        assert ("train.py:44" in diagnose(two).root_cause.finding.message) is place


@pytest.mark.parametrize("prefix", ["[worker-7] ", "gpu07: ", "trainer | ", "(node a) [job 5] "])
def test_a_prefix_that_nobody_knows_hides_no_line(prefix: str) -> None:
    found = 0
    for row in SIGNATURES:
        if row.pattern.pattern.startswith("^") and "\n" not in row.example:
            known = root_of(Record(None, "", row.example))
            assert root_of(Record(None, "", prefix + row.example)) == known, row.example
            found += known is not None
    assert found > 5
