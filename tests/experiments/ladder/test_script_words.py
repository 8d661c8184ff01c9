"""What a script is told so that a run is short, and so that it makes up its data."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.documents.document import parse_document
from launcher.experiments.ladder.script_words import (
    NOTHING,
    Words,
    few_steps,
    plain_yaml,
    settings_for,
    synthetic_data,
)
from launcher.jobs.specification import JobSpec

JobData = dict[str, Any]


def job_of(data: JobData, **changes: Any) -> JobSpec:
    return JobSpec.model_validate({**data, **changes})


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        ({"--max_steps": True, "--epochs": True}, {"max_steps": "5"}),
        ({"--max-steps": True}, {"max-steps": "5"}),
        ({"--train-iters": True}, {"train-iters": "5"}),
        ({"--limit_train_batches": True, "--epochs": True}, {"limit_train_batches": "5", "epochs": "1"}),
        ({"--epochs": True}, {"epochs": "1"}),
        ({"--warmup_steps": True}, {}),
    ],
)
def test_the_scripts_own_limit_is_taken_steps_before_epochs(
    job_data: JobData, offered: dict[str, bool], told: dict[str, str]
) -> None:
    assert few_steps(job_of(job_data), offered, 5).hyperparameters == told


def test_a_hyperparameter_of_the_job_needs_no_parser(job_data: JobData) -> None:
    job = job_of(job_data, hyperparameters={"trainer.max_steps": 1000})
    assert few_steps(job, {}, 5) == Words({"trainer.max_steps": "5"})


def test_a_job_that_is_shorter_already_stays_so(job_data: JobData) -> None:
    job = job_of(job_data, hyperparameters={"max_steps": 3})
    assert few_steps(job, {}, 5) == Words({"max_steps": "3"})


def test_what_the_job_file_says_counts(job_data: JobData) -> None:
    job = job_of(job_data, ladder={"few_steps": {"stop_at": 2}, "synthetic": ["--fake"]})
    offered = {"--max_steps": True, "--synthetic": False}
    assert few_steps(job, offered, 5) == Words({"stop_at": "2"})
    assert synthetic_data(job, offered) == Words(arguments=("--fake",))


def test_a_flag_is_an_argument_and_an_option_a_hyperparameter(job_data: JobData) -> None:
    job = job_of(job_data)
    assert synthetic_data(job, {"--synthetic": False}) == Words(arguments=("--synthetic",))
    assert synthetic_data(job, {"--use-synthetic": True}) == Words({"use-synthetic": "true"})
    assert synthetic_data(job, {"--data": True}) == NOTHING


def test_where_hyperparameters_are_not_passed_on_an_option_is_an_argument(job_data: JobData) -> None:
    job = job_of(job_data, code={"entry_point": "train.py", "argument_style": "none"})
    assert few_steps(job, {"--max_steps": True}, 5) == Words(arguments=("--max_steps", "5"))


def test_a_job_on_synthetic_data_has_no_other(job_data: JobData) -> None:
    job = job_of(job_data, hyperparameters={"synthetic": "True"})
    assert synthetic_data(job, {}) == NOTHING


@pytest.mark.parametrize(
    ("arguments", "told", "settings"),
    [
        ([], Words({"max_steps": "5"}), ["hyperparameters.max_steps=5"]),
        ([], Words({"trainer.max_steps": "5"}), ['hyperparameters."trainer.max_steps"=5']),
        (["fit"], Words(arguments=("--fake",)), ['code.arguments=["fit", "--fake"]']),
        (["--fake"], Words(arguments=("--fake",)), []),
        (["--max-steps", "900"], Words({"max_steps": "5"}), ['code.arguments=["--max-steps", "5"]']),
        (["--max-steps=900"], Words({"max_steps": "5"}), ['code.arguments=["--max-steps=5"]']),
        (["x.max_steps=9"], Words({"x.max_steps": "5"}), ['code.arguments=["x.max_steps=5"]']),
        (['a"b\\'], Words(arguments=("--fake",)), ['code.arguments=["a\\"b\\\\", "--fake"]']),
    ],
)
def test_settings_change_an_option_where_it_stands(
    arguments: list[str], told: Words, settings: list[str]
) -> None:
    assert settings_for(told, arguments) == settings


@pytest.mark.parametrize(
    "text",
    ["5", "-1", "1e-3", "true", "a b", "", "- x", "a: b", "#", "[x]", '"', "null", "-", "${X}", "s3://b/c"],
)
def test_a_value_means_itself_again(text: str) -> None:
    document = parse_document("x: {}", "job.yaml", ())
    document.override("x.y", plain_yaml(text), (("x", "y"),))
    assert document.data["x"]["y"] == text
