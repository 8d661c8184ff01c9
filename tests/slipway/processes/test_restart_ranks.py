"""Ranks that fail are started again where that helps, on all hosts alike."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.failure_modes.registry import CATALOGUE
from slipway.container import Rendezvous
from slipway.failure import REPORTS
from slipway.host_assembly import Assembly
from slipway.processes.restart_ranks import (
    HARDWARE,
    NEVER_AFTER,
    RESTART_AFTER,
    JobEnd,
    Neighbours,
    RanksEnd,
    StartEnds,
    all_ends,
    decide_restart,
    end_of_job,
    take_leave,
)
from slipway.processes.supervise import StopRequest
from tests.slipway.test_boot import PATIENCE_SECONDS, Boot, eventually
from tests.slipway.test_host_assembly import container, two_free_ports

KILLED_ONCE = """
    import os, signal
    print("start", os.environ["SLIPWAY_ATTEMPT"], "port", os.environ["MASTER_PORT"], flush=True)
    if os.environ["SLIPWAY_ATTEMPT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
"""

ONE_FAILS = """
    import os, pathlib, signal
    attempt, host = os.environ["SLIPWAY_ATTEMPT"], os.environ["SM_CURRENT_HOST"]
    print("start", attempt, "port", os.environ["MASTER_PORT"], flush=True)
    if host == "algo-2" and {fails}:
        raise {error}
    if attempt == "0":
        signal.pause()
"""


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    boot = Boot(tmp_path / "host")
    yield boot
    for process in boot.left():
        process.kill()


class TwoHosts:
    """The boots of a job's two hosts."""

    def __init__(self, folder: Path, script: str, restarts: int) -> None:
        port = two_free_ports()
        self.boots = [Boot(folder / name) for name in ("one", "two")]
        self.processes = [
            boot.start(
                script,
                "--restarts",
                str(restarts),
                hosts=("algo-1", "algo-2"),
                host=host,
                environment={"SLIPWAY_RENDEZVOUS": f"127.0.0.1:{port}"},
            )
            for boot, host in zip(self.boots, ("algo-1", "algo-2"), strict=True)
        ]

    def end(self) -> list[tuple[str, str]]:
        return [process.communicate(timeout=PATIENCE_SECONDS) for process in self.processes]

    @property
    def codes(self) -> list[int]:
        return [process.returncode for process in self.processes]


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[list[TwoHosts]]:
    started: list[TwoHosts] = []
    yield started
    for boot in (boot for hosts in started for boot in hosts.boots):
        for process in boot.left():
            process.kill()


def restarts_told(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("slipway: restart ")]


def test_a_killed_script_is_started_again_and_both_outputs_are_kept(boot: Boot) -> None:
    process = boot.start(KILLED_ONCE, "--restarts", "1")
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert re.findall(r"start (\d)", out) == ["0", "1"]
    (told,) = restarts_told(err)
    assert told.startswith("slipway: restart 1 of 1: after ")
    assert "MEM002 rank 0 on algo-1: killed by SIGKILL" in told
    assert not (boot.root / "output" / "failure").exists()
    logs = boot.root / "output" / "data" / "slipway" / "algo-1"
    assert (logs / "stdout.log").read_text().startswith("start 0")
    assert (logs / "restart-1" / "stdout.log").read_text().startswith("start 1")


def test_an_assertion_after_losses_that_are_not_finite_is_of_the_loss(boot: Boot) -> None:
    script = """\
        for step in range(3):
            print(f"step {step} loss {float('nan')}", flush=True)
        assert step != step, "training has gone wrong: the loss is lost"
    """
    process = boot.start(script)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert err.count("slipway: warning: NUM001 rank 0 on algo-1 prints a loss that is not finite") == 1
    assert boot.failure.startswith(
        "NUM001 rank 0 on algo-1: the loss is not finite, and the script ended: AssertionError: training has "
        "gone wrong"
    )


def test_without_restarts_the_first_end_is_the_last(boot: Boot) -> None:
    process = boot.start(KILLED_ONCE)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 137
    assert not restarts_told(err)
    assert boot.failure.startswith("MEM002 ")


def test_the_same_exception_at_the_same_line_ends_the_job_and_the_reason_says_all(boot: Boot) -> None:
    process = boot.start("raise ValueError('broken')", "--restarts", "5")
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert len(restarts_told(err)) == 1
    first, second, *rest = boot.failure.splitlines()
    assert first == "CODE001 rank 0 on algo-1: ValueError: broken (train.py:1)"
    assert second == "(after 1 restart, and not started again: the same failed at train.py:1 before)"
    assert rest[-1] == "ValueError: broken"


def test_all_hosts_start_again_on_a_new_port_when_one_has_failed(
    tmp_path: Path, two_hosts: list[TwoHosts]
) -> None:
    script = ONE_FAILS.replace("{fails}", "attempt == '0'").replace("{error}", "OSError('flaky')")
    hosts = TwoHosts(tmp_path, script, restarts=1)
    two_hosts.append(hosts)
    ends = hosts.end()
    assert hosts.codes == [0, 0]
    starts = [re.findall(r"start (\d) port (\d+)", out) for out, _ in ends]
    assert [attempt for attempt, _ in starts[0]] == ["0", "1"]
    assert starts[0] == starts[1]
    assert starts[0][0][1] != starts[0][1][1]
    assert restarts_told(ends[0][1]) == restarts_told(ends[1][1])
    assert "CODE001 rank 1 on algo-2: OSError: flaky (train.py:" in restarts_told(ends[0][1])[0]


def test_what_is_never_started_again_is_the_failure_reason_of_all_hosts(
    tmp_path: Path, two_hosts: list[TwoHosts]
) -> None:
    script = ONE_FAILS.replace("{fails}", "True").replace("{error}", "ImportError('no_such_name')")
    hosts = TwoHosts(tmp_path, script, restarts=3)
    two_hosts.append(hosts)
    ends = hosts.end()
    assert hosts.codes == [1, 1]
    assert not any(restarts_told(err) for _, err in ends)
    reasons = {boot.failure for boot in hosts.boots}
    assert len(reasons) == 1
    (reason,) = reasons
    assert reason.startswith("CODE001 rank 1 on algo-2: ImportError: no_such_name")
    assert "(after no restarts, and not started again: the same import would fail again)" in reason


def test_a_stop_is_no_reason_to_start_again(boot: Boot) -> None:
    process: subprocess.Popen[str] = boot.start(
        "import signal; print('up', flush=True); signal.pause()", "--restarts", "3"
    )
    log = boot.root / "output" / "data" / "slipway" / "algo-1" / "stdout.log"
    eventually(lambda: log.exists() and "up" in log.read_text())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143
    assert not restarts_told(err)
    assert not (boot.root / "output" / "failure").exists()


KILLED = RanksEnd(
    exit_code=-9,
    code="MEM002",
    text="MEM002 rank 3 on algo-2: killed by SIGKILL (exit -9)",
    message="killed by SIGKILL (exit -9): the usual reason is host memory",
    place=None,
    weight=0,
    time=100.0,
    stalled=False,
    lasted=30.0,
    steps=25,
    checkpoint=20,
    port=4000,
)
RAISED = replace(
    KILLED, exit_code=1, code="CODE001", message="ValueError: no row 7 in batch 3", place="train.py:12"
)
ENDED_WITH_THEM = replace(KILLED, code=None, text="", message="", checkpoint=-1)


def job(cause: RanksEnd, steps: int = 25, checkpoint: int = 20) -> JobEnd:
    return JobEnd("algo-2", cause, steps, checkpoint)


@pytest.mark.parametrize("code", sorted(RESTART_AFTER))
def test_what_may_pass_is_tried_again_for_as_long_as_the_job_gets_on(code: str) -> None:
    cause = replace(KILLED, code=code)
    before = [job(cause, steps=10, checkpoint=10), job(cause, steps=10, checkpoint=15)]
    assert decide_restart(job(cause), before, allowed=3).again
    assert not decide_restart(job(cause), before, allowed=2).again


@pytest.mark.parametrize("code", sorted(NEVER_AFTER))
def test_what_stays_as_it_is_is_never_tried_again(code: str) -> None:
    decision = decide_restart(job(replace(KILLED, code=code)), [], allowed=9)
    assert (decision.again, decision.why) == (False, NEVER_AFTER[code])


@pytest.mark.parametrize(
    "message",
    [
        "ImportError: cannot import name 'x' from 'y'",
        "ModuleNotFoundError: No module named 'y'",
        "SyntaxError: invalid syntax",
    ],
)
def test_neither_are_imports_and_syntax_whatever_their_code(message: str) -> None:
    assert not decide_restart(job(replace(RAISED, message=message)), [], allowed=9).again


def test_an_exception_has_one_chance_and_none_at_the_same_line() -> None:
    assert decide_restart(job(RAISED), [], allowed=9).again
    again = decide_restart(
        job(replace(RAISED, message="ValueError: no row 9"), 50, 40), [job(RAISED)], allowed=9
    )
    assert (again.again, again.why) == (False, "the same failed at train.py:12 before")


@pytest.mark.parametrize(
    "other", [replace(RAISED, place="train.py:13"), replace(RAISED, message="KeyError: 'ValueError'")]
)
def test_another_exception_or_another_line_is_another_chance(other: RanksEnd) -> None:
    assert decide_restart(job(other, 50, 40), [job(RAISED)], allowed=9).again


def test_a_killed_rank_may_be_killed_again_where_the_job_got_on() -> None:
    assert decide_restart(job(KILLED, steps=5, checkpoint=30), [job(KILLED)], allowed=9).again
    assert decide_restart(job(KILLED, steps=26, checkpoint=20), [job(KILLED)], allowed=9).again


def test_a_start_that_came_no_further_is_the_last() -> None:
    decision = decide_restart(job(KILLED), [job(KILLED)], allowed=9)
    assert not decision.again
    assert "no further" in decision.why


def test_a_checkpoint_older_than_any_before_is_no_progress() -> None:
    before = [job(KILLED, 25, 40), job(KILLED, 25, 10)]
    assert not decide_restart(job(KILLED, 25, 30), before, allowed=9).again


def test_without_restarts_there_is_none() -> None:
    assert not decide_restart(job(KILLED), [], allowed=0).again


def test_the_cause_is_the_rank_that_failed_and_not_those_that_lost_it() -> None:
    lost = replace(KILLED, code="NCCL006", weight=2, time=99.0, checkpoint=30)
    end = end_of_job({"algo-1": lost, "algo-2": RAISED, "algo-3": ENDED_WITH_THEM})
    assert (end.host, end.cause, end.checkpoint) == ("algo-2", RAISED, 30)


def test_of_two_causes_the_earlier_counts_and_a_host_that_succeeded_has_none() -> None:
    done = replace(KILLED, exit_code=0, code=None, time=1.0, steps=60)
    end = end_of_job({"algo-1": done, "algo-2": KILLED, "algo-3": replace(RAISED, time=99.0)})
    assert (end.host, end.steps) == ("algo-3", 60)


@pytest.mark.parametrize("code", HARDWARE)
def test_broken_hardware_is_the_cause_of_whatever_else_failed(code: str) -> None:
    broken = replace(KILLED, code=code, time=300.0, weight=2)
    stalled = replace(KILLED, code="NCCL004", stalled=True)
    end = end_of_job({"algo-1": RAISED, "algo-2": stalled, "algo-3": broken})
    assert end.host == "algo-3"
    assert not decide_restart(end, [], allowed=9).again


def test_a_verdict_of_the_watchdog_is_the_cause_of_what_followed() -> None:
    stalled = replace(KILLED, code="NCCL004", stalled=True, time=200.0, weight=1)
    assert end_of_job({"algo-1": RAISED, "algo-2": stalled}).host == "algo-2"


def test_every_code_is_one_of_the_catalogue_and_in_one_table_alone() -> None:
    assert {*RESTART_AFTER, *NEVER_AFTER} <= set(CATALOGUE)
    assert not set(RESTART_AFTER) & set(NEVER_AFTER)
    assert {*RESTART_AFTER, *NEVER_AFTER} <= set(REPORTS)


DONE = RanksEnd(0, None, "", "", None, 0, 1.0, False, 9.0, 60, 50, 0)
FAILED = replace(DONE, exit_code=1, code="CODE001", text="CODE001 rank 1", message="ValueError")


@pytest.fixture
def three() -> Iterator[list[Assembly]]:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    assemblies = [Assembly(container(n, 3), rendezvous, "job-1") for n in range(3)]
    yield assemblies
    for assembly in assemblies:
        assembly.close()


def together(assemblies: list[Assembly], ends: list[RanksEnd], seconds: float = 30) -> list[StartEnds | None]:
    with ThreadPoolExecutor(len(assemblies)) as pool:
        return list(
            pool.map(
                lambda one: all_ends(one[0], 0, one[1], StopRequest(), seconds=seconds),
                zip(assemblies, ends, strict=False),
            )
        )


def test_where_all_succeed_there_is_no_end_to_judge(three: list[Assembly]) -> None:
    assert together(three, [DONE] * 3) == [StartEnds({})] * 3


def test_one_failure_is_everybodys_and_all_hear_the_same(three: list[Assembly]) -> None:
    ends = StartEnds({"algo-1": DONE, "algo-2": FAILED, "algo-3": DONE})
    assert together(three, [DONE, FAILED, DONE]) == [ends] * 3


def test_who_does_not_answer_in_time_is_named(three: list[Assembly]) -> None:
    ends = StartEnds({"algo-1": FAILED, "algo-2": FAILED}, "algo-3 did not answer within 0 s")
    assert together(three[:2], [FAILED, FAILED], seconds=0.3) == [ends] * 2


def test_a_stop_ends_the_waiting_for_hosts_that_still_work(three: list[Assembly]) -> None:
    stop = StopRequest()
    stop.request(signal.SIGTERM)
    assert all_ends(three[0], 0, DONE, stop) is None


def test_the_first_host_answers_until_the_others_have_left(three: list[Assembly]) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(take_leave, three[0], 0)
        take_leave(three[1], 0)
        take_leave(three[2], 0)
        first.result(timeout=30)
    assert set(three[0].read("restarts-0:left")) == {"algo-2", "algo-3"}


@pytest.fixture
def two() -> Iterator[list[Assembly]]:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    assemblies = [Assembly(container(n, 2), rendezvous, "job-1") for n in range(2)]
    yield assemblies
    for assembly in assemblies:
        assembly.close()


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def heard(two: list[Assembly], neighbours: Neighbours) -> Neighbours:
    neighbours.start()
    two[0].post("failed", True)
    eventually(lambda: neighbours.heard)
    return neighbours


def test_nothing_happens_as_long_as_no_host_has_failed(
    two: list[Assembly], command: subprocess.Popen[bytes]
) -> None:
    neighbours = Neighbours(two[1], "failed", lambda _: True, poll=0.01)
    neighbours.start()
    neighbours.end_with_them(command.pid)
    assert not neighbours.ended
    assert command.poll() is None
    neighbours.close()


def test_ranks_that_only_wait_are_ended(two: list[Assembly], command: subprocess.Popen[bytes]) -> None:
    neighbours = heard(two, Neighbours(two[1], "failed", lambda _: True, poll=0.01))
    neighbours.end_with_them(command.pid)
    assert neighbours.ended
    assert command.wait(timeout=60) == -9


def test_where_a_rank_has_died_too_torchrun_has_time_to_say_which(
    two: list[Assembly], command: subprocess.Popen[bytes]
) -> None:
    now = [100.0]
    neighbours = Neighbours(two[1], "failed", lambda _: False, poll=0.01, patience=5, clock=lambda: now[0])
    heard(two, neighbours)
    for now[0] in (100.0, 104.0):
        neighbours.end_with_them(command.pid)
        assert not neighbours.ended
    now[0] = 105.0
    neighbours.end_with_them(command.pid)
    assert neighbours.ended
