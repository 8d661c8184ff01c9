"""What stands in an account, read in one go: with the launcher's own calls, one after the other.

The launcher itself asks for the parts at once, each in a thread (`launcher.account.questions.gather`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.account.facts import FileSystem, parse_file_system
from launcher.account.network import NetworkState, serving, within
from launcher.account.questions.ask_network import (
    fetch_endpoints,
    fetch_main_route_tables,
    fetch_network_acls,
    fetch_own_route_tables,
    fetch_security_groups,
    fetch_subnets,
)
from launcher.account.questions.ask_storage import describe_file_system, fetch_interfaces


def read_network(ec2: Any, subnet_ids: Iterable[str], group_ids: Iterable[str]) -> NetworkState:
    """All of the network behind these subnets and groups."""
    wanted = tuple(subnet_ids)
    subnets = fetch_subnets(ec2, wanted)
    vpc_ids = frozenset(subnet.vpc_id for subnet in subnets)
    return NetworkState(
        subnets=subnets,
        groups=fetch_security_groups(ec2, group_ids),
        route_tables=serving(fetch_own_route_tables(ec2, wanted), fetch_main_route_tables(ec2), vpc_ids),
        endpoints=within(fetch_endpoints(ec2), vpc_ids),
        acls=fetch_network_acls(ec2, wanted),
    )


def read_file_system(fsx: Any, ec2: Any, file_system_id: str) -> FileSystem | None:
    """The file system with its zone and groups; None if there is none of that id."""
    described = describe_file_system(fsx, file_system_id)
    if described is None:
        return None
    subnets = fetch_subnets(ec2, described.get("SubnetIds", ())[:1])
    return parse_file_system(
        described,
        subnet=subnets[0] if subnets else None,
        interfaces=fetch_interfaces(ec2, described.get("NetworkInterfaceIds", ())),
    )


def refuses_plain_http(s3: Any, bucket: str) -> bool:
    """Whether a bucket's policy denies everything to everybody who does not use TLS."""
    statements = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    return any(map(_denies_plain_http, statements))


def _denies_plain_http(statement: Mapping[str, Any]) -> bool:
    return (
        statement["Effect"] == "Deny"
        and statement["Principal"] in ("*", {"AWS": "*"})
        and statement["Action"] == "s3:*"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    )
