"""`tuning` and `metrics`: what they take, and where an error is placed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from launcher.jobs.load_job import LoadedJob, load_job
from launcher.jobs.specification import job_schema

JOB = """\
name: digits
code: {source_dir: src, entry_point: train.py}
framework: {version: "2.8.0"}
hyperparameters:
  seed: 1
resources: {instance_type: ml.g5.12xlarge}
metrics:
  loss: "loss=([0-9.]+)"
tuning:
  objective:
    metric: eval_loss
    goal: minimize
    regex: "eval_loss=([0-9.]+)"
  ranges:
    lr:
      min: 1e-5
      max: 1e-2
      scaling: logarithmic
    batch_size: {min: 8, max: 64, type: integer}
    optimizer: [adamw, lion, 16, "16"]
  max_jobs: 20
  parallel: 4
"""
OBJECTIVE = {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"}


@pytest.fixture
def load(write_job: Callable[..., Path]) -> Callable[..., LoadedJob]:
    def loaded(text: str) -> LoadedJob:
        return load_job(write_job(text=text))

    return loaded


def test_what_people_write_is_read(load: Callable[..., LoadedJob]) -> None:
    spec = load(JOB).spec
    assert spec is not None
    tuning = spec.tuning
    assert [(name, varied.kind) for name, varied in tuning.ranges.items()] == [
        ("lr", "continuous"),
        ("batch_size", "integer"),
        ("optimizer", "categorical"),
    ]
    assert (tuning.ranges["lr"].min, tuning.ranges["batch_size"].max) == (1e-5, 64)
    assert (tuning.strategy, tuning.jobs, tuning.early_stopping) == ("Bayesian", 20, False)


def test_the_schema_takes_it_too(job_data: dict[str, Any]) -> None:
    ranges = {"lr": {"min": 1e-5, "max": 0.1}, "n": {"min": 1, "max": 9, "type": "integer"}, "o": ["a", 1]}
    validator = jsonschema.Draft202012Validator(job_schema())
    tuning = {"objective": OBJECTIVE, "ranges": ranges, "max_jobs": 4}
    assert list(validator.iter_errors({**job_data, "tuning": tuning})) == []
    assert list(validator.iter_errors({**job_data, "tuning": {**tuning, "ranges": {"o": [["a"]]}}}))


def test_the_objective_is_among_the_metrics(load: Callable[..., LoadedJob]) -> None:
    assert list(load(JOB).spec.all_metrics) == ["loss", "eval_loss"]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("scaling: logarithmic", "scaling: steep", 18, "is not one of"),
        ("min: 1e-5", "min: 0.0", 18, "above 0 only, and min is 0.0"),
        ("min: 1e-5", "min: low", 16, "'low' is not a finite number"),
        ("min: 1e-5", "min: .inf", 16, "not a finite number"),
        ("type: integer", "tpye: integer", 19, "unknown field"),
        (", type: integer", "", 19, "may mean whole numbers"),
        ("max: 64", "max: 4", 19, "no number between them"),
        ("max: 64", "max: 64.5", 19, "an integer range cannot go"),
        ("[adamw, lion, 16", "[adamw, [lion], 16", 20, "must be a single value"),
        ("parallel: 4", "parallel: 40", 22, "more than the 20"),
        ("goal: minimize", "goal: smaller", 12, "is not one of"),
        ('regex: "eval_loss=([0-9.]+)"', 'regex: "eval_loss=[0-9.]+"', 13, "has no groups"),
        ("    regex: ", "    # ", 11, "nothing says how eval_loss stands in the log"),
        ("metric: eval_loss", "metric: loss", 13, "has another regular expression"),
        ("  seed: 1", "  lr: 0.1", 15, "has a fixed value in `hyperparameters` too"),
        ("  max_jobs: 20\n", "", 9, "needs `max_jobs`"),
        ('loss: "loss=([0-9.]+)"', 'loss: "loss=([0-9.]+"', 8, "is not a regular expression"),
        ('loss: "loss=([0-9.]+)"', 'loss: "(a)(b)"', 8, "has 2 groups"),
    ],
)
def test_an_error_stands_at_its_line(
    load: Callable[..., LoadedJob], old: str, new: str, line: int, said: str
) -> None:
    assert old in JOB
    loaded = load(JOB.replace(old, new, 1))
    assert loaded.spec is None
    (found,) = loaded.findings
    assert found.code in ("SPEC002", "SPEC003")
    assert said in found.message
    assert found.location.line == line


def test_errors_of_several_parts_are_told_together(load: Callable[..., LoadedJob]) -> None:
    text = JOB.replace("goal: minimize", "goal: x").replace('"loss=([0-9.]+)"', '"("', 1)
    assert [finding.location.line for finding in load(text).findings] == [8, 12]


def test_a_grid_knows_its_number_of_jobs(write_job: Callable[..., Path]) -> None:
    ranges = {"a": [1, 2, 3], "b": ["x", "y"]}
    tuning = {"objective": OBJECTIVE, "ranges": ranges, "strategy": "Grid", "parallel": 6}
    assert load_job(write_job(tuning=tuning)).spec.tuning.jobs == 6


def test_a_regular_expression_keeps_its_blanks(write_job: Callable[..., Path]) -> None:
    spec = load_job(write_job(metrics={"loss": " loss ([0-9.]+) "})).spec
    assert spec.metrics == {"loss": " loss ([0-9.]+) "}
