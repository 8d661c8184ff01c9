"""The log streams of a training job: one per host, in one log group of the account."""

from __future__ import annotations

from typing import Any

from launcher.account.aws import aws_errors
from launcher.backends.interface import Cursor, LogBatch, LogLine

LOG_GROUP = "/aws/sagemaker/TrainingJobs"


def read_logs(logs: Any, job_name: str, cursor: Cursor) -> LogBatch:
    """What all hosts printed since the cursor, from one log stream per host."""
    lines: list[LogLine] = []
    tokens = dict(cursor)
    for stream in _streams(logs, job_name):
        host = stream.split("/")[1].rsplit("-", 1)[0]
        while True:
            token = {"nextToken": tokens[stream]} if stream in tokens else {}
            with aws_errors(f"read the logs of {host}"):
                page = logs.get_log_events(
                    logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True, **token
                )
            lines += [LogLine(e["timestamp"] / 1000, host, e["message"]) for e in page["events"]]
            # The service marks the end of a stream by giving the same token again.
            ended = tokens.get(stream) == page["nextForwardToken"]
            tokens[stream] = page["nextForwardToken"]
            if ended or not page["events"]:
                break
    return LogBatch(sorted(lines, key=lambda line: line.time), tokens)


def _streams(logs: Any, job_name: str) -> list[str]:
    with aws_errors("list the job's log streams"):
        try:
            pages = logs.get_paginator("describe_log_streams").paginate(
                logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job_name}/"
            )
            return [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
        except logs.exceptions.ResourceNotFoundException:
            return []  # The group is made with the account's first training job.
