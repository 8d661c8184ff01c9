"""Which findings of the live stage may lie behind a failure, and what the account says of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import CheckOutcome, Diagnosis
from launcher.diagnosis.record import Record
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import registered
from launcher.rules.live import suspects
from launcher.rules.live.suspects import checked, suspects_of
from tests.rules.live.states import ANY, JOB_GROUP, OUT, group, itself, rule, subject

LUSTRE = ("FSX001", "FSX002", "FSX003", "FSX004")
BETWEEN = ("EFA001", "EFA002", "NCCL007")


def failed(*lines: str) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line) for line in lines])


def outcomes(codes: tuple[str, ...], **state: Any) -> dict[str, str]:
    """What is said of each code in a state, of a job of which only the request is known."""
    return {each.code: each.outcome.value for each in checked(replace(subject(**state), job=None), codes)}


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("ProcessGroupNCCL.cpp: Some NCCL operations have failed or timed out", BETWEEN),
        ("mount.lustre: mount 10.0.0.5@tcp:/abcd at /fsx failed: Connection timed out", LUSTRE),
        ("CapacityError: Unable to provision requested ML compute capacity", ("CAP002",)),
        ("KeyError: 'labels'", ()),
        ("step 3 loss 0.1", ()),
    ],
)
def test_each_failure_has_its_suspects(line: str, codes: tuple[str, ...]) -> None:
    assert suspects_of(failed(line), hosts=2) == codes


def test_every_suspect_is_a_code_that_the_live_stage_finds() -> None:
    live = {mode.code for each in registered() if each.stage is Stage.LIVE for mode in each.modes}
    named = {code for codes in suspects._SUSPECTS.values() for code in codes}
    assert named <= live
    assert named | set(suspects._SUSPECTS) <= set(CATALOGUE)


def test_in_a_sound_account_every_suspect_is_right() -> None:
    codes = tuple(dict.fromkeys(code for each in suspects._SUSPECTS.values() for code in each))
    assert outcomes(codes) == dict.fromkeys(codes, "right")


def test_closed_ports_are_found_with_the_file_systems_groups() -> None:
    assert outcomes(LUSTRE, file_system_groups=(group("sg-servers"),)) == {
        **dict.fromkeys(LUSTRE, "right"),
        "FSX004": "wrong",
    }


def test_a_group_beside_one_that_carries_the_traffic_is_not_wrong() -> None:
    groups = (group(JOB_GROUP, *itself(JOB_GROUP), OUT), group("sg-other", OUT))
    assert outcomes(BETWEEN, groups=groups)["EFA001"] == "right"


def test_egress_to_anywhere_is_no_egress_to_itself() -> None:
    open_to_all = group(JOB_GROUP, rule("ingress", groups=[JOB_GROUP]), rule("egress", ipv4=[ANY]))
    found = checked(subject(groups=(open_to_all,)), BETWEEN)
    assert [(each.code, each.outcome) for each in found if each.outcome is not CheckOutcome.RIGHT] == [
        ("EFA002", CheckOutcome.WRONG)
    ]


def test_of_a_job_without_a_vpc_or_a_mount_nothing_is_said() -> None:
    request = {"VpcConfig": None, "InputDataConfig": None}
    bare = {"subnets": None, "groups": None, "file_system": None}
    assert outcomes((*BETWEEN, *LUSTRE), request=request, **bare) == {}
