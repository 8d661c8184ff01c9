"""What the boot is asked to start: the container arguments, and the words that the script is given."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """What the job's container arguments ask for; `requirements` is the file to install, if any."""

    strategy: str
    processes_per_host: int
    entry_point: str
    arguments: tuple[str, ...]
    requirements: str | None = None


def parse_task(arguments: Sequence[str]) -> Task:
    """Read the container arguments; what follows `--` belongs to the script."""
    own, script = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, script = own[:cut], own[cut + 1 :]
    parser = argparse.ArgumentParser(
        prog="slipway.pyz", description="Starts a training job in its container."
    )
    parser.add_argument("--strategy", choices=["torchrun", "none"], required=True)
    parser.add_argument("--processes-per-host", type=int, default=1)
    parser.add_argument("--entry-point", required=True)
    parser.add_argument("--requirements")
    options = parser.parse_args(own)
    return Task(
        options.strategy,
        options.processes_per_host,
        options.entry_point,
        tuple(script),
        options.requirements,
    )


def hyperparameter_arguments(hyperparameters: Mapping[str, str]) -> list[str]:
    """`--name value` for each, as SageMaker's toolkit passes them."""
    return [word for name, value in hyperparameters.items() for word in (f"--{name}", str(value))]
