"""What regions lack is what CloudFormation's registry says they lack."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from launcher.cluster.names import (
    REGION,
    WITHOUT_BUDGETS,
    WITHOUT_FSX,
    names_the_same,
    secret_name,
    zone_id_prefix,
)
from tests.cluster.test_specification import KEY, SMALLEST, load, problems
from tests.stacks import synthesis


def regions_without(type_: str) -> set[str]:
    missing = set()
    for region in REGIONS:
        try:
            PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, type_)
        except ResourceNotFoundError:
            missing.add(region)
    return missing


def test_every_region_has_the_form_of_one() -> None:
    assert [region for region in REGIONS if not re.fullmatch(REGION, region)] == []


@pytest.mark.parametrize("name", ["oregon", "us-west", "us-west-2a", "US-WEST-2", "verylong-west-2"])
def test_what_is_no_region_has_another_form(name: str) -> None:
    assert re.fullmatch(REGION, name) is None


def test_the_types_that_some_regions_lack_are_those_that_are_refused_there() -> None:
    types = {
        resource["Type"]
        for name in synthesis.CLUSTERS
        for part in synthesis.cluster(name).parts
        for resource in synthesis.cluster(name).template(part)["Resources"].values()
        if resource["Type"].startswith("AWS::")
    }

    lacking = {type_: missing for type_ in types if (missing := regions_without(type_))}

    assert lacking == {"AWS::Budgets::Budget": WITHOUT_BUDGETS, "AWS::FSx::FileSystem": WITHOUT_FSX}


@pytest.mark.parametrize(
    ("region", "prefix"),
    [
        ("us-west-2", "usw2"),
        ("us-east-1", "use1"),
        ("eu-central-1", "euc1"),
        ("ap-southeast-2", "apse2"),
        ("ap-northeast-1", "apne1"),
        ("us-gov-west-1", "usgw1"),
    ],
)
def test_ids_of_zones_begin_with_their_region(region: str, prefix: str) -> None:
    assert zone_id_prefix(region) == prefix


ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("team/hf", "team/hf", True),
        ("team/hf", ARN, True),
        (ARN, "team/hf", True),
        (ARN, ARN, True),
        (ARN, ARN.replace("us-west-2", "eu-west-1"), False),
        ("team/hf", "team/h", False),
        ("team/hf-AbCdEf", ARN, False),
        ("hf", ARN, False),
    ],
)
def test_a_name_and_an_arn_may_name_the_same(one: str, other: str, same: bool) -> None:
    assert names_the_same(one, other) is same


def test_the_name_is_in_the_arn() -> None:
    assert secret_name(ARN) == secret_name("team/hf") == "team/hf"


def test_a_cluster_file_names_secrets_and_their_keys(tmp_path: Path) -> None:
    spec = load(f"{SMALLEST}secrets: [team/hf, '{ARN}']\nsecret_keys: ['{KEY}']\n", tmp_path)
    assert (spec.secrets, spec.secret_keys) == (["team/hf", ARN], [KEY])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("observability: {idle_gpu_minutes: 181}", "`observability.idle_gpu_minutes`: 181 is not valid"),
        ("secrets: ['a b']", "`secrets.0`"),
        ("secrets: [hf, hf]", "'hf' is there twice"),
        (
            f"secrets: {[str(number).ljust(500, 'x') for number in range(1, 10)]}",
            "have 4500 characters, more than the 4000 for which the manifest has room",
        ),
        (f"secret_keys: ['{KEY}']", "there is no secret that the keys could be of"),
        ("secrets: [hf]\nsecret_keys: [mine]", "'mine' is not the ARN of a KMS key"),
        (
            f"secrets: [hf]\nsecret_keys: ['{KEY.replace('us-west-2', 'eu-west-1')}']",
            "a secret's key is of its region",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (problem,) = problems(f"{SMALLEST}{text}\n", tmp_path)
    assert told in problem
