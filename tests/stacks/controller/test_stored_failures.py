"""Every stored log of a failure as the end of a managed run's attempt: what the packed function reads in it
and decides, in a process of its own."""

from __future__ import annotations

import json

import pytest

from launcher.failure_modes.model import Retry
from launcher.session.managed.records import AttemptRecord
from tests.diagnosis.threads import diagnosis_of
from tests.emulator.deployed_controller import DeployedController
from tests.emulator.sagemaker import Ending
from tests.logs.cases import LogCase, log_cases

PARTS = 128
NO_REASON = "AlgorithmError: See job logs for more information"
"""What the service gives as the reason where it knows none."""


def ending(case: LogCase) -> Ending:
    """A job that ends as the case tells; CloudWatch Logs takes no event without a character."""
    if case.failure_reason:
        return Ending(case.text.strip("\n"))
    logs = {"algo-1": [line or " " for line in case.text.strip("\n").split("\n")]}
    return Ending(None, logs, "Stopped") if "STOP001" in case.codes else Ending(NO_REASON, logs)


def mistakes(case: LogCase, record: AttemptRecord) -> list[str]:
    """What of the record is neither the label nor the table of retries."""
    if record.state == "Stopped":
        return [] if record.following is None else [f"{record.following} follows a job that was stopped"]
    wrong = []
    if case.codes and record.cause not in (*case.codes, *case.also):
        wrong.append(f"the cause is {record.cause} in place of {case.codes}")
    told = diagnosis_of(case)
    known = record.verdict == "failed" and told.retry_known
    if known and record.retry != told.retry.value:
        wrong.append(f"{record.retry} in place of {told.retry}")
    if case.retry is not None and known and record.retry != case.retry:
        wrong.append(f"{record.retry} in place of the label's {case.retry}")
    if (record.following is not None) != (known and record.retry != Retry.NEVER):
        wrong.append(f"{record.verdict}, {record.retry}, and {record.following} follows")
    return wrong


@pytest.mark.few_cases("0")
@pytest.mark.parametrize("part", range(PARTS))
def test_the_function_decides_by_the_label_of_every_stored_failure(
    deployed: DeployedController, part: int
) -> None:
    cluster = deployed.cluster
    plan = cluster.plan(cluster.hand_over())
    wrong = {}
    for number, case in enumerate(log_cases()[part::PARTS]):
        cluster.script.endings = [ending(case)]
        first = cluster.hand_over_again(plan, f"digits-{number:017d}")
        deployed.end(first)
        assert deployed.take_one() == [1, 0], case.name
        (record,) = cluster.records(first).attempts()
        followed = cluster.names[cluster.names.index(first) + 1 :]
        waits = [each for each in deployed.schedules if json.loads(each["Target"]["Input"])["run"] == first]
        wrong[case.name] = mistakes(case, record)
        if (len(followed) + len(waits)) != (record.following is not None):
            wrong[case.name].append(f"{record.following} was decided, and {followed} followed")
    assert {name: found for name, found in wrong.items() if found} == {}
