"""A cluster with a controller in an emulated account, a clock, and a run that was handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launcher.aws.clients import FOLLOWING, Clients
from launcher.backends.interface import Backend, Polling
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.session.launch_job import Launch
from launcher.session.managed.advance_run import Controller
from launcher.session.managed.notices import RunNotice
from launcher.session.managed.records import Records
from launcher.session.prepare_plan import JobSource, read_job
from tests.emulator.account import REGION, EmulatedAccount, provision
from tests.emulator.sagemaker import TrainingScript, emulated_training

BUCKET = "team-code"
FUNCTION = f"arn:aws:lambda:{REGION}:123456789012:function:slipway-dev-controller"
WriteJob = Callable[..., Path]


@dataclass
class ManagedCluster:
    """The account as its controller sees it: what was told, what is to be woken, and the time."""

    account: EmulatedAccount
    script: TrainingScript
    write_job: WriteJob
    clients: Clients = field(default_factory=Clients)
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

    @property
    def backend(self) -> SageMakerBackend:
        return SageMakerBackend(
            self.clients("sagemaker", REGION), self.clients("logs", REGION, FOLLOWING), self.s3
        )

    @property
    def s3(self) -> Any:
        return self.clients("s3", REGION)

    def records(self, first: str) -> Records:
        return Records(self.s3, BUCKET, first, "123456789012")

    def controller(self) -> Controller:
        """The controller as one call of its function has it."""
        self.steps += 1
        return Controller(
            backend=self.backend,
            bucket=BUCKET,
            records=self.records,
            wake=lambda *wake: self.wakes.append(wake),
            notify=self.notices.append,
            now=lambda: self.now,
            time_left=lambda: self.seconds_left,
            holder=f"call {self.steps}",
        )

    def end(self, name: str) -> None:
        """Let a job go to its end."""
        while not self.backend.describe(name).state.is_final:
            pass

    def end_and_tell(self, name: str) -> None:
        """Let a job end, and the controller hear of it."""
        self.end(name)
        self.controller().job_ended(name)

    def wake_up(self) -> None:
        """Come to the time of the next wake-up, and let the controller have it."""
        first, number, at = self.wakes.pop(0)
        self.now = max(self.now, at)
        self.controller().advance(first, number)

    @property
    def names(self) -> list[str]:
        """The jobs that were created, in their order."""
        return [request["TrainingJobName"] for request in self.script.requests]


@pytest.fixture
def cluster(
    account: EmulatedAccount, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ManagedCluster]:
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    provision(account, controller_arn=FUNCTION)
    with emulated_training(TrainingScript()) as script:
        yield ManagedCluster(account, script, write_job)
