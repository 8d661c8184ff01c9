"""An S3 on loopback for what copies checkpoints, with a bucket, credentials, and faults to order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from tests.emulator.faults import no_backoff
from tests.emulator.faulty_server import FaultyServer, faulty_server

URI = "s3://checkpoints/runs/digits-1"
PREFIX = "runs/digits-1/"


@dataclass(frozen=True)
class EmulatedS3:
    """The server, and a client to look at what it has."""

    server: FaultyServer
    client: Any

    def keys(self) -> list[str]:
        """The names below the prefix."""
        listed = self.client.list_objects_v2(Bucket="checkpoints", Prefix=PREFIX).get("Contents", ())
        return sorted(one["Key"].removeprefix(PREFIX) for one in listed)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedS3]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # Throttled clients make fewer calls a second.
    monkeypatch.setattr("botocore.retries.bucket.TokenBucket.acquire", lambda *_, **__: None)
    with faulty_server() as server, no_backoff():
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="checkpoints")
        yield EmulatedS3(server, client)
