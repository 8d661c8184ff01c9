"""What a traceback shows of where it happened: the user's line first, library frames folded."""

from __future__ import annotations

import pytest

from launcher.diagnosis.logs.tracebacks import open_traceback


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
