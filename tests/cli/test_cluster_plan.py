"""`launch cluster plan`, as its users call it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from tests.cli.conftest import RunLaunch
from tests.emulator.account import use_test_keys
from tests.session.checkout import TEAM, Checkout, deploy


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    use_test_keys(monkeypatch)
    with mock_aws():
        yield Checkout(tmp_path)


@pytest.fixture
def here(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.chdir(checkout.folder)
    return checkout


def test_a_first_deployment_says_what_will_be_there_and_how(here: Checkout, run_launch: RunLaunch) -> None:
    here.wants()
    code, out, err = run_launch("cluster", "plan", "team")

    assert code == 0
    assert "Nothing of it is deployed yet." in out
    assert "slipway-team-storage: new" in out
    assert "→ npx cdk deploy --all -c cluster=team" in out
    assert "synthesizing the cluster" in err


def test_a_file_may_be_meant_by_its_path(here: Checkout, run_launch: RunLaunch) -> None:
    here.wants()
    code, out, _ = run_launch("cluster", "plan", "./clusters/team.yaml")

    assert code == 0
    assert "-c cluster=./clusters/team.yaml" in out


def test_nothing_to_do_is_said(here: Checkout, run_launch: RunLaunch) -> None:
    deploy(here.wants())
    code, out, _ = run_launch("cluster", "plan", "team")

    assert code == 0
    assert "The cluster file is the one that was deployed." in out
    assert "There is nothing to deploy." in out


def test_an_app_that_failed_has_failed_though_whoever_started_the_launcher_ignores_sigchld(
    here: Checkout, run_launch: RunLaunch
) -> None:
    here.wants()
    (here.folder / "app.py").write_text("raise SystemExit(7)")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        code, out, err = run_launch("cluster", "plan", "team")
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert (code, out) == (2, "")
    assert "failed with exit code 7" in err


def test_replaced_data_are_refused_with_what_to_do(here: Checkout, run_launch: RunLaunch) -> None:
    deploy(here.wants())
    here.wants(lustre={**TEAM["lustre"], "throughput": 250})
    code, out, _ = run_launch("cluster", "plan", "team")

    assert code == 1
    assert "lustre.throughput" in out
    assert "an empty one takes its place, the old one stays" in " ".join(out.split())
    assert "Not to be deployed like this:" in out
    assert "launch cluster plan team --replace-data" in out


def test_an_orphaned_stack_is_told_with_what_takes_it_away(here: Checkout, run_launch: RunLaunch) -> None:
    deploy(here.wants(queue={}))
    # The queue's stack is one that no app has any more, whatever becomes of queues.
    synthesized = here.wants()
    manifest = synthesized.folder / "manifest.json"
    assembly = json.loads(manifest.read_text())
    assembly["artifacts"].pop("slipway-team-queue", None)
    manifest.write_text(json.dumps(assembly))
    code, out, _ = run_launch("cluster", "plan", "team")

    assert "slipway-team-queue: no longer in the app" in out
    if code == 0:
        assert "delete-stack --region us-west-2 --stack-name slipway-team-queue" in out


def test_the_plan_in_json_has_all_of_it(here: Checkout, run_launch: RunLaunch) -> None:
    deploy(here.wants())
    here.wants(lustre={**TEAM["lustre"], "throughput": 250})
    code, out, _ = run_launch("cluster", "plan", "team", "--output", "json")
    plan = json.loads(out)

    assert code == 1
    assert (plan["cluster"], plan["deployed"], plan["allowed"]) == ("team", True, False)
    assert [each["policy"] for each in plan["fields"]] == ["replaces-data"]
    (replaced,) = [
        each for stack in plan["stacks"] for each in stack["resources"] if each["fate"] == "replaced"
    ]
    assert replaced["type"] == "AWS::FSx::FileSystem"
    assert plan["obstacles"]


def test_a_cluster_that_is_not_there_is_a_usage_error(here: Checkout, run_launch: RunLaunch) -> None:
    here.wants()
    code, _, err = run_launch("cluster", "plan", "tem")

    assert code == 2
    assert "there is no cluster 'tem'" in err and "known clusters: team" in err


def test_a_refusal_of_aws_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_launch: RunLaunch
) -> None:
    monkeypatch.chdir(tmp_path)
    Checkout(tmp_path).wants()
    code, _, err = run_launch("cluster", "plan", "team")

    assert code == 3
    assert "no AWS credentials were found to look for the cluster's stacks" in err
