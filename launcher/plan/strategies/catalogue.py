"""Which strategies the plan can carry out."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.jobs.specification import Strategy
from launcher.plan.strategies.single_process import SingleProcess
from launcher.plan.strategies.strategy import LaunchStrategy
from launcher.plan.strategies.torchrun import Torchrun

STRATEGIES: Mapping[Strategy, LaunchStrategy] = {
    Strategy.TORCHRUN: Torchrun(),
    Strategy.NONE: SingleProcess(),
}
"""The strategies that are built; a job with another one is refused (DIST002)."""
