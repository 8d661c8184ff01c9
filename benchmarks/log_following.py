"""Reading the logs of 64 hosts with 10,000 lines each, and listing 1,000 jobs.

Bounds: merging by time may take 1.3 times as long as a bare loop of concurrent GetLogEvents calls that
throws the answers away (the fastest of runs in turn, each a process of its own, against the same service on
loopback), and the process may use 300 MB at most. Nothing may be lost, come twice or out of order.
`launch list` of 1,000 jobs may take twice as long as the ten bare ListTrainingJobs calls, each a process
with its imports.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HOSTS = 64
LINES = 10_000
RUNS = 5
BOUND = 1.3
MOST_MEGABYTES = 300
LIST_BOUND = 2.0

HERE = Path(__file__).resolve()


def main() -> int:
    """Measure in turn, print the figures, exit with 1 where one is over its bound."""
    if len(sys.argv) > 1:
        print(json.dumps({"ours": read_merged, "bare": read_bare, "list": list_bare}[sys.argv[1]]()))
        return 0
    with subprocess.Popen(
        [sys.executable, str(HERE.with_name("peers") / "log_service.py"), "5000", "10000"],
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        try:
            assert service.stdout is not None
            return measure(f"http://127.0.0.1:{service.stdout.readline().strip()}")
        finally:
            service.terminate()


def measure(address: str) -> int:
    """All figures against the service at this address."""
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": address,
        "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(HERE.parent.parent),
    }

    def run(kind: str) -> dict[str, float]:
        command = [sys.executable, str(HERE), kind]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        result: dict[str, float] = json.loads(done.stdout)
        return result

    run("bare")  # not counted: Python compiles what has changed
    pairs = [(run("ours"), run("bare")) for _ in range(RUNS)]
    # The fastest of each: other work on the machine only ever adds, and unevenly.
    ours, bare = (min(each["seconds"] for each in column) for column in zip(*pairs, strict=True))
    memory = max(mine["megabytes"] for mine, _ in pairs)
    print(
        f"{HOSTS} hosts x {LINES} lines: merged {ours:.2f} s, bare {bare:.2f} s: ratio {ours / bare:.2f} "
        f"(bound {BOUND}); memory {memory:.0f} MB (bound {MOST_MEGABYTES}), bare "
        f"{max(theirs['megabytes'] for _, theirs in pairs):.0f} MB"
    )
    listing = [list_both(environment) for _ in range(RUNS)]
    command, calls = (statistics.median(column) for column in zip(*listing, strict=True))
    print(
        f"launch list of 1000 jobs {command:.2f} s, the bare calls {calls:.2f} s: "
        f"ratio {command / calls:.2f} (bound {LIST_BOUND})"
    )
    within = ours <= BOUND * bare and memory <= MOST_MEGABYTES and command <= LIST_BOUND * calls
    return 0 if within else 1


def list_both(environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of `launch list` as JSON, and of a process with the bare calls."""
    seconds = []
    for command in (
        [sys.executable, "-m", "launcher.cli.app", "list", "--limit", "0", "--output", "json"],
        [sys.executable, str(HERE), "list"],
    ):
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        seconds.append(time.perf_counter() - start)
        names = json.loads(done.stdout)["jobs"]
        assert len(names) == 1000, len(names)
    return seconds[0], seconds[1]


def read_merged() -> dict[str, float]:
    """The launcher's reader to the end of all streams; checks order and number."""
    from peers.log_service import JOB

    from launcher.session.jobs import sagemaker_backend

    backend = sagemaker_backend("us-west-2")
    start = time.perf_counter()
    cursor: Any = {}
    count, latest = 0, 0.0
    while True:
        batch = backend.read_logs(JOB, cursor)
        if not batch.lines:
            break
        cursor = batch.cursor
        count += len(batch.lines)
        assert batch.lines[0].time >= latest, "out of order"
        latest = batch.lines[-1].time
    seconds = time.perf_counter() - start
    assert count == HOSTS * LINES, count
    return {"seconds": seconds, "megabytes": peak()}


def read_bare() -> dict[str, float]:
    """GetLogEvents for each stream until its token comes back, ten streams at a time."""
    import boto3
    from botocore.config import Config
    from peers.log_service import JOB

    logs = boto3.client("logs", config=Config(max_pool_connections=10))

    def read(host: int) -> int:
        token: dict[str, str] = {}
        count = 0
        while True:
            page = logs.get_log_events(
                logGroupName="/aws/sagemaker/TrainingJobs",
                logStreamName=f"{JOB}/algo-{host}-1790000000",
                startFromHead=True,
                **token,
            )
            count += len(page["events"])
            if token.get("nextToken") == page["nextForwardToken"]:
                return count
            token = {"nextToken": page["nextForwardToken"]}

    start = time.perf_counter()
    with ThreadPoolExecutor(10) as pool:
        count = sum(pool.map(read, range(1, HOSTS + 1)))
    seconds = time.perf_counter() - start
    assert count == HOSTS * LINES, count
    return {"seconds": seconds, "megabytes": peak()}


def list_bare() -> dict[str, list[str]]:
    """The names of all jobs by the calls alone."""
    import boto3

    pages = (
        boto3.client("sagemaker")
        .get_paginator("list_training_jobs")
        .paginate(SortBy="CreationTime", SortOrder="Descending", MaxResults=100)
    )
    return {"jobs": [job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]]}


def peak() -> float:
    """The most memory that this process has had, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main())
