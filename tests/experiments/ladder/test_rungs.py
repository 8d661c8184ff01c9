"""Which rungs a job has, and what they change of it."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.experiments.ladder.rung_settings import BEFORE_THE_SCRIPT_SECONDS, settings_of
from launcher.experiments.ladder.rungs import NAMES, Footing, Rung, Rungs, Where, ladder_of, why_not_here
from launcher.experiments.ladder.script_words import NOTHING, Words
from launcher.jobs.specification import JobSpec

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


def test_synthetic_data_come_first_and_once_where_the_data_are_here(job_data: JobData) -> None:
    ladder = ladder_of(job_of(job_data, 2), Footing(8, 4, synthetic=True))
    assert names(ladder) == ["1-here-synthetic", "1-here", "n-here", "1-host", "2-hosts"]


def test_without_the_data_here_synthetic_data_go_up_to_the_first_host(job_data: JobData) -> None:
    ladder = ladder_of(job_of(job_data, 2), Footing(8, 4, data_missing="no folder", synthetic=True))
    assert names(ladder) == ["1-here-synthetic", "n-here-synthetic", "1-host-synthetic", "1-host", "2-hosts"]
    assert [(each.name, each.why) for each in ladder.left_out] == [("1-here", "no folder")]


def test_without_any_data_here_nothing_runs_here(job_data: JobData) -> None:
    ladder = ladder_of(job_of(job_data, 1), Footing(8, 4, data_missing="no folder"))
    assert names(ladder) == ["1-host"]
    assert [each.name for each in ladder.left_out] == ["1-here", "n-here"]


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
    assert found == [
        "resources.instance_count=1",
        f"limits.max_runtime={600 + BEFORE_THE_SCRIPT_SECONDS}",
        "limits.max_retries=0",
        "resources.keep_alive=null",
        "checkpoint.resume_from=null",
        "hyperparameters.max_steps=5",
    ]


def test_what_is_as_it_should_be_is_not_changed(job_data: JobData) -> None:
    job = job_of(job_data, 1, limits={"max_runtime": "5m"})
    assert settings_of(Rung("1-host", Where.AWS, 1, 8), job, 8, NOTHING, 600, {}) == []


def test_a_limit_in_seconds_stays_one(job_data: JobData) -> None:
    limits = {"max_runtime_seconds": 9000}
    job = job_of(job_data, 1, limits=limits)
    found = settings_of(Rung("1-here", Where.HERE, 1, 1), job, 8, NOTHING, 600, {"limits": limits})
    assert found == ["distribution.processes_per_host=1", "limits.max_runtime_seconds=660"]
