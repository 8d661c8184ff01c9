"""The settings that a job's processes get, each with its reason and its source.

The aws-ofi-nccl plugin in the images tunes NCCL per instance type by itself, so this is mostly a
matter of not undoing that: only what depends on the job is set, and never over the user's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FLIGHT_RECORDER_PATH = "/opt/ml/output/data/flight_recorder/rank_"
"""Prefix of the flight recorder's dumps; below output/data, which is kept after the job."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable of the job: why it has this value, and who says so."""

    name: str
    value: str
    reason: str
    source: str


def settings(
    *, vcpus: int | None, processes_per_host: int, torch_version: str | None, debug: bool
) -> list[Setting]:
    """The settings for a job.

    `vcpus` of the host (None: unknown) are shared by its processes; `torch_version` is None where the
    user brings the image; `debug` is the job's `profile: debug`.
    """
    recorder = "PyTorch documentation: flight recorder for stuck jobs"
    buffer, dumps = _recorder_names(torch_version)
    chosen = [
        Setting(
            "NCCL_DEBUG",
            "INFO" if debug else "WARN",
            "NCCL is silent by default; its warnings are the first evidence of a network fault",
            "NCCL documentation: NCCL_DEBUG",
        ),
        Setting(
            buffer,
            "20000",
            "keeps the last 20,000 collectives per rank: the only evidence of which rank a hang waits for",
            recorder,
        ),
        Setting(
            "TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "writes that record when a collective times out", recorder
        ),
        Setting(
            dumps,
            FLIGHT_RECORDER_PATH,
            "where it is written: a path that is kept after the job",
            recorder,
        ),
    ]
    if vcpus is not None:
        chosen.append(
            Setting(
                "OMP_NUM_THREADS",
                str(max(1, vcpus // processes_per_host)),
                f"{vcpus} vCPUs over {processes_per_host} processes; torchrun would set 1",
                "PyTorch documentation: torchrun, OMP_NUM_THREADS",
            )
        )
    if debug:
        chosen += [
            Setting(
                "NCCL_DEBUG_SUBSYS", "INIT,NET,ENV", "shows how NCCL chose its network", "NCCL documentation"
            ),
            Setting(
                "TORCH_DISTRIBUTED_DEBUG",
                "DETAIL",
                "checks that all ranks call the same collective; slow, so in the debug profile only",
                "PyTorch documentation: torch.distributed debugging",
            ),
        ]
    return chosen


def _recorder_names(torch_version: str | None) -> tuple[str, str]:
    """The recorder's variables: renamed in torch 2.9, which warns of the old names on every rank."""
    numbers = [int(part) for part in (torch_version or "").split(".")[:2] if part.isdigit()]
    if numbers >= [2, 9]:
        return "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"
    return "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"


def tuned_environment(user: Mapping[str, str], chosen: list[Setting]) -> dict[str, str]:
    """The settings with the user's environment on top: what the user gave is never overwritten."""
    return {**{setting.name: setting.value for setting in chosen}, **user}
