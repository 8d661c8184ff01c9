"""Hosts and ranks killed while checkpoints go to S3, disks lost: does training end with the same bits?

`python -m tools.attack.real_ranks.upload_kills --kills 20` starts the real boots of two hosts with disks of
their own against an S3 on loopback that is slow and answers 503 to a fifth of what it is asked, kills one
rank or a whole host (SIGKILL) or stops the job (SIGTERM) at random instants, loses disks in between, resumes,
and compares the weights at the end with those of a run that nobody interrupted. After each kill whatever has
a manifest on S3 must be whole there.
"""

from __future__ import annotations

import logging
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import boto3
import psutil

from slipway.saving.stored_checkpoints import parse_manifest
from tests.emulator.faults import SLOW_DOWN
from tests.emulator.faulty_server import FaultyServer, faulty_server
from tools import ROOT
from tools.attack.real_ranks.campaign import Tally, tell_kills
from tools.attack.real_ranks.local_hosts import Boots, await_boots, printed_by, start_boots

TRAINING = ROOT / "tests" / "slipway" / "saving" / "training.py"
HOSTS = (1, 2)
BUCKET = "checkpoints"
BUSY, SLOW_SECONDS = 0.2, 0.01
PATIENCE_SECONDS = 240.0
_FAULTS = 50_000
_OPERATIONS = ("PutObject", "GetObject", "ListObjectsV2", "UploadPart")


class Interrupted:
    """One job that is started again and again: its disks, its prefix, and what became of it."""

    def __init__(self, folder: Path, server: FaultyServer, steps: int, prefix: str) -> None:
        self._folder, self._url, self._steps, self.prefix = folder / prefix, server.url, steps, prefix
        self.starts = 0
        self.disks = [self._folder / f"disk-{host}" for host in HOSTS]
        self._boots: Boots = {}

    def start(self) -> None:
        """Start the boots of both hosts."""
        self.starts += 1
        for place in (self._here(), *self.disks):
            place.mkdir(parents=True, exist_ok=True)
        options = ["--checkpoint-sync", "slipway", "--", "--steps", str(self._steps), "--every", "5"]
        self._boots = start_boots(self._here(), TRAINING.read_text("utf-8"), options, self._environment, 1)

    def printed(self) -> str:
        """What all hosts have printed since the last start."""
        return "".join(printed_by(self._here(), host) for host in HOSTS)

    def running(self) -> bool:
        """Whether a boot lives still."""
        return any(boot.poll() is None for boot in self._boots.values())

    def kill(self, kind: str, random: Random) -> None:
        """Kill a rank, a host with all that runs on it, or ask all hosts to end."""
        boot = random.choice([*self._boots.values()])
        if kind == "stop":
            for each in self._boots.values():
                each.send_signal(signal.SIGTERM)
            return
        below = psutil.Process(boot.pid).children(recursive=True) if boot.poll() is None else []
        ranks = [each for each in below if "train.py" in " ".join(_words(each))]
        victims = ranks[-1:] if kind == "rank" else [psutil.Process(boot.pid), *below]
        for victim in victims:
            try:
                victim.kill()
            except psutil.Error:
                continue

    def ended(self) -> bool:
        """Whether all hosts have ended by themselves, in time, with success or not; nothing runs after it."""
        return None not in await_boots(self._boots, PATIENCE_SECONDS).values()

    def _here(self) -> Path:
        return self._folder / f"start-{self.starts}"

    def _environment(self, root: Path) -> dict[str, str]:
        return {
            "SLIPWAY_CHECKPOINT_DIR": str(self._folder / f"disk-{root.name[-1]}"),
            "SLIPWAY_CHECKPOINT_URI": f"s3://{BUCKET}/{self.prefix}",
            "AWS_ENDPOINT_URL_S3": self._url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
        }


def attack(kills: int, seed: int, folder: Path, steps: int) -> Tally:
    """So many interruptions of one job."""
    random, tally = Random(seed), Tally()
    counts, wrong = tally.counts, tally.wrong
    with faulty_server() as server:
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        s3 = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", **keys)
        s3.create_bucket(Bucket=BUCKET)
        unbroken = _to_the_end(Interrupted(folder, server, steps, "unbroken"))
        server.on_call = lambda operation, key: time.sleep(SLOW_SECONDS)
        for operation in _OPERATIONS:
            faults = [SLOW_DOWN if random.random() < BUSY else None for _ in range(_FAULTS)]
            server.rule(operation, *faults)
        job = Interrupted(folder, server, steps, "broken")
        while counts["interruptions"] < kills:
            job.start()
            if _saved(job, random.randint(1, 4)):
                time.sleep(random.random() * 0.5)
                kind = random.choice(("rank", "host", "host", "stop"))
                job.kill(kind, random)
                counts["interruptions"] += 1
                counts[f"of kind {kind}"] += 1
            if not job.ended():
                wrong.append(f"start {job.starts}: a host did not end")
            found = re.findall(r"^.*rank 0 resumed (\d+)", job.printed(), re.MULTILINE)
            counts["resumes"] += len(found)
            counts["whole checkpoints on S3 looked at"] += _check_prefix(s3, job.prefix, wrong)
            if "final" in job.printed():
                break
            if random.random() < 0.6:
                lost = random.choice((job.disks, job.disks[:1], job.disks[1:]))
                for disk in lost:
                    shutil.rmtree(disk)
                    counts["disks lost"] += 1
        final = _final(job.printed()) or _to_the_end(job)
        counts["calls of S3"] = len(server.calls)
        if final != unbroken:
            wrong.append(f"the weights are {final}, unbroken {unbroken}")
    return tally


def _to_the_end(job: Interrupted) -> str | None:
    job.start()
    job.ended()
    found = _final(job.printed())
    if found is None:
        print(job.printed()[-3000:])
    return found


def _saved(job: Interrupted, times: int) -> bool:
    """Whether the job has saved so often before it ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while job.running() and time.monotonic() < deadline:
        if len(re.findall(r"saved \d+", job.printed())) >= times:
            return True
        time.sleep(0.02)
    return False


def _check_prefix(s3: Any, prefix: str, wrong: list[str]) -> int:
    """Each manifest on S3 has all its files, with their sizes; how many there are."""
    listed = {
        one["Key"].removeprefix(f"{prefix}/"): one["Size"]
        for page in _patiently(
            lambda: list(s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/"))
        )
        for one in page.get("Contents", ())
    }
    manifests = [name for name in listed if name.endswith("/manifest.json")]
    for name in manifests:
        text = _patiently(
            lambda name=name: s3.get_object(Bucket=BUCKET, Key=f"{prefix}/{name}")["Body"].read()
        )
        folder = name.split("/")[0]
        for entry in parse_manifest(text).files:
            if listed.get(f"{folder}/{entry.name}") != entry.bytes:
                wrong.append(f"{folder} has a manifest and not its {entry.name}")
    return len(manifests)


def _patiently(ask: Any) -> Any:
    """The server is as busy with whoever checks."""
    for _ in range(20):
        try:
            return ask()
        except Exception as error:
            last = error
    raise last


def _final(printed: str) -> str | None:
    found = re.search(r"final \d+ (\w{64})", printed)
    return found[1] if found else None


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    sys.exit(tell_kills(attack, kills=20, steps=400))
