"""What a cluster was deployed with, asked before it is synthesized again: the one thing the app asks AWS."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.cluster.changes import changes, deployed_cluster_file
from launcher.cluster.cluster_files import field_location
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.stack_names import stack_name

Client = Callable[[str, str], Any]
"""Makes the client of a service in a region."""

_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 2, 5, 2
"""A deployment is about to call AWS for minutes: what does not answer now will be seen then."""


class NotCompared(Exception):
    """What is deployed could not be read, so nothing was refused; the text says why."""


def refused_changes(
    spec: ClusterSpec,
    file: Path,
    account: str,
    *,
    replace_data: bool,
    client: Client | None = None,
) -> list[str]:
    """What a deployment must not change, each with its place in the file; none for a first deployment.

    Args:
        spec: the cluster as it is wanted.
        file: its file.
        account: the account that the CDK's command line deploys into.
        replace_data: whether data may be deleted, or left behind.
        client: makes clients; by default boto3's, with short timeouts.

    Raises:
        NotCompared: AWS did not say what is deployed, or what is deployed does not tell its file.
    """
    deployed = _deployed_file(spec, account, client or _client)
    if deployed is None:
        return []
    found = ((each, each.obstacle(replace_data=replace_data)) for each in changes(deployed, spec))
    return [f"{field_location(file, each.path)}: {text}" for each, text in found if text is not None]


def _deployed_file(spec: ClusterSpec, account: str, client: Client) -> Mapping[str, Any] | None:
    from botocore.exceptions import BotoCoreError, ClientError

    stack = stack_name(spec.name, "manifest")
    try:
        asked = str(client("sts", spec.region).get_caller_identity()["Account"])
        if asked != account:
            raise _not_compared(
                spec,
                f"its own credentials are of account {asked}, not {account} (`--profile` reaches the CDK's "
                "command line only: set AWS_PROFILE)",
            )
        body = client("cloudformation", spec.region).get_template(StackName=stack)["TemplateBody"]
        template = json.loads(body) if isinstance(body, str) else body
        deployed = deployed_cluster_file(template)
    except ClientError as error:
        said = error.response.get("Error", {})
        # CloudFormation has no code of its own for it (API reference, GetTemplate).
        if said.get("Code") == "ValidationError" and "does not exist" in said.get("Message", ""):
            return None
        raise _not_compared(spec, f"{said.get('Code')}: {said.get('Message')}") from error
    except (BotoCoreError, ValueError) as error:
        raise _not_compared(spec, str(error)) from error
    if deployed is None:
        raise _not_compared(spec, "an earlier version of Slipway deployed it, which did not keep its file")
    return deployed


def _not_compared(spec: ClusterSpec, why: str) -> NotCompared:
    why = " ".join(why.split()).rstrip(".")
    return NotCompared(
        f"cluster {spec.name} was not compared with what is deployed, so nothing that would replace data is "
        f"refused here: {why}. `launch cluster plan {spec.name}` compares the templates."
    )


def _client(service: str, region: str) -> Any:
    # Here, as looking at a cluster without an account needs no SDK.
    from boto3.session import Session
    from botocore.config import Config

    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    return Session().client(service, region_name=region, config=config)
