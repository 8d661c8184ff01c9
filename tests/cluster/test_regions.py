"""What regions lack is what CloudFormation's registry says they lack."""

from __future__ import annotations

import re

import pytest
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from launcher.cluster.regions import REGION, WITHOUT_BUDGETS, WITHOUT_FSX
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
