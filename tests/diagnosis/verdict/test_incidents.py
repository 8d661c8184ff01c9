"""Which incident counts, what is a copy or a consequence, and what came first."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import LogStream, Record
from launcher.diagnosis.logs.tracebacks import open_traceback
from launcher.diagnosis.model import Confidence, Diagnosis, End, Ending, Verdict
from launcher.diagnosis.signs.exceptions import ends_in_plumbing
from launcher.failure_modes.model import Retry, Severity
from tests.diagnosis.cases import records
from tests.diagnosis.stories import (
    DISK_FULL,
    ENDED,
    IGNORED,
    LOGGED,
    OUT_OF_MEMORY,
    raised,
    root,
    steps,
    story,
    timed_out,
)

TIMED_OUT = timed_out(0, 9)


def history(diagnosis: Diagnosis) -> list[str]:
    return [finding.code for finding in diagnosis.findings if "survived: " in finding.message]


@pytest.mark.parametrize("further", [3, 30, 3000])
def test_an_error_after_which_the_steps_went_on_is_history(further: int) -> None:
    found = story(steps(1, 2), LOGGED, steps(3, 3 + further), TIMED_OUT)
    assert root(found) == ("NCCL004", None)
    assert history(found) == ["CODE001"]
    assert {finding.severity for finding in found.findings if "survived: " in finding.message} == {
        Severity.WARNING
    }


def test_a_step_that_is_printed_once_more_is_no_progress() -> None:
    assert root(story(steps(1, 2), LOGGED, "step 2 loss 2.31\nstep 2 loss 2.31")) == ("CODE001", None)


def test_a_step_before_a_second_start_is_no_progress_after_it() -> None:
    """The last lines are read again when all is known, those before the error too."""
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.06 GiB. GPU 0 has"
    assert root(story("iter 3412 step 53: loss 2.97", oom, "iter 4 step 0: loss 2.63", oom))[0] == "MEM001"


def test_an_error_that_was_survived_is_no_failure_of_a_job_that_goes_on() -> None:
    found = story(steps(1, 2), LOGGED, steps(3, 9))
    assert (found.verdict, root(found), history(found)) == (Verdict.HEALTHY, None, ["CODE001"])


@pytest.mark.parametrize("last", ["Training complete.", "`Trainer.fit` stopped: `max_epochs=3` reached."])
def test_an_error_before_the_end_of_training_was_survived(last: str) -> None:
    assert story(steps(1, 2), LOGGED, last).verdict is Verdict.HEALTHY
    assert story(steps(1, 2), LOGGED, f"not before {last.lower()}").verdict is Verdict.FAILED


def test_an_out_of_memory_that_the_script_recovers_from_is_not_the_end_by_a_broken_gpu() -> None:
    recovered = "| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 2.00 GiB"
    broken = "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
    found = story(recovered, "attempting to recover from OOM in forward/backward pass", steps(1, 50), broken)
    assert (root(found), found.retry) == (("HW001", 3), Retry.OTHER_HOSTS)


def test_what_python_ignores_is_advice() -> None:
    assert root(story(IGNORED, TIMED_OUT)) == ("NCCL004", None)
    assert story(IGNORED).verdict is Verdict.HEALTHY
    said = "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f12>\n"
    raised = IGNORED.replace(said, "").replace("can only test a child process", "no workers are left")
    assert story(raised).verdict is Verdict.FAILED


def test_what_could_not_be_logged_is_advice() -> None:
    raised = (
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/lib/python3.11/logging/__init__.py", line 1110, in emit\n'
        "    msg = self.format(record)\n"
        "TypeError: not all arguments converted during string formatting"
    )
    assert story(f"--- Logging error ---\n{raised}").verdict is not Verdict.FAILED
    assert story(raised).verdict is Verdict.FAILED


AGAIN = "[default] Worker group FAILED. 3/3 attempts left; will restart worker group"


@pytest.mark.parametrize(
    "again",
    [
        AGAIN,
        f"{ENDED}\n{steps(1, 3)}",
        "slipway: algo-1, host 1 of 2: train.py by torchrun, 8 per host",
        "2026-08-20 11:30:44,123 sagemaker-training-toolkit INFO     Invoking user script",
    ],
)
def test_what_failed_before_the_ranks_were_started_again_is_history(again: str) -> None:
    first = again if again.startswith(("slipway", "2026")) else ""
    found = story(first, OUT_OF_MEMORY, again, DISK_FULL)
    assert (root(found), history(found)) == (("DISK001", 0), ["MEM001"])


def test_a_start_that_is_told_once_cuts_nothing() -> None:
    only = "2026-08-20 11:30:44,123 sagemaker-training-toolkit INFO     Invoking user script"
    assert root(story(OUT_OF_MEMORY, only, DISK_FULL)) == ("MEM001", 3)


def test_the_same_error_counts_again_after_it_was_survived() -> None:
    found = story(LOGGED, steps(1, 9), LOGGED)
    assert root(found) == ("CODE001", None)
    assert history(found) == ["CODE001"]


@pytest.mark.parametrize("last", [ENDED, ""])
def test_what_python_had_buffered_does_not_make_an_exception_survived(last: str) -> None:
    assert root(story(OUT_OF_MEMORY, steps(1, 50), last)) == ("MEM001", 3)


def test_what_was_caught_is_the_cause_where_the_process_ended_shortly_after() -> None:
    caught = LOGGED.replace("ConnectionError", "InvalidURL")
    found = story(caught, steps(1, 50), ENDED)
    assert root(found) == ("CODE001", None)
    assert "InvalidURL" in found.root_cause.finding.message
    far = story(caught, steps(1, 900), ENDED)
    assert "InvalidURL" not in far.root_cause.finding.message


@pytest.mark.parametrize(("minutes", "cause"), [(0, "InvalidURL"), (2, None)])
def test_what_was_caught_is_no_cause_where_steps_went_on_for_minutes(minutes: int, cause: str | None) -> None:
    caught = LOGGED.replace("ConnectionError", "InvalidURL")
    stamped = [f"2026-08-20T10:00:20.000Z {line}" for line in caught.split("\n")]
    # What had been buffered is stamped as it comes out, all at once.
    times = [f"2026-08-20T10:{number * minutes:02}:30.000Z" for number in range(20)]
    stepped = [f"{time} step {number} loss 2.31" for number, time in enumerate(times)]
    found = story("\n".join([*stamped, *stepped, f"{times[-1]} {ENDED}"]))
    assert found.root_cause is not None
    assert ("InvalidURL" in found.root_cause.finding.message) == (cause is not None)


def test_a_closed_connection_after_the_end_of_training_is_noise() -> None:
    closed = (
        "[rank1]:[W820 10:00:00.0 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3): Connection "
        "reset by peer"
    )
    well = story(steps(1, 9), "Training finished", closed)
    assert (well.verdict, [finding.severity for finding in well.findings]) == (
        Verdict.HEALTHY,
        [Severity.WARNING],
    )
    failed = [Record(None, "algo-1", line) for line in (*steps(1, 9).split("\n"), closed)]
    assert root(diagnose(failed, ending=Ending(End.FAILED))) == ("NCCL006", None)


def test_steps_on_another_host_long_after_an_error_tell_that_it_was_survived() -> None:
    error = [Record(100.0 + number, "algo-2", line) for number, line in enumerate(LOGGED.split("\n"))]
    on = [Record(180.0 + number, "algo-1", f"step {number} loss 2") for number in range(9)]
    soon = [Record(90.0 + number, "algo-1", f"step {number} loss 2") for number in range(9)]
    assert diagnose([*error, *on]).verdict is Verdict.HEALTHY
    assert diagnose([*error, *soon]).verdict is Verdict.FAILED


def test_numbers_in_the_lines_of_a_traceback_are_no_steps() -> None:
    source = "\n".join(raised(rank, "KeyError: 'labels'", f"step({rank})") for rank in range(4))
    assert story(source).verdict is Verdict.FAILED


def losses(*values: str) -> str:
    return "\n".join(f"iter {number}: loss {value}, time 9 ms" for number, value in enumerate(values))


def test_a_loss_that_is_no_number_to_the_end_is_not_survived_by_further_steps() -> None:
    found = diagnose(records(losses("3.1", "3.0", "nan", "nan", "nan", "nan")))
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "NUM001"


@pytest.mark.parametrize("values", [("3.1", "nan", "nan", "nan", "2.9"), ("nan", "3.0", "2.9")])
def test_a_loss_that_is_a_number_again_is_survived(values: tuple[str, ...]) -> None:
    assert diagnose(records(losses(*values))).root_cause is None


def of_trainer(*logged: tuple[str, str]) -> str:
    """What transformers' Trainer prints of each step."""
    return "\n".join(
        f"{{'loss': {loss}, 'grad_norm': {norm}, 'epoch': {epoch}.0}}"
        for epoch, (loss, norm) in enumerate(logged)
    )


def test_losses_that_the_trainer_leaves_out_as_nan_train_nothing() -> None:
    assert root(diagnose(records(of_trainer(("3.51", "101.2"), ("0.0", "nan"))))) == ("NUM001", None)


@pytest.mark.parametrize(
    "logged",
    [
        (("2.1", "nan"), ("2.0", "1.7")),
        (("0.0", "nan"), ("2.0", "1.7"), ("1.9", "1.6")),
        (("0.0", "0.0"),) * 3,
    ],
)
def test_a_loss_of_zero_or_a_norm_that_was_nan_is_no_failure(logged: tuple[tuple[str, str], ...]) -> None:
    assert diagnose(records(of_trainer(*logged))).root_cause is None


def skipped(scale: int, lower: int) -> str:
    return (
        "[2026-01-01 10:00:00,123] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 "
        f"Skipping step. Attempted loss scale: {scale}, reducing to {lower}"
    )


def test_steps_that_are_skipped_at_the_smallest_loss_scale_to_the_end_train_nothing() -> None:
    lines = [line for step in range(7, 12) for line in (f"step {step} of 90", skipped(1, 1))]
    assert root(diagnose(records("\n".join(lines)))) == ("NUM001", None)


def bars(*losses: str) -> list[str]:
    """diffusers' bar of each step, in which DeepSpeed's word of the step before it stands as well."""
    return [
        f"Steps:   0%| | {step}/2000 [00:14<8:16:07, 14.89s/it, lr=1e-5, step_loss={loss}]{skipped(4, 2)}"
        for step, loss in enumerate(losses, 1)
    ]


def test_losses_that_are_nan_to_the_end_are_not_dealt_with_by_skipping_the_steps() -> None:
    assert root(diagnose(records("\n".join(bars("2.1", "nan", "nan"))))) == ("NUM001", None)


def test_a_loss_that_was_nan_once_and_skipped_is_no_failure() -> None:
    assert diagnose(records("\n".join(bars("2.1", "nan", "2.0")))).root_cause is None


@pytest.mark.parametrize(
    "lines",
    [
        [skipped(4, 2), skipped(2, 1), "step 9 loss 2.1", "step 10 loss 2.0"],
        [*[skipped(1, 1)] * 4, "step 9 loss 2.1", "step 10 loss 2.0"],
        # A scale that is only lowered after the second overflow.
        [*[skipped(65536, 65536)] * 4],
    ],
)
def test_a_loss_scale_that_finds_its_place_is_no_failure(lines: list[str]) -> None:
    assert diagnose(records("\n".join(["step 7 loss 2.3", "step 8 loss 2.2", *lines]))).root_cause is None


def megatrons(*steps: tuple[str, str]) -> str:
    return "\n".join(
        f" iteration {number:8}/  250000 | loss scale: {scale} | grad norm: {norm} | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |"
        for number, (scale, norm) in enumerate(steps, 5426)
    )


def test_gradients_that_are_nan_at_the_smallest_loss_scale_to_the_end_train_nothing() -> None:
    assert root(diagnose(records(megatrons(*[("1.0", "nan")] * 4)))) == ("NUM001", None)


@pytest.mark.parametrize(
    "steps",
    [
        # A larger scale is lowered for it, and the step is skipped.
        [("65536.0", "nan"), ("32768.0", "nan"), ("16384.0", "nan")],
        [("1.0", "0.231"), ("1.0", "0.236"), ("1.0", "0.242")],
    ],
)
def test_gradients_that_overflow_at_a_larger_loss_scale_are_no_failure(steps: list[tuple[str, str]]) -> None:
    assert diagnose(records(megatrons(*steps))).root_cause is None


def test_what_was_logged_on_one_host_is_no_failure_where_another_says_that_training_ended_well() -> None:
    found = story(algo_1=f"{steps(1, 9)}\nTraining finished", algo_2=f"starting\n{LOGGED}")
    assert (found.verdict, [finding.severity for finding in found.findings]) == (
        Verdict.HEALTHY,
        [Severity.WARNING],
    )
    uncaught = raised(9, "KeyError: 'labels'")
    assert root(story(algo_1=f"{steps(1, 9)}\nTraining finished", algo_2=uncaught)) == ("CODE001", 9)
    ended = story(algo_1=f"{steps(1, 9)}\nTraining finished", algo_2=f"starting\n{LOGGED}\n{ENDED}")
    assert root(ended) == ("CODE001", None)


def test_torchvisions_steps_go_on_after_what_was_caught() -> None:
    stepped = [f"Epoch: [0]  [{n:4d}/5004]  eta: 1:21:33  lr: 0.1  loss: 6.9 (6.9)" for n in range(20)]
    found = story("\n".join([*stepped[:9], LOGGED, *stepped[9:]]))
    assert found.root_cause is None


@pytest.mark.parametrize(("minute", "code"), [(0, "CODE004"), (5, "NCCL006")])
def test_many_ranks_in_one_stream_print_much_while_they_come_down(minute: int, code: str) -> None:
    crash = "2026-08-20T10:00:20.000Z double free or corruption (!prev)"
    closed = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4001"
    ends = [
        f"2026-08-20T10:{minute:02}:22.000Z {line}"
        for rank in range(1, 150)
        for line in raised(rank, closed).split("\n")
    ]
    found = story("\n".join([crash, *ends]))
    assert found.root_cause is not None
    assert found.root_cause.finding.code == code


TRACEBACK = """
[rank2]:Traceback (most recent call last):
[rank2]:  File "/opt/ml/code/train.py", line 12, in <module>
[rank2]:    batch = rows[7]
[rank2]:KeyError: 7
"""
LOST = "[rank0]:RuntimeError: [..pair.cc:553] Connection closed by peer [10.0.0.2]:3456"
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


def test_what_was_started_again_and_goes_on_has_not_failed() -> None:
    found = diagnosis([LOST, restart(1), "step 21"], [*TRACEBACK.split("\n"), restart(1), "step 21"])
    assert (found.verdict, found.root_cause) == (Verdict.HEALTHY, None)


def test_each_restart_is_told_once_whatever_came_of_the_job() -> None:
    for last in ("step 90", OUT_OF_MEMORY_LINES):
        found = diagnosis([restart(1), restart(2), last], [restart(1), restart(2)])
        told = [finding.message for finding in found.findings if "restart " in finding.message]
        assert [text.split(":")[0] for text in told] == ["restart 1 of 3", "restart 2 of 3"]


def test_the_root_cause_is_of_the_last_start() -> None:
    found = diagnosis(
        [LOST, restart(1), "step 21", OUT_OF_MEMORY_LINES], [*TRACEBACK.split("\n"), restart(1)]
    )
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("MEM001", 3)
    assert not found.consequences


def test_a_stream_that_tells_of_no_restart_is_read_as_before() -> None:
    found = diagnosis([restart(1)], TRACEBACK.split("\n"))
    assert found.root_cause is not None
    assert found.root_cause.rank == 2


@pytest.mark.parametrize("same", ["KeyError: 7", "KeyError: 8"])
def test_the_same_failure_again_is_found_again(same: str) -> None:
    again = TRACEBACK.replace("KeyError: 7", same).split("\n")
    found = diagnosis([LOST, restart(1)], [*TRACEBACK.split("\n"), restart(1), *again])
    assert found.root_cause is not None
    assert same in found.root_cause.finding.message


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
    traceback = open_traceback("Traceback (most recent call last):")
    assert traceback is not None
    for line in (
        '  File "train.py", line 3, in <module>',
        f'  File "/lib/site-packages/{file}", line 9, in f',
    ):
        traceback.add_line(line)
    traceback.add_line(exception)
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


LOST_consequences = (
    "algo-2:126:199 [5] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer ip<4>"
)


def test_what_was_raised_without_a_traceback_before_others_lost_their_peer_is_the_cause() -> None:
    raised_alone = "AssertionError: First dimension of the tensor should be divisible by the parallel size"
    assert root(story(raised_alone, LOST_consequences)) == ("CODE001", None)
    assert root(story(LOST_consequences, raised_alone)) == ("NCCL006", None)


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


def steps_at(minute: int, second: int) -> str:
    return "\n".join(at_clocks(minute, second + number, f"step {number} loss 2.0") for number in range(5))


def test_without_times_nobody_is_named_and_all_are_listed() -> None:
    found = story(algo_1=FIRST, algo_2=f"printing\n{SECOND}")
    assert root(found) == ("CODE001", None)
    assert found.root_cause.host is None
    assert "rank 0 on algo-1" in found.root_cause.finding.message
    assert "rank 9 on algo-2" in found.root_cause.finding.message


def test_times_of_two_kinds_are_no_order() -> None:
    glog = "\n".join(f"E0820 10:00:10.0 a.py:1] {line}" for line in ("x", "y"))
    found = story(algo_1=at_clocks(0, 20, FIRST), algo_2=f"{glog}\n{SECOND}")
    assert root(found) == ("CODE001", None)


@pytest.mark.parametrize("second", [10, 40])
def test_clocks_that_nothing_holds_together_are_no_order(second: int) -> None:
    assert root(story(algo_1=at_clocks(0, 20, FIRST), algo_2=at_clocks(0, second, SECOND))) == (
        "CODE001",
        None,
    )


def test_the_streams_of_one_host_have_one_clock() -> None:
    lines = [Record(None, "algo-1", line, "0.log") for line in at_clocks(0, 20, FIRST).split("\n")]
    lines += [Record(None, "algo-1", line, "1.log") for line in at_clocks(0, 10, SECOND).split("\n")]
    assert root(diagnose(lines)) == ("CODE001", 9)


def test_clocks_minutes_apart_are_no_order() -> None:
    assert root(story(algo_1=at_clocks(0, 20, FIRST), algo_2=at_clocks(2, 20, SECOND))) == ("CODE001", None)


def test_the_steps_that_hosts_share_tell_how_far_their_clocks_are_apart() -> None:
    one = f"{steps_at(0, 0)}\n{at_clocks(0, 30, FIRST)}"
    two = f"{steps_at(2, 0)}\n{at_clocks(2, 10, SECOND)}"
    assert root(story(algo_1=one, algo_2=two)) == ("CODE001", 9)
    late = f"{steps_at(2, 0)}\n{at_clocks(2, 50, SECOND)}"
    assert root(story(algo_1=one, algo_2=late)) == ("CODE001", 0)


def test_one_clock_for_all_streams_is_believed_however_far_apart() -> None:
    lines = [Record(900.0, "algo-1", line) for line in FIRST.split("\n")]
    lines += [Record(50.0, "algo-2", line) for line in SECOND.split("\n")]
    assert root(diagnose(lines)) == ("CODE001", 9)


def test_what_may_as_well_have_been_first_is_the_runner_up() -> None:
    full = "[rank9]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    broken = "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
    found = story(algo_1=broken, algo_2=f"printing\n{full}")
    assert found.root_cause.sureness.confidence is Confidence.UNSURE
    assert {found.root_cause.finding.code, found.runner_up.code} == {"HW001", "MEM001"}
    sure = story(
        algo_1=f"{steps_at(0, 0)}\n{at_clocks(0, 10, broken)}",
        algo_2=f"{steps_at(0, 0)}\n{at_clocks(0, 20, full)}",
    )
    assert (root(sure), sure.root_cause.sureness.confidence, sure.runner_up) == (
        ("HW001", 0),
        Confidence.SURE,
        None,
    )
