"""Remedies with the numbers of the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis, RootCause
from launcher.diagnosis.remedies import NOTHING_ASKED, AskedJob, GpuShortage, shortage_in, smaller_batch
from launcher.failure_modes import hardware
from launcher.failure_modes.registry import CATALOGUE

RESOLVE = (
    "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', "
    "port=443): Max retries exceeded with url: /roberta-base/resolve/main/config.json (Caused by "
    'NameResolutionError("Failed to resolve \'huggingface.co\'"))"))'
)
FACTS = [
    ("train.py: error: unrecognized arguments: true", "CODE002", "never", "`code.arguments`"),
    (
        "train.py: error: unrecognized arguments: --foo true",
        "CODE002",
        "never",
        "declare it there with add_argument",
    ),
    ("train.py: error: argument --n: invalid int value: ''", "CODE002", "never", "leave the argument out"),
    ("RuntimeError: Found no NVIDIA driver on your system. Please", "CODE001", "never", "type with GPUs"),
    ("AssertionError: Torch not compiled with CUDA enabled", "CODE001", "never", "type with GPUs"),
    (RESOLVE, "HUB001", "never", "NAT gateway"),
    (
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the "
        "cached files",
        "HUB001",
        "never",
        "HF_HUB_OFFLINE",
    ),
    (
        "OSError: There was a specific connection error when trying to load x/y: 429 Client Error",
        "CODE001",
        "never",
        "Repair",
    ),
    (
        "huggingface_hub.utils._errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: "
        "https://huggingface.co/api/datasets/x",
        "HUB001",
        "later",
        "Download once",
    ),
    (
        "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Read timed "
        "out. (read timeout=10)",
        "HUB001",
        "same",
        "Download once",
    ),
    ("OSError: You are trying to access a gated repo.", "HUB001", "never", "as HF_TOKEN in the job file"),
    ("KeyError: 'x'", "CODE001", "never", "Repair"),
]


def judged(diagnosis: Diagnosis) -> tuple[str, str]:
    assert diagnosis.root_cause is not None
    return diagnosis.root_cause.finding.code, diagnosis.retry.value


@pytest.mark.parametrize(("text", "code", "retry", "remedy"), FACTS)
def test_a_line_has_the_remedy_that_fits(text: str, code: str, retry: str, remedy: str) -> None:
    lines = [text]
    if not text.startswith("train.py"):
        lines = ["Traceback (most recent call last):", '  File "/opt/ml/code/train.py", line 3, in f', text]
    diagnosis = diagnose([Record(None, "algo-1", f"[rank1]:{line}") for line in lines])
    assert judged(diagnosis) == (code, retry)
    assert diagnosis.root_cause is not None
    assert remedy in diagnosis.root_cause.finding.remedy


@pytest.mark.parametrize(("text", "code", "retry", "remedy"), FACTS)
def test_so_has_what_the_container_reported(text: str, code: str, retry: str, remedy: str) -> None:
    reported = "CODE002" if text.startswith("train.py") else "CODE001"
    reason = f"AlgorithmError: {reported} rank 1 on algo-1: {text} (train.py:3), exit code: 1"
    diagnosis = diagnose([], reason)
    assert judged(diagnosis) == (code, retry)
    assert diagnosis.root_cause is not None
    assert remedy in diagnosis.root_cause.finding.remedy
    assert diagnosis.root_cause.rank == 1


@pytest.mark.parametrize(
    "text",
    [
        "wandb: Network error (ConnectionError), entering retry loop.",
        "WARNING urllib3.connectionpool Retrying (Retry(total=2)) after connection broken by "
        "'NewConnectionError': /simple/einops/",
        "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
        "url: /x\"))' thrown while requesting HEAD https://huggingface.co/x. Retrying in 1s [Retry 1/5].",
        "HTTP Error 429 thrown while requesting GET https://huggingface.co/api/models/x",
        "Rate limited. Waiting 207.0s before retry [Retry 1/5].",
    ],
)
def test_what_is_tried_again_is_no_failure(text: str) -> None:
    assert diagnose([Record(None, "algo-1", f"[rank0]:{text}")]).root_cause is None


def test_what_ended_without_a_word_is_not_sent_to_a_traceback() -> None:
    found = diagnose([], failure_reason="AlgorithmError: CODE001 rank 0 on algo-1: exited with code 2")
    assert judged(found) == ("CODE001", "never")
    assert found.root_cause is not None
    assert "`set -ex`" in found.root_cause.finding.remedy


P3 = AskedJob("ml.p3.8xlarge", processes_per_host=8, volume_size_gb=30, hyperparameters={"num_workers": "8"})
P4D = replace(P3, instance_type="ml.p4d.24xlarge")
DISK = "OSError: [Errno 28] No space left on device: '/opt/ml/checkpoints/step-100.pt'"
BUS = "RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error."
ORDINAL = "RuntimeError: CUDA error: invalid device ordinal"
WATCHDOG = (
    "[rank1]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=180, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600031 milliseconds before timing out."
)
QUOTA = (
    "ResourceLimitExceeded: The account-level service limit 'ml.p4d.24xlarge for training job usage' is 2 "
    "Instances, with current utilization of 1 Instances and a request delta of 4 Instances. Please contact"
)


def remedy(line: str, job: AskedJob = NOTHING_ASKED) -> tuple[str, str]:
    """The code of the root cause, and what to do."""
    cause = diagnose([Record(None, "algo-1", line)], job=job).root_cause
    assert cause is not None
    return cause.finding.code, cause.finding.remedy


@pytest.mark.parametrize(
    ("line", "job", "code", "said"),
    [
        (DISK, P3, "DISK001", "Raise resources.volume_size_gb, which is 30, such as to 60."),
        (DISK, P4D, "DISK001", "ml.p4d.24xlarge has 8000 GB of disks of its own"),
        (
            BUS,
            P3,
            "DATA005",
            "Set num_workers to 4 instead of 8: 8 processes start 64 of them on each host, which has 32 "
            "vCPUs.",
        ),
        (BUS, replace(P3, processes_per_host=None), "DATA005", "Set num_workers to 4 instead of 8. "),
        (
            "RuntimeError: DataLoader worker (pid 10231) is killed by signal: Killed.",
            P3,
            "MEM002",
            "Set num_workers to 4 instead of 8: 8 processes start 64",
        ),
        ("OSError: [Errno 24] Too many open files: '/data/x'", P3, "DATA010", "Set num_workers to 4"),
        (
            ORDINAL,
            P3,
            "DIST003",
            "Set distribution.processes_per_host to 4 instead of 8, or leave it out: ml.p3.8xlarge has so",
        ),
        (WATCHDOG, NOTHING_ASKED, "NCCL004", "It waited 10m; the process group's limit is 10m. "),
        (
            "slipway: NCCL004 rank 2 on algo-2 has not entered all_reduce #21 [4160] (train.py:27), in which "
            "ranks 0, 1, 3 wait; no rank has made a step for 62 s (limit 60 s)",
            NOTHING_ASKED,
            "NCCL004",
            "The watchdog waited 1m2s for a step; its limit (watchdog.stall) was 1m. ",
        ),
        (
            QUOTA,
            NOTHING_ASKED,
            "CAP002",
            "Request an increase of 'ml.p4d.24xlarge for training job usage' in Service Quotas from 2 to at "
            "least 5 (1 in use, 4 for this job)",
        ),
    ],
)
def test_the_remedy_has_the_numbers(line: str, job: AskedJob, code: str, said: str) -> None:
    found, told = remedy(line, job)
    assert found == code
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (DISK, NOTHING_ASKED),
        (DISK, replace(P3, instance_type="ml.unknown.large")),
        (DISK, replace(P3, volume_size_gb=None)),
        (DISK.replace("/opt/ml/checkpoints", "/home/me"), P3),
        ("OSError: [Errno 122] Disk quota exceeded", P3),
        (BUS, NOTHING_ASKED),
        (BUS, replace(P3, hyperparameters={"num_workers": "0"})),
        (BUS, replace(P3, hyperparameters={"workers_per_day": "8"})),
        (ORDINAL, NOTHING_ASKED),
        (ORDINAL, replace(P3, processes_per_host=4)),
        (WATCHDOG.replace("Timeout(ms)=600000", ""), NOTHING_ASKED),
        ("ResourceLimitExceeded: The account-level service limit", NOTHING_ASKED),
    ],
)
def test_where_a_number_is_not_known_the_old_sentence_stands(line: str, job: AskedJob) -> None:
    code, told = remedy(line, job)
    assert told == CATALOGUE[code].remedy


def test_a_time_out_is_read_from_whichever_line_has_it() -> None:
    first = "[rank1]:[E101 10:00:00.1 x.cpp:1] [PG 0 Rank 1] Timeout at NCCL work: 180, last enqueued NCCL "
    first += "work: 180"
    lines = [Record(None, "algo-1", line) for line in (first, WATCHDOG)]
    cause = diagnose(lines).root_cause
    assert cause is not None
    assert cause.finding.remedy.startswith("It waited 10m; the process group's limit is 10m.")


def test_the_argument_that_sets_the_time_out_is_named() -> None:
    _, told = remedy(WATCHDOG, AskedJob(hyperparameters={"ddp_timeout": "600"}))
    assert told.endswith("That limit is ddp_timeout, which is 600.")


def test_a_line_that_calls_for_another_remedy_keeps_it() -> None:
    _, told = remedy("RuntimeError: DataLoader timed out after 30 seconds", P3)
    assert told.startswith("A worker hangs or is slow")


def test_what_the_script_was_given_is_in_no_text_of_the_job() -> None:
    assert "hidden-value" not in repr(AskedJob(hyperparameters={"key": "hidden-value"}, arguments=("a",)))


GIB = 2**30
FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total capacity of "
    "39.40 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process has 38.20 GiB memory in "
    "use. Of the allocated memory 36.00 GiB is allocated by PyTorch, and 1.22 GiB is reserved by PyTorch but "
    "unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 39.59 GiB total capacity; 37.50 "
    "GiB already allocated; 11.19 MiB free; 37.60 GiB reserved in total by PyTorch)"
)
MISSPELT = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacty "
    "of 2.00 GiB of which 0 bytes is free. Of the allocated memory 1.61 GiB is allocated by PyTorch, and "
    "51.44 MiB is reserved by PyTorch but unallocated."
)


def told(line: str, job: AskedJob = NOTHING_ASKED, code: str = "loss = model(x)") -> RootCause:
    lines = ["Traceback (most recent call last):", '  File "/opt/ml/code/train.py", line 88, in step']
    lines += [f"    {code}", line]
    cause = diagnose([Record(None, "algo-1", f"[rank5]: {each}") for each in lines], job=job).root_cause
    assert cause is not None
    assert cause.finding.code == "MEM001"
    return cause


def remedy_gpu_memory(line: str, job: AskedJob = NOTHING_ASKED, code: str = "loss = model(x)") -> str:
    return told(line, job, code).finding.remedy


def given(**numbers: str) -> AskedJob:
    return AskedJob(hyperparameters=numbers)


@pytest.mark.parametrize(
    ("line", "shortage"),
    [
        (FULL, GpuShortage(2.5 * GIB, 1.2 * GIB, 39.4 * GIB, 1.22 * GIB)),
        (MISSPELT, GpuShortage(30 * 2**20, 0, 2 * GIB, 51.44 * 2**20)),
        ("CUDA out of memory. Tried to allocate 2.50 GiB", None),
    ],
)
def test_the_numbers_of_each_version_are_read(line: str, shortage: GpuShortage | None) -> None:
    assert shortage_in(line) == shortage


def test_the_numbers_of_the_first_versions_are_read() -> None:
    shortage = shortage_in(OLD)
    assert shortage is not None
    assert (shortage.asked, shortage.free, shortage.total) == (20 * 2**20, 11.19 * 2**20, 39.59 * GIB)
    assert shortage.unused == pytest.approx(0.1 * GIB)


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        (FULL, "asked for 2.50 GiB with 1.20 GiB free of 39.40 GiB"),
        (OLD, "asked for 20.00 MiB with 11.19 MiB free of 39.59 GiB"),
        (MISSPELT, "asked for 30.00 MiB with 0 bytes free of 2.00 GiB"),
    ],
)
def test_the_message_says_what_was_asked_for_free_and_there_at_all(line: str, numbers: str) -> None:
    assert told(line).finding.message == f"rank 5 on algo-1: the GPU is full: {numbers} (train.py:88)"


def test_of_a_job_whose_batch_is_known_a_smaller_one_is_named() -> None:
    said = remedy_gpu_memory(FULL, given(per_device_train_batch_size="32"))
    assert said.startswith(
        "Set per_device_train_batch_size to 24 instead of 32 (at least 1.3 GiB of 39.4 GiB is missing), or "
        "keep 32 with activation checkpointing."
    )
    assert hardware.CUDA_OUT_OF_MEMORY.remedy in said


@pytest.mark.parametrize(
    "job",
    [
        NOTHING_ASKED,
        given(bs="32"),
        given(batch_size="auto"),
        given(batch_size="0"),
        given(eval_batch_size="32"),
        given(global_batch_size="32"),
        AskedJob(hyperparameters={"batch_size": "32"}, arguments=("--batch-size", "16")),
    ],
)
def test_where_nobody_knows_the_batch_the_old_sentence_stands(job: AskedJob) -> None:
    assert remedy_gpu_memory(FULL, job) == hardware.CUDA_OUT_OF_MEMORY.remedy


def test_the_batch_of_one_process_counts_before_any_other() -> None:
    job = given(train_batch_size="256", train_micro_batch_size_per_gpu="8")
    assert remedy_gpu_memory(FULL, job).startswith("Set train_micro_batch_size_per_gpu to 6 instead of 8")


def test_a_batch_of_one_is_not_halved() -> None:
    said = remedy_gpu_memory(FULL, AskedJob(arguments=("--batch-size=1",)))
    assert said.startswith("batch-size is 1 already (at least 1.3 GiB of 39.4 GiB is missing): activation")


@pytest.mark.parametrize(
    ("batch", "missing", "fewer"),
    [
        (32, 1.3, 24),
        (32, 6.0, 16),
        (32, None, 16),
        (100, 1.3, 72),
        (24, 1.3, 18),
        (3, 1.3, 2),
        (2, 1.3, 1),
        (2, 30.0, 1),
        (1, 1.3, None),
        (0, 1.3, None),
    ],
)
def test_the_next_batch_is_three_quarters_where_little_is_missing_else_half(
    batch: int, missing: float | None, fewer: int | None
) -> None:
    shortage = None if missing is None else GpuShortage(missing * GIB, 0.0, 39.4 * GIB)
    assert smaller_batch(batch, shortage) == fewer


def test_half_a_batch_is_made_up_by_twice_the_accumulation() -> None:
    much = FULL.replace("2.50 GiB", "12.50 GiB")
    job = given(per_device_train_batch_size="32", gradient_accumulation_steps="4")
    assert (
        "With gradient_accumulation_steps 8 instead of 4 a step learns from as many samples."
        in remedy_gpu_memory(much, job)
    )


@pytest.mark.parametrize(
    "code", ["model.to(device)", "model = DDP(model, device_ids=[rank])", "model.load_state_dict(state)"]
)
def test_where_the_model_is_moved_no_batch_helps(code: str) -> None:
    said = remedy_gpu_memory(FULL, given(batch_size="32"), code)
    assert said.startswith("The model itself does not fit (at least 1.3 GiB of 39.4 GiB is missing)")


def test_a_batch_that_is_moved_is_no_model() -> None:
    assert "to 24" in remedy_gpu_memory(FULL, given(batch_size="32"), "images = images.to(device)")


def test_what_other_processes_hold_is_told_first() -> None:
    line = FULL.replace("Including", "Process 73820 has 30.58 GiB memory in use. Including")
    said = remedy_gpu_memory(line, given(batch_size="32"))
    assert said.startswith("Other processes hold 30.6 GiB of this GPU, and at least 1.3 GiB of 39.4 GiB")
    assert "batch_size" not in said


def test_a_process_that_does_not_know_itself_in_its_container_is_no_other_one() -> None:
    line = FULL.replace("Including non-PyTorch memory, this process has", "Process 1 has")
    assert "to 24" in remedy_gpu_memory(line, given(batch_size="32"))


def test_memory_that_lies_in_pieces_is_joined_before_the_batch_shrinks() -> None:
    said = remedy_gpu_memory(
        FULL.replace("1.22 GiB is reserved", "6.10 GiB is reserved"), given(batch_size="32")
    )
    assert said.startswith(
        "PyTorch holds 6.1 GiB that it does not use, in pieces too small for the 2.5 GiB: set "
        "PYTORCH_CUDA_ALLOC_CONF to expandable_segments:True"
    )


def test_the_little_that_is_always_unused_is_no_fragmentation() -> None:
    assert remedy_gpu_memory(MISSPELT, given(batch_size="32")).startswith(
        "Set batch_size to 24 instead of 32"
    )
