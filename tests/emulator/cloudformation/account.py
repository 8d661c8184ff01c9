"""Clients for moto's account, for what happens inside of moto, where no test and no server stands between."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.models import botocore_stubber


@dataclass(frozen=True)
class Account:
    """One region of an account, in which CloudFormation's resources are made."""

    id: str
    region: str

    def client(self, service: str) -> Any:
        """A client whose calls moto answers, whether this runs in moto's server or in a test itself."""
        return _client(service, self.region)

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource of this account and region."""
        return f"arn:aws:{service}:{self.region}:{self.id}:{resource}"


@functools.cache
def _client(service: str, region: str) -> Any:
    client = boto3.client(
        service,
        region_name=region,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(ignore_configured_endpoint_urls=True, retries={"total_max_attempts": 1}),
    )
    client.meta.events.register_first("before-send", _answer)
    return client


def _answer(event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
    # Within mock_aws moto answers every client by itself, and would do everything twice.
    return None if botocore_stubber.enabled else _own_stubber(event_name, request)


_own_stubber = BotocoreStubber()
_own_stubber.enabled = True
