"""What two runs differ in, and what of it makes their comparison mean less."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.experiments.pair.differences import RunDifference, cautions, differences, samples_per_step

JOB: dict[str, Any] = {
    "name": "digits",
    "distribution": {"strategy": "torchrun", "processes_per_host": 8},
    "hyperparameters": {"lr": 0.1, "seed": 1},
    "resources": {"instance_count": 2},
    "secrets": None,
}


def changed(**sections: Any) -> list[RunDifference]:
    return differences(JOB, {**JOB, **sections})


def test_fields_that_differ_are_named_with_both_values() -> None:
    found = changed(hyperparameters={"lr": 0.2, "seed": 1, "warmup": [1, 2]})
    assert found == [
        RunDifference("hyperparameters.lr", "0.1", "0.2"),
        RunDifference("hyperparameters.warmup", "unset", "1, 2"),
    ]


def test_one_thing_that_differs_needs_no_caution() -> None:
    assert (
        cautions(changed(distribution={"strategy": "torch_xla", "processes_per_host": 4}), (None, None)) == []
    )


def test_a_name_or_a_limit_is_nothing_that_matters() -> None:
    (said,) = cautions(changed(name="other", limits={"max_runtime": 60}), (8, 8))
    assert said.startswith("Nothing differs that could matter")


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"hyperparameters": {"lr": 0.2, "seed": 1}, "resources": {"instance_count": 4}}, "2 things differ"),
        (
            {"hyperparameters": {"lr": 0.2, "seed": 1, "beta": 3}},
            "(hyperparameters.beta, hyperparameters.lr)",
        ),
        ({"hyperparameters": {"lr": 0.1, "seed": 2}}, "The seeds differ"),
        ({"inputs": {"train": {"s3_uri": "s3://b/other"}}}, "The data differ"),
    ],
)
def test_what_makes_a_comparison_mean_less_is_said(sections: dict[str, Any], says: str) -> None:
    assert says in " ".join(cautions(changed(**sections), (8, 8)))


def test_steps_of_different_sizes_are_said() -> None:
    (said,) = cautions(changed(resources={"instance_count": 4}), (512, 1024))
    assert "512 samples in A and 1024 in B" in said


@pytest.mark.parametrize(
    ("batch", "hyperparameters", "world_size", "samples"),
    [
        (32, {"batch_size": "7"}, 4, 128),
        (None, {"batch_size": 32}, 4, 128),
        (None, {"per_device_train_batch_size": '"8"', "gradient_accumulation_steps": "4"}, 16, 512),
        (None, {"batch_size": "auto"}, 4, None),
        (None, {}, 4, None),
        (32, {}, None, None),
    ],
)
def test_the_samples_of_a_step_are_those_of_all_processes(
    batch: int | None, hyperparameters: dict[str, Any], world_size: int | None, samples: int | None
) -> None:
    assert samples_per_step(batch, hyperparameters, world_size) == samples
