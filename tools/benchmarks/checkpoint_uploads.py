"""Checkpoints to S3 and back, against boto3's own upload_file and download_file of the same file.

An S3 on loopback, so what is compared is what comes on top of boto3. Both by turns in one run, the best of
each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import boto3

from slipway.saving.upload_places import S3Place
from tests.emulator.faulty_server import faulty_server
from tools.benchmarks.measuring import Figure, in_turn, seconds_of

BOUND = 1.1
SIZE = 100_000_000
TIMES = 5


def figures(folder: Path) -> Iterator[Figure]:
    """The ratio of either direction."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ[name] = "testing"
    file, back = folder / "model.pt", folder / "back.pt"
    file.write_bytes(os.urandom(SIZE))
    with faulty_server() as server:
        os.environ["AWS_ENDPOINT_URL_S3"] = server.url
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="checkpoints")
        place = S3Place("s3://checkpoints/run", "us-east-1")
        actions: dict[str, Callable[[], object]] = {
            "up by boto3": partial(client.upload_file, str(file), "checkpoints", "boto3/model.pt"),
            "up": lambda: place.put({"model.pt": file}, lambda: False),
            "down by boto3": partial(client.download_file, "checkpoints", "boto3/model.pt", str(back)),
            "down": lambda: place.get({"model.pt": back}),
        }
        times = in_turn(
            {name: partial(seconds_of, each) for name, each in actions.items()}, TIMES, warm=False
        )
    best = {name: min(each) for name, each in times.items()}
    for way in ("up", "down"):
        ours, theirs = best[way], best[f"{way} by boto3"]
        beside = ", ".join(f"{took:.2f} s ({SIZE / took / 1e6:.0f} MB/s)" for took in (ours, theirs))
        yield Figure(f"{way} against boto3", ours / theirs, BOUND, "", beside)
