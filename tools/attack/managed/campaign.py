"""Very many managed runs, each with its own bad luck, in one emulated account."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import yaml

from launcher.backends.interface import Backend, Polling
from tests.emulator import done_once
from tests.emulator.account import emulated_account, provision
from tests.emulator.faults import no_backoff
from tests.emulator.faulty_server import FaultyServer, faulty_server
from tests.emulator.managed_cluster import FUNCTION, ManagedCluster
from tests.emulator.sagemaker import TrainingScript, emulated_training
from tools.attack.managed.judging import violations
from tools.attack.managed.simulation import AT_ONCE, Simulation, name_run
from tools.attack.managed.stepped_function import SharedClock, stepped_function
from tools.attack.matrix.account import user_environment, write_job

_TYPE = "ml.p4d.24xlarge"
JOBS: tuple[dict[str, Any], ...] = (
    {"limits": {"max_retries": 4}},
    {"limits": {"max_retries": 4, "max_usd": 150.0, "max_runtime": "24h"}},
    {
        "limits": {"max_retries": 4},
        "resources": {
            "instance_type": _TYPE,
            "instance_types": ["ml.p5.48xlarge"],
            "instance_count": 2,
            "keep_alive": "10m",
        },
    },
)
"""What the runs are, in turn: one of three has a budget, one falls back and keeps its hosts."""


@dataclass
class Campaign:
    """What came of so many runs: what happened in them, and what did not hold, with the run's number."""

    runs: int = 0
    lost_and_named: int = 0
    """Runs whose event lies in the dead-letter queue."""
    counted: Counter[str] = field(default_factory=Counter)
    late: int = 0
    """Jobs that were created after the run was stopped, by somebody who had looked just before that."""
    violated: list[str] = field(default_factory=list)


def campaign(runs: int, *, seed: int = 0, first: int = 0, change: str = "") -> Campaign:
    """So many runs, from the number `first` on; the same seed and number is the same run.

    `change` are statements that change the packed function, to see what is then found.
    """
    done = Campaign()
    with tempfile.TemporaryDirectory(prefix="slipway-attack-") as folder, _cluster(Path(folder)) as deployed:
        cluster, server, topic = deployed
        plans = [cluster.plan(cluster.hand_over(**job)) for job in JOBS]
        file = Path(folder) / "clock"
        clock = SharedClock(file)
        with ExitStack() as stack:
            functions = [
                stack.enter_context(stepped_function(name, server, topic, file, Path(folder) / name, change))
                for name in (f"function-{number}" for number in range(AT_ONCE))
            ]
            for number in range(first, first + runs):
                played = Simulation(
                    cluster,
                    plans[number % len(JOBS)],
                    name_run(number, seed),
                    Random(f"{seed} {number}"),
                    clock,
                    functions,
                )
                played.play()
                done.runs += 1
                done.counted += played.counted
                done.lost_and_named += bool(played.dead)
                done.late += sum(job.after_stop for job in played.jobs.values())
                done.violated += [f"run {number} of seed {seed}: {each}" for each in violations(played)]
    return done


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[ManagedCluster, FaultyServer, str]]:
    """A cluster with a controller in an account of its own, whose user has nothing else; its server, and
    the ARN of the topic."""
    environment = user_environment(folder)
    done_once.install()

    def write(**changes: Any) -> Path:
        file = write_job(folder)
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | changes))
        return file

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment))
        stack.enter_context(mock.patch.object(Backend, "polling", Polling(0, 0)))
        stack.enter_context(no_backoff())
        server = stack.enter_context(faulty_server())
        account = stack.enter_context(emulated_account())
        provision(account, controller_arn=FUNCTION)
        account.client("scheduler").create_schedule_group(Name="runs")
        # A message that was received is not received again: when one comes again is told by the simulation.
        account.client("sqs").create_queue(QueueName="events", Attributes={"VisibilityTimeout": "43200"})
        topic = account.client("sns").create_topic(Name="ends")["TopicArn"]
        script = stack.enter_context(emulated_training(TrainingScript(moves_when_described=False)))
        yield ManagedCluster(account, script, write), server, topic
