"""All live rules, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from launcher.failure_modes.model import Finding
from launcher.failure_modes.registry import REGISTRY
from launcher.rules.live.addresses import hosts_find_their_addresses, subnets_exist
from launcher.rules.live.buckets import (
    buckets_are_in_the_region,
    inputs_are_not_empty,
    inputs_can_be_listed,
    keys_may_admit_the_role,
    role_reaches_its_data,
)
from launcher.rules.live.capacity import quota_has_room, type_is_in_the_zone, warm_pool_has_room
from launcher.rules.live.checkpoints import checkpoints_are_the_jobs_own, nothing_lies_at_the_checkpoints
from launcher.rules.live.dataset import downloads_are_small, large_data_is_mounted
from launcher.rules.live.groups import groups_exist, hosts_admit_each_other, hosts_may_send_to_each_other
from launcher.rules.live.hosts import hosts_share_a_zone, network_is_one, subnets_of_a_zone_are_connected
from launcher.rules.live.image import image_exists
from launcher.rules.live.lustre import (
    file_system_is_available,
    file_system_is_in_the_jobs_vpc,
    file_system_is_in_the_jobs_zone,
    paths_begin_with_the_mount_name,
)
from launcher.rules.live.lustre_ports import lustre_ports_are_open
from launcher.rules.live.role import caller_may_submit, role_has_what_the_job_needs, role_trusts_sagemaker
from launcher.rules.live.secrets import role_may_read_the_secrets
from launcher.rules.live.subject import LiveSubject
from launcher.rules.live.way_out import acls_let_https_pass, hosts_reach_aws

RULES: tuple[Callable[[LiveSubject], Iterator[Finding]], ...] = (
    groups_exist,
    hosts_admit_each_other,
    hosts_may_send_to_each_other,
    hosts_reach_aws,
    acls_let_https_pass,
    subnets_exist,
    hosts_find_their_addresses,
    network_is_one,
    hosts_share_a_zone,
    subnets_of_a_zone_are_connected,
    file_system_is_available,
    file_system_is_in_the_jobs_vpc,
    file_system_is_in_the_jobs_zone,
    paths_begin_with_the_mount_name,
    lustre_ports_are_open,
    downloads_are_small,
    large_data_is_mounted,
    buckets_are_in_the_region,
    inputs_are_not_empty,
    inputs_can_be_listed,
    role_reaches_its_data,
    keys_may_admit_the_role,
    role_trusts_sagemaker,
    role_has_what_the_job_needs,
    role_may_read_the_secrets,
    caller_may_submit,
    checkpoints_are_the_jobs_own,
    nothing_lies_at_the_checkpoints,
    quota_has_room,
    warm_pool_has_room,
    type_is_in_the_zone,
    image_exists,
)


def check_account(subject: LiveSubject, codes: Collection[str] | None = None) -> list[Finding]:
    """What every rule finds, or those that find one of the codes.

    What could not be verified is said once for each code and fact.
    """
    rules = RULES if codes is None else tuple(rule for rule in RULES if _codes_of(rule) & set(codes))
    found = (finding for rule in rules for finding in rule(subject))
    return list(dict.fromkeys(found))


def _codes_of(rule: Callable[[LiveSubject], Iterator[Finding]]) -> set[str]:
    return {mode.code for each in REGISTRY if each.function is rule for mode in each.modes}
