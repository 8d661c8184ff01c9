"""What is deployed, asked before a cluster is synthesized again: its file, and which clusters there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from launcher.cluster.files import field_location
from launcher.cluster.names import manifest_parameter_name, stack_name
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import changes, deployed_cluster_file

Answer = TypeVar("Answer")

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
    deployed = _deployed_file(spec, account, client or make_client)
    if deployed is None:
        return []
    found = ((each, each.obstacle(replace_data=replace_data)) for each in changes(deployed, spec))
    return [f"{field_location(file, each.path)}: {text}" for each, text in found if text is not None]


def deployed_clusters(region: str, account: str, client: Client | None = None) -> list[str]:
    """The names of the clusters that stand in a region, by their manifests.

    Raises:
        NotCompared: AWS did not say.
    """
    client = client or make_client
    folder = manifest_parameter_name("")

    def ask() -> list[str]:
        pages = client("ssm", region).get_paginator("get_parameters_by_path").paginate(Path=folder)
        return sorted(each["Name"].removeprefix(folder) for page in pages for each in page["Parameters"])

    why = "which clusters stand here was not looked at, and dev is taken for chosen"
    return asked(ask, account, region, client, why)


def _deployed_file(spec: ClusterSpec, account: str, client: Client) -> Mapping[str, Any] | None:
    from botocore.exceptions import ClientError

    stack = stack_name(spec.name, "manifest")

    def ask() -> Mapping[str, Any] | None:
        try:
            body = client("cloudformation", spec.region).get_template(StackName=stack)["TemplateBody"]
        except ClientError as error:
            said = error.response.get("Error", {})
            # CloudFormation has no code of its own for it (API reference, GetTemplate).
            if said.get("Code") == "ValidationError" and "does not exist" in said.get("Message", ""):
                return None
            raise
        deployed = deployed_cluster_file(json.loads(body) if isinstance(body, str) else body)
        if deployed is None:
            raise ValueError("an earlier version of Slipway deployed it, which did not keep its file")
        return deployed

    why = (
        f"cluster {spec.name} was not compared with what is deployed, so nothing that would replace data is "
        f"refused here; `launch cluster plan {spec.name}` compares the templates"
    )
    return asked(ask, account, spec.region, client, why)


def asked(ask: Callable[[], Answer], account: str, region: str, client: Client, otherwise: str) -> Answer:
    """An answer of AWS, asked in the account that the CDK's command line deploys into.

    Raises:
        NotCompared: there is none; `otherwise` says what follows from that.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        own = str(client("sts", region).get_caller_identity()["Account"])
        if own == account:
            return ask()
        why = (
            f"the app's own credentials are of account {own}, not {account} (`--profile` reaches the CDK's "
            "command line only: set AWS_PROFILE)"
        )
    except ClientError as error:
        said = error.response.get("Error", {})
        why = f"{said.get('Code')}: {said.get('Message')}"
    except (BotoCoreError, ValueError) as error:
        why = str(error)
    raise NotCompared(f"{otherwise}: {' '.join(why.split()).rstrip('.')}.")


def make_client(service: str, region: str) -> Any:
    """A client of a service, with short timeouts."""
    # Here, as looking at a cluster without an account needs no SDK.
    from boto3.session import Session
    from botocore.config import Config

    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    return Session().client(service, region_name=region, config=config)
