"""Reading the logs of 64 hosts with 10,000 lines each, showing them, and listing 1,000 jobs.

Bounds: merging by time may take 1.3 times as long as a bare loop of concurrent GetLogEvents calls that
throws the answers away, make no more of these calls, and the process may use 300 MB at most. Both have as
many threads, ask for pages of the same size, and are timed from the first call to the last, without the
imports and the making of the clients; each run is a process of its own, against the same service on
loopback. The figure is the median of the ratios of runs in turn: other work on the machine slows both of
a pair. Nothing may be lost, come twice or out of order: a run that is not timed looks at every line.

To look for progress in all lines and to print them without a terminal may take as much of the processor as
the bare loop.
`launch list` of 1,000 jobs may take twice as long as the ten bare ListTrainingJobs calls, each a process
with its imports.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tools.benchmarks.measuring import MEGABYTE, Figure, Run, run_process

HOSTS = 64
LINES = 10_000
JOBS = 1_000
PAGE = 5_000
"""What the reader asks for with so many hosts."""

THREADS = 10
RUNS = 7
BOUND = 1.3
SHOWN_BOUND = 1.0
MOST_MEGABYTES = 300
LIST_BOUND = 2.0

_ITSELF = (sys.executable, "-m", "tools.benchmarks.log_following")


def figures(folder: Path) -> Iterator[Figure]:
    """All figures, against a service in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tools.benchmarks.peers.log_service", str(PAGE)],
        stdout=subprocess.PIPE,
        text=True,
    ) as service:
        try:
            assert service.stdout is not None
            yield from measured(f"http://127.0.0.1:{service.stdout.readline().strip()}")
        finally:
            service.terminate()


def measured(address: str) -> Iterator[Figure]:
    """All figures against the service at this address."""
    environment = {
        "AWS_ENDPOINT_URL": address,
        "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    def run(kind: str) -> dict[str, float]:
        result: dict[str, float] = json.loads(run_process([*_ITSELF, kind], environment=environment).printed)
        with urllib.request.urlopen(f"{address}/calls") as answer:
            result["calls"] = json.load(answer).get("GetLogEvents", 0)
        return result

    def listed(*command: str) -> Run:
        done = run_process([sys.executable, "-m", *command], environment=environment)
        assert len(json.loads(done.printed)["jobs"]) == JOBS
        return done

    run("checked")
    run("bare")  # not counted: Python compiles what has changed
    pairs = []
    for number in range(RUNS):
        # Whoever runs second finds a machine that is warmer, or slower.
        kinds = ("ours", "bare") if number % 2 else ("bare", "ours")
        pairs.append({kind: run(kind) for kind in kinds})

    def middle(kind: str, figure: str) -> float:
        return median(pair[kind][figure] for pair in pairs)

    def ratios(figure: str) -> list[float]:
        return sorted(pair["ours"][figure] / pair["bare"][figure] for pair in pairs)

    seconds = ratios("seconds")
    beside = (
        f"{middle('ours', 'seconds'):.2f} s and {middle('bare', 'seconds'):.2f} s, pairs {seconds[0]:.2f} to "
        f"{seconds[-1]:.2f}; of processor time {median(ratios('processor')):.2f}"
    )
    yield Figure(
        f"{HOSTS} hosts x {LINES} lines, merged against bare calls", median(seconds), BOUND, "", beside
    )
    yield Figure("GetLogEvents", middle("ours", "calls"), middle("bare", "calls"))
    most = {kind: max(pair[kind]["megabytes"] for pair in pairs) for kind in ("ours", "bare")}
    yield Figure("memory", most["ours"], MOST_MEGABYTES, " MB", f"bare {most['bare']:.0f} MB")
    # Both keep one processor busy, and other work on the machine adds nothing to that.
    shown = median(run("shown")["processor"] for _ in range(3)) / middle("bare", "processor")
    yield Figure("progress and plain lines of them all against the bare loop", shown, SHOWN_BOUND)
    launch = ("launcher.cli.app", "list", "--limit", "0", "--output", "json")
    listing = [(listed(*launch).seconds, listed(*_ITSELF[2:], "list").seconds) for _ in range(RUNS)]
    beside = "{:.2f} s and {:.2f} s".format(*(median(column) for column in zip(*listing, strict=True)))
    ratio = median(ours / bare for ours, bare in listing)
    yield Figure(f"launch list of {JOBS} jobs against the bare calls", ratio, LIST_BOUND, "", beside)


def read_merged() -> dict[str, float]:
    """The launcher's reader to the end of all streams."""
    batches = read_batches()
    next(batches)
    start = Stopwatch()
    count = sum(map(len, batches))
    assert count == HOSTS * LINES, count
    return start.figures()


def read_checked() -> dict[str, float]:
    """The same, with a look at each line: it is the next one of its host, and later than the one before."""
    from tools.benchmarks.peers.log_service import text_of

    following = dict.fromkeys(range(1, HOSTS + 1), 0)
    latest = 0.0
    for lines in read_batches():
        for line in lines:
            host = int(line.host.removeprefix("algo-"))
            assert line.text == text_of(host, following[host]), (line, following[host])
            assert line.time >= latest, "out of order"
            following[host] += 1
            latest = line.time
    assert set(following.values()) == {LINES}, following
    return {}


def read_batches() -> Iterator[Any]:
    """The lines of each batch, and before them an empty batch, when all is imported and made."""
    from launcher.aws.clients import Clients
    from launcher.session.find_jobs import sagemaker_backend
    from tools.benchmarks.peers.log_service import JOB

    backend = sagemaker_backend(Clients(), "us-west-2")
    cursor: Any = {}
    yield []
    while True:
        batch = backend.read_logs(JOB, cursor)
        if not batch.lines:
            return
        cursor = batch.cursor
        yield batch.lines


def read_bare() -> dict[str, float]:
    """GetLogEvents for each stream until its token comes back, so many streams at a time."""
    import boto3
    from botocore.config import Config

    from tools.benchmarks.peers.log_service import JOB

    logs = boto3.client("logs", config=Config(max_pool_connections=THREADS))

    def read(host: int) -> int:
        token: dict[str, str] = {}
        count = 0
        while True:
            page = logs.get_log_events(
                logGroupName="/aws/sagemaker/TrainingJobs",
                logStreamName=f"{JOB}/algo-{host}-1790000000",
                startFromHead=True,
                limit=PAGE,
                **token,
            )
            count += len(page["events"])
            if token.get("nextToken") == page["nextForwardToken"]:
                return count
            token = {"nextToken": page["nextForwardToken"]}

    start = Stopwatch()
    with ThreadPoolExecutor(THREADS) as pool:
        count = sum(pool.map(read, range(1, HOSTS + 1)))
    assert count == HOSTS * LINES, count
    return start.figures()


def show() -> dict[str, float]:
    """All lines through what judges a followed job, to a file: batches of the reader's size."""
    from rich.console import Console

    from launcher.backends.interface import JobState, JobStatus, LogLine
    from launcher.cli.job_view import JobView
    from launcher.session.runs.follow_job import Monitor
    from tools.benchmarks.peers.log_service import text_of

    hosts = range(1, HOSTS + 1)
    lines = [
        LogLine(number, f"algo-{host}", text_of(host, number)) for number in range(LINES) for host in hosts
    ]
    status = JobStatus("job", JobState.IN_PROGRESS, "Training", hosts=HOSTS, processes_per_host=8)
    with Path(os.devnull).open("w") as nowhere, JobView(Console(file=nowhere)) as view:
        monitor = Monitor(view)
        start = Stopwatch()
        for first in range(0, len(lines), 20_000):
            monitor.status(status)
            monitor.lines(lines[first : first + 20_000])
        return start.figures()


def list_bare() -> dict[str, list[str]]:
    """The names of all jobs by the calls alone."""
    import boto3

    pages = (
        boto3.client("sagemaker")
        .get_paginator("list_training_jobs")
        .paginate(SortBy="CreationTime", SortOrder="Descending", MaxResults=100)
    )
    return {"jobs": [job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]]}


class Stopwatch:
    """What this process has used since now."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._processor = time.process_time()

    def figures(self) -> dict[str, float]:
        """Seconds on the clock and of the processor, and the most memory so far, in MB."""
        return {
            "seconds": time.perf_counter() - self._start,
            "processor": time.process_time() - self._processor,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE,
        }


KINDS = {"ours": read_merged, "checked": read_checked, "bare": read_bare, "shown": show, "list": list_bare}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]]()))
