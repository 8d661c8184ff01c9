"""From a request to what must be looked at in the account before it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from launcher.account.questions.wanted import Wanted
from launcher.planning.request_view import RequestView


def wanted_of(request: RequestView, region: str, bucket_owners: Mapping[str, str] | None = None) -> Wanted:
    """What a request names, in the region where it would be sent, and the accounts of the cluster's buckets.

    Nothing is named twice, and everything in the order of the request. Raises KeyError for a request
    without a role.
    """
    places = request.checkpoints
    prefixes = (places.moved_by_service, places.moved_by_script)
    checkpoints = [each for each in prefixes if each is not None and each.startswith("s3://")]
    inputs = [channel.uri for channel in request.s3_inputs]
    return Wanted(
        region=region,
        job_name=str(request.name),
        role_arn=request.role_arn,
        instance_type=request.instance_type or "",
        instance_count=request.hosts or 0,
        spot=request.is_spot,
        warm_pool=request.keep_alive_seconds > 0,
        training_plan=request.training_plan is not None,
        image=request.image,
        subnet_ids=_unique(request.subnet_ids),
        group_ids=_unique(request.security_group_ids),
        file_system_id=next((mount.file_system_id for mount in request.mounts), None),
        reads=_unique([*inputs, request.code_uri, request.code_archive, *checkpoints]),
        writes=_unique([*checkpoints, request.output_uri]),
        looked_into=_unique([*inputs, *checkpoints]),
        output_keys=_unique([request.output_key]),
        volume_keys=_unique([request.volume_key]),
        bucket_owners=bucket_owners or {},
        tags=request.tags,
        secrets=_unique(request.secrets.values()),
        other_types=request.instance_types[1:],
        shell=request.options.lets_a_shell_in,
    )


def _unique(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
