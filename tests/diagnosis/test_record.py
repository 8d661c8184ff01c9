"""Prefixes tell rank and host, and do not hide the line."""

from __future__ import annotations

import pytest

from launcher.diagnosis.record import Line, parse


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[1,23]<stdout>:hello", Line("hello", rank=23)),
        ("[1,mpirank:9,algo-2]<stderr>:hello", Line("hello", rank=9, host="algo-2")),
        ("[rank3]: hello", Line("hello", rank=3)),
        ("algo-1:126:199 [5] NCCL INFO x", Line("NCCL INFO x", host="algo-1", device=5)),
        (
            "[2026-08-20 11:30:44] algo-1:126:199 [5] a.cc:1 NCCL WARN x",
            Line("a.cc:1 NCCL WARN x", host="algo-1", device=5),
        ),
        ("algo-1-ABCDE_1  | hello", Line("hello", host="algo-1")),
        ("xtwk0cmckh-algo-1-p7p3n | hello", Line("hello", host="algo-1")),
        ("10.9.12.40: hello", Line("hello", host="10.9.12.40")),
        ("[pod/train-worker-0/pytorch] hello", Line("hello", host="train-worker-0")),
        ("2026-11-21T10:00:00.123456789Z hello", Line("hello")),
        ("2026-11-21T10:00:00.123456+00:00 train-a/algo-2-1763724000 hello", Line("hello", host="algo-2")),
        ("2026-11-21T10:00:00 hello", Line("hello")),
        ("(RayTrainWorker pid=951, ip=10.0.0.2) hello", Line("hello", host="10.0.0.2")),
        ("(RayTrainWorker pid=951) [rank3]: hello", Line("hello", rank=3)),
        ("gpu-node-3: hello", Line("hello", host="gpu-node-3")),
        (
            " 2025-02-11 08:31 [rank13]:[E211 00:31:04.1 P.cpp:6] [Rank 1] x",
            Line("[E211 00:31:04.1 P.cpp:6] [Rank 1] x", rank=13),
        ),
        (
            "[1,24]<stdout>:worker-3:33:33 [0] NCCL INFO x",
            Line("NCCL INFO x", rank=24, host="worker-3", device=0),
        ),
        ("[rank1]:   File x", Line("  File x", rank=1)),
        ("\x1b[31mRuntimeError: x\x1b[0m", Line("RuntimeError: x")),
        ("RuntimeError: x", Line("RuntimeError: x")),
        ("ERROR: x", Line("ERROR: x")),
    ],
)
def test_a_line_is_read_behind_its_prefixes(text: str, line: Line) -> None:
    assert parse(text) == line
