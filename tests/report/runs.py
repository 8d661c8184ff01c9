"""Runs for the tests of pages: from lines to a report as a session would gather it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.report.run_report import RunReader, RunReport, locate_incident
from launcher.session.runs.read_job_lines import rank_of
from tests.experiments.test_fabric_proof import record_line

START = 1_790_000_000.0
"""An instant, in seconds since the epoch."""


def report_of(records: Iterable[Record], **more: Any) -> RunReport:
    """The report of log lines, made on a fixed day by a fixed version."""
    reader, kept = RunReader(), list(records)
    for record in kept:
        reader.read(record, rank_of(record))
    lines, diagnosis = reader.result(), diagnose(kept)
    incident, context = locate_incident(diagnosis.root_cause, lines)
    fields: dict[str, Any] = {
        "name": "a run", "diagnosis": diagnosis, "lines": lines, "made_at": START, "version": "1.0",
        "ranks": lines.ranks, "incident": incident, "context": context, **more,
    }  # fmt: skip
    return RunReport(**fields)


def failing_run(ranks: int = 4, per_host: int = 2, steps: int = 20, failing: int = 2) -> Iterator[Record]:
    """Ranks that print steps and losses a second apart, the odd ones slower; one runs out of memory."""
    for step in range(steps):
        for rank in range(ranks):
            yield _line(START + step + rank / 1000, rank, per_host, f"step={step} loss={3 / (step + 1):.4f}")
    end = START + steps
    yield _line(
        end, failing, per_host,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity "
        "of 39.39 GiB of which 1.20 GiB is free.",
    )  # fmt: skip
    for rank in range(ranks):
        if rank != failing:
            yield _line(
                end + 5, rank, per_host,
                "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.1]:47756",
            )  # fmt: skip


def raising_run(*more: str) -> Iterator[Record]:
    """Two ranks of which one raises, as they print it under torchrun; what the other prints is in between.

    `more` is what the failing one prints below its exception.
    """
    raised = (
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 9, in <module>',
        "    main()",
        '  File "/opt/ml/code/train.py", line 5, in main',
        '    return batch["labels"]',
        "           ~~~~~^^^^^^^^^^",
        "KeyError: 'labels'",
        *more,
    )
    for step in range(20):
        yield Record(START + step, "algo-1", f"[rank0]: step={step} loss={1 / (step + 1):.4f}")
    for at, line in enumerate(raised):
        yield Record(START + 20, "algo-1", f"[rank1]: {line}")
        yield Record(START + 20, "algo-1", f"[rank0]: waiting {at}")
    for at in range(40):
        yield Record(START + 25, "algo-1", f"  exitcode  : -15 (pid: {at})")
    yield Record(START + 26, "algo-1", "slipway: CODE001 rank 1 on algo-1: KeyError: 'labels' (train.py:5)")


def proof_run(**changes: Any) -> list[Record]:
    """What the job of a proof prints, of three hosts of which the second is slow."""
    pairs = [[0, 1, 9.5], [0, 2, 62.0], [1, 2, 9.2]]
    hosts = ["algo-1", "<b>algo-2", "algo-3"]
    content: dict[str, Any] = {"hosts": hosts, "ranks": 24, "gbps": 400.0, "pairs": pairs, **changes}
    line = record_line(curve=[[2**20, 0.001, 3.0], [2**30, 0.2, 9.4]], **content)
    return [Record(START, "algo-1", "[rank0]: 1 MiB"), Record(START + 60, "algo-1", line)]


def long_run(ranks: int, hours: int, every: int) -> Iterator[Record]:
    """A day of many ranks: each prints every so many seconds, with silences here and there; one fails."""
    for second in range(0, hours * 3600, every):
        for rank in range(ranks):
            # Half an hour of every few is silent, at another time for each rank.
            if (second // 1800 + rank * 7) % 6:
                step = second // every
                loss = 2 + math.cos(step / 9) / (1 + step / 50)
                at = START + second + rank % 97 / 10
                yield _line(at, rank, 8, f"step={step} loss={loss:.5f} samples/s={4000 + rank}")
    yield _line(
        START + hours * 3600,
        ranks // 3,
        8,
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    )


def _line(time: float | None, rank: int, per_host: int, text: str) -> Record:
    return Record(time, f"algo-{rank // per_host + 1}", f"[rank{rank}]: {text}")
