"""A diagnosis held against an emulated account: what may lie behind the failure is looked at at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.aws.clients import Clients
from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.diagnosis.model import AccountCheck, CheckOutcome, Diagnosis
from launcher.failure_modes.model import Retry
from launcher.planning.request_view import RequestView
from launcher.session.account_checks import account_check
from launcher.session.runs.diagnose_job import diagnose_job
from tests.emulator.account import REGION, EmulatedAccount
from tests.emulator.faults import DENIED as ACCESS_DENIED
from tests.emulator.faulty_clients import FaultyClients
from tests.session.runs.test_diagnose_job import RecordedJob

STALLED = (
    "[rank3]: RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
    "c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"
)
DENIED = "ClientError: An error occurred (AccessDenied) when calling the PutObject operation: Access Denied"


def described(account: EmulatedAccount, hosts: int = 2) -> dict[str, Any]:
    """What DescribeTrainingJob says of a job of two hosts in the account."""
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": hosts, "VolumeSizeInGB": 30}
    arn = f"arn:aws:sagemaker:{REGION}:123456789012:training-job/digits-1"
    return account.request(TrainingJobArn=arn, ResourceConfig=resources)


def diagnosed(account: EmulatedAccount, *lines: str, clients: Any = None, hosts: int = 2) -> Diagnosis:
    request = RequestView(described(account, hosts))
    status = JobStatus("digits-1", JobState.FAILED, "Failed", hosts=hosts, request=request)
    job = RecordedJob(status, [[LogLine(1.0, "algo-1", line) for line in lines]])
    return diagnose_job(job, "digits-1", account_check(clients or Clients()))


def outcomes(diagnosis: Diagnosis) -> dict[str, CheckOutcome]:
    return {each.code: each.outcome for each in diagnosis.checked}


def test_what_is_right_is_said_not_to_be_the_cause(account: EmulatedAccount) -> None:
    found = diagnosed(account, STALLED)
    assert found.root_cause.finding.code == "NCCL007"
    assert outcomes(found) == dict.fromkeys(("EFA001", "EFA002", "NCCL007"), CheckOutcome.RIGHT)
    assert found.checked[0].message == (
        f"security group {account.ids['group']} is right, so not EFA001 (security group lacks all-traffic "
        "ingress from itself)"
    )


def test_a_rule_that_is_missing_is_named_with_its_group(account: EmulatedAccount) -> None:
    account.close_egress()
    found = diagnosed(account, STALLED)
    (wrong,) = [each for each in found.checked if each.outcome is CheckOutcome.WRONG]
    assert wrong.code == "EFA002"
    assert wrong.message.startswith(f"{account.ids['group']} has no egress to itself for all traffic")
    assert "egress rule" in wrong.remedy


def test_what_is_wrong_in_the_account_is_not_tried_again_on_other_hosts(account: EmulatedAccount) -> None:
    line = "NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.1<51020>"
    assert diagnosed(account, line).retry is Retry.OTHER_HOSTS
    account.close_egress()
    assert diagnosed(account, line).retry is Retry.NEVER


def test_one_host_and_hosts_whose_ranks_have_made_a_step_need_no_rule(account: EmulatedAccount) -> None:
    account.close_egress()
    assert diagnosed(account, STALLED, hosts=1).checked == ()
    found = diagnosed(account, "[rank3]: step 120 loss 0.5", STALLED)
    assert found.ranks[0].step is not None
    assert found.checked == ()


def test_a_cause_that_no_account_can_show_asks_it_nothing(account: EmulatedAccount) -> None:
    def nobody(*_: Any) -> Any:
        raise AssertionError("the account was asked")

    assert diagnosed(account, "[rank0]: KeyError: 'x'", clients=nobody).checked == ()


def test_data_is_asked_for_with_the_role_and_the_way_out(account: EmulatedAccount) -> None:
    found = diagnosed(account, DENIED)
    assert found.root_cause.finding.code == "S3002"
    assert set(outcomes(found)) == {"S3001", "S3002", "IAM001", "EFA003"}
    buckets = ("team-data", "team-checkpoints", "team-output", "team-code")
    named = ", ".join(f"bucket {each}" for each in buckets)
    assert found.checked[0].message.startswith(f"{named} are right, so not S3001")


def test_a_permission_that_is_missing_is_said_and_not_fatal(account: EmulatedAccount) -> None:
    found = diagnosed(account, STALLED, clients=FaultyClients(ec2__DescribeSecurityGroups=ACCESS_DENIED))
    assert outcomes(found)["EFA001"] is CheckOutcome.NOT_VERIFIED
    assert "which needs ec2:DescribeSecurityGroups" in found.checked[0].message
    assert found.root_cause.finding.code == "NCCL007"


def test_without_credentials_the_diagnosis_stands(
    account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    found = diagnosed(account, STALLED)
    assert set(outcomes(found).values()) == {CheckOutcome.NOT_VERIFIED}
    assert "the account could not be asked" in found.checked[0].message


def test_a_run_on_this_machine_asks_no_account(account: EmulatedAccount) -> None:
    status = JobStatus("here", JobState.FAILED, "Failed", hosts=2, request=RequestView(described(account)))
    job = replace(RecordedJob(status, [[LogLine(1.0, "algo-1", STALLED)]]), runs_here=True)
    assert diagnose_job(job, "here", account_check(Clients())).checked == ()


def test_the_json_has_what_was_checked() -> None:
    check = AccountCheck("EFA001", CheckOutcome.WRONG, "sg-1 has no rule", "Add it.")
    told = {"code": "EFA001", "outcome": "wrong", "message": "sg-1 has no rule", "remedy": "Add it."}
    assert check.to_json() == told
