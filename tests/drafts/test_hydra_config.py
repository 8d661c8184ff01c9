"""Which values a configuration of Hydra has, of what files."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.drafts.hydra_config import HydraConfig, compose_config


def composed(**files: str) -> HydraConfig | None:
    """The configuration `config`, of files by their names with `__` for `/`."""
    return compose_config("config", {name.replace("__", "/"): text for name, text in files.items()}.get)


def values(**files: str) -> dict[str, Any]:
    """Its values."""
    made = composed(**files)
    assert made is not None
    return dict(made.values)


def test_values_are_named_by_their_place_and_stay_as_they_are_written() -> None:
    made = values(config="optim:\n  lr: 1e-3\n  betas: [0.9, 0.99]\nresume: null\nrun: ${optim.lr}\n")
    assert made == {"optim.lr": "1e-3", "optim.betas": ["0.9", "0.99"], "resume": None, "run": "${optim.lr}"}


def test_numbers_may_have_underscores() -> None:
    assert values(config="sizes: [55_000, 5_000]\nname: run_1\n") == {
        "sizes": ["55000", "5000"],
        "name": "run_1",
    }


def test_files_of_the_list_of_defaults_stand_below_their_groups() -> None:
    made = composed(
        config="defaults: [model: small, optional data: null, override hydra/run: basic, _self_]\nseed: 1\n",
        model__small="defaults: [act, _self_]\nwidth: 64\n",
        model__act="act: relu\n",
    )
    assert made is not None
    assert made.values == {"model.act": "relu", "model.width": "64", "seed": "1"}
    assert made.choices == {"model": "small", "data": None}


def test_what_comes_later_in_the_list_of_defaults_holds() -> None:
    last = {"model__a": "width: 1\n"}
    assert values(config="defaults: [model: a, _self_]\nmodel: {width: 2}\n", **last) == {"model.width": "2"}
    assert values(config="defaults: [_self_, model: a]\nmodel: {width: 2}\n", **last) == {"model.width": "1"}


def test_a_file_may_say_its_package_and_a_list_another_one() -> None:
    assert values(config="defaults: [run: a]\n", run__a="# @package _global_\nseed: 1\n") == {"seed": "1"}
    assert values(config="defaults: [run@first.part: a]\n", run__a="seed: 1\n") == {"first.part.seed": "1"}


def test_hydras_words_for_the_place_of_a_file_are_its_package() -> None:
    assert values(config="defaults: [model: a]\n", model__a="# @package _group_\nwidth: 1\n") == {
        "model.width": "1"
    }
    assert values(
        config="defaults: [data/train: a]\n", data__train__a="# @package _group_._name_\nx: 1\n"
    ) == {"data.train.a.x": "1"}


def test_a_package_of_the_list_holds_before_that_of_the_file() -> None:
    assert values(config="defaults: [data@train: a]\n", data__a="# @package _group_\nx: 1\n") == {
        "train.x": "1"
    }


def test_a_configuration_says_whether_it_is_whole() -> None:
    whole = composed(config="defaults: [model: a]\n", model__a="width: 1\n")
    partial = composed(config="defaults: [model: a, data: '${kind}']\n", model__a="width: 1\n")
    missing = composed(config="defaults: [model: b]\nseed: 1\n")
    assert [made and made.is_whole for made in (whole, partial, missing)] == [True, False, False]


def test_a_package_may_be_that_of_the_list_in_which_it_stands() -> None:
    inner = {"model__a": "defaults: [base@_here_, act@act: b]\n", "model__base": "width: 1\n"}
    found = values(config="defaults: [model: a]\n", **inner, model__act__b="name: relu\n")
    assert found == {"model.width": "1", "model.act.name": "relu"}


@pytest.mark.parametrize(
    "files",
    [
        {"config": "defaults: [model: a]\nmodel: {width: 2}\n", "model__a": "width: 1\n"},
        {
            "config": "defaults: [model: a, run: x]\n",
            "model__a": "width: 1\n",
            "run__x": "# @package _global_\ndefaults: [override /model: b]\n",
        },
        {"config": "defaults: [model: '${kind}']\n", "model__a": "width: 1\n"},
    ],
    ids=["no order is said", "another file changes the choice", "a choice by a value"],
)
def test_what_is_not_there_or_differs_between_versions_is_left_out(files: dict[str, str]) -> None:
    assert values(**files) == {}


def test_choices_of_other_files_and_groups_from_the_top_are_followed() -> None:
    files = {
        "config": "defaults: [model: a, run: x]\n",
        "model__a": "width: 1\n",
        "model__b": "defaults: [/act/c, _self_]\nwidth: 2\n",
        "act__c": "slope: 3\n",
        "run__x": "# @package _global_\ndefaults: [override /model: b]\n",
    }
    made = composed(**files)
    assert made is not None
    assert made.values == {"model.act.slope": "3", "model.width": "2"}
    assert made.choices == {"model": "b", "run": "x"}


def test_what_has_no_value_is_required() -> None:
    made = composed(config="defaults:\n  - model: ???\nname: ???\n")
    assert made is not None
    assert (made.required, dict(made.values), dict(made.choices)) == (("model", "name"), {}, {})


def test_a_file_that_is_not_there_or_no_yaml_has_no_values() -> None:
    assert composed() is None
    assert composed(config="a: [\n") is None
    assert values(config="defaults: [model: a, _self_]\nseed: 1\n", model__a="a: [\n") == {"seed": "1"}


def test_files_that_name_each_other_have_an_end() -> None:
    assert values(config="defaults: [config, _self_]\nseed: 1\n") == {"seed": "1"}
