"""What two runs differ in, and the losses that they have printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from launcher.backends.interface import (
    Backend,
    BackendError,
    FoundJob,
    JobState,
    JobStatus,
    LogBatch,
    LogLine,
)
from launcher.experiments.run_measures import Unit
from launcher.failure_modes.model import Refusal
from launcher.planning.request_view import Request
from launcher.planning.training_plan import TrainingPlan
from launcher.session.runs.compare_runs import facts_of_jobs, facts_of_plans, series_of


class Recorded:
    """A place with one job: what it printed, in batches of two lines, and its request."""

    def __init__(self, *texts: str, request: Request | None = None) -> None:
        self._lines = [LogLine(float(time), "algo-1", text) for time, text in enumerate(texts)]
        self._request = request

    def read_logs(self, name: str, cursor: dict[str, str]) -> LogBatch:
        begin = int(cursor.get("line", 0))
        return LogBatch(self._lines[begin : begin + 2], {"line": str(begin + 2)})

    def request_of(self, name: str) -> Request:
        if self._request is None:
            raise BackendError(f"{name} went through a queue.", "Launch it again.")
        return self._request


def status(**more: Any) -> JobStatus:
    return JobStatus("demo", JobState.COMPLETED, "Completed", **more)


def losses(*texts: str, **more: Any) -> Sequence[tuple[float, float, float]]:
    found = series_of(cast(Backend, Recorded(*texts)), status(**more))
    return [(point.place, point.time, point.loss) for point in found.points]


def job(name: str, request: Request | None) -> FoundJob:
    ended = JobStatus(name, JobState.COMPLETED, "Completed")
    return FoundJob(cast(Backend, Recorded(request=request)), ended)


def request(name: str, **more: Any) -> Request:
    return {"TrainingJobName": name, **more}


def test_all_batches_are_read_and_lines_keep_their_times() -> None:
    found = losses("step=1 loss=3", "hello", "step=2 loss=2", "step=3 loss=1")
    assert found == [(1, 0.0, 3.0), (2, 2.0, 2.0), (3, 3.0, 1.0)]


def test_the_jobs_own_metrics_go_first() -> None:
    own = {"train:loss": r"objective (\S+)", "validation:loss": r"held out (\S+)", "train:step": r"at (\S+)"}
    assert losses("objective 0.5 held out 9 at 4 loss=7", metrics=own) == [(4, 0.0, 0.5)]


def test_where_rank_0_takes_over_only_it_counts() -> None:
    found = losses("[rank1]: step=1 loss=9", "[rank0]: step=1 loss=3", "[rank1]: step=2 loss=9")
    assert found == [(1, 1.0, 3.0)]


def test_megatrons_lines_are_read() -> None:
    line = " iteration {:8}/ 2000 | consumed samples: 1024 | lm loss: {:.6E} | loss scale: 1.0 |"
    found = series_of(cast(Backend, Recorded(*(line.format(n, 7 - n / 10) for n in (1, 2)))), status())
    assert (found.unit, [point.loss for point in found.points]) == (Unit.STEP, [6.9, 6.8])


def test_values_of_the_environment_and_credentials_are_not_shown() -> None:
    first = request("a", Environment={"X": "1"}, HyperParameters={"lr": "1", "key": "AKIAABCDEFGHIJKLMNOP"})
    second = request("b", Environment={"X": "2"}, HyperParameters={"lr": "2", "key": "none"})
    found = facts_of_jobs(job("a", first), job("b", second)).differences
    assert [(each.field, each.first, each.second) for each in found] == [
        ("environment.X", "[hidden]", "[hidden]"),
        ("hyperparameters.key", "[hidden]", "none"),
        ("hyperparameters.lr", "1", "2"),
    ]


def test_the_samples_of_a_step_are_those_of_the_request() -> None:
    made = request(
        "a",
        ResourceConfig={"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
        HyperParameters={"sagemaker_mpi_num_of_processes_per_host": "8", "batch_size": "4"},
    )
    first, _ = facts_of_jobs(job("a", made), job("b", made)).steps
    assert (first.world_size, first.samples) == (16, 64)


def test_where_a_place_tells_no_request_nothing_is_known() -> None:
    facts = facts_of_jobs(job("a", None), job("b", request("b")))
    assert facts.differences == ()
    assert facts.cautions == ("What the jobs differ in is not known: a went through a queue.",)


def test_a_tuning_job_is_no_side() -> None:
    tuning = TrainingPlan({}, None, {}, None, (), operation="CreateHyperParameterTuningJob")
    with pytest.raises(Refusal, match="A is a tuning job"):
        facts_of_plans(tuning, tuning)
