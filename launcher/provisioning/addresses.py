"""The addresses of a deployed network, as the cluster file would keep them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.cluster.templates import Resource, Template, resources
from launcher.provisioning.model import Fate, StackChange

_SUBNET = "AWS::EC2::Subnet"
_NAME = re.compile(r".*/Network/Vpc/(?P<kind>training|nat)Subnet(?P<zone>\d+)")
_FIELDS = {"training": "cidr", "nat": "nat_cidr"}


def ranges_to_keep(network: Template, change: StackChange) -> str | None:
    """`vpc.subnets` that keeps the subnets of a deployed network, where the update would move them.

    `network` is the deployed template, `change` what would become of its stack. None where no subnet moves,
    or where the network is not one that this app made.
    """
    moves = any(
        each.type == _SUBNET and each.fate is Fate.REPLACED and "CidrBlock" in each.properties
        for each in change.resources
    )
    zones: dict[int, dict[str, str]] = {}
    for resource in resources(network).values():
        found = _NAME.fullmatch(_tags(resource).get("Name", "")) if resource["Type"] == _SUBNET else None
        if found is not None:
            ranges = zones.setdefault(int(found["zone"]), {})
            ranges[_FIELDS[found["kind"]]] = str(resource["Properties"]["CidrBlock"])
    if not moves or not zones or any("cidr" not in ranges for ranges in zones.values()):
        return None
    entries = (
        ", ".join(f"{field}: {zones[zone][field]}" for field in _FIELDS.values() if field in zones[zone])
        for zone in sorted(zones)
    )
    return f"subnets: [{', '.join(f'{{{entry}}}' for entry in entries)}]"


def _tags(resource: Resource) -> Mapping[str, str]:
    """The tags by their keys; the CDK names each subnet by its place in the app."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in resource.get("Properties", {}).get("Tags", ())}
