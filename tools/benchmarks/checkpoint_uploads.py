"""Checkpoints to S3 and back, against boto3's own upload_file and download_file of the same file.

An S3 on loopback, so what is compared is what comes on top of boto3. Both by turns in one run, the best of
each. Exits with 1 over the bound.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import boto3

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tools.attack  # noqa: F401  (where the folder `tests` gets its name)
from slipway.saving.upload_places import S3Place
from tests.emulator.faulty_server import faulty_server

BOUND = 1.1
SIZE = 100_000_000
TIMES = 5


def seconds(action: Callable[[], object]) -> float:
    """How long it took."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> int:
    """Measure, print, compare with the bound."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ[name] = "testing"
    with faulty_server() as server, tempfile.TemporaryDirectory() as folder:
        os.environ["AWS_ENDPOINT_URL_S3"] = server.url
        file = Path(folder) / "model.pt"
        file.write_bytes(os.urandom(SIZE))
        back = Path(folder) / "back.pt"
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="checkpoints")
        place = S3Place("s3://checkpoints/run", "us-east-1")
        times: dict[str, list[float]] = {"up": [], "up by boto3": [], "down": [], "down by boto3": []}
        for _ in range(TIMES):
            times["up by boto3"].append(
                seconds(lambda: client.upload_file(str(file), "checkpoints", "boto3/model.pt"))
            )
            times["up"].append(seconds(lambda: place.put({"model.pt": file}, lambda: False)))
            times["down by boto3"].append(
                seconds(lambda: client.download_file("checkpoints", "boto3/model.pt", str(back)))
            )
            times["down"].append(seconds(lambda: place.get({"model.pt": back})))
    best = {name: min(each) for name, each in times.items()}
    ratios = [best["up"] / best["up by boto3"], best["down"] / best["down by boto3"]]
    for name, took in best.items():
        print(f"{name:14} {took:6.2f} s  {SIZE / took / 1e6:6.0f} MB/s")
    print(f"ratio up {ratios[0]:.2f}, down {ratios[1]:.2f} (bound {BOUND})")
    return 1 if max(ratios) > BOUND else 0


if __name__ == "__main__":
    sys.exit(main())
