"""`launch init` and `launch SCRIPT.py --local`, and the way of somebody who begins with a script."""

from __future__ import annotations

import json
import re
import shlex
from io import StringIO
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import RunLaunch

ROOT = Path(__file__).parents[3]

SCRIPT = """\
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--fail", default="no")
options = parser.parse_args()
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "lr", options.lr, flush=True)
if options.fail == "yes":
    raise RuntimeError("the loss is no number")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the working folder, and nothing else there."""
    monkeypatch.chdir(tmp_path)
    file = Path("train.py")
    file.write_text(SCRIPT)
    return file


class Terminal(StringIO):
    """Somebody who has typed this."""

    def isatty(self) -> bool:
        return True


def test_a_newcomer_comes_from_a_script_to_a_report(run_launch: RunLaunch, script: Path) -> None:
    code, _, said = run_launch("init", script)
    assert code == 0
    following = re.search(r"next: launch (.*)", said)
    assert following, said
    assert run_launch("check", "job.yaml")[0] == 0
    code, shown, said = run_launch(*shlex.split(following[1]), "--yes")
    assert code == 0, shown + said
    assert "rank 0 of 1 lr 0.1" in shown
    code, shown, said = run_launch("job.yaml", "--local", "--yes", "--set", "hyperparameters.fail=yes")
    assert code == 1
    assert "the loss is no number" in shown
    report = re.search(r"launch (report \S+)", shown + said)
    assert report, shown + said
    assert run_launch(*report[1].split())[0] == 0
    (page,) = Path.cwd().glob("*.html")
    assert "the loss is no number" in page.read_text("utf-8")


def test_a_job_file_is_never_written_over(run_launch: RunLaunch, script: Path) -> None:
    Path("job.yaml").write_text("name: mine\n")
    code, printed, said = run_launch("init", script)
    assert (code, printed) == (2, "")
    assert "job.yaml is there already, and would be written over" in said
    assert "--file PATH" in said
    assert Path("job.yaml").read_text() == "name: mine\n"


def test_the_json_has_the_job_its_questions_and_the_next_command(run_launch: RunLaunch, script: Path) -> None:
    script.write_text(SCRIPT.replace('default="no"', "required=True"))
    code, printed, _ = run_launch("init", script, "--output", "json", "--instance-type", "ml.g5.xlarge")
    said = json.loads(printed)
    assert code == 0
    assert said["job"] == yaml.safe_load(Path("job.yaml").read_text())
    assert {each["field"]: each["line"] for each in said["questions"]} == {
        "cluster": None,
        "hyperparameters.fail": 4,
    }
    assert [each["code"] for each in said["findings"] if each["severity"] == "error"] == ["CODE002"]
    assert said["next"] == "launch check job.yaml"


def test_what_only_aws_would_lose_speaks_against_no_run_here(run_launch: RunLaunch, script: Path) -> None:
    script.write_text("import torch\ntorch.save({'model': 1}, 'last.pt')\n")
    _, printed, _ = run_launch("init", script, "--output", "json")
    said = json.loads(printed)
    assert [each["code"] for each in said["findings"] if each["severity"] == "error"] == ["CKPT007"]
    assert said["next"] == "launch job.yaml --local"


def test_on_a_terminal_hosts_and_cluster_are_asked(
    run_launch: RunLaunch, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("ml.p5.48xlarge\n4\n\n"))
    code, _, said = run_launch("init", script)
    assert code == 0
    assert said.count("?") == 3
    made = yaml.safe_load(Path("job.yaml").read_text())
    assert made["resources"] == {"instance_type": "ml.p5.48xlarge", "instance_count": 4}
    assert "cluster" not in made


def test_in_a_pipe_nothing_is_asked(run_launch: RunLaunch, script: Path) -> None:
    _, _, said = run_launch("init", script)
    assert "?" not in said


@pytest.mark.parametrize(("answer", "wrong"), [("p5", "p5"), ("ml.p5.48xlarge\nmany", "many")])
def test_an_answer_that_makes_no_sense_is_refused_and_nothing_written(
    run_launch: RunLaunch, script: Path, monkeypatch: pytest.MonkeyPatch, answer: str, wrong: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n\n\n"))
    code, _, said = run_launch("init", script)
    assert code == 2
    assert wrong in said
    assert not Path("job.yaml").exists()


def test_a_script_runs_here_without_a_job_file_and_its_job_can_be_kept(
    run_launch: RunLaunch, script: Path
) -> None:
    words = [script, "--local", "--processes", "2", "--yes", "--rank", "all", "--save", "kept.yaml"]
    code, shown, said = run_launch(*words, "--", "--lr", "0.5")
    assert code == 0, shown + said
    assert {"rank 0 of 2 lr 0.5", "rank 1 of 2 lr 0.5"} <= set(re.findall(r"rank \d of \d lr [\d.]+", shown))
    kept = yaml.safe_load(Path("kept.yaml").read_text())
    assert kept["code"]["arguments"] == ["--lr", "0.5"]
    assert kept["distribution"] == {"strategy": "torchrun", "processes_per_host": 2}
    assert "entry_point: train.py" in shown
    assert run_launch("check", "kept.yaml")[0] == 0


def test_a_script_is_not_sent_to_aws(run_launch: RunLaunch, script: Path) -> None:
    code, _, said = run_launch(script)
    assert code == 2
    assert "launch init train.py" in said


def test_words_for_a_script_are_not_for_a_job_file(run_launch: RunLaunch, script: Path) -> None:
    run_launch("init", script)
    code, _, said = run_launch("job.yaml", "--local", "--", "--lr", "3")
    assert code == 2
    assert "code.arguments" in said


EXAMPLES = sorted(file.parent.name for file in (ROOT / "examples").glob("*/job.yaml"))


def test_the_job_of_each_example_is_drafted_without_an_error(
    run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with the job file of the example: what is started, by what, and whether it saves."""
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) == 8
    for name in EXAMPLES:
        folder = ROOT / "examples" / name
        code, printed, said = run_launch("init", folder / "src", "--file", f"{name}.yaml", "--output", "json")
        assert code == 0, said
        made, ours = json.loads(printed), yaml.safe_load((folder / "job.yaml").read_text())
        errors = [each for each in made["findings"] if each["severity"] == "error"]
        assert all(each.get("ignored") for each in errors), name
        job = made["job"]
        for key in ("entry_point", "module", "argument_style"):
            assert job["code"].get(key) == ours["code"].get(key), (name, key)
        assert (tmp_path / job["code"]["source_dir"]).resolve() == folder / "src"
        strategy = ours.get("distribution", {}).get("strategy", "none")
        assert job["distribution"]["strategy"] == strategy, name
        assert job.get("checkpoint") == ours.get("checkpoint"), name
        assert made["next"] == f"launch {name}.yaml --local"
