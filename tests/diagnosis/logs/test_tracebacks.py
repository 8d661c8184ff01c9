"""What a traceback shows of where it happened: the user's line first, library frames folded."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.logs.tracebacks import open_traceback
from tests.diagnosis.cases import records

SITE = "/opt/conda/lib/python3.11/site-packages"
IN_TORCH = f"""
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 88, in <module>
    main()
  File "/opt/ml/code/pkg/model.py", line 12, in forward
    return self.head(self.body(x))
           ^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "{SITE}/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 6x2)
"""
FIRST = ("pkg/model.py:12: return self.head(self.body(x))", "... 2 frames in torch")
ERROR = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 6x2)"


def evidence(text: str, prefix: str = "", reason: str | None = None) -> tuple[str, ...]:
    lines = [Record(None, "algo-1", prefix + line) for line in text.strip("\n").split("\n")]
    cause = diagnose(lines, reason).root_cause
    assert cause is not None
    return cause.evidence


@pytest.mark.parametrize("prefix", ["", "[rank1]:", "2026-01-01 10:00:00,123 "])
def test_the_users_line_comes_first_and_library_frames_are_folded(prefix: str) -> None:
    assert evidence(IN_TORCH, prefix) == (*FIRST, ERROR)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("srun: error: gpu017: task 0: Exited with exit code 1", ""),
        ("wandb: Waiting for W&B process to finish... (failed 1).", ""),
        ("slipway: CODE001 rank 1 on algo-1: x", ""),
        ("ERROR: the job failed", ""),
        ("train.py: error: unrecognized arguments: --x", ""),
        ("zlib.error: Error -3 while decompressing data", "zlib.error"),
        ("queue.Empty", "queue.Empty"),
        ("MyOwn: it went wrong", "MyOwn"),
    ],
)
def test_only_what_can_be_the_name_of_a_class_ends_a_stack(line: str, kind: str) -> None:
    traceback = open_traceback("Traceback (most recent call last):")
    assert traceback is not None
    for each in ('  File "/opt/ml/code/train.py", line 3, in <module>', "    main()", line):
        traceback.add_line(each)
    assert (traceback.kind, traceback.is_complete) == (kind, bool(kind))


def test_a_local_run_has_the_same_places() -> None:
    text = IN_TORCH.replace("/opt/ml/code", "/home/me/.slipway/local/job/hosts/algo-1/ml/code")
    assert evidence(text) == (*FIRST, ERROR)


def test_where_the_user_raised_nothing_is_folded() -> None:
    text = IN_TORCH.split(f'  File "{SITE}', maxsplit=1)[0] + "ValueError: bad"
    assert evidence(text) == ("pkg/model.py:12: return self.head(self.body(x))", "ValueError: bad")


def test_several_libraries_are_named() -> None:
    text = IN_TORCH.replace(
        "RuntimeError",
        '  File "/opt/conda/lib/python3.11/json/decoder.py", line 3, in decode\n'
        f'  File "{SITE}/accelerate/utils.py", line 3, in go\nRuntimeError',
    )
    assert evidence(text)[1] == "... 4 frames in torch, python, accelerate"


def test_a_line_that_was_not_printed_leaves_the_place() -> None:
    text = IN_TORCH.replace("    return self.head(self.body(x))\n           ^^^^^^^^^^^^^^^^^^^^^^^\n", "")
    assert evidence(text)[0] == "pkg/model.py:12"


def test_without_a_line_of_the_user_the_last_lines_are_shown_as_they_are() -> None:
    text = f"""
Traceback (most recent call last):
  File "{SITE}/accelerate/commands/launch.py", line 7, in main
    launch(args)
OSError: no such device
"""
    assert evidence(text) == (
        f'File "{SITE}/accelerate/commands/launch.py", line 7, in main',
        "launch(args)",
        "OSError: no such device",
    )


def test_what_the_container_reported_is_shown_by_the_same_traceback_in_the_log() -> None:
    reason = (
        f"AlgorithmError: CODE001 rank 1 on algo-1: {ERROR} (pkg/model.py:12)\n"
        f'  File "{SITE}/torch/nn/modules/linear.py", line 125, in forward\n'
        f"    return F.linear(input, self.weight, self.bias)\n{ERROR}, exit code: 1"
    )
    assert evidence(IN_TORCH, "[rank1]:", reason)[:2] == FIRST


def test_the_same_traceback_is_found_in_a_log_whose_lines_name_no_rank() -> None:
    reason = f"AlgorithmError: CODE001 rank 0 on algo-1: {ERROR} (pkg/model.py:12)\n    cut off\n{ERROR}"
    assert evidence(IN_TORCH, "", reason)[:2] == FIRST


def test_a_thread_of_its_own_that_died_ends_no_job_as_far_as_the_log_goes() -> None:
    stack = 'Traceback (most recent call last):\n  File "/opt/x/send.py", line 9, in _send\n    self.handle('
    dies = f"step 1 loss 2\nstep 2 loss 2\nException in thread Thread-5:\n{stack}"
    assert diagnose(records(dies)).root_cause is None
    cause = diagnose(records(dies.replace("Exception in thread Thread-5:\n", ""))).root_cause
    assert cause is not None
    assert cause.finding.code == "CODE001"


def test_a_line_of_another_processs_stack_behind_the_name_of_an_exception_is_not_what_it_says() -> None:
    text = """
Traceback (most recent call last):
  File "train.py", line 8, in <module>
    from einops import rearrange
ModuleNotFoundError:     from einops import rearrange
No module named 'einops'
ModuleNotFoundError: No module named 'einops'
"""
    root = diagnose(records(text)).root_cause
    assert root is not None
    assert (root.finding.code, root.log_line) == ("CODE005", "ModuleNotFoundError: No module named 'einops'")
