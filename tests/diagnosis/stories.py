"""Pieces of logs to tell stories of failures with."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis

OUT_OF_MEMORY = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/opt/ml/code/train.py", line 44, in <module>
[rank3]:     main()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total \
capacity of 79.11 GiB of which 1.06 GiB is free."""

IGNORED = """\
Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f12>
Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1604, in __del__
    self._shutdown_workers()
AssertionError: can only test a child process"""

LOGGED = """\
2026-08-20 10:00:20,001 ERROR wandb: the upload failed
Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/wandb/sdk/internal.py", line 4, in upload
    post(data)
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): read timed out"""

ENDED = (
    "E0820 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 3 "
    "(pid: 77) of binary: /usr/bin/python3"
)
DISK_FULL = "[rank0]: OSError: [Errno 28] No space left on device: '/opt/ml/checkpoints/step.pt'"


def steps(first: int, last: int) -> str:
    """The lines of these steps."""
    return "\n".join(f"step {number} loss 2.31" for number in range(first, last + 1))


def timed_out(rank: int, sequence: int, operation: str = "ALLREDUCE") -> str:
    """What the watchdog of a rank says of the collective that it waits in."""
    return (
        f"[rank{rank}]:[E820 11:30:44.1 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600071 milliseconds before timing out."
    )


def raised(rank: int, exception: str, source: str = "step(batch)") -> str:
    """An exception that nobody caught, in the user's code."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 44, in <module>',
        f"    {source}",
        exception,
    )
    return "\n".join(f"[rank{rank}]: {line}" for line in lines)


def story(*parts: str, **hosts: str) -> Diagnosis:
    """The diagnosis of one host's parts, or of the texts of several, named with underscores."""
    texts = {"algo-1": "\n".join(parts)} if parts else hosts
    return diagnose(
        [
            Record(None, host.replace("_", "-"), line)
            for host, text in texts.items()
            for line in text.split("\n")
        ]
    )


def root(diagnosis: Diagnosis) -> tuple[str, int | None] | None:
    """Code and rank of the root cause."""
    cause = diagnosis.root_cause
    return (cause.finding.code, cause.rank) if cause else None
