"""What a cluster takes over is judged before the deployment, by the rules that judge it before every job."""

from __future__ import annotations

from launcher.account.questions.gathering import gather_network
from launcher.aws.clients import Clients
from launcher.aws.cluster_manifest import fetch_manifest
from launcher.cluster.instances import instance_facts
from launcher.cluster.specification import ClusterSpec
from launcher.failure_modes.model import Finding
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.specification import JobSpec
from launcher.planning.network_request import network_request
from launcher.planning.request_view import RequestView
from launcher.rules.live.addresses import subnets_exist
from launcher.rules.live.groups import groups_exist, hosts_admit_each_other, hosts_may_send_to_each_other
from launcher.rules.live.hosts import network_is_one
from launcher.rules.live.lustre import file_system_is_available
from launcher.rules.live.lustre_ports import lustre_ports_are_open
from launcher.rules.live.subject import LiveSubject
from launcher.rules.live.way_out import acls_let_https_pass, hosts_reach_aws
from launcher.session.wanted import wanted_of

_OF_THE_NETWORK = (
    subnets_exist,
    groups_exist,
    hosts_admit_each_other,
    hosts_may_send_to_each_other,
    network_is_one,
    hosts_reach_aws,
    acls_let_https_pass,
)
_OF_THE_FILE_SYSTEM = (file_system_is_available, lustre_ports_are_open)


def judge_adopted(spec: ClusterSpec, clients: Clients, *, is_first: bool) -> tuple[Finding, ...]:
    """What the live rules find on subnets, groups and a file system that a cluster takes over.

    A group that the cluster is yet to make cannot be judged; that of a deployed one is read from its
    manifest, unless `is_first`. What could not be seen is a finding that says so. Raises Unreachable or
    UnusableSession where nothing could be asked.
    """
    existing = spec.vpc.existing
    subnet_ids = [each.id for each in existing.subnets] if existing else []
    group_ids = [existing.security_group_id] if existing and existing.security_group_id else []
    file_system = spec.lustre.existing if spec.lustre else None
    if not subnet_ids and file_system is None:
        return ()
    if not is_first and (not subnet_ids or not group_ids):
        try:
            manifest = fetch_manifest(clients("ssm", spec.region), spec.name)
        except Refusal:
            manifest = None  # half deployed: there is nothing of it to judge yet
        if manifest is not None:
            subnet_ids = subnet_ids or [each.id for each in manifest.subnets]
            group_ids = group_ids or list(manifest.security_group_ids)
    request = _request(spec, subnet_ids, group_ids, file_system.id if file_system else None)
    rules = (*(_OF_THE_NETWORK if existing else ()), *(_OF_THE_FILE_SYSTEM if file_system else ()))
    wanted = wanted_of(request, spec.region)
    subject = LiveSubject(
        job=_JOB,
        request=request,
        facts=instance_facts(wanted.instance_type),
        account=gather_network(clients, wanted),
    )
    return tuple(finding for rule in rules for finding in rule(subject))


def _request(
    spec: ClusterSpec, subnet_ids: list[str], group_ids: list[str], file_system_id: str | None
) -> RequestView:
    """What all planned hosts together would ask for, as far as the rules look at it."""
    largest = max(spec.hosts, key=lambda each: each.count)
    return RequestView(
        network_request(
            name=spec.name,
            role_arn=(spec.role.existing if spec.role else None) or "",
            instance_type=largest.instance_type,
            hosts=largest.count,
            subnet_ids=subnet_ids,
            security_group_ids=group_ids,
            file_system_id=file_system_id,
        )
    )


_JOB = JobSpec.model_validate(
    {
        "name": "any",
        "code": {"entry_point": "train.py"},
        "image": "any",
        "resources": {"instance_type": "ml.m5.xlarge"},
    }
)
"""The rules here look at no field of a job file."""
