"""Jobs that are started again, by boots as containers run them; their scripts need no torch."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slipway.test_boot import PATIENCE_SECONDS, Boot, eventually
from tests.slipway.test_host_assembly import two_free_ports

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
