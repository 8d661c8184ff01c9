"""A log service on loopback that answers GetLogEvents, DescribeLogStreams and ListTrainingJobs from memory.

It stands in for the network end in benchmarks: moto takes longer to answer than any reader to read. Each
answer is built once and then sent as it is. Run as a program it prints its port and serves until killed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

JOB = "benchmark-0000000000000000"
START = 1_790_000_000_000
SECONDS = 3600
LONGEST_PAGE = 10_000
MOST_BYTES = 1_000_000
"""What one answer may hold (CloudWatch Logs API reference, GetLogEvents); the service counts 26 bytes more
for each event."""


class Service(BaseHTTPRequestHandler):
    """Answers for `hosts` streams of `lines` lines each, and `jobs` training jobs."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hosts = 64
    lines = 10_000
    jobs = 1_000
    calls: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        """How often each operation was called since the last time that this was asked."""
        body = json.dumps(self.calls).encode()
        self.calls.clear()
        self._answer(body)

    def do_POST(self) -> None:
        """One call of the API."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        self.calls[operation] += 1
        if operation == "GetLogEvents":
            host = int(asked["logStreamName"].split("algo-")[1].split("-")[0])
            start = int(asked.get("nextToken", "f/0")[2:])
            body = page(host, start, asked.get("limit", LONGEST_PAGE), self.lines)
        elif operation == "DescribeLogStreams":
            first = int(asked.get("nextToken", "0"))
            body = streams(first, self.hosts)
        else:
            body = listed(int(asked.get("NextToken", "0")), asked.get("MaxResults", 10), self.jobs)
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def text_of(host: int, number: int) -> str:
    """A line as a training prints it, about 100 characters."""
    rank = (host - 1) * 8 + number % 8
    return (
        f"[rank{rank}]: epoch=1 step={number // 8} loss={2 + (number * 7919 % 1000) / 1000:.4f} "
        f"samples/s={4000 + number % 100} grad_norm=1.0471 lr=0.0003000 data_time=0.0132"
    )


@lru_cache(maxsize=4096)
def page(host: int, start: int, limit: int, lines: int) -> bytes:
    """An answer of GetLogEvents; its tokens are line numbers."""
    events, size = [], 0
    for number in range(start, min(lines, start + limit)):
        text = text_of(host, number)
        size += len(text) + 26
        if size > MOST_BYTES:
            break
        time = START + number * SECONDS * 1000 // lines + host
        events.append({"timestamp": time, "message": text, "ingestionTime": time + 900})
    end = start + len(events)
    return json.dumps(
        {"events": events, "nextForwardToken": f"f/{end:056d}", "nextBackwardToken": f"b/{start:056d}"}
    ).encode()


@lru_cache(maxsize=64)
def streams(first: int, hosts: int) -> bytes:
    """An answer of DescribeLogStreams, 50 at a time as the service has it."""
    names = [f"{JOB}/algo-{number}-1790000000" for number in range(1, hosts + 1)]
    answer: dict[str, object] = {
        "logStreams": [{"logStreamName": name} for name in names[first : first + 50]]
    }
    if first + 50 < hosts:
        answer["nextToken"] = str(first + 50)
    return json.dumps(answer).encode()


@lru_cache(maxsize=64)
def listed(first: int, size: int, jobs: int) -> bytes:
    """An answer of ListTrainingJobs, newest first."""
    found = [
        {
            "TrainingJobName": f"job-{jobs - number:06d}",
            "TrainingJobArn": "arn:aws:sagemaker:us-west-2:111122223333:training-job/"
            f"job-{jobs - number:06d}",
            "CreationTime": START / 1000 - number * 60,
            "TrainingEndTime": START / 1000 - number * 60 + 3000,
            "TrainingJobStatus": "Completed",
            "SecondaryStatus": "Completed",
        }
        for number in range(first, min(jobs, first + size))
    ]
    answer: dict[str, object] = {"TrainingJobSummaries": found}
    if first + size < jobs:
        answer["NextToken"] = str(first + size)
    return json.dumps(answer).encode()


def main() -> None:
    """Serve on a free port of loopback, with the pages of the sizes that are named made beforehand."""
    for host in range(1, Service.hosts + 1):
        for limit in map(int, sys.argv[1:]):
            start, events = 0, True
            while events:
                events = json.loads(page(host, start, limit, Service.lines))["events"]
                start += len(events)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
