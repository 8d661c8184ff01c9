"""The summary says what the templates hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.cluster.files import read_templates
from stacks.controller_package import controller_package
from stacks.summary import main, rows
from tests.stacks.synthesis import CLUSTERS, Synthesized, cluster


def test_stacks_come_in_the_order_of_deployment(dev: Synthesized) -> None:
    names = [name.rpartition("-")[2] for name, _ in read_templates(dev.folder)]

    assert names == [
        "network",
        "storage",
        "queue",
        "hyperpod",
        "access",
        "observability",
        "managed",
        "manifest",
    ]


def test_efa_rules_are_told_one_by_one(dev: Synthesized) -> None:
    found = details(dev, "network")

    assert [each.partition(":")[0] for each in found["ingress rule"]] == ["all traffic from itself"]
    assert [each.partition(":")[0] for each in found["egress rule"]] == [
        "all traffic to itself",
        "all traffic to any address (0.0.0.0/0)",
    ]


def test_storage_says_what_goes_with_the_stack(dev: Synthesized) -> None:
    found = details(dev, "storage")

    assert found["file system"] == ("Lustre SCRATCH_2, 1200 GiB, compression LZ4 (deleted with the stack)",)
    assert len(found["bucket"]) == 4


def test_every_stack_is_printed(dev: Synthesized, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(dev.folder)]) == 0

    printed = capsys.readouterr().out
    assert all(f"slipway-dev-{part}" in printed for part in ("network", "storage", "access", "manifest"))


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_shipped_cluster_can_be_summed_up(name: str) -> None:
    synthesized = cluster(name)

    for part in synthesized.parts:
        assert rows(synthesized.template(part))


def test_large_cluster_tells_its_key_queue_and_budget(large: Synthesized) -> None:
    assert details(large, "storage")["key"][0].endswith("(outlives the stack)")
    assert details(large, "queue")["queue"] == ("SAGEMAKER_TRAINING",)
    assert details(large, "observability")["budget"] == ("2000000 USD per month",)


def test_the_controller_is_told_with_its_queues_its_rule_and_its_alarms(large: Synthesized) -> None:
    found, python = details(large, "managed"), controller_package().runtime.name

    assert found["function"] == (
        f"RunsFunction122DEA95: Goes on with the managed runs of Slipway cluster p5-large, {python}",
    )
    assert found["event queue"] == ("RunsFailedE8AB701A", "RunsEventsEF167FAC")
    assert len(found["event rule"]) == len(found["schedules"]) == 1
    assert len(found["alarm"]) == 2


def test_folder_without_an_app_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "run `cdk synth` first" in capsys.readouterr().err


def details(synthesized: Synthesized, part: str) -> dict[str, tuple[str, ...]]:
    return {row.kind: row.details for row in rows(synthesized.template(part))}
