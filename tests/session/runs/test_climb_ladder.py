"""The ladder of a job: its rungs made ready, and run until each has shown that it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.backends.local.python import Interpreter, Machine
from launcher.diagnosis.model import Diagnosis, RootCause, Verdict
from launcher.experiments.ladder_rungs import Result, Rung, Where
from launcher.failure_modes import checkpoints, distribution, training_script
from launcher.failure_modes.model import Refusal, Retry, Stage
from launcher.planning.job_cost import CostEstimate
from launcher.session.prepare_plan import JobSource, code_of, read_job
from launcher.session.runs.climb_ladder import (
    Bound,
    LadderRequest,
    ReadyLadder,
    ReadyRung,
    RungWatch,
    bound_of,
    judge_rung,
    prepare_ladder,
)
from launcher.session.runs.diagnose_job import Outcome
from launcher.session.runs.read_job_lines import TrainingProgress

MACHINE = Machine(Interpreter(Path("/venv/bin/python"), (3, 12, 1), "2.8.0", None), gpus=(), cores=4)
SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--max_steps", type=int)
parser.add_argument("--synthetic", action="store_true")
parser.add_argument("--corpus")
parser.parse_args()
"""

Made = Callable[..., ReadyLadder]


@pytest.fixture
def made(write_job: Callable[..., Path], tmp_path: Path) -> Made:
    """The ladder of a job with these fields, and `asked` of it."""

    def make(script: str = SCRIPT, asked: dict[str, Any] | None = None, **changes: Any) -> ReadyLadder:
        file = write_job(**{"cluster": "dev", **changes})
        (tmp_path / "src" / "train.py").write_text(script)
        climb = LadderRequest(JobSource(file), **(asked or {}))
        loaded = read_job(climb.job)
        return prepare_ladder(climb, loaded, code_of(loaded), MACHINE, "us-west-2")

    return make


def rung(ladder: ReadyLadder, name: str) -> Any:
    return next(each for each in ladder.rungs if each.rung.name == name)


def test_each_rung_has_the_plan_of_its_own_size(made: Made) -> None:
    ladder = made()
    sizes = {each.rung.name: (each.plan.view.hosts, each.plan.processes_per_host) for each in ladder.rungs}
    here = {"1-here-synthetic": (1, 1), "1-here": (1, 1), "n-here": (1, 4)}
    assert sizes == {**here, "1-host": (1, 8), "2-hosts": (2, 8)}
    assert all(each.refusal is None for each in ladder.rungs)


def test_the_script_is_told_to_make_few_steps_with_data_of_its_own(made: Made) -> None:
    ladder = made()
    entry = rung(ladder, "1-here-synthetic").plan.request["AlgorithmSpecification"]
    assert entry["ContainerArguments"][-2:] == ["--", "--synthetic"]
    assert {each.plan.request["HyperParameters"]["max_steps"] for each in ladder.rungs} == {"5"}
    own_data = rung(ladder, "1-here").plan.request["AlgorithmSpecification"]
    assert "--synthetic" not in own_data["ContainerArguments"]


def test_only_hosts_cost_and_their_limit_is_the_rungs(made: Made) -> None:
    ladder = made()
    one, two = rung(ladder, "1-host"), rung(ladder, "2-hosts")
    assert rung(ladder, "n-here").cost is None
    assert two.cost.at_limit == pytest.approx(2 * one.cost.at_limit)
    assert one.cost.at_limit == pytest.approx(one.cost.per_hour * 1500 / 3600)


def test_degrees_that_do_not_divide_a_rung_skip_it(made: Made) -> None:
    options = {"version": 2, "parameters": {"hybrid_shard_degree": 16}}
    ladder = made(
        framework={"name": "pytorch", "version": "2.4.1", "python": "py311"},
        distribution={"strategy": "smp", "options": options},
    )
    assert not ladder.plan.refused
    assert "does not divide the world size 8" in rung(ladder, "1-host").refusal
    assert rung(ladder, "2-hosts").refusal is None


def test_a_channel_without_a_folder_is_an_empty_one_for_made_up_data(made: Made, tmp_path: Path) -> None:
    ladder = made(inputs={"train": "s3://data/train"})
    names = [each.rung.name for each in ladder.rungs]
    assert names == ["1-here-synthetic", "n-here-synthetic", "1-host-synthetic", "1-host", "2-hosts"]
    assert ladder.stand_ins == ("train",)
    assert "--input train=DIR" in ladder.left_out[0].why
    with_folder = made(inputs={"train": "s3://data/train"}, asked={"inputs": {"train": tmp_path}})
    assert [each.rung.name for each in with_folder.rungs][:3] == ["1-here-synthetic", "1-here", "n-here"]
    assert with_folder.stand_ins == ()


def test_the_folders_of_a_job_for_slurm_are_used_here_where_they_are_seen(made: Made, tmp_path: Path) -> None:
    section = {"shared": "/fsx", "python": "/fsx/venv", "inputs": {"train": str(tmp_path), "more": "/absent"}}
    job: dict[str, Any] = {"inputs": {"train": "s3://data/train"}, "backend": "slurm"}
    ladder = made(**job, slurm={**section, "inputs": {"train": str(tmp_path)}})
    assert [each.rung.name for each in ladder.rungs][1:] == ["1-here", "n-here", "1-host", "2-hosts"]
    assert ladder.inputs == {"train": tmp_path}
    assert {each.plan.slurm is not None for each in ladder.rungs[3:]} == {True}
    assert [each.cost for each in ladder.rungs[3:]] == [None, None]
    assert made(**job, slurm=section).stand_ins == ("more",)
    assert made(**job, slurm={**section, "host": "login"}).stand_ins == ("train", "more")


def test_values_from_variables_are_not_repeated_in_settings(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS", "private-corpus")
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": ["--corpus", "${CORPUS}"]}
    settings = rung(made(code=code), "1-here-synthetic").settings
    assert 'code.arguments=["--corpus", "${CORPUS}", "--synthetic"]' in settings
    sent = rung(made(code=code), "1-here-synthetic").plan.request["AlgorithmSpecification"]
    assert "private-corpus" in sent["ContainerArguments"]
    one = rung(made(ladder={"few_steps": {"max_steps": 3, "corpus": "${CORPUS}"}}), "1-here")
    assert 'hyperparameters.corpus="${CORPUS}"' in one.settings
    assert one.plan.request["HyperParameters"]["corpus"] == "private-corpus"


def test_only_the_rungs_asked_for_are_there_and_what_comes_after_is_known(made: Made) -> None:
    ladder = made(asked={"first": "1-here", "last": "n-here"})
    assert [each.rung.name for each in ladder.rungs] == ["1-here", "n-here"]
    assert ladder.beyond == "1-host"
    assert made().beyond is None
    assert rung(made(asked={"processes": 2}), "n-here").plan.processes_per_host == 2
    refused = made(resources={"instance_type": "ml.none.large"})
    assert refused.plan.refused
    assert refused.rungs == ()


def test_code_on_s3_begins_on_aws(made: Made) -> None:
    ladder = made(code={"source_dir": "s3://bucket/source.tar.gz", "entry_point": "train.py"})
    assert [each.rung.name for each in ladder.rungs] == ["1-host", "2-hosts"]
    assert "the code lies on S3" in ladder.left_out[0].why


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"first": "3-hosts"}, "--from 3-hosts is no rung"),
        ({"last": "here"}, "--up-to here is no rung"),
        ({"steps": 0}, "--steps 0"),
        ({"inputs": {"tran": Path()}}, "no channel 'tran'; it has none"),
        ({"first": "all-hosts"}, "no rung is left from all-hosts."),
    ],
)
def test_what_makes_no_ladder_is_refused(made: Made, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        made(asked=asked)


def test_a_search_has_no_ladder(made: Made) -> None:
    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": {"min": 0.1, "max": 1.0}},
        "max_jobs": 4,
    }
    with pytest.raises(Refusal, match="a search over hyperparameters"):
        made(tuning=tuning, asked={"last": "all-hosts"})


def test_a_ladder_without_data_here_says_how_to_give_it_some(made: Made) -> None:
    with pytest.raises(Refusal) as refused:
        made(script="print(1)", asked={"last": "n-here"}, inputs={"train": "s3://bucket/train"})
    assert "no rung is left up to n-here (1-here, n-here: no folder" in refused.value.message
    assert "`--input train=DIR`" in refused.value.remedy
    assert "`--from 1-host`" in refused.value.remedy


def test_the_command_that_goes_on_has_what_the_climb_was_given() -> None:
    usual = LadderRequest(JobSource(Path("job.yaml")))
    assert usual.as_options(again=True) == []
    given = LadderRequest(usual.job, last="n-here", seconds=90, processes=2, inputs={"train": Path("data")})
    going_on = ["--seconds", "90", "--processes", "2", "--input", "train=data"]
    assert given.as_options(again=False) == going_on
    assert given.as_options(again=True) == ["--up-to", "n-here", *going_on]


RUNG = Rung("2-hosts", Where.AWS, 2, 8, instance_type="ml.p4d.24xlarge")


class Quiet:
    """A screen that shows nothing but counts what comes through."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def status(self, status: JobStatus) -> None:
        self.seen.append("status")

    def lines(self, lines: Sequence[LogLine]) -> None:
        self.seen.append("lines")

    def trouble(self, text: str | None) -> None:
        self.seen.append("trouble")

    def progress(self, progress: TrainingProgress) -> None:
        self.seen.append("progress")

    def notice(self, notice: Any) -> None:
        self.seen.append("stall")


class Watched:
    """A watch with a clock of its own, and the stops that it asked for."""

    def __init__(self, reports: int | None = None, seconds: float = 600) -> None:
        self.now = 0.0
        self.stops: list[tuple[str, ...]] = []
        self.screen = Quiet()
        self.watch = RungWatch(
            self.screen, lambda *who: self.stops.append(who), Bound(reports, seconds), lambda: self.now
        )

    def at(self, now: float, *, report: bool = False, phase: str = "Training") -> None:
        self.now = now
        state = JobState.COMPLETED if phase == "Completed" else JobState.IN_PROGRESS
        self.watch.status(JobStatus("digits-1", state, phase))
        if report:
            self.watch.progress(TrainingProgress({"step": now}))


def ready(*, told: bool = False) -> ReadyRung:
    cost = CostEstimate(60.0, 25.0, None, "us-west-2")  # type: ignore[arg-type]
    return ReadyRung(RUNG, (), None, None, told, cost)  # type: ignore[arg-type]


def ended(state: JobState, *, verdict: Verdict | None = None, mode: Any = None, **more: Any) -> Outcome:
    status = JobStatus("digits-1", state, state.value, seconds=120.0)
    if verdict is None:
        return Outcome(status, **more)
    cause = RootCause(mode.finding(Stage.LOG, "x"), 1, "algo-1", "x", ()) if mode else None
    return Outcome(status, Diagnosis(verdict, cause, (), (), Retry.NEVER), **more)


def test_a_script_that_cannot_be_told_is_stopped_after_its_reports() -> None:
    watched = Watched(reports=2)
    watched.at(1, report=True)
    assert watched.stops == []
    watched.at(2, report=True)
    watched.at(3, report=True)
    [(name, who)] = watched.stops
    assert name == "digits-1"
    assert who.startswith("launch ladder after 2 reports of progress")


def test_one_that_was_told_ends_by_itself() -> None:
    assert bound_of(ready(told=True), 5, 600) == Bound(None, 600)
    assert bound_of(ready(), 5, 600) == Bound(5, 600)


def test_time_counts_from_the_scripts_start() -> None:
    watched = Watched(seconds=600)
    watched.at(0, phase="Starting")
    watched.at(5000, phase="Downloading")
    watched.at(5001)
    watched.at(5500, report=True)
    watched.at(5590, report=True)
    assert watched.stops == []
    watched.at(5601)
    assert len(watched.stops) == 1
    assert watched.watch.stood_still is None
    stopped = ended(JobState.STOPPED, verdict=Verdict.STOPPED)
    assert judge_rung(ready(), stopped, watched.watch).result is Result.HELD


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([], "reported nothing for 10m00s"),
        ([1, 10, 20], "stood still for 9m40s"),
        ([10, 160, 310], None),
    ],
    ids=["no report", "a standstill", "slow steps, which are none"],
)
def test_a_run_that_stands_still_at_its_limit_has_not_held(reports: list[int], said: str | None) -> None:
    watched = Watched()
    watched.at(0)
    for second in reports:
        watched.at(second, report=True)
    watched.at(600)
    assert watched.watch.ended_by is not None
    climbed = judge_rung(ready(), ended(JobState.STOPPED, verdict=Verdict.STOPPED), watched.watch)
    if said is None:
        assert (climbed.result, watched.watch.stood_still) == (Result.HELD, None)
    else:
        assert (climbed.result, climbed.said) == (Result.UNDECIDED, said)


def test_a_job_that_has_ended_is_not_stopped() -> None:
    watched = Watched(reports=1)
    watched.at(0)
    watched.at(900, report=True, phase="Completed")
    assert watched.stops == []


def test_everything_still_reaches_the_screen() -> None:
    watched = Watched()
    watched.at(0, report=True)
    watched.watch.lines([])
    watched.watch.trouble(None)
    watched.watch.notice(None)  # type: ignore[arg-type]
    assert watched.screen.seen == ["status", "progress", "lines", "trouble", "stall"]


RAISED = training_script.SCRIPT_RAISED
ALONE = distribution.RANKS_NEVER_MET.finding(Stage.LOG, "alone")
LOST = checkpoints.PATH_NOT_KEPT.finding(Stage.LOG, "lost")


@pytest.mark.parametrize(
    ("outcome", "result", "code"),
    [
        (ended(JobState.COMPLETED, warnings=()), Result.HELD, None),
        (ended(JobState.FAILED, verdict=Verdict.FAILED, mode=RAISED), Result.BROKE, "CODE001"),
        (ended(JobState.FAILED, verdict=Verdict.UNKNOWN), Result.BROKE, None),
        (ended(JobState.STOPPED, verdict=Verdict.STOPPED, mode=RAISED), Result.UNDECIDED, "CODE001"),
        (ended(JobState.COMPLETED, warnings=(ALONE,)), Result.BROKE, "DIST008"),
        (ended(JobState.COMPLETED, warnings=(LOST,)), Result.HELD, None),
    ],
)
def test_how_the_job_ended_says_what_came_of_the_rung(
    outcome: Outcome, result: Result, code: str | None
) -> None:
    climbed = judge_rung(ready(), outcome, Watched().watch)
    assert climbed.result is result
    assert (climbed.finding.code if climbed.finding else None) == code
    assert climbed.usd == pytest.approx(2.0)


def test_a_failure_counts_also_where_the_ladder_stopped_the_job() -> None:
    watched = Watched(reports=1)
    watched.at(1, report=True)
    outcome = ended(JobState.STOPPED, verdict=Verdict.FAILED, mode=RAISED)
    assert judge_rung(ready(), outcome, watched.watch).result is Result.BROKE
