"""A full GPU: what to try next, by PyTorch's own numbers and the job's batch."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import RootCause
from launcher.diagnosis.record import Record
from launcher.diagnosis.remedies.asked_job import NOTHING_ASKED, AskedJob
from launcher.diagnosis.remedies.gpu_memory import GpuShortage, shortage_in, smaller_batch
from launcher.failure_modes import hardware

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


def remedy(line: str, job: AskedJob = NOTHING_ASKED, code: str = "loss = model(x)") -> str:
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
    said = remedy(FULL, given(per_device_train_batch_size="32"))
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
    assert remedy(FULL, job) == hardware.CUDA_OUT_OF_MEMORY.remedy


def test_the_batch_of_one_process_counts_before_any_other() -> None:
    job = given(train_batch_size="256", train_micro_batch_size_per_gpu="8")
    assert remedy(FULL, job).startswith("Set train_micro_batch_size_per_gpu to 6 instead of 8")


def test_a_batch_of_one_is_not_halved() -> None:
    said = remedy(FULL, AskedJob(arguments=("--batch-size=1",)))
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
    assert "With gradient_accumulation_steps 8 instead of 4 a step learns from as many samples." in remedy(
        much, job
    )


@pytest.mark.parametrize(
    "code", ["model.to(device)", "model = DDP(model, device_ids=[rank])", "model.load_state_dict(state)"]
)
def test_where_the_model_is_moved_no_batch_helps(code: str) -> None:
    said = remedy(FULL, given(batch_size="32"), code)
    assert said.startswith("The model itself does not fit (at least 1.3 GiB of 39.4 GiB is missing)")


def test_a_batch_that_is_moved_is_no_model() -> None:
    assert "to 24" in remedy(FULL, given(batch_size="32"), "images = images.to(device)")


def test_what_other_processes_hold_is_told_first() -> None:
    line = FULL.replace("Including", "Process 73820 has 30.58 GiB memory in use. Including")
    said = remedy(line, given(batch_size="32"))
    assert said.startswith("Other processes hold 30.6 GiB of this GPU, and at least 1.3 GiB of 39.4 GiB")
    assert "batch_size" not in said


def test_a_process_that_does_not_know_itself_in_its_container_is_no_other_one() -> None:
    line = FULL.replace("Including non-PyTorch memory, this process has", "Process 1 has")
    assert "to 24" in remedy(line, given(batch_size="32"))


def test_memory_that_lies_in_pieces_is_joined_before_the_batch_shrinks() -> None:
    said = remedy(FULL.replace("1.22 GiB is reserved", "6.10 GiB is reserved"), given(batch_size="32"))
    assert said.startswith(
        "PyTorch holds 6.1 GiB that it does not use, in pieces too small for the 2.5 GiB: set "
        "PYTORCH_CUDA_ALLOC_CONF to expandable_segments:True"
    )


def test_the_little_that_is_always_unused_is_no_fragmentation() -> None:
    assert remedy(MISSPELT, given(batch_size="32")).startswith("Set batch_size to 24 instead of 32")
