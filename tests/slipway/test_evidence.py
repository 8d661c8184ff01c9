"""From the output of a failed process to a failure mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.evidence import judge

CODE = "/opt/ml/code"


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
WATCHDOG = (
    "[rank4]:[E1016 03:31:38.928463388 ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=9141, Timeout(ms)=600000) ran for 600071 milliseconds"
)


@pytest.mark.parametrize(
    ("output", "exit_code", "code", "message"),
    [
        (traceback("ValueError: bad learning rate"), 1, "CODE001", "ValueError: bad learning rate"),
        (traceback("KeyError"), 1, "CODE001", "KeyError"),
        (traceback("ModuleNotFoundError: No module named 'einops'"), 1, "CODE005", "module einops is not"),
        (traceback("ModuleNotFoundError: No module named 'transformers.old'"), 1, "CODE001", "old"),
        ("ERROR: No matching distribution found for einops==99\n", 1, "CODE005", "einops==99"),
        (traceback(OOM), 1, "MEM001", "asked for 2.00 GiB"),
        (traceback("RuntimeError: CUDA error: out of memory"), 1, "MEM001", "out of memory"),
        (traceback("OSError: [Errno 28] No space left on device: '/tmp/m.pt'"), 1, "DISK001", "disk is full"),
        (traceback("RuntimeError: unable to write to file </torch_17_2356_0>: No space left on device (28)"),
         1, "DATA005", "/dev/shm full"),
        (traceback("slipway.SlipwayError: DATA002 the files of train on algo-2 are not those of the others"),
         1, "DATA002", "the files of train"),
        (traceback("mine.SlipwayError: DATA002 is not ours"), 1, "CODE001", "not ours"),
        (traceback(GLOO), 1, "NCCL006", "closed by its peer 10.0.0.2"),
        (traceback("torch.distributed.DistBackendError: NCCL error in: ../c10d/ProcessGroupNCCL.cpp:1251\n"
                   "ncclRemoteError: A call failed"),
         1, "NCCL006", "closed by a peer"),
        (traceback("torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely "
                   "closed. Did the remote server shutdown or crash?"), 1, "NCCL006", "by another rank"),
        (traceback("requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, "
                   "'Connection reset by peer'))"), 1, "CODE001", "Connection aborted"),
        (traceback("RuntimeError: The server socket has failed to bind to [::]:7777 (errno: 98 - Address "
                   "already in use)."), 1, "NCCL009", "port is in use"),
        (traceback("torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
                   "network address. port: 7777, useIpv6: false, code: -98, name: EADDRINUSE"),
         1, "NCCL009", "port is in use"),
        (traceback("RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for "
                   "recv operation to complete"), 1, "NCCL004", "waited 1800000 ms"),
        (WATCHDOG, -6, "NCCL004", "killed by SIGABRT (exit -6): [Rank 4]|SIGABRT"),
        ("", -9, "MEM002", "killed by SIGKILL (exit -9): the usual reason is host memory"),
        ("Killed", 137, "MEM002", "killed by SIGKILL (exit -9)"),
        (traceback("KeyError: 'survived'"), -9, "MEM002", "SIGKILL"),
        ("Fatal Python error: Segmentation fault", -11, "CODE004", "killed by SIGSEGV (exit -11)"),
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: unspecified",
         -6, "CODE004", "killed by SIGABRT (exit -6): CUDA error: unspecified"),
        ("usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --foo 1", 2, "CODE002",
         "train.py refused its command line: unrecognized arguments: --foo 1"),
        ("usage: train.py\ntrain.py: error: argument --lr: invalid float value: 'x'", 2, "CODE002", "--lr"),
        ("usage: train.py\n\nno such option --foo", 2, "CODE002", "no such option --foo"),
        ("/usr/bin/python: can't open file '/x/train.py': [Errno 2] No such file or directory", 2, "CODE001",
         "no file /x/train.py"),
        ('  File "/opt/ml/code/train.py", line 3\n    def (\n        ^\nSyntaxError: invalid syntax', 1,
         "CODE001", "SyntaxError: invalid syntax"),
        ("some warning", 3, "CODE001", "exited with code 3"),
        ("", 1, "CODE001", "exited with code 1"),
        ("/usr/bin/python3: No module named torch.distributed", 1, "CODE002", "no module torch.distributed"),
    ],
)  # fmt: skip
def test_output_and_exit_code_show_the_failure_mode(
    output: str, exit_code: int, code: str, message: str
) -> None:
    evidence = judge(output, exit_code, CODE)
    assert evidence.code == code
    assert any(part in evidence.message for part in message.split("|"))


def test_the_place_is_the_innermost_line_of_the_users_code() -> None:
    assert judge(traceback("ValueError: x"), 1, CODE).place == "train.py:41"
    assert judge(traceback("ValueError: x", file=f"{CODE}/lib/data.py"), 1, CODE).place == "lib/data.py:41"
    assert judge(traceback("ValueError: x", file="/opt/ml/code2/a.py"), 1, CODE).place == "nn.py:7"


def test_the_prefix_of_torch_is_no_part_of_the_traceback() -> None:
    output = "".join(f"[rank3]: {line}\n" for line in traceback("ValueError: x").splitlines())
    evidence = judge(output, 1, CODE)
    assert (evidence.message, evidence.place) == ("ValueError: x", "train.py:41")


def test_warnings_after_the_exception_are_no_part_of_it() -> None:
    output = traceback("ValueError: x") + (
        "[rank0]:[W1118 20:32:23.957 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called"
    )
    assert judge(output, 1, CODE).message == "ValueError: x"


def test_a_survived_exception_does_not_hide_the_last_one() -> None:
    output = traceback(OOM) + "retrying with half the batch\n" + traceback("ValueError: x")
    assert judge(output, 1, CODE).message == "ValueError: x"


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
    assert judge(traceback(first) + chained + traceback(last), 1, CODE).code == code


def test_of_a_chain_without_a_failure_mode_the_last_exception_counts() -> None:
    chained = "\nThe above exception was the direct cause of the following exception:\n\n"
    output = traceback("KeyError: 1") + chained + traceback("RuntimeError: no such layer", line=50)
    evidence = judge(output, 1, CODE)
    assert (evidence.message, evidence.place) == ("RuntimeError: no such layer", "train.py:50")


def test_pythons_teardown_is_not_the_failure() -> None:
    output = traceback("ValueError: x") + "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
    output += traceback("AttributeError: 'NoneType' object has no attribute 'dumps'")
    assert judge(output, 1, CODE).message == "ValueError: x"


def test_a_line_that_could_not_be_logged_is_not_the_failure() -> None:
    output = traceback("ValueError: x") + "--- Logging error ---\n"
    output += traceback("TypeError: not all arguments converted during string formatting")
    assert judge(output, 1, CODE).message == "ValueError: x"


def test_what_torch_recorded_counts_though_a_signal_came_later() -> None:
    evidence = judge(traceback("ValueError: x"), -6, CODE, recorded=True)
    assert (evidence.code, evidence.message) == ("CODE001", "ValueError: x")


def test_an_exception_in_a_data_loader_worker_is_the_workers_own() -> None:
    inner = traceback("OSError: no shard", line=9)
    output = traceback(f"RuntimeError: Caught OSError in DataLoader worker process 0.\nOriginal {inner}")
    evidence = judge(output, 1, CODE)
    assert (evidence.message, evidence.place) == ("OSError: no shard", "train.py:9")


def test_a_module_of_the_users_own_is_no_package_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "blocks.py").touch()
    output = traceback("ModuleNotFoundError: No module named 'blocks'", file=f"{tmp_path}/train.py")
    assert judge(output, 1, str(tmp_path)).code == "CODE001"
    assert judge(output.replace("blocks", "einops"), 1, str(tmp_path)).code == "CODE005"


def test_a_library_that_the_script_can_do_without_is_not_why_it_failed() -> None:
    chain = (
        traceback("ModuleNotFoundError: No module named 'apex'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("ValueError: no optimizer")
    )
    evidence = judge(chain, 1, CODE)
    assert (evidence.code, evidence.message) == ("CODE001", "ValueError: no optimizer")


NO_ROOM = "rank 0 on algo-1: the checkpoint of step 40 could not be written: No space left on device"


def test_what_slipway_raises_counts_more_than_what_it_came_from() -> None:
    chain = (
        traceback("OSError: [Errno 28] No space left on device")
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback(f"slipway.CheckpointError: DISK001 {NO_ROOM}")
    )
    evidence = judge(chain, 1, CODE)
    assert (evidence.code, evidence.message, evidence.rank) == ("DISK001", NO_ROOM, 0)


def test_who_only_ends_because_another_rank_did_says_so() -> None:
    output = traceback("slipway.SlipwayError: NCCL006 rank 1 could not list train, so this rank ends as well")
    assert judge(output, 1, CODE).code == "NCCL006"


@pytest.mark.parametrize("code", ["CKPT003", "CKPT005", "CKPT009", "DISK001"])
def test_what_the_checkpoint_manager_raises_names_its_code_itself(code: str) -> None:
    output = traceback(f"slipway.CheckpointError: {code} why")
    assert judge(output, 1, CODE).code == code
