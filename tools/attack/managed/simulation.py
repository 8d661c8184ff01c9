"""One managed run: its jobs end, its events come twice, late and in another order, who works on it is killed.

The controller is the packed function in processes of its own, and all that it asks of the emulated AWS is
answered there. When EventBridge, its schedules and the queue bring a message is told here, with the numbers
of `constructs/managed_runs.py`: what was not done comes again when it is visible again, five times, then lies
in the dead-letter queue.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from random import Random
from typing import Any

from launcher.planning.next_attempt import name_attempt
from launcher.session.managed.records import ManagedPlan, Records
from launcher.session.managed.show_run import stop_run
from tests.emulator.account import ACCOUNT, REGION
from tests.emulator.faults import (
    DENIED,
    DENIED_S3,
    INTERNAL,
    LOST,
    PORTAL,
    RESET,
    SLOW_DOWN,
    THROTTLED,
    Fault,
)
from tests.emulator.managed_cluster import BUCKET, ManagedCluster, backend_of
from tests.emulator.packed_function import FUNCTION_SECONDS
from tests.emulator.sagemaker import Ending
from tests.emulator.stepped_clients import Call, SteppedClients
from tools.attack.managed.lockstep import Caller, Killed, Worker
from tools.attack.managed.stepped_function import SharedClock, SteppedFunction

HIDDEN_SECONDS = 5400.0
"""For so long the queue hides a message that somebody works on."""

RECEIVED_AT_MOST = 5
AT_ONCE = 3
_HOUR = 3600.0

_STEPS = "[rank0]: step={} loss=1.0"
_OPERATIONS = (
    "sagemaker.DescribeTrainingJob",
    "sagemaker.CreateTrainingJob",
    "sagemaker.UpdateTrainingJob",
    "sagemaker.ListTags",
    "sagemaker.StopTrainingJob",
    "cloudwatch-logs.DescribeLogStreams",
    "cloudwatch-logs.GetLogEvents",
    "s3.GetObject",
    "s3.PutObject",
    "s3.ListObjectsV2",
    "s3.CopyObject",
    "sns.Publish",
    "scheduler.CreateSchedule",
)


@dataclass(frozen=True)
class Fate:
    """How a job of the run ends, and whether another attempt may follow that."""

    kind: str
    reason: str | None = None
    stopped_as: str | None = None
    may_follow: bool = False

    def ending(self, chance: Random, step: int) -> Ending:
        """The end of the job that got to a step."""
        logs = {"algo-1": [_STEPS.format(step)]} if chance.random() < 0.8 else {}
        seconds = 0 if self.kind == "no capacity" else int(chance.choice((300, 3600, 6 * _HOUR)))
        return Ending(self.reason, logs, self.stopped_as, seconds)


FATES = (
    Fate("hardware", "AlgorithmError: HW002 rank 3 on algo-1: Xid 79, exit code: 1", may_follow=True),
    Fate(
        "hardware",
        "AlgorithmError: HW001 rank 9 on algo-2: uncorrectable ECC error, exit code: 1",
        None,
        True,
    ),
    Fate(
        "network",
        "AlgorithmError: NCCL008 rank 1 on algo-1: the rendezvous timed out, exit code: 1",
        None,
        True,
    ),
    Fate("no capacity", "CapacityError: Unable to provision requested ML compute capacity.", None, True),
    Fate("code", "AlgorithmError: CODE001 rank 0 on algo-1: KeyError: 'labels' (train.py:5), exit code: 1"),
    Fate("unknown", "AlgorithmError: something odd, exit code: 1"),
    Fate("stopped", stopped_as="Stopped"),
    Fate("maximal runtime", stopped_as="MaxRuntimeExceeded"),
    Fate("completed"),
)
_WEIGHTS = (6, 3, 4, 4, 1, 1, 1, 1, 2)


@dataclass
class Message:
    """A message of the queue: a job's end, or with a number that a run is to be looked at again."""

    name: str
    number: int | None = None
    received: int = 0


@dataclass
class Created:
    """A job that was created: how it is to end, and by whom, with what was so of the run's stop then."""

    fate: Fate
    ending: Ending
    others_running: list[str]
    after_stop: bool
    looked_after_stop: bool
    creator: Actor | None = None


@dataclass
class Actor:
    """Who works on the run: what befalls it, and when it last looked whether the run was stopped."""

    worker: Worker
    caller: Caller
    end: Callable[[BaseException | None], None]
    until: float
    kill: Callable[[], None]
    kill_at: int = 0
    kill_after: bool = False
    shaken: float = 0.0
    refused: str = ""
    refusal: Fault = THROTTLED
    slow_at: int = 0
    calls: int = 0
    looked_at: int = 0
    went_wrong: bool = False
    comes_again: int | None = None
    """In so many seconds its message does, as it said itself."""


@dataclass
class Simulation:
    """A run from its hand-over until nothing more is to come; all that happens follows from `chance`."""

    cluster: ManagedCluster
    plan: ManagedPlan
    first: str
    chance: Random
    clock: SharedClock
    functions: Sequence[SteppedFunction]
    jobs: dict[str, Created] = field(default_factory=dict)
    dead: list[Message] = field(default_factory=list)
    crashes: list[BaseException] = field(default_factory=list)
    stop_returned: int | None = None
    counted: Counter[str] = field(default_factory=Counter)
    _agenda: list[tuple[float, int, bool, Callable[[], Actor | None]]] = field(default_factory=list)
    _tie: Any = field(default_factory=count)
    _clock: int = 0
    _schedules: set[str] = field(default_factory=set)
    _acting: list[Actor] = field(default_factory=list)

    @property
    def now(self) -> float:
        """The time, in seconds since the epoch, as all processes know it."""
        return self.clock.seconds

    @now.setter
    def now(self, seconds: float) -> None:
        self.clock.seconds = seconds

    @property
    def records(self) -> Records:
        """What is kept of the run, read by somebody to whom nothing happens."""
        return self.cluster.records(self.first)

    def play(self) -> None:
        """Let all happen, to the end."""
        self.now = 1_790_000_000.0
        self._next_ending()
        self.cluster.hand_over_again(self.plan, self.first)
        self._created(None)
        if self.chance.random() < 0.3:
            self._at(self.chance.uniform(0, 12 * _HOUR), partial(self._stop, 0), early=True)
        while self._agenda or self._acting:
            if not self._acting:
                self._take_up(heapq.heappop(self._agenda))
            elif len(self._acting) < AT_ONCE and self.chance.random() < 0.03:
                self._join()
            if self._acting:
                self._go_on(self.chance.choice(self._acting))

    def _join(self) -> None:
        """Let somebody else begin while others work on the run: one whose time is anybody's guess."""
        early = next((each for each in sorted(self._agenda) if each[2] or each[0] <= self.now), None)
        if early is not None:
            self._agenda.remove(early)
            heapq.heapify(self._agenda)
            self._take_up((self.now, *early[1:]))

    def _take_up(self, entry: tuple[float, int, bool, Callable[[], Actor | None]]) -> None:
        at, _, _, happen = entry
        self.now = max(self.now, at)
        actor = happen()
        if actor is not None:
            self._acting.append(actor)
            actor.worker.start()

    def _go_on(self, actor: Actor) -> None:
        if not actor.worker.ended:
            actor.worker.go_on()
        if actor.worker.ended:
            self._acting.remove(actor)
            actor.caller.step = lambda call: call.carry_out()
            actor.end(actor.worker.error)

    def _at(self, delay: float, happen: Callable[[], Actor | None], *, early: bool = False) -> None:
        """Have something happen after a delay; `early` where it may as well come sooner."""
        heapq.heappush(self._agenda, (self.now + delay, next(self._tie), early, happen))

    # Jobs.

    def _next_ending(self) -> None:
        fate = self.chance.choices(FATES, _WEIGHTS)[0]
        self._coming = fate, fate.ending(self.chance, 100 * (len(self.jobs) + 1))
        self.cluster.script.endings = [self._coming[1]]

    def _created(self, actor: Actor | None) -> None:
        """Take up the job that has just been created."""
        name = self.cluster.names[-1]
        running = [
            each for each in self.jobs if self.cluster.script.state_of(each) in ("InProgress", "Stopping")
        ]
        stopped = self.stop_returned
        late = actor is not None and stopped is not None and actor.looked_at > stopped
        self.jobs[name] = Created(*self._coming, running, stopped is not None, late, actor)
        self.counted["attempts"] += 1
        self._next_ending()
        self._at(self.chance.choice((60.0, 900.0, 5 * _HOUR)), partial(self._end, name))
        if self.chance.random() < 0.5:
            for file in ("step-100/.metadata", "step-100/__0_0.distcp"):
                self.cluster.store(name, file)

    def _end(self, name: str) -> None:
        if self.cluster.script.state_of(name) not in ("InProgress", "Stopping"):
            return
        self.cluster.script.finish(name)
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            delay = self.chance.choice((1.0, 1.0, 30.0, 600.0, self.chance.uniform(0, 12 * _HOUR)))
            self._at(delay, partial(self._receive, Message(name)), early=True)

    # Events.

    def _send(self, message: Message, delay: float) -> None:
        self._at(delay, partial(self._receive, message))

    def _receive(self, message: Message) -> Actor | None:
        if message.received == RECEIVED_AT_MOST:
            self.dead.append(message)
            return None
        message.received += 1
        self.counted["events delivered"] += 1
        until, since = self.now + FUNCTION_SECONDS, self.now
        skew = self.chance.uniform(-20, 20)
        taken = [actor.caller for actor in self._acting]
        function = next(each for each in self.functions if each not in taken)

        def work() -> None:
            with self._delivered(message) as delivered:
                if not function.handle(delivered, until=until, skew=skew):
                    raise NotDone

        def end(error: BaseException | None) -> None:
            if isinstance(error, NotDone):
                self.counted["steps that failed"] += 1
            elif error is not None and not isinstance(error, Killed):
                self.crashes.append(error)
            if error is not None:
                hidden = since + HIDDEN_SECONDS - self.now if actor.comes_again is None else actor.comes_again
                self._send(message, hidden)

        actor = self._actor(function, work, end, until, function.kill)
        return actor

    @contextmanager
    def _delivered(self, message: Message) -> Iterator[dict[str, Any]]:
        """The message as Lambda hands it to the function, out of the queue, in which it is not left."""
        if message.number is None:
            body: dict[str, Any] = {"detail": {"TrainingJobName": message.name}}
        else:
            body = {"run": message.name, "attempt": message.number}
        sqs = self.cluster.account.client("sqs")
        queue = sqs.get_queue_url(QueueName="events")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(body))
        (received,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        try:
            yield {
                "messageId": received["MessageId"],
                "receiptHandle": received["ReceiptHandle"],
                "body": received["Body"],
                "attributes": {"ApproximateReceiveCount": str(message.received)},
            }
        finally:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=received["ReceiptHandle"])

    def _send_what_is_scheduled(self) -> None:
        """Send what a new schedule is to send, at its time."""
        scheduler = self.cluster.account.client("scheduler")
        for listed in scheduler.list_schedules(GroupName="runs")["Schedules"]:
            name = listed["Name"]
            if name in self._schedules:
                continue
            self._schedules.add(name)
            schedule = scheduler.get_schedule(GroupName="runs", Name=name)
            told = json.loads(schedule["Target"]["Input"])
            if told["run"] == self.first:
                at = datetime.strptime(schedule["ScheduleExpression"], "at(%Y-%m-%dT%H:%M:%S)")
                delay = at.replace(tzinfo=UTC).timestamp() + self.chance.uniform(0, 59) - self.now
                self._send(Message(self.first, told["attempt"]), delay)

    def _stop(self, tries: int) -> Actor:
        clients = SteppedClients()
        records = Records(clients("s3", REGION), BUCKET, self.first, ACCOUNT)

        def end(error: BaseException | None) -> None:
            if error is None:
                self.stop_returned = self._clock
                self.counted["runs stopped"] += 1
            else:
                self._at(60.0, partial(self._stop, tries + 1))

        actor = self._actor(
            clients,
            lambda: _done(stop_run(backend_of(clients), records, "somebody", lambda: self.now)),
            end,
            self.now + FUNCTION_SECONDS,
        )
        if tries:  # Whoever stops a run tries until it is stopped.
            actor.kill_at = actor.slow_at = 0
            actor.shaken, actor.refused = 0.0, ""
        return actor

    # What befalls who works.

    def _actor(
        self,
        caller: Caller,
        work: Callable[[], None],
        end: Callable[[BaseException | None], None],
        until: float,
        kill: Callable[[], None] = lambda: None,
    ) -> Actor:
        chance = self.chance
        worker = Worker(caller, work, lambda call: self._meet(actor, call))
        actor = Actor(worker, caller, end, until, kill)
        match chance.randrange(10):
            case 0 | 1 | 2:
                actor.kill_at, actor.kill_after = chance.randint(1, 40), chance.random() < 0.5
            case 3 | 4:
                actor.shaken = 0.15
            case 5:
                actor.refused = chance.choice(_OPERATIONS)
                denied = DENIED_S3 if actor.refused.startswith("s3.") else DENIED
                actor.refusal = chance.choice((denied, THROTTLED, PORTAL))
            case 6 if chance.random() < 0.3:
                actor.slow_at = chance.randint(1, 40)
        return actor

    def _meet(self, actor: Actor, call: Call) -> Any:
        self._clock += 1
        actor.calls += not call.is_again
        self.now += 1000.0 if actor.calls == actor.slow_at else self.chance.uniform(0.02, 1.0)
        if self.now > actor.until:
            self._kill(actor)
        if actor.calls == actor.kill_at:
            if actor.kill_after:
                self._carry_out(actor, call)
            self._kill(actor)
        fault = self._fault(actor, call)
        if fault is None:
            return self._carry_out(actor, call)
        actor.went_wrong = True
        self.counted["calls that failed"] += 1
        return self._answer(actor, call, lambda: call.fail(fault))

    def _kill(self, actor: Actor) -> None:
        actor.went_wrong = True
        self.counted["kills"] += 1
        actor.kill()
        raise Killed

    def _fault(self, actor: Actor, call: Call) -> Fault | None:
        if call.name == actor.refused:
            return actor.refusal
        if self.chance.random() >= actor.shaken:
            return None
        slow = SLOW_DOWN if call.name.startswith("s3.") else THROTTLED
        return self.chance.choice((slow, LOST, RESET, INTERNAL, PORTAL))

    def _carry_out(self, actor: Actor, call: Call) -> Any:
        if call.name == "s3.GetObject" and "/start-" in call.url:
            actor.looked_at = self._clock
        if call.name == "sqs.ChangeMessageVisibility":
            actor.comes_again = json.loads(call.body)["VisibilityTimeout"]
        answer = self._answer(actor, call, call.carry_out)
        if call.name == "sagemaker.StopTrainingJob":
            for name in self.jobs:
                self._at(self.chance.uniform(30, 150), partial(self._end, name))
        return answer

    def _answer(self, actor: Actor, call: Call, answer: Callable[[], Any]) -> Any:
        """What the call is answered, and what follows from what AWS has done by then."""
        before = len(self.cluster.script.requests)
        try:
            return answer()
        finally:
            if len(self.cluster.script.requests) > before:
                self._created(actor)
            if call.name == "scheduler.CreateSchedule":
                self._send_what_is_scheduled()


class NotDone(Exception):
    """The function names the message among those that it could not do."""


def _done(_: object) -> None:
    """What a call gives that is not asked for anything."""


def name_run(number: int, seed: int) -> str:
    """The name of the run of that number; other runs have other names."""
    return f"digits-{seed:04d}{number:013d}"


def attempts_of(simulation: Simulation) -> list[str]:
    """The names that the attempts of a run have, as many as were started."""
    return [name_attempt(simulation.first, number + 1) for number in range(len(simulation.jobs))]
