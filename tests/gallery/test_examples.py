"""What each example promises, seen by running it on this machine.

Those that install packages from an index, and the longest, run with `make gallery` alone.
"""

from __future__ import annotations

import re

import pytest

from tests.gallery.conftest import RunExample

in_the_gallery = pytest.mark.gallery
"""Needs packages that the tests' own environment lacks, or most of a minute."""


def measured(log: str, name: str) -> float:
    """The last value that a log has for a name."""
    found = re.findall(rf"\b{re.escape(name)}=([0-9.]+)", log)
    assert found, log
    return float(found[-1])


@in_the_gallery
def test_ddp_learns_the_digits(run_example: RunExample) -> None:
    run = run_example("ddp")
    assert (run.exit_code, run.result["state"]) == (0, "Completed"), run.log
    assert measured(run.log, "accuracy") > 0.95
    assert (run.model / "model.pt").is_file()


@in_the_gallery
def test_fsdp_goes_on_from_its_shards_as_if_it_had_never_stopped(run_example: RunExample) -> None:
    stopped = run_example("fsdp", **{"hyperparameters.steps": 20})
    resumed = run_example("fsdp", **{"hyperparameters.steps": 40, "checkpoint.resume_from": stopped.name})
    assert (stopped.exit_code, resumed.exit_code) == (0, 0), stopped.log + resumed.log
    assert "resumed after step 20" in resumed.log
    assert "step=20" not in resumed.log
    # Uninterrupted, this seed gives about 2.4; from the start, step 20 gave about 2.6.
    assert measured(resumed.log, "loss") < measured(stopped.log, "loss")
    shards = sorted(file.name for file in resumed.checkpoints.glob("step-000000000040-*/shards/*.distcp"))
    assert len(shards) == 4
    assert (resumed.model / "model.pt").is_file()


@pytest.mark.exhaustive
def test_a_shell_script_prepares_and_trains(run_example: RunExample) -> None:
    run = run_example("shell")
    assert (run.exit_code, run.result["state"]) == (0, "Completed"), run.log
    assert "prepared 1797 images" in run.log
    assert measured(run.log, "accuracy") > 0.9
    assert (run.model / "model.pt").is_file()


@in_the_gallery
def test_accelerate_makes_one_training_of_all_ranks_and_resumes(run_example: RunExample) -> None:
    first = run_example("accelerate", **{"hyperparameters.epochs": 2})
    resumed = run_example("accelerate", **{"checkpoint.resume_from": first.name})
    assert (first.exit_code, resumed.exit_code) == (0, 0), first.log + resumed.log
    assert measured(first.log, "world_size") == 4
    assert "resumed from epoch-00002" in resumed.log
    assert "epoch=1 " not in resumed.log
    assert measured(resumed.log, "accuracy") > 0.9
    assert (resumed.model / "model.safetensors").is_file()


@in_the_gallery
def test_lightning_makes_one_training_of_all_ranks_and_resumes(run_example: RunExample) -> None:
    first = run_example("lightning", **{"hyperparameters.epochs": 2})
    resumed = run_example("lightning", **{"checkpoint.resume_from": first.name})
    assert (first.exit_code, resumed.exit_code) == (0, 0), first.log + resumed.log
    assert measured(first.log, "world_size") == 4
    assert "DIST008" not in first.log
    assert measured(resumed.log, "accuracy") > measured(first.log, "accuracy")
    assert (resumed.checkpoints / "last.ckpt").is_file()


@in_the_gallery
def test_transformers_trains_once_and_keeps_two_checkpoints(run_example: RunExample) -> None:
    run = run_example("transformers")
    assert (run.exit_code, run.result["state"]) == (0, "Completed"), run.log
    assert measured(run.log, "world_size") == 4
    # One training reports its end once on each host; four of them would do so four times.
    assert len(re.findall(r"'train_loss'", run.log)) == 2
    kept = sorted(folder.name for folder in run.checkpoints.glob("checkpoint-*"))
    assert kept == ["checkpoint-20", "checkpoint-30"]
    assert (run.model / "model.safetensors").is_file()


@in_the_gallery
def test_a_module_gets_hydras_overrides_and_keeps_what_hydra_writes(run_example: RunExample) -> None:
    run = run_example("hydra", **{"hyperparameters.epochs": 2})
    assert (run.exit_code, run.result["state"]) == (0, "Completed"), run.log
    assert measured(run.log, "lr") == 0.003
    assert measured(run.log, "epoch") == 1
    kept = run.model.parent / "output" / "data" / "hydra"
    assert (kept / "train.log").is_file()


@in_the_gallery
@pytest.mark.timeout(1800)  # What transformers requires is gigabytes.
@pytest.mark.parametrize("example", ["accelerate", "lightning", "transformers", "hydra"])
def test_what_an_example_requires_is_installed_once(run_example: RunExample, example: str) -> None:
    short = {"hyperparameters.epochs": 1} if example != "transformers" else {"hyperparameters.max_steps": 10}
    first, again = run_example(example, **short), run_example(example, **short)
    assert "of requirements.txt" in first.log, first.log
    assert "of requirements.txt" not in again.log, again.log
