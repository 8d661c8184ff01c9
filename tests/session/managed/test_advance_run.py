"""What the controller does when an attempt of a managed run has ended."""

from __future__ import annotations

import pytest

from launcher.backends.interface import JobState
from launcher.failure_modes.model import Refusal
from launcher.planning.next_attempt import FIRST_TAG, NUMBER_TAG, name_attempt
from launcher.planning.request_view import RequestView
from launcher.session.managed.records import StartClaim
from launcher.session.managed.show_run import read_run, stop_run
from tests.emulator.managed_cluster import ManagedCluster
from tests.emulator.sagemaker import Ending

HARDWARE = Ending("AlgorithmError: HW002 rank 3 on algo-1: Xid 79, fallen off the bus, exit code: 1")
CODE = Ending("AlgorithmError: CODE001 rank 0 on algo-1: KeyError: 'labels' (train.py:5), exit code: 1")
NO_CAPACITY = Ending("CapacityError: Unable to provision requested ML compute capacity.", billable_seconds=0)
UNKNOWN = Ending("AlgorithmError: something odd, exit code: 1")


def tags(request: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in request["Tags"]}


def test_a_run_that_completes_is_recorded_and_told_and_nothing_follows(cluster: ManagedCluster) -> None:
    first = cluster.hand_over()
    cluster.end_and_tell(first)

    (record,) = cluster.records(first).attempts()
    assert (record.state, record.following, record.why) == ("Completed", None, "it completed")
    (notice,) = cluster.notices
    assert notice.subject == "slipway: digits attempt 1 Completed"
    assert f"s3://team-code/runs/{first}/attempt-1.html" in notice.text
    assert cluster.names == [first]
    page = cluster.s3.get_object(Bucket="team-code", Key=f"runs/{first}/attempt-1.html")["Body"].read()
    assert first.encode() in page


def test_after_broken_hardware_another_attempt_starts_on_tested_hosts(cluster: ManagedCluster) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    cluster.end_and_tell(first)

    second = name_attempt(first, 2)
    assert cluster.names == [first, second]
    request = cluster.script.requests[1]
    assert request["InfraCheckConfig"] == {"EnableInfraCheck": True}
    assert tags(request) | {FIRST_TAG: first, NUMBER_TAG: "2"} == tags(request)
    assert "attempt 2 follows" in cluster.notices[0].text.lower()
    cluster.end_and_tell(second)
    assert [each.state for each in cluster.records(first).attempts()] == ["Failed", "Completed"]


@pytest.mark.parametrize("ending", [CODE, UNKNOWN])
def test_a_fault_of_the_script_or_an_unknown_cause_is_told_and_never_tried_again(
    cluster: ManagedCluster, ending: Ending
) -> None:
    cluster.script.endings = [ending]
    first = cluster.hand_over()
    cluster.end_and_tell(first)

    assert cluster.names == [first]
    assert "No other attempt follows" in cluster.notices[0].text


def test_events_that_come_twice_or_late_change_nothing(cluster: ManagedCluster) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    cluster.end_and_tell(first)
    for _ in range(3):
        cluster.controller().job_ended(first)

    assert cluster.names == [first, name_attempt(first, 2)]
    assert len(cluster.notices) == 1


def test_an_end_of_which_the_service_does_not_tell_yet_is_looked_for_again(cluster: ManagedCluster) -> None:
    first = cluster.hand_over()
    with pytest.raises(Refusal, match="SageMaker still describes it as"):
        cluster.controller().job_ended(first)

    assert (cluster.notices, cluster.records(first).attempts()) == ([], [])


def test_capacity_that_is_not_there_is_waited_for(cluster: ManagedCluster) -> None:
    cluster.script.endings = [NO_CAPACITY, NO_CAPACITY]
    first = cluster.hand_over()
    cluster.end_and_tell(first)

    assert cluster.names == [first]
    assert cluster.wakes == [(first, 1, cluster.now + 300.0)]
    cluster.now += 100
    cluster.controller().job_ended(first)
    assert cluster.names == [first], "a late event does not end the wait"
    cluster.wake_up()
    assert cluster.names == [first, name_attempt(first, 2)]


def test_a_run_falls_back_to_its_other_instance_type(cluster: ManagedCluster) -> None:
    cluster.script.endings = [NO_CAPACITY]
    types = {"instance_type": "ml.p4d.24xlarge", "instance_types": ["ml.p5.48xlarge"], "instance_count": 2}
    first = cluster.hand_over(resources=types)
    cluster.end_and_tell(first)

    assert [each["ResourceConfig"]["InstanceType"] for each in cluster.script.requests] == [
        "ml.p4d.24xlarge",
        "ml.p5.48xlarge",
    ]
    assert cluster.script.requests[1]["Environment"]["SLIPWAY_MANAGED_RUN"].endswith(f"/{first}/attempt-2")


def test_a_stopped_run_starts_nothing_any_more(cluster: ManagedCluster) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    cluster.records(first).claim_start(StartClaim(2, "launch stop (process 1, user ann)", 1.0, stops=True))
    cluster.end_and_tell(first)
    cluster.controller().job_ended(first)

    assert cluster.names == [first]
    assert [each.subject for each in cluster.notices] == [
        "slipway: digits attempt 1 Failed (HW002)",
        "slipway: digits stopped",
    ]


def test_a_run_that_is_stopped_while_its_next_attempt_is_prepared_does_not_start_it(
    cluster: ManagedCluster,
) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    cluster.end(first)
    records = cluster.records(first)
    records.claim_start(StartClaim(2, "the controller", 1.0))
    assert stop_run(cluster.backend, records, "launch stop (process 1, user ann)") is JobState.IN_PROGRESS
    cluster.controller().job_ended(first)
    cluster.controller().job_ended(first)

    assert cluster.names == [first]
    assert [each.subject for each in cluster.notices] == [
        "slipway: digits attempt 1 Failed (HW002)",
        "slipway: digits stopped",
    ]
    assert "attempt 2 does not start" in cluster.notices[1].text
    run = read_run(records)
    assert run is not None
    assert (run.state, run.attempts[-1].why) == ("stopped", "it was stopped before it started")


def test_a_step_takes_the_run_also_where_the_answer_to_its_taking_was_lost(cluster: ManagedCluster) -> None:
    first = cluster.hand_over()
    records = cluster.records(first)
    with records.held("call 1", cluster.now, cluster.now + 900) as is_held:
        assert is_held
        with records.held("call 1", cluster.now, cluster.now + 900) as is_held_again:
            assert is_held_again


def test_one_step_at_a_time_works_on_a_run(cluster: ManagedCluster) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    cluster.end(first)
    with cluster.records(first).held("another call", cluster.now, cluster.now + 900) as is_held:
        assert is_held
        cluster.controller().job_ended(first)
        assert (cluster.names, cluster.notices) == ([first], [])
        assert cluster.wakes == [(first, 1, cluster.now + 60)]
    cluster.wake_up()
    assert cluster.names == [first, name_attempt(first, 2)]


def test_a_step_that_was_killed_loses_the_run_when_its_time_is_over(cluster: ManagedCluster) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    cluster.end(first)
    lease = b'{"holder": "killed", "until": 1790000500}'
    cluster.s3.put_object(Bucket="team-code", Key=f"runs/{first}/lease.json", Body=lease)

    cluster.controller().job_ended(first)
    assert cluster.names == [first]
    cluster.now += 501
    cluster.controller().job_ended(first)
    assert cluster.names == [first, name_attempt(first, 2)]


def test_a_budget_bounds_all_attempts_together(cluster: ManagedCluster) -> None:
    cluster.script.endings = [
        Ending(
            HARDWARE.failure_reason,
            logs={"algo-1": [f"[rank0]: step={step} loss=1.0"]},
            billable_seconds=3600,
        )
        for step in (100, 200, 300)
    ]
    limits = {"max_retries": 3, "max_usd": 150.0, "max_runtime": "24h"}
    first = cluster.hand_over(limits=limits)
    cluster.end_and_tell(first)
    for number in (2, 3, 4):
        if len(cluster.names) >= number:
            cluster.end_and_tell(cluster.names[number - 1])

    runtimes = [each["StoppingCondition"]["MaxRuntimeInSeconds"] for each in cluster.script.requests]
    assert runtimes == sorted(runtimes, reverse=True)
    spent = sum(each.usd or 0.0 for each in cluster.records(first).attempts())
    assert spent <= 150.0
    assert "limits.max_usd is used up" in cluster.records(first).attempts()[-1].why


def test_a_job_of_nobody_is_left_alone(cluster: ManagedCluster) -> None:
    first = cluster.hand_over()
    request = {**cluster.script.requests[0], "TrainingJobName": "somebody-elses"}
    cluster.account.client("sagemaker").create_training_job(**request)
    cluster.end("somebody-elses")

    cluster.controller().job_ended("somebody-elses")

    assert cluster.notices == []
    assert cluster.records(first).attempts() == []


def test_a_run_whose_plan_is_gone_is_refused(cluster: ManagedCluster) -> None:
    first = cluster.hand_over()
    cluster.end(first)
    cluster.s3.delete_object(Bucket="team-code", Key=f"runs/{first}/plan.json")

    with pytest.raises(Refusal, match=r"plan\.json is not there"):
        cluster.controller().job_ended(first)


def test_where_the_service_chose_another_type_the_run_goes_on_with_its_one_request(
    cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.script.endings = [HARDWARE]
    first = cluster.hand_over()
    chosen = "ml.p5.48xlarge"
    assert chosen not in cluster.plan(first).requests
    monkeypatch.setattr(RequestView, "instance_type", property(lambda view: chosen))
    cluster.end_and_tell(first)

    assert cluster.names == [first, name_attempt(first, 2)]
    (record,) = cluster.records(first).attempts()
    assert record.instance_type == chosen
