"""Accelerators that stand idle because nobody starts a process for them: DIST001 under strategy none."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

PRICES = json.loads(files("launcher.planning").joinpath("prices.json").read_text("utf-8"))
NONE = {"strategy": "none"}
TWO_P4D = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}


@pytest.mark.parametrize(
    ("distribution", "instance_type", "found"),
    [
        pytest.param(None, "ml.p4d.24xlarge", "warning", id="no distribution is the strategy none"),
        pytest.param(NONE, "ml.p4d.24xlarge", "warning", id="the strategy none"),
        pytest.param(NONE, "ml.trn1.32xlarge", "warning", id="Neuron cores"),
        pytest.param({**NONE, "processes_per_host": 1}, "ml.p4d.24xlarge", None, id="asked for"),
        pytest.param({"strategy": "torchrun"}, "ml.p4d.24xlarge", None, id="torchrun starts them all"),
        pytest.param(NONE, "ml.g5.xlarge", None, id="one GPU"),
        pytest.param(NONE, "ml.m5.xlarge", None, id="no GPU"),
        pytest.param(NONE, "ml.p9.48xlarge", None, id="an unknown type"),
    ],
)
def test_idle_accelerators_are_a_warning(
    severity_of, distribution: dict | None, instance_type: str, found: str | None
) -> None:
    assert (
        severity_of("DIST001", distribution=distribution, resources={"instance_type": instance_type}) == found
    )


def test_it_says_how_many_stand_idle_and_what_they_cost(judge) -> None:
    (found,) = judge("DIST001", distribution=None, resources=TWO_P4D, region="us-east-1")
    (price,) = [
        entry["prices"]["ml.p4d.24xlarge"]
        for entry in PRICES["lists"]
        if entry["region"] == "us-east-1" and "ml.p4d.24xlarge" in entry["prices"]
    ]
    assert "14 of the 16 GPUs stand idle" in found.message
    assert f"cost {price * 2 * 14 / 16:.2f} USD of {price * 2:.2f} USD an hour" in found.message
    assert "torchrun" in found.remedy


@pytest.mark.parametrize(
    ("distribution", "path"),
    [(None, ("resources", "instance_type")), (NONE, ("distribution", "strategy"))],
)
def test_it_stands_at_the_strategy_or_where_none_is_given_at_the_type(
    judge, distribution: dict | None, path: tuple[str, str]
) -> None:
    (found,) = judge("DIST001", distribution=distribution, resources=TWO_P4D)
    assert found.path == path
    assert ("without `distribution`" in found.message) is (distribution is None)


def test_what_is_paid_for_whole_has_no_cost_of_its_idle_part(judge) -> None:
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/large"
    resources = {
        "instance_type": "ml.trn1.32xlarge",
        "instance_count": 2,
        "capacity": {"training_plan": plan},
    }
    (found,) = judge("DIST001", distribution=NONE, resources=resources)
    assert "62 of the 64 NeuronCores stand idle" in found.message
    assert "USD" not in found.message


def test_a_shell_script_starts_its_ranks_itself(judge, tmp_path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.sh").write_text("torchrun train.py\n")
    code = {"source_dir": "src", "entry_point": "train.sh"}
    assert judge("DIST001", code_section=code, distribution=NONE) == []


def test_a_run_on_this_machine_has_other_devices(judge) -> None:
    assert judge("DIST001", distribution=None, here=True) == []
