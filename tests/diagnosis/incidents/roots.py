"""The kinds of root cause: what the one that fails prints, and what the diagnosis has to say of it."""

# ruff: noqa: E501 - the lines are those of programs

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.diagnosis.incidents.job import CPP, PER_HOST, Job
from tests.diagnosis.incidents.others import (
    PYTHON,
    lost,
    noise,
    table,
    tables_of_the_others,
    timed_out,
    traceback,
)


@dataclass(frozen=True, slots=True)
class Expected:
    """What is right: one of the codes; the rank; whether to run again. `culprit` is who failed, None where it is
    nobody; it has to be named where `is_shown`, and nobody else may be in any case."""

    codes: tuple[str, ...]
    retry: str | None
    culprit: int | None
    is_shown: bool


Root = Callable[[Job, float], Expected]
_SEQUENCE = 96120


def _followed(job: Job, at: float, culprit: int, code: int) -> None:
    """The others notice at once, or wait until their collective times out; torchrun ends every host."""
    others = [rank for rank in range(job.ranks) if rank != culprit]
    job.chance.shuffle(others)
    table(job, at + 1, culprit, code, whole=True)
    waits = job.chance.random() < 0.3
    for rank in others:
        if job.chance.random() < 0.8:
            if waits:
                timed_out(job, at + 600 + job.chance.uniform(0, 1), rank, _SEQUENCE)
            else:
                lost(job, at + job.chance.uniform(0.5, 12), rank)
    tables_of_the_others(job, at + (602 if waits else 8), but=(culprit // PER_HOST,))


def _raised(code: str, retry: str | None, *exception: str, file: str | None = None) -> Root:
    """An exception that one rank raises and nobody catches."""

    def root(job: Job, at: float) -> Expected:
        culprit = job.any_rank()
        inner = (
            (f'  File "{PYTHON}/{file}", line 512, in forward', "    return self.inner(hidden)")
            if file
            else ()
        )
        text = [line.replace("{device}", str(culprit % PER_HOST)) for line in exception]
        job.of_rank(at, culprit, *job.uncaught(culprit, *traceback(*inner, *text)), whole=True)
        _followed(job, at, culprit, 1)
        return Expected((code,), retry, culprit, job.tells_ranks)

    return root


def _of_all(codes: tuple[str, ...], retry: str, *exception: str) -> Root:
    """An exception that every rank raises at the same place: nobody is the culprit."""

    def root(job: Job, at: float) -> Expected:
        for rank in range(job.ranks):
            job.of_rank(
                at + job.chance.uniform(0, 3), rank, *job.uncaught(rank, *traceback(*exception)), whole=True
            )
        tables_of_the_others(job, at + 4)
        return Expected(codes, retry, None, True)

    return root


def _signal(code: str, number: int) -> Root:
    """The process of one rank dies of a signal without a word: only who started it tells."""

    def root(job: Job, at: float) -> Expected:
        culprit = job.any_rank()
        _followed(job, at, culprit, -number)
        return Expected((code,), "never", culprit, job.has_agents)

    return root


def _broken_gpu(job: Job, at: float) -> Expected:
    culprit = job.any_rank()
    job.of_host(
        at - 0.2,
        culprit // PER_HOST,
        "[ 8123.401234] NVRM: Xid (PCI:0000:b2:00): 79, pid=77, name=python3, GPU has fallen off the bus.",
        whole=True,
    )
    error = "RuntimeError: CUDA error: unspecified launch failure"
    job.of_rank(at, culprit, *job.uncaught(culprit, *traceback(error)), whole=True)
    _followed(job, at, culprit, 1)
    return Expected(("HW002",), "other-hosts", culprit, False)


def _ecc_in_the_watchdog(job: Job, at: float) -> Expected:
    culprit = job.any_rank()
    mark = job.mark(culprit)
    job.of_rank(
        at,
        culprit,
        f"{mark}[{CPP}E ProcessGroupNCCL.cpp:916] [Rank {culprit}] NCCL watchdog thread terminated with exception: "
        "CUDA error: uncorrectable ECC error encountered",
        whole=True,
    )
    _followed(job, at, culprit, -6)
    return Expected(("HW001",), "other-hosts", culprit, bool(mark) or job.tells_ranks)


def _silent_exit(job: Job, at: float) -> Expected:
    culprit = job.any_rank()
    _followed(job, at, culprit, 1)
    # Who ended first is told by each torchrun of its own host only, and the others lost it.
    return Expected(("CODE001", "NCCL006", "NCCL004", "NCCL008"), None, culprit, False)


def _behind(job: Job, at: float) -> Expected:
    culprit = job.any_rank()
    for rank in range(job.ranks):
        timed_out(
            job,
            at + 600 + job.chance.uniform(0, 1),
            rank,
            _SEQUENCE - (job.chance.randrange(1, 900) if rank == culprit else 0),
        )
    tables_of_the_others(job, at + 602)
    return Expected(("NCCL004",), "never", culprit, True)


def _missing(job: Job, at: float) -> Expected:
    culprit = job.any_rank(job.ranks - 1)
    job.of_rank(0, 0, f"\x03rank 0 of {job.ranks}")
    for rank in range(job.ranks):
        if rank != culprit:
            timed_out(job, at + 600 + job.chance.uniform(0, 1), rank, _SEQUENCE)
    tables_of_the_others(job, at + 602)
    return Expected(("NCCL004",), "never", culprit, True)


def _all_wait(job: Job, at: float) -> Expected:
    for rank in range(job.ranks):
        timed_out(job, at + 600 + job.chance.uniform(0, 1), rank, _SEQUENCE)
    tables_of_the_others(job, at + 602)
    return Expected(("NCCL004",), "never", None, True)


def _one_complains(job: Job, at: float) -> Expected:
    timed_out(job, at + 600, job.any_rank(), _SEQUENCE)
    return Expected(("NCCL004",), "never", None, True)


def _elsewhere(job: Job, at: float) -> Expected:
    culprit = job.any_rank()
    for rank in range(job.ranks):
        timed_out(
            job,
            at + 600 + job.chance.uniform(0, 1),
            rank,
            _SEQUENCE,
            "BROADCAST" if rank == culprit else "ALLREDUCE",
        )
    tables_of_the_others(job, at + 602)
    return Expected(("NCCL004",), "never", culprit, True)


def _idle(job: Job, at: float) -> Expected:
    """One rank is alive, says something of its own, and waits in nothing."""
    culprit = job.any_rank(job.ranks - 1)
    for rank in range(job.ranks):
        if rank != culprit:
            timed_out(job, at + 600 + job.chance.uniform(0, 1), rank, _SEQUENCE)
    mark = f"[rank{culprit}]: " if job.layout not in ("ranks", "srun", "mpirun") else ""
    job.of_rank(at + 500, culprit, f"{mark}reading shard 12 of 80 for the next batch")
    return Expected(("NCCL004",), "never", culprit, True)


def _asked_to_dump(job: Job, at: float) -> Expected:
    """One rank waits in nothing, and says so when another one's timeout has it write its flight recorder."""
    culprit = job.any_rank(job.ranks - 1)
    for rank in range(job.ranks):
        if rank != culprit:
            timed_out(job, at + 600 + job.chance.uniform(0, 1), rank, _SEQUENCE)
    last = _SEQUENCE - 1
    job.of_rank(
        at + 601,
        culprit,
        f"[rank{culprit}]:[{CPP}E ProcessGroupNCCL.cpp:1347] [PG ID 0 PG GUID 0(default_pg) Rank {culprit}] Received a dump signal due to "
        f"a collective timeout from  rank {job.any_rank(culprit)} and we will try our best to dump the debug info. Last enqueued NCCL work: "
        f"{last}, last completed NCCL work: {last}.This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used "
        "across ranks, the order of collectives is not same for all ranks or the scheduled collective, for some reason, didn't run.",
        whole=True,
    )
    return Expected(("NCCL004",), "never", culprit, True)


def _vanished(job: Job, at: float) -> Expected:
    gone = job.any_rank() // PER_HOST
    for rank in range(job.ranks):
        if rank // PER_HOST != gone or job.hosts == 1:
            lost(job, at + job.chance.uniform(0, 9), rank)
    return Expected(("NCCL006", "NCCL008"), None, None, True)


def _stopped(job: Job, at: float) -> Expected:
    for host in range(job.hosts):
        job.of_host(
            at,
            host,
            "\x02W torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers",
            whole=True,
        )
        for local in range(PER_HOST):
            job.of_host(
                at + 0.1,
                host,
                f"\x02W torch/distributed/elastic/multiprocessing/api.py:897] Sending process {100 + local} closing signal SIGTERM",
            )
        job.of_host(
            at + 1,
            host,
            *traceback(
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15",
                file=f"{PYTHON}/torch/distributed/run.py",
            ),
        )
    return Expected(("STOP001",), "same", None, True)


def _barrier(job: Job, at: float) -> Expected:
    culprit = job.any_rank(0)
    job.of_rank(
        at + 30,
        0,
        *job.uncaught(
            0,
            *traceback(f"RuntimeError: [Rank 0]: Rank {culprit} failed to pass monitoredBarrier in 30000 ms"),
        ),
        whole=True,
    )
    table(job, at + 31, 0, 1)
    return Expected(("NCCL004",), "never", culprit, True)


def _two_at_once(job: Job, at: float) -> Expected:
    """Two ranks fail of the same, on hosts whose clocks may say anything: the steps alone hold them together."""
    first = job.any_rank()
    second = job.chance.choice(
        [rank for rank in range(job.ranks) if rank // PER_HOST != first // PER_HOST] or [job.any_rank(first)]
    )
    for rank, when in ((first, at), (second, at + 20)):
        job.of_rank(when, rank, *job.uncaught(rank, *traceback("KeyError: 'labels'")), whole=True)
    table(job, at + 1, first, 1)
    if first // PER_HOST != second // PER_HOST:
        table(job, at + 21, second, 1)
    return Expected(("CODE001",), "never", first, _is_order_known(job, first, second))


def _is_order_known(job: Job, first: int, second: int) -> bool:
    if job.layout in ("one", "kubectl", "srun", "mpirun") or first // PER_HOST == second // PER_HOST:
        return False
    return job.tells_ranks and (
        job.has_one_clock or (job.is_anchored and job.clock == "shipped" and job.layout in ("hosts", "gz"))
    )


ROOTS: dict[str, Root] = {
    "GPU memory": _raised(
        "MEM001",
        "never",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {device} has a total capacity of 39.39 GiB of which 1.20 GiB is free.",
    ),
    "key error": _raised("CODE001", "never", "KeyError: 'labels'"),
    "value error in a library": _raised(
        "CODE001",
        "never",
        "ValueError: too many values to unpack (expected 2)",
        file="transformers/models/llama/modeling_llama.py",
    ),
    "ECC": _raised(
        "HW001",
        "other-hosts",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "CUDA kernel errors might be asynchronously reported at some other API call",
    ),
    "device-side assert": _raised(
        "CODE001", "never", "RuntimeError: CUDA error: device-side assert triggered"
    ),
    "loader killed": _raised(
        "MEM002", "never", "RuntimeError: DataLoader worker (pid 10231) is killed by signal: Killed. "
    ),
    "loader's bus error": _raised(
        "DATA005",
        "never",
        "RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
    ),
    "open files": _raised(
        "DATA010", "never", "OSError: [Errno 24] Too many open files: '/opt/ml/input/data/train/part-7.tar'"
    ),
    "denied": _raised(
        "S3002",
        "never",
        "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the GetObject operation: Access Denied",
        file="botocore/client.py",
    ),
    "disk full": _raised(
        "DISK001", "never", "OSError: [Errno 28] No space left on device: '/opt/ml/checkpoints/step.pt'"
    ),
    "torn checkpoint": _raised(
        "CKPT009",
        "never",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        file="torch/serialization.py",
    ),
    "hub's limit": _raised(
        "HUB001",
        "later",
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/gpt2/resolve/main/config.json",
        file="requests/models.py",
    ),
    "exhausted inputs": _of_all(
        ("DATA001",),
        "never",
        "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks.",
    ),
    "missing package": _of_all(("CODE005",), "never", "ModuleNotFoundError: No module named 'einops'"),
    "other keys": _of_all(
        ("CKPT005", "CODE001"),
        "never",
        "RuntimeError: Error(s) in loading state_dict for Net:",
        '\tMissing key(s) in state_dict: "_orig_mod.fc.weight".',
        '\tUnexpected key(s) in state_dict: "fc.weight".',
    ),
    "killed": _signal("MEM002", 9),
    "segmentation fault": _signal("CODE004", 11),
    "bus error": _signal("CODE004", 7),
    "Xid 79": _broken_gpu,
    "ECC in the watchdog": _ecc_in_the_watchdog,
    "silent exit": _silent_exit,
    "behind": _behind,
    "missing rank": _missing,
    "all wait": _all_wait,
    "one complains": _one_complains,
    "other collective": _elsewhere,
    "idle": _idle,
    "asked to dump": _asked_to_dump,
    "host vanished": _vanished,
    "stopped": _stopped,
    "barrier": _barrier,
    "two at once": _two_at_once,
}


def earlier(job: Job, at: float) -> None:
    """A start before the one that counts failed of something else, on any rank."""
    culprit = job.any_rank()
    error = job.chance.choice(
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.",
            "IndexError: list index out of range",
        )
    )
    job.of_rank(at, culprit, *job.uncaught(culprit, *traceback(error)), whole=True)
    for rank in range(job.ranks):
        if rank != culprit and job.chance.random() < 0.5:
            lost(job, at + job.chance.uniform(0.5, 6), rank)
    for host in range(job.hosts):
        if job.sagemaker and job.restarts_container:
            job.of_host(
                at + 15, host, "\x05 sagemaker-training-toolkit INFO     Invoking user script", whole=True
            )
        else:
            job.of_host(
                at + 15,
                host,
                "\x02I torch/distributed/elastic/agent/server/api.py:879] [default] Worker group FAILED. 3/3 attempts left; will restart worker group",
                whole=True,
            )
    noise(job, at + 16)
