"""torch_xla: SageMaker Training Compiler, PyTorch/XLA on GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.options import OPTIONS, boolean, check_options
from launcher.planning.strategies.programs import python_alone
from launcher.planning.strategies.strategy import StartParameters
from launcher.planning.strategies.support import Support, unsupported
from launcher.planning.strategies.toolkit import ToolkitStrategy

FRAMEWORK = "pytorch-training-compiler"

COMPILER_HYPERPARAMETER = "sagemaker_training_compiler_enabled"
"""What tells the image's toolkit to compile."""

SUPPORT = Support(
    library="SageMaker Training Compiler",
    instance_types=("ml.p3.*", "ml.p3dn.*", "ml.p4d.*", "ml.g4dn.*", "ml.g5.*"),
    framework=FRAMEWORK,
)
"""SageMaker SDK, training_compiler/config.py, SUPPORTED_INSTANCE_CLASS_PREFIXES."""


class TorchXla(ToolkitStrategy):
    """The compiler's images; their launcher calls the script's `_mp_fn` once per GPU."""

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on P3, P4d, G4dn and G5 with PyTorch 1.12 and 1.13; finds all else."""
        yield from super().supported(job, facts, processes_per_host)
        yield from check_options(
            job.distribution.options, {"debug": boolean}, OPTIONS, "the strategy torch_xla"
        )
        yield from unsupported(SUPPORT, job)
        yield from _alone_on_several_hosts(job, processes_per_host)
        yield from python_alone(job, "Training Compiler's launcher", (".py",))

    def image(self, facts: InstanceFacts | None) -> str:
        """The compiler's own images, which hold PyTorch/XLA."""
        return FRAMEWORK

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, the toolkit's, and the compiler's.

        The launcher for several workers refuses to run with a single GPU (toolkit, pytorch_xla.py);
        such a job starts its script directly.
        """
        several = {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}
        return {
            **super().hyperparameters(job, start),
            **(several if start.processes_per_host > 1 else {}),
            COMPILER_HYPERPARAMETER: "true",
            "sagemaker_training_compiler_debug_mode": json.dumps(
                bool(job.distribution.options.get("debug", False))
            ),
        }


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def _alone_on_several_hosts(job: JobSpec, processes_per_host: int | None) -> Iterator[Finding]:
    if processes_per_host == 1 and job.resources.instance_count > 1:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("resources", "instance_count"),
            f"Training Compiler's launcher does not run on several hosts with one GPU each "
            f"({job.resources.instance_type})",
            remedy="Use one host, or a type with several GPUs.",
        )
