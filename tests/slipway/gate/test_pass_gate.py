"""The gate of a host alone: whose GPUs reduce, and in which processes; and the one verdict on all hosts."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

import slipway
from slipway.container import Container, Rendezvous, Task
from slipway.failure import REPORTS
from slipway.gate import pass_gate as passing
from slipway.gate.judge_host import ORDER, HostFinding, Report, report_from_json
from slipway.gate.pass_gate import Surroundings, failure_text, pass_gate, verdict_lines, verdict_of
from slipway.host_assembly import Assembly
from slipway.processes.supervise import StopRequest


def passed_alone(folder: Path, strategy: str, processes: int) -> None:
    container = Container(folder, ("algo-1",), "algo-1", "", None, {}, {}, {})
    rendezvous = Rendezvous("127.0.0.1", 7777)
    package = Path(slipway.__file__).parent.parent
    environment = {**os.environ, "SLIPWAY_CHECKPOINT_DIR": str(folder / "checkpoints")}
    task = Task(strategy, processes, entry_point="train.py", gate="warn")
    around = Surroundings(task, container, rendezvous, package, environment)
    assembly = Assembly(container, rendezvous, "job")
    try:
        assert pass_gate(around, assembly, StopRequest()) is None
    finally:
        assembly.close()


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device files of two GPUs; no driver stands behind them."""
    monkeypatch.setattr(passing, "device_count", lambda environment: 2)


@pytest.mark.exhaustive
def test_several_gpus_of_a_host_alone_are_tried_in_processes_of_their_own(
    tmp_path: Path, two_gpus: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # A slow machine may take longer to import torch than a job should wait.
    monkeypatch.setattr(passing, "READY_SECONDS", 300.0)
    passed_alone(tmp_path, "torchrun", 2)
    assert [file.name for file in sorted((tmp_path / "slipway" / "gate").iterdir())] == [
        "stderr-0", "stderr-1",
    ]  # fmt: skip
    said = capfd.readouterr().err
    assert "warning: gate: IMG002 algo-1: " in said or "the all-reduce between the GPUs (algo-1: " in said


@pytest.mark.parametrize(("strategy", "processes"), [("torchrun", 1), ("none", 1)])
def test_a_rank_alone_needs_nobody(tmp_path: Path, two_gpus: None, strategy: str, processes: int) -> None:
    passed_alone(tmp_path, strategy, processes)
    assert not (tmp_path / "slipway" / "gate").exists()


HOSTS = ("algo-1", "algo-2", "algo-10")
FULL = HostFinding("DISK001", "algo-10", "12 MB of 30 GB are free")
PAIR = HostFinding("NCCL007", "algo-2", "algo-2 cannot connect to algo-10")
WARNED = HostFinding("MEM003", "algo-2", "9000 of 81559 MiB are in use", ends=False)


def test_the_worst_is_the_same_whatever_the_order_in_which_hosts_told() -> None:
    reports = [("algo-1", Report((PAIR,))), ("algo-2", Report((WARNED,))), ("algo-10", Report((FULL,)))]
    verdicts = [verdict_of(dict(each), HOSTS, "on") for each in itertools.permutations(reports)]
    assert {verdict.worst for verdict in verdicts} == {FULL}
    assert all(verdict == verdicts[0] for verdict in verdicts)


@pytest.mark.parametrize(
    ("mode", "finding", "refused"),
    [("on", FULL, True), ("on", WARNED, False), ("warn", FULL, False), ("warn", WARNED, False)],
)
def test_only_what_would_end_the_job_refuses_it_and_only_where_the_gate_is_on(
    mode: str, finding: HostFinding, refused: bool
) -> None:
    assert verdict_of(dict.fromkeys(HOSTS, Report((finding,))), HOSTS, mode).refused == refused


def test_the_host_concerned_has_the_finding_and_the_others_have_its_name_and_code() -> None:
    verdict = verdict_of({"algo-10": Report((FULL,)), "algo-1": Report((PAIR,))}, HOSTS, "on")
    assert failure_text(verdict, "algo-10") == (
        "DISK001 algo-10: 12 MB of 30 GB are free (and 1 more, in the log of the first host)"
    )
    assert failure_text(verdict, "algo-1") == "DISK001 refused because of algo-10: 12 MB of 30 GB are free"


def test_a_host_that_did_not_tell_is_not_passed() -> None:
    verdict = verdict_of({"algo-1": Report(), "algo-2": Report()}, HOSTS, "on")
    assert verdict.unknown == ("what algo-10 found (it did not tell in time)",)


def test_all_well_is_one_line_of_the_first_host_with_what_is_not_known() -> None:
    verdict = verdict_of(dict.fromkeys(HOSTS, Report((), ("the kernel's log",))), HOSTS, "on")
    assert verdict_lines(verdict, "algo-1", HOSTS, 0.42, "3 hosts") == [
        "gate: all well in 0.4 s (3 hosts); not known: the kernel's log"
    ]
    assert verdict_lines(verdict, "algo-2", HOSTS, 0.42, "3 hosts") == []


def test_a_warning_says_that_the_job_goes_on() -> None:
    verdict = verdict_of(dict.fromkeys(HOSTS, Report((WARNED,))), HOSTS, "on")
    assert verdict_lines(verdict, "algo-1", HOSTS, 1, "3 hosts") == [
        "warning: gate: MEM003 algo-2: 9000 of 81559 MiB are in use",
        "gate: 1 finding in 1.0 s (3 hosts), the job goes on",
    ]


def test_every_host_prints_what_refused_the_job() -> None:
    verdict = verdict_of({"algo-10": Report((FULL,)), "algo-1": Report((PAIR,))}, HOSTS, "on")
    for host in HOSTS:
        assert verdict_lines(verdict, host, HOSTS, 1, "")[-1] == failure_text(verdict, host)
    assert "gate: also NCCL007 algo-2: algo-2 cannot connect to algo-10" in verdict_lines(
        verdict, "algo-1", HOSTS, 1, ""
    )


def test_a_report_is_the_same_after_it_was_told() -> None:
    report = Report((FULL, WARNED), ("the clocks",))
    assert report_from_json(json.loads(json.dumps(report.as_json()))) == report


def test_every_code_of_the_gate_has_its_place_and_is_announced() -> None:
    assert set(ORDER) - {""} <= set(REPORTS)
