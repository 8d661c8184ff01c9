"""A job's script is judged with the job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.program.program import Program, read_program
from launcher.program.surroundings.shell_starts import ShellStarts
from launcher.rules.script import check
from launcher.rules.script.findings import ScriptSubject
from launcher.session.prepare_plan import JobSource, prepare, read_job
from tests.cli.conftest import RunLaunch, run_launch
from tests.program import trial_rules

WriteJob = Callable[..., Path]
__all__ = ["run_launch"]


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial_rules.use(monkeypatch)


def job_with(write_job: WriteJob, script: str, **changes: object) -> Path:
    file = write_job(**changes)
    (file.parent / "src" / "train.py").write_text(script, "utf-8")
    return file


def found(file: Path, *ignore: str) -> list[str]:
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2", ignore=ignore)
    return [
        f"{each.location} {each.code}{' ignored' if each.ignored else ''}"
        for each in plan.findings
        if each.stage is Stage.SCRIPT
    ]


def test_the_script_of_a_job_is_judged_at_its_line(write_job: WriteJob) -> None:
    assert found(job_with(write_job, "\nbarrier()\n")) == ["src/train.py:2:1 DDP004"]
    module = job_with(write_job, "barrier()\n", code={"source_dir": "src", "module": "train"})
    assert found(module) == ["src/train.py:1:1 DDP004"]


def test_a_package_is_judged_that_pythonpath_leads_to(write_job: WriteJob) -> None:
    file = write_job(
        code={"source_dir": "src", "module": "wave"}, environment={"PYTHONPATH": "${SM_SOURCE_DIR}/lib"}
    )
    package = file.parent / "src" / "lib" / "wave"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("from wave.steps import run\n", "utf-8")
    (package / "steps.py").write_text("barrier()\ndef run(): pass\n", "utf-8")
    assert found(file) == ["src/lib/wave/steps.py:1:1 DDP004"]


def test_what_the_script_imports_from_the_source_is_judged(write_job: WriteJob) -> None:
    file = job_with(write_job, "import model.steps\n")
    (file.parent / "src" / "model").mkdir()
    (file.parent / "src" / "model" / "steps.py").write_text("barrier()\n", "utf-8")
    assert found(file) == ["src/model/steps.py:1:1 DDP004"]


@pytest.mark.parametrize("accepted", ["job", "option", "comment"])
def test_a_finding_is_accepted_by_the_job_an_option_or_a_comment(write_job: WriteJob, accepted: str) -> None:
    comment = "  # slipway: ignore[DDP004] alone here" if accepted == "comment" else ""
    changes = {"ignore": ["DDP004"]} if accepted == "job" else {}
    file = job_with(write_job, f"barrier(){comment}\n", **changes)
    options = ["DDP004"] if accepted == "option" else []
    assert found(file, *options) == ["src/train.py:1:1 DDP004 ignored"]


def test_a_shell_script_is_not_read_as_python(write_job: WriteJob) -> None:
    file = write_job(code={"source_dir": "src", "entry_point": "train.sh"}, distribution={"strategy": "none"})
    (file.parent / "src" / "train.sh").write_text("#!/bin/bash\nbarrier\n", "utf-8")
    assert found(file) == []


BY_SHELL = {"code": {"source_dir": "src", "entry_point": "run.sh"}, "distribution": {"strategy": "none"}}


def test_the_program_that_a_shell_script_of_the_job_starts_is_judged(
    write_job: WriteJob, run_launch: RunLaunch
) -> None:
    file = job_with(write_job, "barrier()\n", **BY_SHELL)
    (file.parent / "src" / "run.sh").write_text("cd .\ntorchrun --nnodes 1 train.py\n", "utf-8")
    assert found(file) == ["src/train.py:1:1 DDP004"]
    assert "train.py:1:1" in run_launch("lint", "--job", file)[1]


def test_of_several_programs_of_a_shell_script_none_is_judged(write_job: WriteJob) -> None:
    file = job_with(write_job, "barrier()\n", **BY_SHELL)
    (file.parent / "src" / "run.sh").write_text("torchrun train.py\ntorchrun other.py\n", "utf-8")
    assert found(file) == []


def test_a_variable_of_a_jobs_shell_script_is_told_once(write_job: WriteJob) -> None:
    file = job_with(write_job, "a = 1\n", **BY_SHELL)
    (file.parent / "src" / "run.sh").write_text("export NCCL_DEBUG=TRACE\ntorchrun train.py\n", "utf-8")
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2")
    assert [each.stage for each in plan.findings if each.code == "NCCL003"] == [Stage.SPEC]


def test_an_error_in_the_script_refuses_the_job(write_job: WriteJob, run_launch: RunLaunch) -> None:
    file = job_with(write_job, "if rank == 0:\n    barrier()\n")
    code, out, _ = run_launch("check", file)
    assert code == 1
    assert "DDP004" in out
    assert "at src/train.py:2:5" in out
    assert "under `if rank == 0`: src/train.py:1:1" in out


def test_informations_on_a_script_are_in_the_json_of_check_alone(
    write_job: WriteJob, run_launch: RunLaunch
) -> None:
    file = job_with(write_job, "init_process_group()\n")
    code, out, _ = run_launch("check", file)
    assert (code, "DDP006" in out) == (0, False)
    _, out, _ = run_launch("check", file, "--output", "json")
    assert "DDP006" in [each["code"] for each in json.loads(out)["findings"]]


def hosts_are_few(subject: ScriptSubject) -> Iterator[Finding]:
    """A rule that knows both."""
    count = subject.job.resources.instance_count
    message = f"{subject.program.entry.path.name} on {count} of {subject.plan.region}"
    yield data.CHANNELS_DIFFER.finding(Stage.SCRIPT, message)


def test_a_rule_on_script_and_job_gets_both_and_is_silent_without_a_job(
    write_job: WriteJob, run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "JOB_RULES", (hosts_are_few,))
    file = job_with(write_job, "a = 1\n")
    script = file.parent / "src" / "train.py"
    assert run_launch("lint", script)[1] == ""
    for arguments in ([script, "--job", file], ["--job", file]):
        _, out, _ = run_launch("lint", *arguments)
        assert out.startswith("error DATA007 train.py on 2 of ")


OPTIONAL = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--export", type=int, default=0)
args = parser.parse_args()
if args.export:
    barrier()
"""


@pytest.mark.parametrize(("given", "severity"), [({}, "info"), ({"export": 1}, "error")])
def test_what_a_job_does_not_come_to_speaks_not_against_it(
    write_job: WriteJob, given: dict[str, int], severity: str
) -> None:
    file = job_with(write_job, OPTIONAL, hyperparameters=given)
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2")
    [finding] = [each for each in plan.findings if each.code == "DDP004"]
    assert finding.severity.value == severity
    assert finding.message.endswith("this job does not come here") == (severity == "info")


def test_lint_with_a_job_takes_the_jobs_ignore(write_job: WriteJob, run_launch: RunLaunch) -> None:
    file = job_with(write_job, "barrier()\n", ignore=["DDP004"])
    assert run_launch("lint", "--job", file)[:2] == (0, "")
    # Nor is it fixed.
    job = job_with(write_job, 'e["A"] = 4\n', ignore=["CODE003"])
    _, out, err = run_launch("lint", "--job", job, "--diff")
    assert (out, err.splitlines()[-1]) == ("", "would fix 0 findings in 0 files")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"resources": {}},
            "so that the script cannot be judged with it: `resources.instance_type` is missing",
        ),
        ({"code": {"source_dir": "src", "entry_point": "gone.py"}}, "is no Python script in a folder here"),
    ],
)
def test_a_job_whose_script_cannot_be_judged_is_refused(
    write_job: WriteJob, run_launch: RunLaunch, changes: dict[str, object], said: str
) -> None:
    code, _, err = run_launch("lint", "--job", job_with(write_job, "a = 1\n", **changes))
    assert code == 2
    assert said in err


def test_a_shell_script_beside_a_script_that_the_job_starts_itself_is_not_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n", "utf-8")
    (tmp_path / "run.sh").write_text("export NCCL_P2P_DISABLE=1\ntorchrun --nnodes=2 train.py\n", "utf-8")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    assert [each.name for each in program.analysis(ShellStarts).settings] == ["NCCL_P2P_DISABLE"]
    assert replace(program, words=()).analysis(ShellStarts).settings == ()


def test_fixes_are_made_with_a_job(write_job: WriteJob, run_launch: RunLaunch) -> None:
    job = job_with(write_job, 'e["A"] = 4\n')
    script = job.parent / "src" / "train.py"
    code, out, err = run_launch("lint", "--job", job, "--diff")
    assert (code, err.splitlines()[-1]) == (0, "would fix 1 finding in 1 file")
    assert '+e["A"] = "4"' in out
    assert script.read_text("utf-8") == 'e["A"] = 4\n'
    code, out, err = run_launch("lint", "--job", job, "--fix")
    assert (code, out, err.splitlines()[-1]) == (0, "", "fixed 1 finding in 1 file")
    assert script.read_text("utf-8") == 'e["A"] = "4"\n'
