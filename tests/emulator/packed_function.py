"""The controller's function as it is packed, in a process of its own that takes messages as Lambda would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import boto3

from stacks.controller_package import controller_package
from tests.emulator.account import ACCOUNT, REGION
from tests.emulator.managed_cluster import BUCKET

FUNCTION_SECONDS = 900.0
"""The function's time-out, as constructs/managed_runs.py sets it."""

SITE_PACKAGES = Path(boto3.__file__).parents[1]
OF_LAMBDA = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")
"""What Lambda's Python brings along, by its name in site-packages."""

RUNTIME = """
import json, sys

import boto3

from launcher.controller import handle

QUEUE, FUNCTION, SECONDS = sys.argv[1:]
sqs = boto3.client("sqs")


class Context:
    invoked_function_arn = FUNCTION

    def __init__(self, message):
        self.aws_request_id = message

    def get_remaining_time_in_millis(self):
        return 1000 * int(SECONDS)


for _ in sys.stdin:
    received = sqs.receive_message(
        QueueUrl=QUEUE, MaxNumberOfMessages=1, AttributeNames=["ApproximateReceiveCount"]
    ).get("Messages", [])
    failed = []
    for message in received:
        event = {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
        }
        failed = handle({"Records": [event]}, Context(message["MessageId"]))["batchItemFailures"]
        if not failed:
            sqs.delete_message(QueueUrl=QUEUE, ReceiptHandle=message["ReceiptHandle"])
    print("told:", json.dumps([len(received), len(failed)]), flush=True)
"""
"""What Lambda does for a function that has a queue as its source: one message for each line of its input."""

_LONGEST_SECONDS = 900


def function_environment(topic: str) -> dict[str, str]:
    """What the function gets from its stack in the emulated account; `topic` is an ARN."""
    return {
        "SLIPWAY_CLUSTER": "dev",
        "SLIPWAY_CODE_BUCKET": BUCKET,
        "SLIPWAY_QUEUE_ARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:events",
        "SLIPWAY_SCHEDULE_GROUP": "runs",
        "SLIPWAY_SCHEDULE_ROLE": f"arn:aws:iam::{ACCOUNT}:role/schedules",
        "SLIPWAY_TOPIC_ARN": topic,
        "SLIPWAY_DIGEST": controller_package().digest,
    }


@contextmanager
def packed_function(
    endpoint: str, queue: str, arn: str, environment: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """The function's process, which takes a message of the queue for each line of its input."""
    words = [queue, arn, str(int(FUNCTION_SECONDS))]
    with running_package(RUNTIME, words, endpoint, environment, folder) as started:
        watch = Timer(_LONGEST_SECONDS, started.kill)
        watch.start()
        try:
            yield started
        finally:
            watch.cancel()


@contextmanager
def running_package(
    program: str, words: Sequence[str], endpoint: str, environment: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """A program around the function, on a folder that it cannot write to, with nothing of this process."""
    package, library = folder / "package", folder / "library"
    shutil.copytree(controller_package().folder, package)
    library.mkdir()
    for name in OF_LAMBDA:
        (library / name).symlink_to(SITE_PACKAGES / name)
    files = _files(package)
    _make_read_only(package)
    started = subprocess.Popen(
        [sys.executable, "-S", "-s", "-P", "-c", program, *words],
        cwd="/",
        env={
            **environment,
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join(map(str, (package, library))),
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_ENDPOINT_URL": endpoint,
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield started
        assert _files(package) == files, "it has written into its own folder"
    finally:
        started.kill()
        started.communicate()


def _files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def _make_read_only(folder: Path) -> None:
    for file in (*folder.rglob("*"), folder):
        file.chmod(0o555 if file.is_dir() else 0o444)


def take_message(function: subprocess.Popen[str]) -> list[int]:
    """Let a function have the next message: how many there were, and how many failed."""
    assert function.stdin is not None
    assert function.stdout is not None
    function.stdin.write("\n")
    function.stdin.flush()
    printed = []
    for line in function.stdout:
        printed.append(line)
        if line.startswith("told:"):
            told: list[int] = json.loads(line.removeprefix("told:"))
            return told
    raise AssertionError("".join(printed))
