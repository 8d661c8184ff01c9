"""SageMaker Training Compiler (torch_xla)."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import notices, training_compiler
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import Strategy
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, training_compiler.GPU_NUM_DEVICES_WRONG)
def compiler_knows_its_gpus(subject: JobSubject) -> Iterator[Finding]:
    """A number of the user that is not the GPUs of the host; without one the plan sets it."""
    if not _is_compiled(subject) or subject.facts is None or not subject.facts.has_gpus:
        return
    gpus = subject.facts.accelerators
    for variable in subject.variables():
        if variable.name == "GPU_NUM_DEVICES" and variable.value.strip() != str(gpus):
            yield training_compiler.GPU_NUM_DEVICES_WRONG.at(
                variable.path,
                f"GPU_NUM_DEVICES={variable.value}, but {subject.facts.instance_type} has {gpus} GPUs: "
                "the workers would not start, or leave GPUs idle",
                remedy=f"Remove it, and the plan sets {gpus}.",
            )


@finds(Stage.SPEC, training_compiler.DIVERGES_FROM_NATIVE, training_compiler.NO_GAIN_IN_TIME)
def compiled_training_is_compared(subject: JobSubject) -> Iterator[Finding]:
    """A run with the compiler is compared with one without it, and given a larger batch."""
    if not _is_compiled(subject):
        return
    batch = subject.job.data.batch_size if subject.job.data else None
    size = f"a batch of {batch} per process" if batch else "a batch"
    for mode, message in (
        (
            training_compiler.DIVERGES_FROM_NATIVE,
            "whether the compiled model converges as the native one does shows only beside a run without "
            "the compiler that is equal in all else",
        ),
        (
            training_compiler.NO_GAIN_IN_TIME,
            f"{size} that was chosen without the compiler gains little with it: compiled, a larger one fits",
        ),
    ):
        yield mode.at(
            ("distribution", "strategy"),
            message,
        )


@finds(Stage.SPEC, training_compiler.NO_RELEASES)
def compiler_is_maintained(subject: JobSubject) -> Iterator[Finding]:
    """That AWS has stopped working on it is said wherever it is used."""
    if _is_compiled(subject):
        yield training_compiler.NO_RELEASES.at(
            ("distribution", "strategy"),
            f"{notices.TRAINING_COMPILER_FROZEN.text}: its images end at PyTorch 1.13.1",
        )


def _is_compiled(subject: JobSubject) -> bool:
    return subject.job.distribution.strategy is Strategy.TORCH_XLA
