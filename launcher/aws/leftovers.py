"""What stays behind when the stacks of a cluster are gone: logs of functions, and what carries its tag."""

from __future__ import annotations

from typing import Any

from launcher.aws.errors import aws_errors
from launcher.cluster.manifest import CLUSTER_TAG


def delete_function_logs(logs: Any, function: str) -> bool:
    """Delete the log group that Lambda made for a function; False where there is none.

    No stack has it among its resources: Lambda makes it when the function first runs, which the functions of
    a cluster last do when their stack is deleted. Raises AwsRefusal.
    """
    group = f"/aws/lambda/{function}"
    with aws_errors(f"delete the log group {group} (logs:DeleteLogGroup)"):
        try:
            logs.delete_log_group(logGroupName=group)
        except logs.exceptions.ResourceNotFoundException:
            return False
    return True


def fetch_tagged(tagging: Any, cluster: str) -> tuple[str, ...]:
    """The ARNs of everything in the region that carries a cluster's tag, by name.

    For some time after a deletion these may be of what is gone. Raises AwsRefusal where AWS refuses or
    cannot be reached.
    """
    with aws_errors("look for what carries the cluster's tag (tag:GetResources)"):
        pages = tagging.get_paginator("get_resources").paginate(
            TagFilters=[{"Key": CLUSTER_TAG, "Values": [cluster]}]
        )
        return tuple(sorted(each["ResourceARN"] for page in pages for each in page["ResourceTagMappingList"]))
