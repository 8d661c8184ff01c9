"""A cluster with a controller in an emulated account, as its controller sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launcher.aws.clients import FOLLOWING, Clients
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.session.launch_job import Launch
from launcher.session.managed.advance_run import Controller
from launcher.session.managed.notices import RunNotice
from launcher.session.managed.records import ManagedPlan, Records
from launcher.session.prepare_plan import JobSource, read_job
from tests.emulator.account import ACCOUNT, REGION, EmulatedAccount
from tests.emulator.sagemaker import TrainingScript
from tests.emulator.stepped_clients import SteppedClients

BUCKET, CHECKPOINTS = "team-code", "team-checkpoints"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:slipway-dev-controller"
WriteJob = Callable[..., Path]


@dataclass
class ManagedCluster:
    """The account as its controller sees it: what was told, what is to be woken, and the time."""

    account: EmulatedAccount
    script: TrainingScript
    write_job: WriteJob
    clients: SteppedClients = field(default_factory=SteppedClients)
    now: float = 1_790_000_000.0
    seconds_left: float = 900.0
    notices: list[RunNotice] = field(default_factory=list)
    wakes: list[tuple[str, int, float]] = field(default_factory=list)
    steps: int = 0

    def hand_over(self, **job: Any) -> str:
        """Hand a job over and return its name, that of the run."""
        given = {"cluster": "dev", "limits": {"max_retries": 3}, "checkpoint": {}, **job}
        loaded = read_job(JobSource(self.write_job(**given)))
        launch = Launch(loaded, self.clients, REGION, managed=True)
        plan = launch.plan()
        assert not plan.refused, [each.message for each in plan.findings]
        return launch.hand_over(plan, launch.submission(plan).start).name

    def plan(self, first: str) -> ManagedPlan:
        """What a run was handed over with."""
        plan = self.records(first).plan()
        assert plan is not None
        return plan

    def hand_over_again(self, plan: ManagedPlan, first: str) -> str:
        """Hand the run of a plan over once more under another name, without planning it again."""
        again = ManagedPlan(**json.loads(json.dumps(asdict(plan)).replace(plan.first, first)))
        self.records(first).write_plan(again)
        return self.backend.create(next(iter(again.requests.values())), again.secret.encode())

    @property
    def backend(self) -> SageMakerBackend:
        return backend_of(self.clients)

    @property
    def s3(self) -> Any:
        return self.clients("s3", REGION)

    def records(self, first: str) -> Records:
        return Records(self.s3, BUCKET, first, ACCOUNT)

    def controller(self) -> Controller:
        """The controller as one call of its function has it; to wake and to tell are calls of AWS as well."""
        self.steps += 1
        return Controller(
            backend=self.backend,
            bucket=BUCKET,
            records=self.records,
            wake=lambda *wake: self.clients.do("scheduler.CreateSchedule", lambda: self.wakes.append(wake)),
            notify=lambda notice: self.clients.do("sns.Publish", lambda: self.notices.append(notice)),
            now=lambda: self.now,
            time_left=lambda: self.seconds_left,
            holder=f"call {self.steps}",
        )

    def end(self, name: str) -> None:
        """Let a job go to its end."""
        self.script.finish(name)

    def end_and_tell(self, name: str) -> None:
        """Let a job end, and the controller hear of it."""
        self.end(name)
        self.controller().job_ended(name)

    def wake_up(self) -> None:
        """Come to the time of the next wake-up, and let the controller have it."""
        first, number, at = self.wakes.pop(0)
        self.now = max(self.now, at)
        self.controller().advance(first, number)

    def store(self, first: str, *names: str) -> None:
        """Write checkpoint files of a job."""
        for name in names:
            self.s3.put_object(Bucket=CHECKPOINTS, Key=f"{first}/{name}", Body=name.encode())

    def stored(self, name: str) -> dict[str, bytes]:
        """The checkpoint files of a job."""
        listed = self.s3.list_objects_v2(Bucket=CHECKPOINTS, Prefix=f"{name}/").get("Contents", ())
        return {
            each["Key"].removeprefix(f"{name}/"): self.s3.get_object(Bucket=CHECKPOINTS, Key=each["Key"])[
                "Body"
            ].read()
            for each in listed
        }

    @property
    def names(self) -> list[str]:
        """The jobs that were created, in their order."""
        return [request["TrainingJobName"] for request in self.script.requests]


def backend_of(clients: Clients) -> SageMakerBackend:
    """The backend that calls by these clients."""
    return SageMakerBackend(
        clients("sagemaker", REGION), clients("logs", REGION, FOLLOWING), clients("s3", REGION)
    )
