"""The rules on a job file: each with what it finds, what it lets pass, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.instances import instance_facts
from launcher.failure_modes.model import Severity, Stage
from launcher.failure_modes.registry import registered
from launcher.jobs.load import load_job
from launcher.jobs.source import read_source
from launcher.rules.spec.check import RULES, check_job
from launcher.rules.spec.subject import JobSubject

P4D = "ml.p4d.24xlarge"


@pytest.fixture
def findings_of(write_job: Callable[..., Path]) -> Callable[..., dict[str, Any]]:
    def findings(**changes: Any) -> dict[str, Any]:
        loaded = load_job(write_job(**changes))
        job = loaded.spec
        subject = JobSubject(
            job,
            instance_facts(job.resources.instance_type),
            read_source(job, loaded.file.parent),
            loaded.location,
        )
        return {finding.code: finding for finding in check_job(subject)}

    return findings


def test_a_sound_job_has_no_findings(findings_of: Callable[..., dict]) -> None:
    assert findings_of() == {}


@pytest.mark.parametrize(
    ("distribution", "instance_type", "found"),
    [
        ({"strategy": "torchrun", "processes_per_host": 8}, P4D, False),
        ({"strategy": "torchrun", "processes_per_host": 4}, P4D, True),
        ({"strategy": "torchrun", "processes_per_host": 9}, P4D, True),
        ({"strategy": "torchrun", "processes_per_host": 32}, "ml.trn1.32xlarge", False),
        ({"strategy": "torchrun", "processes_per_host": 2}, "ml.m5.xlarge", False),
        ({"strategy": "none", "processes_per_host": 1}, P4D, False),
        ({"strategy": "none", "processes_per_host": 8}, P4D, True),
    ],
)
def test_processes_must_be_the_accelerators_of_the_host(
    findings_of: Callable[..., dict], distribution: dict, instance_type: str, found: bool
) -> None:
    findings = findings_of(distribution=distribution, resources={"instance_type": instance_type})
    assert ("DIST001" in findings) is found


def test_the_finding_says_the_number_and_where_it_stands(findings_of: Callable[..., dict]) -> None:
    finding = findings_of(distribution={"strategy": "torchrun", "processes_per_host": 4})["DIST001"]
    assert "4" in finding.message
    assert "8" in finding.remedy
    assert finding.location.line > 1


def test_an_unknown_instance_type_is_told_the_nearest(findings_of: Callable[..., dict]) -> None:
    finding = findings_of(resources={"instance_type": "ml.p4d.24xlrge"})["SPEC004"]
    assert P4D in finding.remedy


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ({"source_dir": "scr", "entry_point": "train.py"}, "scr does not exist"),
        ({"source_dir": "src", "entry_point": "trian.py"}, "trian.py is not in"),
    ],
)
def test_a_missing_script_is_found_before_it_is_paid_for(
    findings_of: Callable[..., dict], code: dict, says: str
) -> None:
    assert says in findings_of(code=code)["CODE002"].message


def test_a_waiting_time_without_spot_is_an_information(findings_of: Callable[..., dict]) -> None:
    assert findings_of(limits={"max_wait": "2d"})["SPEC003"].severity is Severity.INFO


@pytest.mark.parametrize("checkpoint", [{"lustre": "/c"}, {"sync": "slipway"}])
def test_a_way_of_checkpointing_that_is_not_built_is_refused(
    findings_of: Callable[..., dict], checkpoint: dict
) -> None:
    assert findings_of(checkpoint=checkpoint)["SPEC003"].severity is Severity.ERROR


def test_every_registered_rule_is_called() -> None:
    rules = {item.function for item in registered() if item.stage is Stage.SPEC and ".rules." in item.name}
    assert rules == set(RULES)
