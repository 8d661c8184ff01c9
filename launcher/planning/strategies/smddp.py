"""smddp: SageMaker's data parallel library, started by its own launcher over MPI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Final

from launcher.cluster.instances import InstanceFacts
from launcher.facts.provenance import Provenance
from launcher.failure_modes.model import Finding
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.options import OPTIONS, check_options, text
from launcher.planning.strategies.programs import python_alone
from launcher.planning.strategies.strategy import TENSORFLOW, StartParameters
from launcher.planning.strategies.support import Support, unsupported
from launcher.planning.strategies.toolkit import ToolkitStrategy, unsafe_mpi_options

PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=365,
    source="SageMaker developer guide, distributed-data-parallel-support; SageMaker SDK, sagemaker.core.fw_utils "
    "and training_compiler/config.py",
    packages={"sagemaker": "3.27.0"},
)

SUPPORT = Support(
    library="the SageMaker data parallel library",
    instance_types=("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge"),
    oldest="1.7.1",
    newest="2.3.1",
)
"""SageMaker developer guide, distributed-data-parallel-support, without PyTorch 1.6: the library is then
in an image of a name of its own."""


SUPPORT_OF_TENSORFLOW = replace(SUPPORT, framework=TENSORFLOW, oldest="2.4.1", newest="2.11.0")
"""sagemaker.core.fw_utils, SM_DATAPARALLEL_SUPPORTED_FRAMEWORK_VERSIONS, without TensorFlow 2.3 for the same
reason."""


class Smddp(ToolkitStrategy):
    """The data parallel library's collectives in place of NCCL's."""

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on types with eight V100 or A100, with PyTorch 1.7 to 2.3 or TensorFlow 2.4 to 2.11."""
        yield from super().supported(job, facts, processes_per_host)
        yield from check_options(
            job.distribution.options, {"mpi_options": text}, OPTIONS, "the strategy smddp"
        )
        yield from unsafe_mpi_options(job)
        yield from python_alone(job, "the data parallel library's launcher")
        tensorflow = job.framework is not None and job.framework.name == TENSORFLOW
        yield from unsupported(SUPPORT_OF_TENSORFLOW if tensorflow else SUPPORT, job)

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, those that tell the toolkit what to start, and the library's MPI options."""
        options = job.distribution.options.get("mpi_options", "")
        return {
            **super().hyperparameters(job, start),
            "sagemaker_distributed_dataparallel_enabled": "true",
            "sagemaker_instance_type": json.dumps(job.resources.instance_type),
            "sagemaker_distributed_dataparallel_custom_mpi_options": json.dumps(options),
        }
