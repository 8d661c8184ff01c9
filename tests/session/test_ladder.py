"""The ladder of a job, made ready: which rungs, and with which plans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.local.interpreter import Interpreter
from launcher.backends.local.machine import Machine
from launcher.failure_modes.refusal import Refusal
from launcher.session.ladder import Climb, ReadyLadder, ready_ladder
from launcher.session.preparation import JobSource, code_of, read_job

MACHINE = Machine(Interpreter(Path("/venv/bin/python"), (3, 12, 1), "2.8.0", None), gpus=(), cores=4)
SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--max_steps", type=int)
parser.add_argument("--synthetic", action="store_true")
parser.parse_args()
"""

Made = Callable[..., ReadyLadder]


@pytest.fixture
def made(write_job: Callable[..., Path], tmp_path: Path) -> Made:
    """The ladder of a job with these fields, and `asked` of it."""

    def make(script: str = SCRIPT, asked: dict[str, Any] | None = None, **changes: Any) -> ReadyLadder:
        file = write_job(**{"cluster": "dev", **changes})
        (tmp_path / "src" / "train.py").write_text(script)
        climb = Climb(JobSource(file), **(asked or {}))
        loaded = read_job(climb.job)
        return ready_ladder(climb, loaded, code_of(loaded), MACHINE, "us-west-2")

    return make


def rung(ladder: ReadyLadder, name: str) -> Any:
    return next(each for each in ladder.rungs if each.rung.name == name)


def test_each_rung_has_the_plan_of_its_own_size(made: Made) -> None:
    ladder = made()
    sizes = {each.rung.name: (each.plan.view.hosts, each.plan.processes_per_host) for each in ladder.rungs}
    assert sizes == {
        "1-here-synthetic": (1, 1),
        "1-here": (1, 1),
        "n-here": (1, 4),
        "1-host": (1, 8),
        "2-hosts": (2, 8),
    }
    assert all(each.refusal is None for each in ladder.rungs)


def test_the_script_is_told_to_make_few_steps_with_data_of_its_own(made: Made) -> None:
    ladder = made()
    entry = rung(ladder, "1-here-synthetic").plan.request["AlgorithmSpecification"]
    assert entry["ContainerArguments"][-2:] == ["--", "--synthetic"]
    assert {each.plan.request["HyperParameters"]["max_steps"] for each in ladder.rungs} == {"5"}
    assert (
        "--synthetic"
        not in rung(ladder, "1-here").plan.request["AlgorithmSpecification"]["ContainerArguments"]
    )


def test_only_hosts_cost_and_their_limit_is_the_rungs(made: Made) -> None:
    ladder = made()
    one, two = rung(ladder, "1-host"), rung(ladder, "2-hosts")
    assert rung(ladder, "n-here").cost is None
    assert two.cost.at_limit == pytest.approx(2 * one.cost.at_limit)
    assert one.cost.at_limit == pytest.approx(one.cost.per_hour * 1500 / 3600)


def test_degrees_that_do_not_divide_a_rung_skip_it(made: Made) -> None:
    options = {"version": 2, "parameters": {"hybrid_shard_degree": 16}}
    ladder = made(
        framework={"name": "pytorch", "version": "2.4.1", "python": "py311"},
        distribution={"strategy": "smp", "options": options},
    )
    assert not ladder.plan.refused
    assert "does not divide the world size 8" in rung(ladder, "1-host").refusal
    assert rung(ladder, "2-hosts").refusal is None


def test_a_channel_without_a_folder_is_an_empty_one_for_made_up_data(made: Made) -> None:
    ladder = made(inputs={"train": "s3://data/train"})
    names = [each.rung.name for each in ladder.rungs]
    assert names == ["1-here-synthetic", "n-here-synthetic", "1-host-synthetic", "1-host", "2-hosts"]
    assert ladder.stand_ins == ("train",)
    assert "--input train=DIR" in ladder.left_out[0].why


def test_a_channel_with_a_folder_is_the_jobs_own_data(made: Made, tmp_path: Path) -> None:
    ladder = made(inputs={"train": "s3://data/train"}, asked={"inputs": {"train": tmp_path}})
    assert [each.rung.name for each in ladder.rungs][:3] == ["1-here-synthetic", "1-here", "n-here"]
    assert ladder.stand_ins == ()


def test_values_from_variables_are_not_repeated_in_settings(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS", "private-corpus")
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": ["--corpus", "${CORPUS}"]}
    settings = rung(made(code=code), "1-here-synthetic").settings
    assert 'code.arguments=["--corpus", "${CORPUS}", "--synthetic"]' in settings
    sent = rung(made(code=code), "1-here-synthetic").plan.request["AlgorithmSpecification"]
    assert "private-corpus" in sent["ContainerArguments"]


def test_what_the_job_file_tells_the_script_keeps_its_references(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS", "private-corpus")
    one = rung(made(ladder={"few_steps": {"max_steps": 3, "corpus": "${CORPUS}"}}), "1-here")
    assert 'hyperparameters.corpus="${CORPUS}"' in one.settings
    assert one.plan.request["HyperParameters"]["corpus"] == "private-corpus"


def test_only_the_rungs_asked_for_are_there_and_what_comes_after_is_known(made: Made) -> None:
    ladder = made(asked={"first": "1-here", "last": "n-here"})
    assert [each.rung.name for each in ladder.rungs] == ["1-here", "n-here"]
    assert ladder.beyond == "1-host"
    assert made().beyond is None


def test_processes_here_are_as_many_as_asked_for(made: Made) -> None:
    assert rung(made(asked={"processes": 2}), "n-here").plan.processes_per_host == 2


def test_a_job_with_errors_has_no_rungs(made: Made) -> None:
    ladder = made(resources={"instance_type": "ml.none.large"})
    assert ladder.plan.refused
    assert ladder.rungs == ()


def test_code_on_s3_begins_on_aws(made: Made) -> None:
    ladder = made(code={"source_dir": "s3://bucket/source.tar.gz", "entry_point": "train.py"})
    assert [each.rung.name for each in ladder.rungs] == ["1-host", "2-hosts"]
    assert "the code lies on S3" in ladder.left_out[0].why


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"first": "3-hosts"}, "--from 3-hosts is no rung"),
        ({"last": "here"}, "--up-to here is no rung"),
        ({"steps": 0}, "--steps 0"),
        ({"inputs": {"tran": Path()}}, "no channel 'tran'; it has none"),
        ({"first": "all-hosts"}, "no rung is left from all-hosts."),
    ],
)
def test_what_makes_no_ladder_is_refused(made: Made, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        made(asked=asked)


def test_a_search_has_no_ladder(made: Made) -> None:
    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": {"min": 0.1, "max": 1.0}},
        "max_jobs": 4,
    }
    with pytest.raises(Refusal, match="a search over hyperparameters"):
        made(tuning=tuning, asked={"last": "all-hosts"})


def test_a_ladder_without_data_here_says_how_to_give_it_some(made: Made) -> None:
    with pytest.raises(Refusal) as refused:
        made(script="print(1)", asked={"last": "n-here"}, inputs={"train": "s3://bucket/train"})
    assert "no rung is left up to n-here (1-here, n-here: no folder" in refused.value.message
    assert "`--input train=DIR`" in refused.value.remedy
    assert "`--from 1-host`" in refused.value.remedy


def test_the_command_that_goes_on_has_what_the_climb_was_given() -> None:
    usual = Climb(JobSource(Path("job.yaml")))
    assert usual.as_options(again=True) == []
    given = Climb(usual.job, last="n-here", seconds=90, processes=2, inputs={"train": Path("data")})
    going_on = ["--seconds", "90", "--processes", "2", "--input", "train=data"]
    assert given.as_options(again=False) == going_on
    assert given.as_options(again=True) == ["--up-to", "n-here", *going_on]
