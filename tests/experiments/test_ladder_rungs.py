"""Which rungs a job has, what they change of it, and what the first that broke says of the cause."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.documents import parse_document
from launcher.experiments.ladder_rungs import (
    BEFORE_THE_SCRIPT_SECONDS,
    NAMES,
    NOTHING,
    Climbed,
    Footing,
    Result,
    Rung,
    Rungs,
    Where,
    Words,
    ladder_of,
    plain_yaml,
    settings_for,
    settings_of,
    verdict,
    why_not_here,
    words_for_few_steps,
    words_for_synthetic_data,
)
from launcher.jobs.specification import JobSpec

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

JobData = dict[str, Any]
HERE = Footing(processes_per_host=8, most_here=4)


def job_of(data: JobData, hosts: int = 4, **changes: Any) -> JobSpec:
    resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": hosts}
    return JobSpec.model_validate({**data, "resources": resources, **changes})


def names(ladder: Rungs) -> list[str]:
    return [rung.name for rung in ladder.rungs]


@pytest.mark.parametrize(
    ("hosts", "on_aws"),
    [(1, ["1-host"]), (2, ["1-host", "2-hosts"]), (16, ["1-host", "2-hosts", "all-hosts"])],
)
def test_a_ladder_ends_at_the_hosts_of_the_job(job_data: JobData, hosts: int, on_aws: list[str]) -> None:
    ladder = ladder_of(job_of(job_data, hosts), HERE)
    assert names(ladder) == ["1-here", "n-here", *on_aws]
    assert ladder.rungs[-1].hosts == hosts
    assert [rung.ranks for rung in ladder.rungs[:3]] == [1, 4, 8]


SMALL = ["1-host", "2-hosts"]
DATA = [
    # Synthetic data come first, and once where the data are here; without these, up to the first host.
    (2, Footing(8, 4, synthetic=True), ["1-here-synthetic", "1-here", "n-here", *SMALL], []),
    (2, Footing(8, 4, data_missing="no folder", synthetic=True),
     ["1-here-synthetic", "n-here-synthetic", "1-host-synthetic", *SMALL], ["1-here"]),
    # Without any data here nothing runs here.
    (1, Footing(8, 4, data_missing="no folder"), ["1-host"], ["1-here", "n-here"]),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "footing", "expected", "left_out"), DATA)
def test_the_data_that_are_here_decide_on_the_rungs(
    job_data: JobData, hosts: int, footing: Footing, expected: list[str], left_out: list[str]
) -> None:
    ladder = ladder_of(job_of(job_data, hosts), footing)
    assert names(ladder) == expected
    assert [(each.name, each.why) for each in ladder.left_out] == [(each, "no folder") for each in left_out]


def test_hosts_with_a_process_each_are_two_hosts_here(job_data: JobData) -> None:
    several = ladder_of(job_of(job_data, 8), Footing(1, 4)).rungs[1]
    assert (several.hosts, several.processes_per_host) == (2, 1)
    assert several.in_words == "2 processes here as 2 hosts"


@pytest.mark.parametrize(("footing", "why"), [(Footing(1, 4), "a single process"), (Footing(8, 1), "room")])
def test_there_may_be_no_second_process(job_data: JobData, footing: Footing, why: str) -> None:
    [missing] = ladder_of(job_of(job_data, 1), footing).left_out
    assert (missing.name, why in missing.why) == ("n-here", True)


def test_what_only_images_can_start_begins_on_aws(job_data: JobData) -> None:
    smp = job_of(job_data, distribution={"strategy": "smp"})
    smddp = job_of(job_data, distribution={"strategy": "smddp"})
    assert "only in SageMaker's images" in str(why_not_here(smp, with_boot=True))
    assert "smddp" in str(why_not_here(smddp, with_boot=False))
    assert why_not_here(job_of(job_data), with_boot=True) is None
    ladder = ladder_of(smp, Footing(8, 4, not_here="x", synthetic=True))
    assert names(ladder) == ["1-host-synthetic", "1-host", "2-hosts", "all-hosts"]


def test_the_hosts_of_a_job_for_slurm_are_its_nodes(job_data: JobData) -> None:
    job = job_of(job_data, 2, backend="slurm", slurm={"shared": "/fsx", "python": "/fsx/venv"})
    ladder = ladder_of(job, HERE)
    assert [(rung.name, rung.place) for rung in ladder.rungs[2:]] == [
        ("1-host", Where.SLURM),
        ("2-hosts", Where.SLURM),
    ]
    assert [rung.in_words for rung in ladder.rungs[2:]] == [
        "1 node of Slurm, 8 processes",
        "2 nodes of Slurm, 16 processes",
    ]


def test_the_names_stand_in_the_order_of_the_rungs(job_data: JobData) -> None:
    for footing in (HERE, Footing(8, 4, data_missing="x", synthetic=True), Footing(8, 4, synthetic=True)):
        found = names(ladder_of(job_of(job_data), footing))
        assert found == sorted(found, key=NAMES.index)


def test_a_rung_is_short_begins_anew_and_is_tried_once(job_data: JobData) -> None:
    job = job_of(
        job_data,
        resources={"instance_type": "ml.p4d.24xlarge", "instance_count": 4, "keep_alive": "30m"},
        limits={"max_runtime": "24h", "max_retries": 2},
        checkpoint={"resume_from": "digits-1"},
    )
    found = settings_of(Rung("1-host", Where.AWS, 1, 8), job, 8, Words({"max_steps": "5"}), 600, {})
    short = job_of(job_data, 1, limits={"max_runtime": "5m"})
    assert settings_of(Rung("1-host", Where.AWS, 1, 8), short, 8, NOTHING, 600, {}) == []
    assert found == [
        "resources.instance_count=1",
        f"limits.max_runtime={600 + BEFORE_THE_SCRIPT_SECONDS}",
        "limits.max_retries=0",
        "resources.keep_alive=null",
        "checkpoint.resume_from=null",
        "hyperparameters.max_steps=5",
    ]


def test_a_limit_in_seconds_stays_one(job_data: JobData) -> None:
    limits = {"max_runtime_seconds": 9000}
    job = job_of(job_data, 1, limits=limits)
    found = settings_of(Rung("1-here", Where.HERE, 1, 1), job, 8, NOTHING, 600, {"limits": limits})
    assert found == ["distribution.processes_per_host=1", "limits.max_runtime_seconds=660"]


@pytest.mark.parametrize(("offered", "told"), CASES["few steps"])
def test_the_scripts_own_limit_is_taken_steps_before_epochs(
    job_data: JobData, offered: dict[str, bool], told: dict[str, str]
) -> None:
    assert words_for_few_steps(job_of(job_data), offered, 5).hyperparameters == told


@pytest.mark.parametrize(
    ("hyperparameters", "told"),
    [({"trainer.max_steps": 1000}, {"trainer.max_steps": "5"}), ({"max_steps": 3}, {"max_steps": "3"})],
    ids=["a hyperparameter of the job needs no parser", "a job that is shorter already stays so"],
)
def test_hyperparameters_tell_of_few_steps(
    job_data: JobData, hyperparameters: dict[str, int], told: dict[str, str]
) -> None:
    job = job_of(job_data, hyperparameters=hyperparameters)
    assert words_for_few_steps(job, {}, 5) == Words(told)


def test_what_the_job_file_says_counts(job_data: JobData) -> None:
    job = job_of(job_data, ladder={"few_steps": {"stop_at": 2}, "synthetic": ["--fake"]})
    offered = {"--max_steps": True, "--synthetic": False}
    assert words_for_few_steps(job, offered, 5) == Words({"stop_at": "2"})
    assert words_for_synthetic_data(job, offered) == Words(arguments=("--fake",))


def test_a_flag_is_an_argument_and_an_option_a_hyperparameter(job_data: JobData) -> None:
    job = job_of(job_data)
    assert words_for_synthetic_data(job, {"--synthetic": False}) == Words(arguments=("--synthetic",))
    assert words_for_synthetic_data(job, {"--use-synthetic": True}) == Words({"use-synthetic": "true"})
    assert words_for_synthetic_data(job, {"--data": True}) == NOTHING
    without = job_of(job_data, code={"entry_point": "train.py", "argument_style": "none"})
    assert words_for_few_steps(without, {"--max_steps": True}, 5) == Words(arguments=("--max_steps", "5"))
    synthetic = job_of(job_data, hyperparameters={"synthetic": "True"})
    assert words_for_synthetic_data(synthetic, {}) == NOTHING


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


ONE = Rung("1-here", Where.HERE, 1, 1)
MADE_UP = Rung("1-here-synthetic", Where.HERE, 1, 1, synthetic=True)
SEVERAL = Rung("n-here", Where.HERE, 1, 2)
HOST = Rung("1-host", Where.AWS, 1, 8, instance_type="ml.p4d.24xlarge")
HOSTS = Rung("2-hosts", Where.AWS, 2, 8, instance_type="ml.p4d.24xlarge")
ALL = Rung("all-hosts", Where.AWS, 16, 8, instance_type="ml.p4d.24xlarge")


NODE, NODES, ALL_NODES = (replace(each, place=Where.SLURM) for each in (HOST, HOSTS, ALL))


def broke(*held: Rung, at: Rung, result: Result = Result.BROKE) -> str:
    return verdict([*(Climbed(rung, Result.HELD, "") for rung in held), Climbed(at, result, "")])


@pytest.mark.parametrize(
    ("held", "at", "said", "ruled_out"),
    [
        ((), ONE, "the script, its packages", "not the network between hosts, not anything between ranks"),
        ((), MADE_UP, "the script, its packages", "not the data"),
        ((MADE_UP,), ONE, "the data, or the code that reads them", "not the script by itself"),
        ((ONE,), SEVERAL, "something between ranks", "not the network between hosts, not the data"),
        (
            (ONE, SEVERAL),
            HOST,
            "what ml.p4d.24xlarge has and this machine has not",
            "not the network between",
        ),
        ((SEVERAL, HOST), HOSTS, "the network between hosts (security group", "not the data"),
        ((HOST, HOSTS), ALL, "what grows from 2 to 16 hosts", "not the data"),
        ((ONE, SEVERAL), NODE, "what the nodes have and this machine has not", "not the network between"),
        ((SEVERAL, NODE), NODES, "the network between hosts (security group", "not the data"),
        ((NODE, NODES), ALL_NODES, "what grows from 2 to 16 hosts", "not the data"),
    ],
)
def test_what_a_rung_adds_is_where_the_fault_is(
    held: tuple[Rung, ...], at: Rung, said: str, ruled_out: str
) -> None:
    text = broke(*held, at=at)
    suspected = text.partition("but ")[2]
    assert suspected.startswith(said)
    assert ruled_out in text.partition("but ")[0]


def test_every_step_up_has_a_suspect_of_its_own() -> None:
    rungs = [MADE_UP, ONE, SEVERAL, HOST, HOSTS, ALL]
    suspects = {broke(below, at=above).partition("but ")[2] for below, above in pairwise(rungs)}
    assert len(suspects) == len(rungs) - 1


def test_what_was_not_tried_is_neither_ruled_out_nor_left_unsuspected() -> None:
    text = broke(at=HOSTS)
    assert "not " not in text.replace("this machine has not", "").replace("not all of them", "")
    assert "the network between hosts" in text
    assert "something between ranks" in text
    skipped = broke(ONE, at=HOSTS)
    assert "the image" in skipped
    assert "the network between hosts (" in skipped
    assert "showed no progress with 2 processes here" in broke(ONE, at=SEVERAL, result=Result.UNDECIDED)


def test_it_holds_as_far_as_it_was_tried() -> None:
    held = [Climbed(ONE, Result.HELD, ""), Climbed(SEVERAL, Result.HELD, "")]
    assert verdict(held) == "It holds up to n-here: 2 processes here."
    assert verdict([*held, Climbed(HOST, Result.DECLINED, "")]) == verdict(held)
    assert verdict([Climbed(HOST, Result.DECLINED, "")]) == "No rung was tried."
    refused = Climbed(HOST, Result.REFUSED, "QUOTA001 too few")
    assert verdict([refused]).endswith("would break 1-host: QUOTA001 too few.")
