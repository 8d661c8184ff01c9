"""A job beside itself without Training Compiler, to see what the compiler alone changes (XLA007)."""

from __future__ import annotations

from launcher.failure_modes.refusal import Refusal
from launcher.jobs.specification import Distribution, JobSpec, Strategy
from launcher.planning.images import image_release
from launcher.planning.strategies.torch_xla import FRAMEWORK


def native_counterpart(job: JobSpec) -> JobSpec:
    """The same job on native PyTorch: torchrun in the image of the same PyTorch and Python version.

    Everything else is equal: hosts, processes, data, hyperparameters, environment and limits. Raises
    Refusal for a job without the compiler, and for one that brings its own image, whose native
    counterpart is not known here.
    """
    if job.distribution.strategy is not Strategy.TORCH_XLA:
        raise Refusal(
            f"the job runs without Training Compiler (strategy {job.distribution.strategy.value}).",
            "A pair is made of a job with `strategy: torch_xla`.",
        )
    if job.framework is None:
        raise Refusal(
            "the job brings its own image, so the same image without the compiler is not known.",
            "Name `framework` instead of `image`.",
        )
    release = image_release(FRAMEWORK, job.framework.version)
    framework = job.framework
    if release is not None:
        # Both images are named in full, so that neither falls back to a newer Python by default.
        python = framework.python or release.python[-1]
        framework = framework.model_copy(update={"version": release.version, "python": python})
    native = Distribution(strategy=Strategy.TORCHRUN, processes_per_host=job.distribution.processes_per_host)
    return job.model_copy(update={"framework": framework, "distribution": native})
