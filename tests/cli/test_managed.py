"""`launch --managed`, and what the other commands say of a managed run."""

from __future__ import annotations

import json

import pytest

from launcher.planning.next_attempt import TryAgain, name_attempt
from launcher.session.managed.records import AttemptRecord, Records, StartClaim
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount, provision
from tests.emulator.sagemaker import TrainingScript

FUNCTION = "arn:aws:lambda:us-west-2:123456789012:function:slipway-dev-controller"


@pytest.fixture
def managed(cloud: EmulatedAccount, account: TrainingScript) -> TrainingScript:
    provision(cloud, controller_arn=FUNCTION)
    return account


def handed_over(run_launch: RunLaunch, write_job: WriteJob) -> str:
    code, out, err = run_launch(write_job(cluster="dev"), "--managed", "--yes", "--output", "json")
    assert code == 0, err
    return str(json.loads(out)["name"])


def ended(cloud: EmulatedAccount, first: str) -> None:
    """The first attempt has failed of its hardware, and the second has been started."""
    records = Records(cloud.client("s3"), "team-code", first)
    failed = AttemptRecord(
        1, first, "ml.p4d.24xlarge", "Failed", 1.0, "on other hosts", verdict="failed", retry="other-hosts",
        cause="HW002", message="Xid 79", rank=3, host="algo-1", usd=12.5, billable_seconds=600.0,
        following=TryAgain("ml.p4d.24xlarge", 0.0, "on other hosts"),
    )  # fmt: skip
    records.write_attempt(failed)
    records.claim_start(StartClaim(2, "the controller", 2.0))


def test_a_run_is_handed_over_and_nobody_follows(
    run_launch: RunLaunch, write_job: WriteJob, managed: TrainingScript
) -> None:
    code, _, err = run_launch(write_job(cluster="dev"), "--managed", "--yes")
    first = managed.requests[0]["TrainingJobName"]
    assert (code, len(managed.requests)) == (0, 1)
    assert f"handed over; look at it with: launch status {first}" in err
    place = managed.requests[0]["Environment"]["SLIPWAY_MANAGED_RUN"]
    assert place == f"s3://team-code/runs/{first}/attempt-1"


def test_without_a_controller_it_says_how_to_deploy_one(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    code, _, err = run_launch(write_job(cluster="dev"), "--managed", "--yes")
    assert (code, account.requests) == (2, [])
    assert "the cluster dev has no controller" in err and "`managed: true`" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role_arn": "arn:aws:iam::123456789012:role/other"}, "hears of jobs of the cluster's role alone"),
        ({"checkpoint": {"s3_uri": "s3://elsewhere/runs"}}, "may read s3://team-checkpoints alone"),
    ],
)
def test_a_job_that_the_controller_could_not_go_on_with_is_refused(
    run_launch: RunLaunch, write_job: WriteJob, managed: TrainingScript, change: dict[str, object], said: str
) -> None:
    code, _, err = run_launch(write_job(cluster="dev", **change), "--managed", "--yes")
    assert (code, managed.requests) == (2, [])
    assert said in err


@pytest.mark.parametrize("option", ["--queue", "--local", "--dry-run"])
def test_what_manages_itself_or_sends_nothing_is_not_managed(
    run_launch: RunLaunch, write_job: WriteJob, option: str
) -> None:
    code, _, err = run_launch(write_job(), "--managed", option)
    assert code == 2 and "--managed" in err


def test_the_status_of_a_run_is_that_of_its_newest_attempt_with_all_before_it(
    run_launch: RunLaunch, write_job: WriteJob, cloud: EmulatedAccount, managed: TrainingScript
) -> None:
    first = handed_over(run_launch, write_job)
    ended(cloud, first)
    second = {**managed.requests[0], "TrainingJobName": name_attempt(first, 2)}
    second["Environment"] = {
        **second["Environment"],
        "SLIPWAY_MANAGED_RUN": f"s3://team-code/runs/{first}/attempt-2",
    }
    cloud.client("sagemaker").create_training_job(**second)

    _, out, _ = run_launch("status", first, "--output", "json")
    shown = json.loads(out)
    assert shown["name"] == name_attempt(first, 2)
    assert [each["cause"] for each in shown["run"]["attempts"]] == ["HW002"]
    assert (shown["run"]["state"], shown["run"]["usd"]) == ("running", 12.5)
    _, out, err = run_launch("status", first)
    assert "HW002 rank 3" in out and "12.50" in out
    assert f"attempt 2 of the managed run {first}" in err
    _, out, _ = run_launch("status", f"{first}/1", "--output", "json")
    assert json.loads(out)["name"] == first


def test_stop_ends_the_run_for_ever(
    run_launch: RunLaunch, write_job: WriteJob, cloud: EmulatedAccount, managed: TrainingScript
) -> None:
    first = handed_over(run_launch, write_job)
    code, _, err = run_launch("stop", first)
    assert code == 0
    assert f"the managed run {first} is stopped" in err
    claim = Records(cloud.client("s3"), "team-code", first).start_of(2)
    assert claim is not None and claim.stops and "launch stop" in claim.who


def test_the_runs_of_a_cluster_are_listed(
    run_launch: RunLaunch, write_job: WriteJob, cloud: EmulatedAccount, managed: TrainingScript
) -> None:
    first = handed_over(run_launch, write_job)
    ended(cloud, first)
    code, out, err = run_launch("list", "--managed", "dev")
    assert code == 0, err
    assert code == 0
    assert first in out and "running" in out and "2 attempts" in out and "HW002" in out
    code, _, err = run_launch("list", "--managed", "prod")
    assert code == 2 and "no controller of a cluster prod is known" in err
