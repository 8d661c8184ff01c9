"""Launchers killed with -9 at random moments, and the same command again: how many jobs are there then?"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from attack.matrix.account import Attacked, add_job, write_job
from attack.processes import served_account, start
from launcher.cli.launch import launch
from tests.emulator.faulty_server import FaultyServer

AT_ONCE = 2
_LONGEST_SECONDS = 120.0
_CALIBRATIONS = 3


@dataclass(frozen=True, slots=True)
class Way:
    """One way of creating a job. `{job}` in its words is a name of the trial's own.

    A way that `resumes` finds an ended job of that name. With `homes` of two the second launcher is on
    another machine: it does not see what the first one noted.
    """

    name: str
    words: tuple[str, ...]
    resumes: bool = False
    homes: int = 1


_RUN_ID = Way(
    "launch --run-id, in two homes", ("job.yaml", "--yes", "--detach", "--run-id", "{job}"), homes=2
)
WAYS: tuple[Way, ...] = (
    Way("launch", ("job.yaml", "--yes", "--detach")),
    Way("launch --queue", ("job.yaml", "--yes", "--detach", "--queue")),
    Way("resume", ("resume", "{job}", "--yes", "--detach"), resumes=True),
    *((_RUN_ID,) if "run_id" in launch.__annotations__ else ()),
)


@dataclass(slots=True)
class Campaign:
    """What came of killing one way's launchers so often."""

    way: Way
    killed: int = 0
    too_late: int = 0
    """Launchers that had ended before they were to be killed; these are not tried again."""
    adopted: int = 0
    """Killed after the job was there, which the second launcher then went on with."""
    doubled: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    """Second launchers that ended with an error, and launches that left no job."""


def campaigns(kills: int, *, seed: int = 0) -> Iterator[Campaign]:
    """Each way's launchers, killed so often."""
    for way in WAYS:
        with tempfile.TemporaryDirectory(prefix="slipway-attack-") as folder:
            yield campaign(way, kills, Path(folder), seed=seed)


def campaign(way: Way, kills: int, folder: Path, *, seed: int = 0) -> Campaign:
    """Kill as many launchers of one way, each at a moment of its own between its first call and its end."""
    done = Campaign(way)
    with served_account(folder) as (server, attacked), ThreadPoolExecutor(AT_ONCE) as pool:
        trials = Trials(way, server, attacked)
        first, last = trials.calibrate()
        chosen, number = Random(f"{way.name} {seed}"), 0
        while done.killed < kills:
            moments = [(number + n, chosen.uniform(first, last)) for n in range(AT_ONCE)]
            number += AT_ONCE
            for outcome in pool.map(lambda moment: trials.run(*moment), moments):
                take_up(done, outcome)
            if done.too_late > 3 * kills + 10:
                break
    return done


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one launcher: the jobs `before` and `after` the second one, and how that one ended."""

    killed_after: float | None
    """Seconds; None where the launcher was quicker."""
    before: list[str]
    after: list[str]
    again: int | None
    said: str


@dataclass(slots=True)
class Trials:
    """The trials of one way, each with a folder, a job and homes of its own."""

    way: Way
    server: FaultyServer
    attacked: Attacked
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def calibrate(self) -> tuple[float, float]:
        """Seconds from the start of a launcher to its first call, and to its end, with as many at once."""
        firsts, lasts = [], []
        for number in range(_CALIBRATIONS):
            job, folder = self.prepare(f"calibration{number}")
            self.server.calls.clear()
            began, called = time.monotonic(), None
            process = self.start(job, folder, 0)
            while process.poll() is None:
                if called is None and self.server.calls:
                    called = time.monotonic() - began
                time.sleep(0.005)
            lasts.append(time.monotonic() - began)
            firsts.append(called or lasts[-1])
            said, _ = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f"{self.way.name} does not work without a kill: {said}")
        return median(firsts), 1.1 * median(lasts)

    def run(self, number: int, moment: float) -> Outcome:
        """Start a launcher, kill it at that moment, and give the command again."""
        job, folder = self.prepare(f"trial{number}")
        process = self.start(job, folder, 0)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        before = self.jobs(job)
        if process.returncode != -signal.SIGKILL:
            return Outcome(None, before, before, None, "")
        second = self.start(job, folder, self.way.homes - 1)
        try:
            said, _ = second.communicate(timeout=_LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            second.kill()
            said, _ = second.communicate()
        return Outcome(moment, before, self.jobs(job), second.returncode, said)

    def prepare(self, name: str) -> tuple[str, Path]:
        """A folder with a job file of that name, and the job to resume where there is to be one."""
        folder = self.attacked.folder / name
        job = f"{name}-ended" if self.way.resumes else name
        write_job(folder, name)
        if self.way.resumes:
            with self._lock:
                add_job(self.attacked, job)
        return job, folder

    def start(self, job: str, folder: Path, home: int) -> subprocess.Popen[str]:
        """Start the command of a trial; `home` is the number of the machine."""
        words = [word.format(job=job) for word in self.way.words]
        place = folder / f"home{home}"
        place.mkdir(exist_ok=True)
        return start(self.server, words, folder, place)

    def jobs(self, job: str) -> list[str]:
        """The jobs that launchers of this trial created."""
        return [name for name in self.attacked.jobs if name.startswith(f"{job}-")]


def take_up(done: Campaign, outcome: Outcome) -> None:
    """Count what came of one launcher."""
    if outcome.killed_after is None:
        done.too_late += 1
        return
    done.killed += 1
    if len(outcome.after) > 1:
        done.doubled.append(f"killed after {outcome.killed_after:.2f} s: {' and '.join(outcome.after)}")
    elif outcome.again != 0 or not outcome.after:
        done.other.append(
            f"ended with {outcome.again}, {len(outcome.after)} jobs: {outcome.said.strip()[-300:]}"
        )
    elif outcome.before:
        done.adopted += 1
