"""The first failing rank, and what the failure reason says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from slipway.failure import (
    MAX_CHARACTERS,
    REPORTS,
    Cause,
    Evidence,
    RankEnd,
    cause_by_loss,
    cause_by_world,
    exit_status,
    judge_output,
    root_cause,
    write_failure,
)
from slipway.job_secrets import Masking
from slipway.processes.process_output import RankTail
from slipway.processes.torchrun import failed_ranks, keep_error_files

CODE = "/opt/ml/code"
TRACEBACK = 'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line 41, in f\n    g()\n'
CLOSED = f"{TRACEBACK}RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:8\n"
RAISED = f"{TRACEBACK}ValueError: bad learning rate\n"


def report_of(*ranks: tuple[int, int, str], closed: tuple[int, ...] = ()) -> str:
    """torchrun's report: local rank, exit code and time of each; its pid is 100 and the local rank."""
    lines = [f"W1118 api.py:9] Sending process {pid} closing signal SIGTERM" for pid in closed]
    lines += ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60, "Failures:"]
    for index, (rank, code, time) in enumerate(ranks):
        lines += [
            f"[{index}]:",
            f"  time      : 2026-08-20_{time}",
            "  host      : algo-2",
            f"  rank      : {rank + 2} (local_rank: {rank})",
            f"  exitcode  : {code} (pid: {100 + rank})",
            "  error_file: <N/A>",
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        ]
    return "\n".join(lines)


class Ranks:
    """What ranks printed, and torchrun's folder."""

    def __init__(self, root: Path) -> None:
        self.printed: dict[int, RankTail] = {}
        self.folder = root

    def stderr(self, rank: int, text: str, time: float) -> None:
        self.printed[rank] = RankTail(text, time)

    def error_file(self, rank: int, content: object, time: float, attempt: int = 0) -> None:
        file = self.folder / "none_abcd" / f"attempt_{attempt}" / str(rank) / "error.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
        os.utime(file, (time, time))
        os.utime(file.parent.parent, (time, time))


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def cause_of(ranks: Ranks, report: str = "") -> Cause:
    cause = root_cause(failed_ranks(ranks.printed, ranks.folder, report, 2, Masking(["planted-token"])), CODE)
    assert cause is not None
    return cause


def test_the_earliest_rank_is_the_cause(ranks: Ranks) -> None:
    ranks.stderr(0, RAISED.replace("bad", "later"), time=20.0)
    ranks.stderr(1, RAISED, time=10.5)
    cause = cause_of(ranks, report_of((0, 1, "11:30:44"), (1, 1, "11:30:44")))
    assert cause.text("algo-2").splitlines()[0] == (
        "CODE001 rank 3 on algo-2: ValueError: bad learning rate (train.py:41)"
    )


def test_a_symptom_loses_though_it_came_first(ranks: Ranks) -> None:
    ranks.stderr(0, CLOSED, time=10.0)
    ranks.stderr(1, RAISED, time=10.5)
    assert cause_of(ranks, report_of((0, 1, "11:30:44"), (1, 1, "11:30:44"))).rank == 3


def test_a_rank_that_waited_counts_more_than_one_that_lost_a_connection_before(ranks: Ranks) -> None:
    ranks.stderr(0, CLOSED, time=10.0)
    ranks.stderr(
        1,
        f"{TRACEBACK}RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:8] Timed out waiting 1800000ms "
        "for recv operation to complete",
        time=10.5,
    )
    cause = cause_of(ranks, report_of((0, 1, "11:30:44"), (1, 1, "11:30:44")))
    assert (cause.rank, cause.evidence.code) == (3, "NCCL004")


def test_the_rank_that_an_error_is_about_is_named_once_and_before_those_that_repeat_it(ranks: Ranks) -> None:
    raised = f"{TRACEBACK}slipway.CheckpointError: DISK001 rank 3 on algo-2: no room for step 40\n"
    ranks.stderr(0, raised, time=10.0)
    ranks.stderr(1, raised, time=10.5)
    cause = cause_of(ranks, report_of((0, 1, "11:30:44"), (1, 1, "11:30:44")))
    assert cause.rank == 3
    assert (
        cause.text("algo-2").splitlines()[0] == "DISK001 rank 3 on algo-2: no room for step 40 (train.py:41)"
    )


def test_of_a_rank_elsewhere_who_says_it_is_told_too() -> None:
    raised = f"{TRACEBACK}slipway.SlipwayError: NUM001 the loss of rank 7 on algo-4 is nan in step 3\n"
    cause = root_cause([RankEnd(2, 1, 1.0, raised)], CODE)
    assert cause is not None
    assert cause.text("algo-2").splitlines()[0] == (
        "NUM001 rank 7: the loss of rank 7 on algo-4 is nan in step 3; so says rank 2 on algo-2 (train.py:41)"
    )


def test_a_symptom_alone_is_reported(ranks: Ranks) -> None:
    ranks.stderr(0, CLOSED, time=10.0)
    cause = cause_of(ranks, report_of((0, 1, "11:30:44")))
    assert (cause.rank, cause.evidence.code) == (2, "NCCL006")


SPAWNED = (
    f"{TRACEBACK}torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
    f"-- Process 3 terminated with the following error:\n{TRACEBACK}"
    "RuntimeError: Distributed package doesn't have NCCL built in\n\n"
)


def test_a_traceback_on_stdout_is_the_cause_where_stderr_has_none(ranks: Ranks) -> None:
    ranks.printed[0] = RankTail("train.py:8: UserWarning: old\n", 10.0, f"{SPAWNED}training failed\n")
    cause = cause_of(ranks, report_of((0, 1, "11:30:44")))
    assert cause.text("algo-2").splitlines()[0] == (
        "IMG002 rank 2 on algo-2: torch is a build without NCCL (train.py:41)"
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ValueError: bad learning rate", ("CODE001", "ValueError: bad learning rate")),
        (
            "RuntimeError: Distributed package doesn't have NCCL built in",
            ("IMG002", "torch is a build without NCCL"),
        ),
    ],
    ids=["the script's own", "a row's"],
)
def test_what_a_rank_reports_of_processes_that_it_has_started_is_told(
    error: str, told: tuple[str, str]
) -> None:
    inner = f"{TRACEBACK}{error}\n".replace("\n", "\n  ")
    report = (
        "E1129 19:02:15 8289 api.py:836] failed (exitcode: 1) local_rank: 0 (pid: 8303) of fn: train\n"
        f"{TRACEBACK}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{'=' * 60}\n"
        f"train FAILED\n{'-' * 60}\nFailures:\n  <NO_OTHER_FAILURES>\n{'-' * 60}\nRoot Cause (first observed "
        f"failure):\n[0]:\n  exitcode  : 1 (pid: 8303)\n  traceback : {inner}\n{'=' * 60}\n"
    )
    evidence = judge_output(report, 1, CODE)
    assert (evidence.code, evidence.message, evidence.place) == (*told, "train.py:41")


@pytest.mark.parametrize(
    ("stderr", "exit_code", "printed", "message"),
    [
        ("", 1, RAISED + "step 1\n" * 100, "exited with code 1"),
        ("", -9, RAISED, "killed by SIGKILL (exit -9): the usual reason is host memory"),
        (f"{TRACEBACK}ValueError: other\n", 1, RAISED, "ValueError: other"),
        (CLOSED, 1, RAISED, "ValueError: bad learning rate"),
        ("usage: t.py\nt.py: error: bad --lr\n", 2, RAISED, "t.py: error: bad --lr"),
    ],
    ids=["survived", "killed", "stderr has one", "stderr has a consequence", "refused words"],
)
def test_stdout_counts_after_stderr(stderr: str, exit_code: int, printed: str, message: str) -> None:
    assert judge_output(stderr, exit_code, CODE, printed=printed).message == message


FAILED_UPLOAD = "upload failed: InternalServerError: We encountered an internal error (attempt 5 of 5)"


@pytest.mark.parametrize(
    ("stderr", "printed", "code", "message"),
    [
        (
            "gave up\n",
            f"{FAILED_UPLOAD}\n",
            "CKPT004",
            f"exited with code 1, and had printed: {FAILED_UPLOAD}",
        ),
        ("", f"{FAILED_UPLOAD}\n" + "step 1\n" * 30, "CODE001", "exited with code 1"),
        ("", f"{FAILED_UPLOAD}, retrying\nstopped early\n", "CODE001", "exited with code 1"),
        (f"{TRACEBACK}ValueError: other\n", f"{FAILED_UPLOAD}\n", "CODE001", "ValueError: other"),
    ],
    ids=["told last", "went on for long", "dealt with", "an exception"],
)
def test_a_script_that_ends_without_an_exception_is_judged_by_what_it_printed_last(
    stderr: str, printed: str, code: str, message: str
) -> None:
    evidence = judge_output(stderr, 1, CODE, printed=printed)
    assert (evidence.code, evidence.message) == (code, message)


def test_what_an_exception_was_raised_from_is_told_where_it_does_not_say_so_itself() -> None:
    chained = "\nThe above exception was the direct cause of the following exception:\n\n"
    last = f"{TRACEBACK}datasets.exceptions.DatasetGenerationError: An error occurred while generating\n"
    assert judge_output(RAISED + chained + last, 1, CODE).message == (
        "datasets.exceptions.DatasetGenerationError: An error occurred while generating, caused by "
        "ValueError: bad learning rate"
    )
    said = f"{TRACEBACK}mine.TrainingError: ValueError: bad learning rate\n"
    assert judge_output(RAISED + chained + said, 1, CODE).message == (
        "mine.TrainingError: ValueError: bad learning rate"
    )


@pytest.mark.parametrize(
    "message",
    [
        {"message": "ValueError: x", "extraInfo": {"py_callstack": RAISED, "timestamp": "1724151044"}},
        {"message": "ValueError: x", "extraInfo": {"py_callstack": RAISED}, "errorCode": -6},
        RAISED,
    ],
    ids=["recorded", "with an error code", "before torch 1.9"],
)
def test_the_error_file_of_a_rank_tells_more_than_its_output(ranks: Ranks, message: object) -> None:
    ranks.error_file(1, {"message": message}, time=10.0)
    ranks.stderr(1, "a warning", time=11.0)
    cause = cause_of(ranks, report_of((1, 1, "11:30:44")))
    assert (cause.rank, cause.time) == (3, 10.0)
    assert cause.evidence.message == "ValueError: bad learning rate"


def test_what_an_error_file_says_of_a_secret_is_masked_where_it_is_told_and_kept(
    ranks: Ranks, tmp_path: Path
) -> None:
    ranks.stderr(1, "", time=11.0)
    ranks.error_file(1, {"message": f"{TRACEBACK}ValueError: planted-token"}, time=10.0)
    assert cause_of(ranks, report_of((1, 1, "11:30:44"))).evidence.message == "ValueError: ***"
    keep_error_files(ranks.folder, tmp_path / "logs", 2, Masking(["planted-token"]))
    kept = (tmp_path / "logs" / "rank-3" / "error.json").read_text()
    assert "ValueError: ***" in kept
    assert "planted-token" not in kept


def test_an_error_file_that_cannot_be_kept_is_told_of(
    ranks: Ranks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks.error_file(1, {"message": RAISED}, time=10.0)
    (tmp_path / "logs").touch()
    keep_error_files(ranks.folder, tmp_path / "logs", 0, Masking())
    file = tmp_path / "logs" / "rank-1" / "error.json"
    assert capsys.readouterr().err == f"slipway: {file} cannot be written: Not a directory\n"


def test_the_error_file_of_the_newest_attempt_counts(ranks: Ranks) -> None:
    ranks.stderr(1, "", time=11.0)
    ranks.error_file(1, {"message": RAISED}, time=10.0)
    ranks.error_file(1, {"message": RAISED.replace("bad", "worse")}, time=20.0, attempt=1)
    assert cause_of(ranks).evidence.message == "ValueError: worse learning rate"


def test_a_broken_error_file_is_no_obstacle(ranks: Ranks) -> None:
    ranks.error_file(1, ["?"], time=10.0)
    ranks.stderr(1, RAISED, time=11.0)
    assert cause_of(ranks, report_of((1, 1, "11:30:44"))).time == 11.0


def test_a_killed_rank_is_named_and_those_that_torchrun_ended_are_not(ranks: Ranks) -> None:
    for rank in (0, 1, 2):
        ranks.stderr(rank, "", time=5.0)
    report = report_of((0, -15, "11:30:44"), (1, -9, "11:30:44"), (2, -9, "11:31:14"), closed=(100, 102))
    cause = cause_of(ranks, report)
    assert (cause.rank, cause.evidence.code, cause.exit_code) == (3, "MEM002", -9)


def test_a_rank_that_torchrun_ended_while_it_came_down_is_judged_by_what_it_printed(ranks: Ranks) -> None:
    ranks.stderr(0, CLOSED, time=5.0)
    ranks.stderr(1, "", time=4.0)
    cause = cause_of(ranks, report_of((0, -15, "11:30:44"), (1, -9, "11:30:44"), closed=(100,)))
    assert (cause.rank, cause.evidence.code) == (3, "MEM002")


def test_a_printed_but_survived_exception_is_no_failure(ranks: Ranks) -> None:
    ranks.stderr(0, RAISED, time=5.0)
    ranks.stderr(1, "", time=9.0)
    assert cause_of(ranks, report_of((1, -9, "11:30:44"))).rank == 3


def test_without_a_report_the_ranks_own_accounts_count(ranks: Ranks) -> None:
    ranks.stderr(0, "only a warning", time=5.0)
    ranks.stderr(1, RAISED, time=9.0)
    assert cause_of(ranks, "").rank == 3


def test_no_rank_no_cause(tmp_path: Path) -> None:
    assert failed_ranks({}, tmp_path, "", 0, Masking()) == []


def test_the_text_keeps_within_what_the_service_takes(tmp_path: Path) -> None:
    long = TRACEBACK * 30 + "ValueError: " + "x" * 3000
    cause = root_cause([RankEnd(0, 1, 1.0, long)], CODE)
    assert cause is not None
    text = cause.text("algo-1")
    assert len(text) <= MAX_CHARACTERS
    assert text.startswith("CODE001 rank 0 on algo-1: ValueError: xxx")
    assert "(train.py:41)" in text
    write_failure(tmp_path / "output" / "failure", text * 3, time=12.5)
    assert len((tmp_path / "output" / "failure").read_text()) <= MAX_CHARACTERS
    assert (tmp_path / "output" / "failure").stat().st_mtime == 12.5


@pytest.mark.parametrize(
    "output", [RAISED, CLOSED, "", "Address already in use", "error: unrecognized arguments"]
)
@pytest.mark.parametrize("exit_code", [1, 2, -6, -9, -11, 137])
def test_only_announced_codes_are_written(output: str, exit_code: int) -> None:
    assert judge_output(output, exit_code, CODE).code in REPORTS


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (125, 125), (-9, 137), (-15, 143)])
def test_signals_end_as_a_shell_reports_them(code: int, status: int) -> None:
    assert exit_status(code) == status


def traceback(exception: str, line: int = 41, file: str = f"{CODE}/train.py") -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "{file}", line {line}, in main\n'
        "    step()\n"
        '  File "/usr/lib/python3/site-packages/torch/nn.py", line 7, in step\n'
        "    work()\n"
        "    ^^^^^^\n"
        f"{exception}\n"
    )


GLOO = "RuntimeError: [/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:8"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free."


def test_output_and_exit_code_show_the_failure_mode() -> None:
    otherwise = []
    for row in yaml.safe_load((Path(__file__).parent / "failures.yaml").read_text("utf-8")):
        output = traceback(row["raised"]) if "raised" in row else row["output"]
        evidence = judge_output(output, row["exit_code"], CODE)
        if evidence.code != row["code"] or row["message"] not in evidence.message:
            otherwise.append((row, evidence))
    assert otherwise == []


def test_the_place_is_the_innermost_line_of_the_users_code() -> None:
    assert judge_output(traceback("ValueError: x"), 1, CODE).place == "train.py:41"
    assert (
        judge_output(traceback("ValueError: x", file=f"{CODE}/lib/data.py"), 1, CODE).place
        == "lib/data.py:41"
    )
    assert judge_output(traceback("ValueError: x", file="/opt/ml/code2/a.py"), 1, CODE).place == "nn.py:7"


def test_the_prefix_of_torch_is_no_part_of_the_traceback() -> None:
    output = "".join(f"[rank3]: {line}\n" for line in traceback("ValueError: x").splitlines())
    evidence = judge_output(output, 1, CODE)
    assert (evidence.message, evidence.place) == ("ValueError: x", "train.py:41")


def test_warnings_after_the_exception_are_no_part_of_it() -> None:
    output = traceback("ValueError: x") + (
        "[rank0]:[W1118 20:32:23.957 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called"
    )
    assert judge_output(output, 1, CODE).message == "ValueError: x"


def test_a_survived_exception_does_not_hide_the_last_one() -> None:
    output = traceback(OOM) + "retrying with half the batch\n" + traceback("ValueError: x")
    assert judge_output(output, 1, CODE).message == "ValueError: x"


@pytest.mark.parametrize(
    ("first", "last", "code"),
    [
        (OOM, "RuntimeError: step 3 failed", "MEM001"),
        (OOM, GLOO, "MEM001"),
        ("ValueError: x", GLOO, "CODE001"),
        ("KeyError: 1", OOM, "MEM001"),
    ],
)
def test_of_a_chain_the_exception_that_explains_most_counts(first: str, last: str, code: str) -> None:
    chained = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert judge_output(traceback(first) + chained + traceback(last), 1, CODE).code == code


def test_of_a_chain_without_a_failure_mode_the_last_exception_counts() -> None:
    chained = "\nThe above exception was the direct cause of the following exception:\n\n"
    output = traceback("KeyError: 1") + chained + traceback("RuntimeError: no such layer", line=50)
    evidence = judge_output(output, 1, CODE)
    assert evidence.message == "RuntimeError: no such layer, caused by KeyError: 1"
    assert evidence.place == "train.py:50"


def test_pythons_teardown_is_not_the_failure() -> None:
    output = traceback("ValueError: x") + "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
    output += traceback("AttributeError: 'NoneType' object has no attribute 'dumps'")
    assert judge_output(output, 1, CODE).message == "ValueError: x"


def test_a_line_that_could_not_be_logged_is_not_the_failure() -> None:
    output = traceback("ValueError: x") + "--- Logging error ---\n"
    output += traceback("TypeError: not all arguments converted during string formatting")
    assert judge_output(output, 1, CODE).message == "ValueError: x"


def test_what_torch_recorded_counts_though_a_signal_came_later() -> None:
    evidence = judge_output(traceback("ValueError: x"), -6, CODE, recorded=True)
    assert (evidence.code, evidence.message) == ("CODE001", "ValueError: x")


def test_an_exception_in_a_data_loader_worker_is_the_workers_own() -> None:
    inner = traceback("OSError: no shard", line=9)
    output = traceback(f"RuntimeError: Caught OSError in DataLoader worker process 0.\nOriginal {inner}")
    evidence = judge_output(output, 1, CODE)
    assert (evidence.message, evidence.place) == ("OSError: no shard", "train.py:9")


def test_a_module_of_the_users_own_is_no_package_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "blocks.py").touch()
    output = traceback("ModuleNotFoundError: No module named 'blocks'", file=f"{tmp_path}/train.py")
    assert judge_output(output, 1, str(tmp_path)).code == "CODE001"
    assert judge_output(output.replace("blocks", "einops"), 1, str(tmp_path)).code == "CODE005"


def test_a_library_that_the_script_can_do_without_is_not_why_it_failed() -> None:
    chain = (
        traceback("ModuleNotFoundError: No module named 'apex'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("ValueError: no optimizer")
    )
    evidence = judge_output(chain, 1, CODE)
    assert (evidence.code, evidence.message) == ("CODE001", "ValueError: no optimizer")


NO_ROOM = "rank 0 on algo-1: the checkpoint of step 40 could not be written: No space left on device"


def test_what_slipway_raises_counts_more_than_what_it_came_from() -> None:
    chain = (
        traceback("OSError: [Errno 28] No space left on device")
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback(f"slipway.CheckpointError: DISK001 {NO_ROOM}")
    )
    evidence = judge_output(chain, 1, CODE)
    assert (evidence.code, evidence.message, evidence.rank) == ("DISK001", NO_ROOM, 0)


def test_who_only_ends_because_another_rank_did_says_so() -> None:
    output = traceback("slipway.SlipwayError: NCCL006 rank 1 could not list train, so this rank ends as well")
    assert judge_output(output, 1, CODE).code == "NCCL006"


@pytest.mark.parametrize("code", ["CKPT003", "CKPT005", "CKPT009", "DISK001"])
def test_what_the_checkpoint_manager_raises_names_its_code_itself(code: str) -> None:
    output = traceback(f"slipway.CheckpointError: {code} why")
    assert judge_output(output, 1, CODE).code == code


# What a script ends with when its loss is not finite.


def cause_with(message: str, details: str = "", code: str = "CODE001", exit_code: int = 1) -> Cause:
    return Cause(0, 1.0, exit_code, Evidence(code, message, "train.py:4", details))


@pytest.mark.parametrize(
    ("message", "details"),
    [
        ("AssertionError", ""),
        ("exited with code 1", ""),
        ("ValueError: the loss diverged", ""),
        ("AssertionError: oh no", "    assert math.isnan(loss)\n           ^^^^^\nAssertionError: oh no"),
    ],
)
def test_a_script_that_gives_up_on_a_loss_that_is_not_finite_failed_of_that(
    message: str, details: str
) -> None:
    found = cause_by_loss(cause_with(message, details), {0: "step 3 loss nan"})
    assert found.evidence.code == "NUM001"
    assert found.evidence.message == f"the loss is not finite, and the script ended: {message}"


@pytest.mark.parametrize(
    "cause",
    [
        cause_with("KeyError: 'label'", "    y = batch['label']\nKeyError: 'label'"),
        cause_with(
            "RuntimeError: expected scalar type Long", "    loss = nll_loss(x, y)\nRuntimeError: expected"
        ),
        cause_with("killed by SIGKILL", code="MEM002", exit_code=-9),
        cause_with("AssertionError", exit_code=-9),
    ],
)
def test_what_else_ends_a_script_stays_what_it_is(cause: Cause) -> None:
    assert cause_by_loss(cause, {0: "step 3 loss nan"}) == cause
    assert cause_by_loss(cause_with("AssertionError"), {}) == cause_with("AssertionError")


IN_VAIN = "waited 15000 ms in vain for another rank at the store"


@pytest.mark.parametrize(
    ("says", "wanted"),
    [
        ("DistStoreError: wait timeout after 15000ms, keys: /default_pg/0//cpu//0/2", 3),
        ("DistStoreError: Timed out after 61 seconds waiting for clients. 2/4 clients joined.", 4),
        (
            "Timed out initializing process group in store based barrier on rank: 1, for key: "
            "store_based_barrier_key:1 (world_size=8, num_workers_joined=2, timeout=0:00:15)",
            8,
        ),
    ],
)
def test_who_waits_for_more_ranks_than_the_job_has_counts_other_processes(says: str, wanted: int) -> None:
    ends = [RankEnd(0, 1, 1.0, "Connection closed\n"), RankEnd(1, 1, 1.0, f"{says}\n")]
    found = cause_by_world(cause_with(IN_VAIN, code="NCCL008"), ends, 2)
    assert found.evidence.code == "DIST001"
    assert found.evidence.message == (
        f"waited for a process group of {wanted} ranks or more, and the job has 2: the script counts other "
        f"processes than are started; {IN_VAIN}"
    )
    assert cause_by_world(cause_with(IN_VAIN, code="NCCL008"), ends, wanted).evidence.code == "NCCL008"
    assert cause_by_world(cause_with("broken", code="CODE001"), ends, 2).evidence.code == "CODE001"


def test_an_abort_while_python_comes_down_after_an_exception_is_the_exceptions() -> None:
    output = f"{TRACEBACK}ValueError: broken\nterminate called without an active exception\n"
    assert judge_output(output, -6, "/opt/ml/code").code == "CODE001"
    assert (
        judge_output("terminate called without an active exception\n", -6, "/opt/ml/code").code == "CODE004"
    )


def test_a_crash_in_native_code_is_at_the_line_that_called_it() -> None:
    output = (
        "Fatal Python error: Segmentation fault\n\n"
        "Thread 0x00007f2 (most recent call first):\n"
        f'  File "{CODE}/other.py", line 3 in wait\n\n'
        "Current thread 0x00007f1 (most recent call first):\n"
        '  File "/usr/lib/python3.12/ctypes/__init__.py", line 519 in string_at\n'
        f'  File "{CODE}/pictures/read.py", line 7 in decode\n'
        f'  File "{CODE}/train.py", line 14 in <module>\n'
    )
    found = judge_output(output, -11, CODE)
    assert (found.code, found.place) == ("CODE004", "pictures/read.py:7")
    assert judge_output("no stack\n", -11, CODE).place is None


@pytest.mark.parametrize(
    ("code", "mode"), [(-15, "STOP001"), (-1, "STOP001"), (-11, "CODE004"), (-10, "CODE001")]
)
def test_a_rank_that_was_asked_to_end_did_not_fail(code: int, mode: str) -> None:
    assert judge_output("step 5\n", code, "/opt/ml/code").code == mode
