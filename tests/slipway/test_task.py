"""The container arguments, and how hyperparameters become words."""

from __future__ import annotations

import argparse

import pytest

from slipway.task import Task, hyperparameter_arguments, parse_task, script_words
from slipway.watchdog.beats import StallLimits

STRATEGY = ["--strategy", "torchrun"]


def test_what_follows_two_dashes_belongs_to_the_script() -> None:
    own = [*STRATEGY, "--processes-per-host", "8", "--entry-point", "a.py"]
    task = parse_task([*own, "--", "--strategy", "x", "--", "-y"])
    assert (task.strategy, task.processes_per_host, task.entry_point) == ("torchrun", 8, "a.py")
    assert task.arguments == ("--strategy", "x", "--", "-y")


def test_a_module_is_started_instead_of_a_script() -> None:
    task = parse_task([*STRATEGY, "--module", "pkg.train", "--argument-style", "hydra"])
    assert task == Task("torchrun", 1, module="pkg.train", argument_style="hydra")
    assert task.name == "-m pkg.train"


@pytest.mark.parametrize(
    ("words", "watchdog"),
    [
        ([], None),
        (["--watchdog-stall", "off"], None),
        (["--watchdog-stall", "auto"], StallLimits(None, 1800)),
        (["--watchdog-stall", "600", "--watchdog-first-step", "60"], StallLimits(600, 60)),
    ],
)
def test_nobody_watches_unless_it_is_told_to(words: list[str], watchdog: StallLimits | None) -> None:
    assert parse_task([*STRATEGY, "--entry-point", "a.py", *words]).watchdog == watchdog


@pytest.mark.parametrize("program", [[], ["--module", "a", "--entry-point", "a.py"]])
def test_exactly_one_program_is_started(program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_task([*STRATEGY, *program])
    assert "--entry-point" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("spaced", ["--lr", "0.10", "-e", "5", "--name", "a b"]),
        ("equals", ["--lr=0.10", "--e=5", "--name=a b"]),
        ("hydra", ["lr=0.10", "e=5", "name=a b"]),
        ("none", []),
    ],
)
def test_hyperparameters_become_words_in_the_style_of_the_script(style: str, expected: list[str]) -> None:
    assert hyperparameter_arguments({"lr": "0.10", "e": "5", "name": "a b"}, style) == expected


@pytest.mark.parametrize(
    ("style", "expected"),
    [("equals", ["--compile=False", "--wandb=True"]), ("hydra", ["compile=false", "wandb=true"])],
)
def test_scripts_that_evaluate_their_words_find_the_truth_as_python_writes_it(
    style: str, expected: list[str]
) -> None:
    assert hyperparameter_arguments({"compile": "false", "wandb": "true"}, style) == expected


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("spaced", ["--lr", "1", "fit", "--seed=2"]),
        ("equals", ["fit", "--seed=2", "--lr=1"]),
        ("hydra", ["fit", "--seed=2", "lr=1"]),
        ("none", ["fit", "--seed=2"]),
    ],
)
def test_hyperparameters_follow_the_subcommand_whose_options_they_are(
    style: str, expected: list[str]
) -> None:
    task = Task("none", 1, ("fit", "--seed=2"), entry_point="train.py", argument_style=style)
    assert script_words(task, {"lr": "1"}) == expected


def test_a_shell_script_finds_its_own_arguments_where_it_counts_them() -> None:
    task = Task("none", 1, ("8",), entry_point="distributed_train.sh")
    assert script_words(task, {"lr": "1"}) == ["8", "--lr", "1"]


def test_the_words_of_one_letter_are_what_argparse_declares() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-e", type=int)
    assert parser.parse_args(hyperparameter_arguments({"e": "5"})).e == 5


def test_the_model_parallel_librarys_parameters_are_words_only_for_scripts_of_the_toolkits_style() -> None:
    parameters = {"mp_parameters": '{"a": 1}'}
    assert hyperparameter_arguments(parameters) == ["--mp_parameters", '{"a": 1}']
    assert hyperparameter_arguments(parameters, "hydra") == []
