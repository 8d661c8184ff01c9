"""`launch pair`: two runs compared, here, on emulated AWS, and afterwards by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from moto.core.exceptions import JsonRESTError

from launcher.cli.experiments import pair
from launcher.session.plan_notes import read_plan_note
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount
from tests.emulator.sagemaker import TrainingScript, emulated_training

LEARNS = """
import json, os, random, sys
given = json.loads(os.environ["SM_HPS"])
if given.get("breaks"):
    raise ValueError("broken on purpose")
chance = random.Random(given["seed"])
for step in range(60):
    print(f"step={step} loss={given['level'] + 2 / (1 + step) + chance.gauss(0, 0.01):.4f}", flush=True)
"""


@pytest.fixture
def job_file(write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that prints sixty losses, on one process and without torch."""
    monkeypatch.chdir(tmp_path)
    file = write_job(
        distribution={"strategy": "none"},
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
        hyperparameters={"level": 1.0, "seed": 1},
    )
    (tmp_path / "src" / "train.py").write_text(LEARNS)
    return file


def losses(level: float, count: int = 60) -> Sequence[str]:
    return [f"step={step} loss={level + 2 / (1 + step) + step % 3 / 100:.4f}" for step in range(count)]


class TwoScripts(TrainingScript):
    """Jobs whose lines are told by their hyperparameter `side`."""

    def __init__(self) -> None:
        super().__init__()
        self.of_side: dict[str, Sequence[str]] = {}
        self.failing: str | None = None
        self.refused: str | None = None

    def create(self, request: dict[str, Any]) -> None:
        if request["HyperParameters"]["side"].strip('"') == self.refused:
            raise JsonRESTError("ValidationException", "nothing like that today")
        self._become(request)
        super().create(request)

    def describe(self, name: str) -> dict[str, Any]:
        self._become(self._request(name))
        return super().describe(name)

    def _become(self, request: dict[str, Any]) -> None:
        side = request["HyperParameters"]["side"].strip('"')
        broken = "AlgorithmError: CODE001 rank 0 on algo-1: ValueError: x, exit code: 1"
        self.logs = {"algo-1": self.of_side[side]}
        self.failure_reason = broken if side == self.failing else None


@pytest.fixture
def account(cloud: EmulatedAccount) -> Iterator[TwoScripts]:
    with emulated_training(TwoScripts()) as script:
        script.of_side = {"1": losses(1.0), "2": losses(1.5)}
        yield script


SIDES = ("--set", "hyperparameters.side=1", "--set", "hyperparameters.side=2")


def test_two_settings_of_one_job_run_here_and_are_compared(run_launch: RunLaunch, job_file: Path) -> None:
    worse = ("--set", "hyperparameters.level=1", "--set", "hyperparameters.level=1.4")
    code, out, err = run_launch("pair", job_file, *worse, "--local", "--output", "json")
    printed = json.loads(out)
    assert code == 1, err
    assert [run["state"] for run in printed["runs"]] == ["Completed", "Completed"]
    assert [run["losses"]["points"] for run in printed["runs"]] == [60, 60]
    assert printed["loss"]["judgement"] == "differs"
    # Both have one seed, and with it the same noise.
    assert printed["loss"]["difference"]["value"] == pytest.approx(0.4, abs=1e-3)
    assert [each["field"] for each in printed["differences"]] == ["hyperparameters.level"]

    names = [run["name"] for run in printed["runs"]]
    # The page of either run tells its plan.
    assert [read_plan_note(name).job["hyperparameters"].keys() for name in names] == [{"seed", "level"}] * 2
    code, out, _ = run_launch("pair", *reversed(names))
    assert code == 0
    assert "B learns better than A: its loss is lower by 0.4" in out
    assert "hyperparameters.level" in out


def test_a_side_that_fails_is_diagnosed_and_the_other_kept(
    run_launch: RunLaunch, job_file: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(job_file.read_text().replace("seed: 1", "seed: 1\n  breaks: true"))
    code, out, err = run_launch("pair", job_file, broken, "--local")
    assert code == 1
    assert "CODE001" in out, err
    assert "A  60 losses read, step 0 to 59" in out
    assert "cannot be told: no loss was found in what B printed" in out


@pytest.mark.exhaustive
def test_a_side_that_misses_a_file_is_told_what_left_it_out(
    run_launch: RunLaunch, job_file: Path, tmp_path: Path
) -> None:
    source = tmp_path / "src"
    (source / "levels.csv").write_text("1.0")
    (source / ".slipwayignore").write_text("*.csv\n")
    (source / "train.py").write_text("open('levels.csv')")
    _, out, _ = run_launch("pair", job_file, *SIDES, "--local")
    assert out.count("the pattern *.csv") == 2


def test_both_are_submitted_and_compared_on_aws(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts
) -> None:
    code, out, err = run_launch("pair", write_job(cluster="dev"), *SIDES, "--yes")
    assert code == 1, err
    assert len(account.requests) == 2
    assert "A [Training]" in out
    assert "B learns worse than A: its loss is higher by 0.5" in out

    first, second = (request["TrainingJobName"] for request in account.requests)
    code, out, _ = run_launch("pair", second, first, "--output", "json")
    assert (code, json.loads(out)["loss"]["judgement"]) == (0, "differs")


def test_one_after_another_the_second_waits_for_the_first(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts
) -> None:
    account.of_side["2"] = account.of_side["1"]
    _, beside, _ = run_launch("pair", write_job(cluster="dev"), *SIDES, "--yes")
    code, after, err = run_launch("pair", write_job(cluster="dev"), *SIDES, "--yes", "--one-after-another")
    assert code == 0, err
    assert beside.index("B [Starting]") < beside.index("A [Completed]")
    assert after.index("A [Completed]") < after.index("B [Starting]")
    assert "B learns as A does, to the last digit printed" in after


def test_a_failed_side_on_aws_makes_no_verdict_of_the_other(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts
) -> None:
    account.failing, account.of_side["2"] = "2", losses(1.0, count=5)
    code, out, _ = run_launch("pair", write_job(cluster="dev"), *SIDES, "--yes", "--output", "json")
    printed = json.loads(out)
    assert code == 1
    assert printed["runs"][1]["failure"]["code"] == "CODE001"
    assert printed["loss"]["why"].startswith("not enough points: 5 steps in common, and 20 are needed")


def test_nothing_is_submitted_without_a_yes(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(pair, "is_asking_possible", lambda yes, output: not yes)
    monkeypatch.setattr(pair, "confirm", lambda question: bool(asked.append(question)))
    code, out, err = run_launch("pair", write_job(cluster="dev"), *SIDES)
    assert (code, account.requests) == (0, [])
    assert "not submitted" in err
    assert "A 2 × ml.p4d.24xlarge" in asked[0]
    assert "B 2 × ml.p4d.24xlarge" in asked[0]
    assert "hyperparameters.side  A 1  B 2" in out


def test_ctrl_c_leaves_both_running_and_says_how_to_compare_them(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("launcher.cli.experiments.pair.SideView.progress", pressed)
    code, _, err = run_launch("pair", write_job(cluster="dev"), *SIDES, "--yes")
    names = [request["TrainingJobName"] for request in account.requests]
    assert code == 130
    assert all(f"{name} goes on" in err for name in names)
    assert f"launch pair {names[0]} {names[1]}" in err


def test_where_the_second_is_not_taken_the_first_is_not_forgotten(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts
) -> None:
    account.refused = "2"
    code, _, err = run_launch("pair", write_job(cluster="dev"), *SIDES, "--yes")
    (first,) = (request["TrainingJobName"] for request in account.requests)
    assert code == 3
    assert "nothing like that today" in err
    assert f"{first}, submitted before it, stays" in err
    assert f"launch stop {first}" in err


def test_ctrl_c_here_ends_the_run_and_starts_no_other(
    run_launch: RunLaunch, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressed: list[str] = []

    def press_once(view: object, lines: object) -> None:
        if not pressed:
            pressed.append("Ctrl-C")
            raise KeyboardInterrupt

    monkeypatch.setattr("launcher.cli.experiments.pair.SideView.lines", press_once)
    code, out, err = run_launch("pair", job_file, job_file, "--local")
    assert code == 130
    assert "A was stopped: the pair is not compared" in err
    assert "B [" not in out
    assert len(list((job_file.parent / ".slipway" / "local").iterdir())) == 1


def test_a_side_that_is_refused_keeps_both_from_running(
    run_launch: RunLaunch, write_job: WriteJob, account: TwoScripts
) -> None:
    wrong = ("--set", "resources.instance_count=2", "--set", "resources.instance_count=0")
    code, out, err = run_launch("pair", write_job(cluster="dev"), *wrong, "--yes")
    assert (code, account.requests) == (1, [])
    assert "not launched: B has 1 error" in err
    assert "instance_count" in out
