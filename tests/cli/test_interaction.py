"""`--rank` and `--grep` of a launch, and what is shown without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.backends.interface import LogLine
from launcher.cli.interaction import HIDDEN, choose_lines
from launcher.failure_modes.refusal import Refusal
from launcher.planning.request_view import RequestView
from tests.cli.conftest import RunLaunch

VIEW = RequestView(
    {
        "AlgorithmSpecification": {
            "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/slipway.pyz"],
            "ContainerArguments": ["--strategy", "torchrun", "--processes-per-host", "2"],
        },
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2},
    }
)
PRINTED = [LogLine(0.0, "algo-2", f"[rank{rank}]:step {rank}") for rank in range(4)]


def seen(rank: str | None, grep: str | None = None) -> tuple[list[int], list[str]]:
    told: list[str] = []
    choice = choose_lines(VIEW, rank, grep, lambda: told.append(HIDDEN))
    kept = PRINTED if choice is None else choice.keep(PRINTED)
    return [PRINTED.index(line) for line in kept], told


def test_rank_0_by_default_another_one_or_all() -> None:
    assert seen(None) == ([0], [HIDDEN])
    assert seen("3") == ([3], [])
    assert seen("all") == ([0, 1, 2, 3], [])


def test_a_pattern_chooses_of_every_rank_and_of_one() -> None:
    assert seen(None, "step [23]") == ([2, 3], [])
    assert seen("all", "step [23]") == ([2, 3], [])
    assert seen("2", "step [23]") == ([2], [])


def test_a_rank_that_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(Refusal, match="no rank 4: it has 2 hosts with 2 processes each") as refused:
        seen("4")
    assert "from 0 to 3" in refused.value.remedy


@pytest.mark.parametrize("rank", ["-1", "first", "9" * 5000, "²"])
def test_what_is_no_rank_at_all_is_refused(rank: str) -> None:
    with pytest.raises(Refusal, match="is not the number of a rank") as refused:
        seen(rank)
    assert "or all" in refused.value.remedy
    assert len(refused.value.message) < 100


@pytest.mark.parametrize("option", ["--dry-run", "--detach"])
def test_what_follows_nothing_takes_no_choice_of_lines(
    run_launch: RunLaunch, write_job: Callable[..., Path], option: str
) -> None:
    code, _, err = run_launch(write_job(), option, "--rank", "1")
    assert code == 2
    assert "about following" in err
