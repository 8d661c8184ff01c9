"""What we take for true agrees with every other source that can be had offline."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.planning.images import ImageSoftware, image_software
from tools.facts import actions, instances, quoted_tables, versions
from tools.facts.comparison import Comparison
from tools.facts.freshness import installed_versions, must_be_looked_at
from tools.facts.references import quoted
from tools.facts.tables import COMPARED, Table, tables

TABLES = {table.path: table for table in tables()}
each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def unexplained(comparisons: list[Comparison]) -> list[str]:
    return [str(difference) for each in comparisons for difference in each.unexplained]


def test_every_checker_has_its_table() -> None:
    assert set(COMPARED) <= set(TABLES)


def test_tables_in_code_are_found_as_data_files_are() -> None:
    assert {"launcher/planning/strategies/model_parallel.py", "launcher/planning/prices.json"} <= set(TABLES)


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("path", COMPARED)
def test_no_figure_differs_from_another_source_without_a_reason(path: str) -> None:
    comparisons = list(TABLES[path].comparisons())
    assert sum(each.compared for each in comparisons) > 0
    assert unexplained(comparisons) == []


def test_every_iam_action_that_is_named_exists() -> None:
    (comparison,) = actions.comparisons()
    assert comparison.compared > 50
    assert unexplained([comparison]) == []


def test_an_action_that_does_not_exist_is_found() -> None:
    assert actions.is_known("s3:GetObject")
    assert actions.is_known("s3:Get*")
    assert not actions.is_known("s3:GetObjects")


@each_table
def test_nothing_past_its_shelf_life_waits_while_a_newer_source_is_installed(table: Table) -> None:
    head = table.provenance
    assert must_be_looked_at(head, datetime.date.today(), installed_versions(head)) is None


@pytest.mark.parametrize(
    ("column", "wrong", "comparison"),
    [
        ("vcpus", 191, instances.against_karpenter),
        ("local_nvme_gb", 0, instances.against_karpenter),
        ("cpu_architecture", "arm64", instances.against_karpenter),
        ("accelerators", 4, instances.against_ec2),
        ("accelerator_memory_mib", 1, instances.against_ec2),
        ("plugin_environment", {}, instances.against_the_plugin),
        ("gpudirect_rdma", False, instances.against_the_plugin),
    ],
)
def test_a_wrong_figure_of_an_instance_type_is_found(
    monkeypatch: pytest.MonkeyPatch, column: str, wrong: object, comparison: object
) -> None:
    def facts_with_an_error(instance_type: str) -> InstanceFacts | None:
        facts = instance_facts(instance_type)
        return replace(facts, **{column: wrong}) if instance_type == "ml.p5.48xlarge" else facts

    monkeypatch.setattr(instances, "instance_facts", facts_with_an_error)
    (found,) = unexplained([comparison()])
    assert found.startswith(f"{column} of ml.p5.48xlarge is {wrong!r} here")


def test_a_type_that_the_table_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [name for name in instances.training_instance_types() if name != "ml.p5.48xlarge"]
    monkeypatch.setattr(instances, "training_instance_types", lambda: types)
    assert unexplained([instances.against_the_api()]) == [
        "ml.p5.48xlarge among the training types is False here and True there"
    ]


def test_a_wrong_quota_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"codes": {"training job": {"ml.p4d.24xlarge": "L-00000000"}}}
    monkeypatch.setattr(quoted_tables, "read_data_file", lambda *_: wrong)
    found = unexplained(list(quoted_tables.quota_codes()))
    assert len(found) == 2
    assert all("'L-00000000' here and 'L-09B4A649' there" in each for each in found)


def test_a_version_that_a_library_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    support = replace(versions.toolkit.SMDDP_SUPPORT, newest="2.1.0")
    monkeypatch.setattr(versions.toolkit, "SMDDP_SUPPORT", support)
    assert any(
        "2.2.0 among the versions of PyTorch" in each for each in unexplained([*versions.data_parallel()])
    )


def test_an_image_that_the_table_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quoted_tables, "image_versions", lambda framework: ["2.10.0"])
    found = unexplained(list(quoted_tables.image_releases()))
    assert any("pytorch:2.12.1" in each for each in found)


def test_a_wrong_patch_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ending_later(framework: str, version: str) -> ImageSoftware | None:
        software = image_software(framework, version)
        return software and replace(software, patched_until=datetime.date(2030, 1, 1))

    monkeypatch.setattr(quoted_tables, "image_software", ending_later)
    found = unexplained(list(quoted_tables.image_contents()))
    assert any("patch end of pytorch-training:2.10.0" in each for each in found)


def test_a_quotation_names_repository_and_commit() -> None:
    for repository in (
        "aws/karpenter-provider-aws",
        "aws/aws-ofi-nccl",
        "aws/deep-learning-containers",
        "klaffka/aws-quota-monitor",
    ):
        quotation = quoted(repository)
        assert quotation.repository == repository
        assert len(quotation.commit) == 40
        assert datetime.date.fromisoformat(quotation.date) <= datetime.date.today()
