"""What the billed time of jobs went to, by what the service and their lines tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from launcher.backends.interface import (
    JobState,
    JobStatus,
    JobSummary,
    LogBatch,
    LogLine,
    Transition,
)
from launcher.failure_modes.model import AwsRefusal
from launcher.planning.request_view import RequestView
from launcher.session.runs.measure_goodput import (
    PARTS,
    AttemptTimes,
    by_group,
    measure_goodput,
    read_attempts,
)

STEPS = tuple((100.0 + 10 * step, float(step)) for step in range(1, 91))  # 110 s to 1,000 s


def attempt(number: int = 1, state: JobState = JobState.FAILED, **changes: Any) -> AttemptTimes:
    """Two hosts that are billed for 1,000 s each: 60 s of download, 40 s to the first step, then steps."""
    plain = AttemptTimes(
        name=f"job-{number}",
        first="job-1",
        number=number,
        state=state,
        hosts=2,
        billed=1000.0,
        download=60.0,
        gate=10.0,
        trained_from=60.0,
        ended=1060.0,
        steps=STEPS,
        keeps_checkpoints=True,
        cause="HW001" if state is JobState.FAILED else None,
        usd=25.0,
        groups={"team": "vision", "type": "ml.p5.48xlarge"},
    )
    return replace(plain, **changes)


def parts(*attempts: AttemptTimes) -> dict[str, float]:
    found = measure_goodput(attempts)
    assert found.total == pytest.approx(sum(each.billed * each.hosts for each in attempts))
    return {part: round(seconds) for part, seconds in found.seconds.items() if round(seconds)}


def test_a_job_that_completed_was_useful_from_its_first_step_on() -> None:
    assert parts(attempt(state=JobState.COMPLETED)) == {
        "download": 120,
        "gate": 20,
        "start": 80,
        "useful": 1780,
    }


def test_a_failure_that_nobody_went_on_from_lost_all_steps_to_its_cause() -> None:
    found = measure_goodput([attempt()])
    assert parts(attempt()) == {"download": 120, "gate": 20, "start": 80, "stall": 120, "lost": 1660}
    assert found.lost == {"HW001": 1780.0}
    assert found.share("useful") == 0


def test_up_to_the_step_where_the_next_attempt_went_on_the_work_counts_and_the_rest_is_done_again() -> None:
    later = attempt(2, JobState.COMPLETED, steps=tuple((time, step + 60) for time, step in STEPS))
    first = parts(attempt(), later)
    # The later one begins with step 61: steps 1 to 60 were kept, over 590 s of two hosts.
    assert first["useful"] == 2 * 590 + 1780
    assert first["again"] == 2 * (830 - 590)
    assert "lost" not in first


def test_an_attempt_whose_follower_begins_anew_kept_nothing() -> None:
    found = parts(attempt(), attempt(2, JobState.COMPLETED))
    assert found["again"] == 1660
    assert found["useful"] == 1780


def test_attempts_are_taken_in_their_order_whatever_the_list_has() -> None:
    later = attempt(2, JobState.COMPLETED, steps=tuple((time, step + 60) for time, step in STEPS))
    assert parts(later, attempt()) == parts(attempt(), later)


def test_a_stop_keeps_what_its_checkpoints_hold() -> None:
    assert parts(attempt(state=JobState.STOPPED))["useful"] == 1780
    assert "useful" not in parts(attempt(state=JobState.STOPPED, keeps_checkpoints=False))


def test_a_job_that_printed_no_step_is_lost_where_it_failed_and_unknown_where_it_did_not() -> None:
    assert parts(attempt(steps=()))["lost"] == 1860
    assert parts(attempt(state=JobState.COMPLETED, steps=()))["unknown"] == 1860


def test_no_part_is_more_than_what_was_billed() -> None:
    short = attempt(billed=30.0)
    assert parts(short) == {"download": 60}


def test_groups_come_by_the_size_of_their_bills() -> None:
    other = attempt(3, JobState.COMPLETED, first="job-3", hosts=8, groups={"team": "nlp"})
    found = by_group([attempt(), other], "team")
    assert list(found) == ["nlp", "vision"]
    assert found["nlp"].share("useful") == pytest.approx(0.89)
    assert list(by_group([attempt(groups={})], "cluster")) == ["none"]


def test_without_a_price_of_each_there_is_no_sum() -> None:
    assert measure_goodput([attempt(), attempt(2)]).usd == 50.0
    assert measure_goodput([attempt(), attempt(2, usd=None)]).usd is None


def test_the_json_has_every_part() -> None:
    found = measure_goodput([attempt()]).to_json()
    assert list(found["seconds"]) == list(PARTS)
    assert found["lost_to"] == {"HW001": 1780.0}
    assert found["host_seconds"] == 2000.0


def test_no_jobs_have_no_goodput() -> None:
    assert measure_goodput([]).share("useful") == 0.0


@dataclass
class Account:
    """A backend that answers for some jobs, with what each of them printed."""

    jobs: Mapping[str, JobStatus]
    printed: Mapping[str, Sequence[LogLine]] = field(default_factory=dict)
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    runs_here: bool = False

    def describe(self, name: str) -> JobStatus:
        return self.jobs[name]

    def read_logs(self, name: str, cursor: Mapping[str, str]) -> LogBatch:
        lines = () if cursor else self.printed.get(name, ())
        return LogBatch(lines, {"read": "all"})

    def request_of(self, name: str) -> dict[str, Any]:
        if name not in self.tags:
            raise AwsRefusal("no right to list tags.", "Ask.")
        return {"Tags": [{"Key": key, "Value": value} for key, value in self.tags[name].items()]}


def described(name: str, state: JobState = JobState.COMPLETED, **changes: Any) -> JobStatus:
    request = RequestView(
        {
            "TrainingJobName": name,
            "TrainingJobArn": f"arn:aws:sagemaker:us-west-2:111122223333:training-job/{name}",
            "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
        }
    )
    phases = (
        Transition("Starting", 0.0, 50.0),
        Transition("Downloading", 50.0, 110.0),
        Transition("Training", 110.0, 1110.0),
    )
    plain = JobStatus(
        name, state, state.value, seconds=1110.0, billable_seconds=1060.0, hosts=2, request=request
    )
    return replace(plain, transitions=phases, **changes)


def listed(*names: str, state: JobState = JobState.COMPLETED) -> list[JobSummary]:
    return [JobSummary(name, state, state.value, datetime(2026, 11, 1, tzinfo=UTC)) for name in names]


PRINTED = [
    LogLine(115.0, "algo-1", "slipway: gate: all well in 4.5 s (2 hosts)"),
    *(LogLine(150.0 + step, "algo-1", f"step={step} loss=1.0") for step in range(0, 900, 10)),
]


def test_times_come_from_the_phases_the_gates_line_and_the_steps() -> None:
    account = Account({"job": described("job")}, {"job": PRINTED}, {"job": {"team": "vision"}})
    [found] = read_attempts(account, listed("job"), pytest.fail)  # type: ignore[arg-type]
    assert (found.download, found.gate, found.trained_from, found.ended) == (60.0, 4.5, 110.0, 1110.0)
    assert (found.steps[0], found.steps[-1]) == ((150.0, 0.0), (1040.0, 890.0))
    assert found.groups == {"team": "vision", "type": "ml.p5.48xlarge"}
    assert found.usd is not None and found.usd > 0


def test_attempts_of_one_run_are_known_by_their_tags() -> None:
    tags = {"job": {}, "job-b": {"slipway:first-attempt": "job", "slipway:attempt": "2"}}
    jobs = {name: described(name) for name in tags}
    found = list(read_attempts(Account(jobs, {}, tags), listed(*tags), pytest.fail))  # type: ignore[arg-type]
    assert [(each.first, each.number) for each in found] == [("job", 1), ("job", 2)]


def test_what_ended_a_job_is_what_its_diagnosis_says() -> None:
    failed = described("job", JobState.FAILED, failure_reason="AlgorithmError: HW001 algo-2: GPU 3: Xid 48")
    account = Account({"job": failed}, {"job": PRINTED})
    [found] = read_attempts(account, listed("job", state=JobState.FAILED), pytest.fail)  # type: ignore[arg-type]
    assert found.cause == "HW001"


def test_jobs_that_run_or_never_had_hosts_are_not_counted_and_unreadable_ones_are_told() -> None:
    class Refusing(Account):
        def describe(self, name: str) -> JobStatus:
            if name == "hidden":
                raise AwsRefusal("no right to describe it.", "Ask.")
            return super().describe(name)

    waiting = replace(described("w"), billable_seconds=0)
    told: list[str] = []
    jobs = [*listed("running", state=JobState.IN_PROGRESS), *listed("w", "hidden")]
    assert list(read_attempts(Refusing({"w": waiting}), jobs, told.append)) == []  # type: ignore[arg-type]
    assert told == ["hidden is not counted: no right to describe it."]


def test_steps_are_kept_thinned_and_never_lose_the_first_or_the_last() -> None:
    many = [LogLine(150.0 + step, "algo-1", f"step={step} loss=1.0") for step in range(20_000)]
    account = Account({"job": described("job")}, {"job": many})
    [found] = read_attempts(account, listed("job"), pytest.fail)  # type: ignore[arg-type]
    assert len(found.steps) < 5_000
    assert (found.steps[0][1], found.steps[-1][1]) == (0.0, 19_999.0)
