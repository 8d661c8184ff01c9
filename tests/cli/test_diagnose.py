"""`launch diagnose` on log files and on jobs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RunLaunch
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


def test_a_dash_is_standard_input(run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.TextIOWrapper(io.BytesIO(log_case("036").text.encode() + b"\xff\xfe\n"))
    monkeypatch.setattr(sys, "stdin", log)
    code, out, _ = run_launch("diagnose", "--log", "-", "--output", "json")
    assert (code, json.loads(out)["root_cause"]["code"]) == (1, "MEM002")


@pytest.mark.parametrize("arguments", [(), ("one", "two"), ("--log", "/absent/algo-1.log")])
def test_what_cannot_be_read_is_a_mistake_of_usage(run_launch: RunLaunch, arguments: tuple[str, ...]) -> None:
    code, out, err = run_launch("diagnose", *arguments)
    assert (code, out) == (2, "")
    assert "error: " in err


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
    from launcher.backends.local.status import JobRecord

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
