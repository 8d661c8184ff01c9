"""`launch diagnose` on log files and on jobs, and `launch explain` in words and as JSON."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli.diagnose import explain
from launcher.cli.interaction import OutputFormat
from launcher.failure_modes import network, notices, sources
from launcher.failure_modes.registry import CATALOGUE, stages_covered
from tests.cli.conftest import RunLaunch
from tests.diagnosis.evidence.recorders import RECORDED
from tests.logs.cases import log_case, write_log


def test_the_root_cause_comes_with_remedy_advice_and_where_to_read_on(
    run_launch: RunLaunch, tmp_path: Path
) -> None:
    code, out, _ = run_launch("diagnose", "--log", write_log("027", tmp_path))
    assert code == 1
    for text in ("MEM001", "rank 5", "1.96 GiB", "Halve the batch", "Retry never", "launch explain MEM001"):
        assert text in out


def test_a_healthy_log_ends_well(run_launch: RunLaunch, tmp_path: Path) -> None:
    code, out, _ = run_launch("diagnose", "--log", write_log("120", tmp_path))
    assert (code, out) == (0, "No failure found.\n")


def test_what_nobody_understood_is_not_called_well(run_launch: RunLaunch, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("step 1 loss 2\nthe flux capacitor failed\n")
    code, out, _ = run_launch("diagnose", "--log", log)
    assert code == 1
    assert "Unknown: nothing known was met in 2 lines" in out
    assert "│ the flux capacitor failed" in out
    assert "No failure found" not in out
    _, out, _ = run_launch("diagnose", "--log", log, "--output", "json")
    shape = json.loads(out)
    assert (shape["verdict"], shape["root_cause"], shape["unusual"]) == (
        "unknown",
        None,
        ["the flux capacitor failed"],
    )


def test_json_has_the_designed_shape_and_stands_alone(run_launch: RunLaunch, tmp_path: Path) -> None:
    code, out, _ = run_launch("diagnose", "--log", write_log("084", tmp_path), "--output", "json")
    shape = json.loads(out)
    assert code == 1
    assert list(shape) == [
        "verdict",
        "root_cause",
        "consequences",
        "findings",
        "retry",
        "runner_up",
        "ranks",
        "summary",
        "unusual",
        "checked",
    ]
    assert (shape["verdict"], shape["root_cause"]["code"], shape["retry"]) == ("failed", "CAP001", "later")


def test_several_paths_follow_one_option(run_launch: RunLaunch, tmp_path: Path) -> None:
    code, out, _ = run_launch(
        "diagnose", "--log", write_log("120", tmp_path), write_log("036", tmp_path), "--output", "json"
    )
    assert code == 1
    assert json.loads(out)["root_cause"]["host"] == "036.log"


def test_a_file_without_the_option_is_not_looked_for_as_a_job(run_launch: RunLaunch, tmp_path: Path) -> None:
    log = write_log("027", tmp_path)
    code, _, err = run_launch("diagnose", log)
    assert code == 2
    assert f"launch diagnose --log {log}" in err.replace("\n", "")


def test_a_dash_is_standard_input(run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.TextIOWrapper(io.BytesIO(log_case("036").text.encode() + b"\xff\xfe\n"))
    monkeypatch.setattr(sys, "stdin", log)
    code, out, _ = run_launch("diagnose", "--log", "-", "--output", "json")
    assert (code, json.loads(out)["root_cause"]["code"]) == (1, "MEM002")


def test_neither_control_characters_nor_secrets_reach_the_terminal(
    run_launch: RunLaunch, tmp_path: Path
) -> None:
    log = tmp_path / "algo-1.log"
    log.write_text("\x1b]0;evil\x07ValueError: [bold]\x9b31m token=hunter2 \x1b[2J\n")
    _, out, _ = run_launch("diagnose", "--log", log)
    assert "[bold]" in out
    assert "hunter2" not in out
    assert not any(ord(character) < 32 and character != "\n" for character in out)


def test_a_local_job_is_diagnosed_by_name(
    run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launcher.backends.interface import JobState
    from launcher.backends.local.processes import ProcessId
    from launcher.backends.local.records import JobRecord

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".slipway" / "local" / "llama-1"
    (folder / "hosts" / "algo-1" / "ml").mkdir(parents=True)
    (folder / "hosts" / "algo-1" / "log").write_text("starting\n")
    reason = "AlgorithmError: MEM001 rank 2 on algo-1: full, exit code: 1"
    record = JobRecord(folder, ProcessId.of_this_process(), 1)
    record.changed(JobState.FAILED, failure_reason=reason).write()
    (folder / "request.json").write_text(json.dumps({"TrainingJobName": "llama-1", "ResourceConfig": {}}))
    code, out, _ = run_launch("diagnose", "llama-1")
    assert code == 1
    assert "MEM001 rank 2 on algo-1: full" in out


def test_the_ranks_are_shown_when_asked_for(run_launch: RunLaunch, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("world_size: 3\n[rank0]: step 1 loss 2\n[rank1]: step 1 loss 2\n")
    code, out, _ = run_launch("diagnose", "--ranks", "--log", log)
    assert code == 0
    assert "never reported" in out
    assert "never reported" not in run_launch("diagnose", "--log", log)[1]
    log.write_text("all is well\n")
    assert "no table of ranks" in run_launch("diagnose", "--ranks", "--log", log)[1]


def test_a_folder_with_dumps_and_a_log_is_read(run_launch: RunLaunch, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "size", tmp_path / "algo-1")
    (tmp_path / "algo-1" / "settings.json").write_text('{"loss": "CUDA out of memory"}')
    (tmp_path / "algo-1" / "stderr.log").write_text("step 1\n")
    code, printed, _ = run_launch("diagnose", "--log", str(tmp_path), "--output", "json")
    assert code == 1
    cause = json.loads(printed)["root_cause"]
    assert (cause["code"], cause["rank"], cause["host"]) == ("NCCL004", 2, "algo-1")


def test_a_hostile_dump_is_said_to_be_unread(run_launch: RunLaunch, tmp_path: Path) -> None:
    (tmp_path / "rank_0").write_bytes(b"\x80\x02cos\nsystem\nX\x07\x00\x00\x00entries\x85R.")
    _, _, said = run_launch("diagnose", "--log", str(tmp_path))
    assert "not read" in said
    assert "plain value" in said


KEYS = [
    "code",
    "title",
    "cause",
    "remedy",
    "sources",
    "stages",
    "notices",
    "figures",
    "as_of",
    "blind_examples",
]

Captured = pytest.CaptureFixture[str]


def test_a_mode_is_explained_whole(capsys: Captured) -> None:
    assert explain("EFA002") == 0
    shown = " ".join(capsys.readouterr().out.split())
    mode = network.NO_EGRESS_TO_ITSELF
    for text in (mode.title, mode.cause, mode.remedy):
        assert text in shown


def test_its_severity_and_sources_are_named(capsys: Captured) -> None:
    explain("EFA006")
    shown = capsys.readouterr().out
    assert "warning" in shown
    assert all(source.title in shown for source in CATALOGUE["EFA006"].sources)


def test_what_aws_announced_is_said_before_the_cause_with_where_it_was_read(capsys: Captured) -> None:
    explain("DBG001")
    shown = " ".join(capsys.readouterr().out.split())
    announced = shown.index("AWS closed SageMaker Debugger to new customers on 2026-07-30")
    cause = shown.index("Cause")
    assert announced < cause
    assert f"read {notices.DEBUGGER_CLOSED.source.as_of}" in shown[announced:cause]


def test_sources_say_when_they_were_last_read(capsys: Captured) -> None:
    explain("EFA007")
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{sources.EC2_EFA} (read {sources.EC2_EFA.as_of})" in shown
    plugin = sources.EFA_PLUGIN_ENVIRONMENT
    assert f"{plugin} (read {plugin.as_of}, commit {plugin.commit})" in shown


def test_figures_say_which_source_carries_them(capsys: Captured) -> None:
    explain("EFA004")
    shown = " ".join(capsys.readouterr().out.split())
    assert f"5: addresses of a subnet that AWS keeps ({sources.SUBNET_SIZES})" in shown
    assert "50: hosts at 5 addresses each in a /24: a sum" in shown


def test_notices_figures_and_dates_are_in_the_json(capsys: Captured) -> None:
    explain("DBG001", output=OutputFormat.JSON)
    shape = json.loads(capsys.readouterr().out)
    assert shape["notices"][0]["since"] == "2026-07-30"
    assert shape["as_of"] == str(min(source.as_of for source in CATALOGUE["DBG001"].sources))
    explain("EFA004", output=OutputFormat.JSON)
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert {"figure": "251", "what": "addresses of a /24 without these: a sum", "source": None} in figures
    assert sources.SUBNET_SIZES.title in {each["source"] for each in figures}


def test_all_modes_are_listed_a_line_each(capsys: Captured) -> None:
    assert explain(all_=True) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.split() and line.split()[0] in CATALOGUE]
    assert listed == list(CATALOGUE)


def test_without_a_code_all_are_listed(capsys: Captured) -> None:
    explain(all_=True)
    everything = capsys.readouterr().out
    explain()
    assert capsys.readouterr().out == everything


def test_one_mode_in_json_has_exactly_the_contracts_keys(capsys: Captured) -> None:
    assert explain("EFA002", output=OutputFormat.JSON) == 0
    shape = json.loads(capsys.readouterr().out)
    assert list(shape) == KEYS
    assert shape["stages"] == [stage.value for stage in stages_covered("EFA002")]


def test_all_modes_in_json_have_exactly_the_contracts_keys(capsys: Captured) -> None:
    assert explain(all_=True, output=OutputFormat.JSON) == 0
    shapes = json.loads(capsys.readouterr().out)
    assert [shape["code"] for shape in shapes] == list(CATALOGUE)
    assert all(list(shape) == KEYS for shape in shapes)


def test_explaining_loads_neither_pydantic_nor_boto3_nor_yaml() -> None:
    program = (
        "import sys, launcher.cli.diagnose as command; command.explain('EFA002');"
        "print('loaded:', {'pydantic', 'boto3', 'botocore', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: set()"
