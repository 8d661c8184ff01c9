"""`launch check --live`, and `--fix`, as their users call them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from launcher.account.questions.ask_network import fetch_security_groups
from launcher.cli.interaction import LiveView
from launcher.cluster.traffic import Passage, SecurityGroup, efa_passage
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount, emulated_account, use_test_keys
from tests.rules.live.states import FILE_SYSTEM

HTTPS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
ALL = {"IpProtocol": "-1"}
ANYWHERE = {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAccount]:
    use_test_keys(monkeypatch)
    with emulated_account() as made:
        yield made


@pytest.fixture
def job(account: EmulatedAccount, write_job: WriteJob) -> Path:
    """A job on the account's cluster, which it names by its manifest."""
    file = write_job(cluster="./dev.json", framework=None, image=account.image)
    (file.parent / "dev.json").write_text(json.dumps(account.manifest()))
    return file


@pytest.fixture
def broken(account: EmulatedAccount) -> EmulatedAccount:
    """Its job group sends over HTTPS alone, and nothing to itself.

    Were its egress all traffic to any address, moto would drop the rule that repairs it.
    """
    ec2, group = account.client("ec2"), account.ids["group"]
    itself = {"UserIdGroupPairs": [{"GroupId": group}]}
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[{**ALL, **itself}])
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[{**ALL, **ANYWHERE}])
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[{**HTTPS, **ANYWHERE}])
    return account


def held(account: EmulatedAccount) -> SecurityGroup:
    (group,) = fetch_security_groups(account.client("ec2"), [account.ids["group"]])
    return group


def codes(out: str) -> list[str]:
    return [finding["code"] for finding in json.loads(out)["findings"]]


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A terminal at which somebody types this."""
    typed = io.StringIO(f"{text}\n")
    typed.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", typed)


def test_a_good_account_passes(run_launch: RunLaunch, job: Path) -> None:
    code, out, err = run_launch("check", job, "--live")
    assert code == 0
    assert "no errors" in out
    assert "looking at the account" in err


def test_json_is_alone_on_stdout(run_launch: RunLaunch, job: Path) -> None:
    code, out, _ = run_launch("check", job, "--live", "--output", "json")
    assert code == 0
    assert json.loads(out) == {"findings": []}


def test_a_group_without_egress_to_itself_is_an_error(
    run_launch: RunLaunch, job: Path, broken: EmulatedAccount
) -> None:
    code, out, _ = run_launch("check", job, "--live", "--output", "json")
    (finding,) = json.loads(out)["findings"]
    assert code == 1
    assert (finding["code"], finding["stage"], finding["severity"]) == ("EFA002", "live", "error")
    assert finding["subject"] == broken.ids["group"]


def test_check_alone_does_not_look(run_launch: RunLaunch, job: Path, broken: EmulatedAccount) -> None:
    assert run_launch("check", job)[0] == 0


def test_fix_repairs_once_and_then_changes_nothing(
    run_launch: RunLaunch, job: Path, broken: EmulatedAccount
) -> None:
    group = broken.ids["group"]
    before = held(broken)

    first = run_launch("check", job, "--live", "--fix", "--yes", "--output", "json")
    repaired = held(broken)
    second = run_launch("check", job, "--live", "--output", "json")
    third = run_launch("check", job, "--live", "--fix", "--yes", "--output", "json")

    assert f"{group}: added: egress: all traffic to {group} (itself)" in first[2]
    assert [(code, codes(out)) for code, out, _ in (first, second, third)] == [(0, [])] * 3
    assert "no security group rule is missing" in third[2]
    assert efa_passage(repaired, "egress") is Passage.OPEN
    assert set(repaired.rules) - set(before.rules) == {
        each for each in repaired.rules if each.groups == (group,) and each.direction == "egress"
    }
    assert held(broken) == repaired


def test_fix_without_a_terminal_shows_and_refuses(
    run_launch: RunLaunch, job: Path, broken: EmulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    before = held(broken)
    code, _, err = run_launch("check", job, "--live", "--fix")
    assert code == 2
    assert "egress: all traffic to" in err
    assert "--yes" in err
    assert held(broken) == before


@pytest.mark.parametrize(("typed", "repaired"), [("y", True), ("yes", True), ("n", False), ("", False)])
def test_fix_asks_for_each_group(
    run_launch: RunLaunch,
    job: Path,
    broken: EmulatedAccount,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    repaired: bool,
) -> None:
    answer(monkeypatch, typed)
    code, _, err = run_launch("check", job, "--live", "--fix")
    assert f"Add 1 rule to {broken.ids['group']}? [y/N]" in err
    assert (efa_passage(held(broken), "egress") is Passage.OPEN) is repaired
    assert code == (0 if repaired else 1)


def test_lustres_ports_are_repaired_in_the_group_that_lacks_them(
    run_launch: RunLaunch, write_job: WriteJob, job: Path, account: EmulatedAccount
) -> None:
    ec2, servers = account.client("ec2"), account.ids["file_system_group"]
    ec2.revoke_security_group_ingress(
        GroupId=servers,
        IpPermissions=[
            {
                "IpProtocol": "tcp",
                "FromPort": 1018,
                "ToPort": 1023,
                "UserIdGroupPairs": [{"GroupId": account.ids["group"]}],
            }
        ],
    )
    file = write_job(
        cluster="./dev.json", framework=None, image=account.image, inputs={"corpus": {"lustre": "/corpus"}}
    )
    found = run_launch("check", file, "--live", "--output", "json")
    fixed = run_launch("check", file, "--live", "--fix", "--yes", "--output", "json")
    assert "FSX004" in codes(found[1])
    assert f"{servers}: added: ingress: TCP 1018-1023 from {account.ids['group']}" in fixed[2]
    assert codes(fixed[1]) == []


def test_what_may_not_be_seen_is_said_with_the_permission(
    run_launch: RunLaunch, job: Path, account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launcher.account.questions import ask_network
    from launcher.failure_modes.model import AwsRefusal

    def refuse(*_: Any) -> Any:
        raise AwsRefusal("AWS refused: UnauthorizedOperation: not you.", "Ask.")

    monkeypatch.setattr(ask_network, "fetch_security_groups", refuse)
    code, out, _ = run_launch("check", job, "--live", "--output", "json")
    findings = json.loads(out)["findings"]
    assert code == 0
    assert {each["code"] for each in findings} >= {"EFA001", "EFA002"}
    for each in findings:
        assert (each["severity"], each["verified"]) == ("warning", False)
        assert "ec2:DescribeSecurityGroups" in each["message"]


def test_missing_credentials_exit_with_3(
    run_launch: RunLaunch, write_job: WriteJob, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_job(cluster="./dev.json")
    (file.parent / "dev.json").write_text(json.dumps(manifest))
    with mock_aws(config={"core": {"mock_credentials": False}}):
        code, out, err = run_launch("check", file, "--live")
    assert code == 3
    assert "credentials" in err
    assert "Traceback" not in out + err


def test_a_long_wait_is_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView() as view:
        for seconds in range(0, 150, 15):
            view.waiting(FILE_SYSTEM, seconds)
        view.progress(3, 20, "the subnets")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "looking at the account",
        "fs-1 is AVAILABLE, waiting for AVAILABLE (0 min)",
        "fs-1 is AVAILABLE, waiting for AVAILABLE (1 min)",
        "fs-1 is AVAILABLE, waiting for AVAILABLE (2 min)",
    ]
