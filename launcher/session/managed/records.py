"""What is kept of a managed run: objects below `runs/FIRST/` in the bucket of the code.

    plan.json         at submission: a finished request for each instance type, and how attempts are decided
    start-N.json      who took the right to start attempt N: the controller, or somebody who stopped the run
    attempt-N.json    how attempt N ended, and what was decided
    attempt-N.html    the page of attempt N
    notice-*.json     that people were told of the end, or of the failed start, of an attempt
    lease.json        who works on the run just now, and until when

All but the lease is written once, and of two writers both go on with what the first has written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from typing import Any, TypeVar

from launcher.aws.conditional_objects import ConditionalObjects
from launcher.aws.errors import Outage
from launcher.cluster.names import RUNS_FOLDER
from launcher.failure_modes.model import Refusal, Retry
from launcher.frozen import frozen
from launcher.planning.next_attempt import Attempt, TryAgain
from launcher.planning.request_view import Request

_MOST_BYTES = 4 * 1024 * 1024
"""Of a record; the largest, a plan with a request for each of some instance types, has some ten thousand."""


@frozen
class ManagedPlan:
    """What a run was handed over with.

    `requests` are finished, as the first attempt's, by instance type in the order of preference: whoever
    goes on with the run plans nothing. `job` is what the user calls it, `secret` what the tokens of its hosts
    are made with, `made_at` in seconds since the epoch; the rest is as in `after_failure`.
    """

    first: str
    job: str
    cluster: str
    region: str
    requests: Mapping[str, Request]
    max_retries: int
    service_chooses: bool
    may_check_hosts: bool
    secret: str
    made_at: float
    version: str

    def request_on(self, instance_type: str) -> Request:
        """The request of an instance type: where the service chose among several, the one that names them
        all."""
        return self.requests.get(instance_type) or next(iter(self.requests.values()))


@frozen
class StartClaim:
    """Who has the right to start an attempt: the controller, or with `stops` nobody any more.

    `who` is in words, `at` in seconds since the epoch.
    """

    number: int
    who: str
    at: float
    stops: bool = False


@frozen
class AttemptRecord:
    """How an attempt ended and what was decided.

    `state`, `verdict` and `retry` are the words of `JobState`, `Verdict` (None of a job that completed
    without a diagnosis) and `Retry`; `cause` is the code and `message` the sentence of what ended it; `step`,
    `usd` and `billable_seconds` are None where they are not known. `why` is the decision in words;
    `following` is the next attempt, not to be started before `not_before`, None where there is none. Times
    are seconds since the epoch.
    """

    number: int
    name: str
    instance_type: str
    state: str
    ended: float
    why: str
    verdict: str | None = None
    retry: str = Retry.NEVER.value
    cause: str | None = None
    message: str | None = None
    remedy: str | None = None
    rank: int | None = None
    host: str | None = None
    step: float | None = None
    usd: float | None = None
    billable_seconds: float | None = None
    following: TryAgain | None = None
    not_before: float = 0.0

    def attempt(self) -> Attempt:
        """What the next decision asks of it."""
        return Attempt(self.name, self.instance_type, Retry(self.retry), self.step, self.cause, self.usd)


Record = TypeVar("Record", ManagedPlan, StartClaim, AttemptRecord)


class Records:
    """The records of one run; the client is boto3's for S3.

    All methods raise AwsRefusal where AWS refuses, Outage where it does not answer, and Refusal for a record
    that cannot be read.
    """

    def __init__(self, s3: Any, bucket: str, first: str, owner: str | None = None) -> None:
        """The run whose first attempt has that name; `owner` is the account that the bucket must belong
        to."""
        self.first = first
        self._objects = ConditionalObjects(s3, bucket, f"{RUNS_FOLDER}/{first}/", owner)

    def uri(self, name: str) -> str:
        """Where an object of the run is."""
        return self._objects.uri(name)

    def plan(self) -> ManagedPlan | None:
        """What the run was handed over with; None of a run that never was."""
        return self._read("plan.json", ManagedPlan)

    def write_plan(self, plan: ManagedPlan) -> ManagedPlan:
        """Keep what the run is handed over with; what is kept, where there was a plan already."""
        return self._write_once("plan.json", plan)

    def attempt(self, number: int) -> AttemptRecord | None:
        """How an attempt ended; None as long as nobody has written that."""
        return self._read(f"attempt-{number}.json", AttemptRecord)

    def attempts(self) -> list[AttemptRecord]:
        """All attempts that have ended, in their order."""
        found: list[AttemptRecord] = []
        while (record := self.attempt(len(found) + 1)) is not None:
            found.append(record)
        return found

    def write_attempt(self, record: AttemptRecord) -> AttemptRecord:
        """Keep how an attempt ended; what is kept, where somebody was first."""
        return self._write_once(f"attempt-{record.number}.json", record)

    def start_of(self, number: int) -> StartClaim | None:
        """Who has the right to start an attempt; None as long as nobody has taken it."""
        return self._read(f"start-{number}.json", StartClaim)

    def claim_start(self, claim: StartClaim) -> StartClaim:
        """Take the right to start an attempt, or to end the run before it; who has it."""
        return self._write_once(f"start-{claim.number}.json", claim)

    def write_page(self, number: int, page: str) -> None:
        """Keep the page of an attempt, once."""
        self._objects.write_new(f"attempt-{number}.html", page.encode(), "text/html; charset=utf-8")

    def was_noticed(self, about: str) -> bool:
        """Whether people were told of the end (`attempt-N`) or of the failed start (`start-N`) of an
        attempt."""
        return self._objects.read(f"notice-{about}.json", _MOST_BYTES) is not None

    def note_notice(self, about: str, at: float) -> None:
        """Keep that they were told."""
        self._objects.write_new(f"notice-{about}.json", json.dumps({"at": at}).encode())

    @contextmanager
    def held(self, holder: str, now: float, until: float) -> Iterator[bool]:
        """Within this nobody else works on the run; False where somebody does, whose time is not over.

        A holder that was killed loses the run at `until`, when it cannot be alive any more. Times are seconds
        since the epoch.
        """
        etag = self._take_lease(holder, now, until)
        try:
            yield etag is not None
        finally:
            if etag is not None:
                free = json.dumps({"holder": holder, "until": 0}).encode()
                with suppress(Refusal):  # It ends by itself.
                    self._objects.write_over("lease.json", free, etag)

    def _take_lease(self, holder: str, now: float, until: float) -> str | None:
        mine = json.dumps({"holder": holder, "until": until}).encode()
        etag = self._objects.write_new("lease.json", mine)
        if etag is not None:
            return etag
        found = self._objects.read("lease.json", _MOST_BYTES)
        if found is None:
            return None
        text, etag = found
        try:
            lease = json.loads(text)
            # One's own is there where the answer to its writing was lost, and it was written again.
            free = lease["holder"] == holder or float(lease["until"]) <= now
        except (ValueError, TypeError, KeyError):
            free = True  # Nobody of ours wrote it.
        return self._objects.write_over("lease.json", mine, etag) if free else None

    def _read(self, name: str, kind: type[Record]) -> Record | None:
        found = self._objects.read(name, _MOST_BYTES)
        return None if found is None else self._parsed(name, found[0], kind)

    def _write_once(self, name: str, record: Record) -> Record:
        body = json.dumps(asdict(record)).encode()
        if self._objects.write_new(name, body) is not None:
            return record
        kept = self._read(name, type(record))
        if kept is None:
            raise Outage(f"{self.uri(name)} is being written by somebody else.", "Another try reads it.")
        return kept

    def _parsed(self, name: str, text: bytes, kind: type[Record]) -> Record:
        try:
            content = json.loads(text)
            known = {each.name for each in fields(kind)}
            given = {key: value for key, value in content.items() if key in known}
            if given.get("following"):
                given["following"] = TryAgain(**given["following"])
            return kind(**given)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Refusal(
                f"the record {self.uri(name)} of a managed run cannot be read: {error}.",
                "Deploy the cluster again where its controller is older than the launcher; a record that "
                "somebody has changed is to be put back.",
            ) from error


def runs_below(s3: Any, bucket: str, owner: str | None = None) -> list[str]:
    """The first attempts' names of all runs that were handed over, by their records."""
    return ConditionalObjects(s3, bucket, f"{RUNS_FOLDER}/", owner).folders()
