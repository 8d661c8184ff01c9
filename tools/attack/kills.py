"""Launchers killed with -9 at random moments, and the same command again: how many jobs are there then?"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from launcher.cli.launch import launch
from tests.emulator.faulty_server import FaultyServer
from tools.attack.matrix.account import Attacked, add_job, write_job
from tools.attack.processes import served_account, start

AT_ONCE = 2
CREATION_SECONDS = 0.2
"""For which the server thinks before it creates a job, whoever is still there by then; AWS takes as long."""

NEAR_SECONDS = 0.3
"""A little longer: half of the launchers die before their job is created, half after it."""

CREATIONS = ("CreateTrainingJob", "SubmitServiceJob")
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
    """Launchers that had named their job, or ended, before they were killed: giving the command again then
    asks for another job. They do not count."""
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
    """Kill as many launchers of one way, each at a random moment.

    Every second one just after its call that creates the job has come: what may go wrong goes wrong there,
    and of all moments between the first call and the last word only one in fifty is so near.
    """
    done = Campaign(way)
    with served_account(folder) as (server, attacked), ThreadPoolExecutor(AT_ONCE) as pool:
        trials = Trials(way, server, attacked)
        first, last = trials.calibrate()
        chosen, number = Random(f"{way.name} {seed}"), 0
        while done.killed < kills:
            moments = [
                Moment(chosen.uniform(first, last)),
                Moment(chosen.uniform(0, NEAR_SECONDS), near=True),
            ]
            started, number = range(number, number + len(moments)), number + len(moments)
            for outcome in pool.map(trials.run, started, moments):
                take_up(done, outcome)
            if done.too_late > 3 * kills + 10:
                break
    return done


@dataclass(frozen=True, slots=True)
class Moment:
    """When a launcher is killed: so many seconds after its start, or `near` the creation of its job."""

    seconds: float
    near: bool = False

    def __str__(self) -> str:
        since = "the creating call" if self.near else "its start"
        return f"{self.seconds:.2f} s after {since}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one launcher: the jobs `before` and `after` the second one, and how that one ended."""

    killed: Moment | None
    """None where the launcher was quicker."""
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
    _creating: dict[str, threading.Event] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def calibrate(self) -> tuple[float, float]:
        """Seconds from a launcher's start to its first call, and to its last word, which names the job."""
        firsts, lasts = [], []
        for number in range(_CALIBRATIONS):
            job, folder = self.prepare(f"calibration{number}")
            called: list[float] = []
            self.server.on_call = lambda *_, called=called: called.append(time.monotonic())
            began = time.monotonic()
            process = self.start(job, folder, 0)
            said, told = "", began
            for line in process.stdout or ():
                said, told = said + line, time.monotonic()
            if process.wait() != 0 or not called:
                raise RuntimeError(f"{self.way.name} does not work without a kill: {said}")
            firsts.append(called[0] - began)
            lasts.append(told - began)
        self.server.on_call = self._note
        return median(firsts), median(lasts)

    def run(self, number: int, moment: Moment) -> Outcome:
        """Start a launcher, kill it at that moment, and give the command again."""
        job, folder = self.prepare(f"trial{number}")
        creating = self._creating[job] = threading.Event()
        process = self.start(job, folder, 0)
        if moment.near:
            creating.wait(_LONGEST_SECONDS)
        try:
            process.wait(moment.seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        told, _ = process.communicate()
        # What was on its way by then is carried out.
        time.sleep(CREATION_SECONDS)
        before = self.jobs(job)
        if process.returncode != -signal.SIGKILL or has_named(told, before):
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
        return start(self.server, words, folder, place, key=job)

    def _note(self, operation: str, key: str) -> None:
        """A call has come; the access key is the name of a trial's job."""
        if operation in CREATIONS and key in self._creating:
            self._creating[key].set()
            time.sleep(CREATION_SECONDS)

    def jobs(self, job: str) -> list[str]:
        """The jobs that launchers of this trial created."""
        return [name for name in self.attacked.jobs if name.startswith(f"{job}-")]


def has_named(told: str, jobs: Sequence[str]) -> bool:
    """Whether a launcher had said that one of these jobs was submitted; what it is going to submit, it names
    before."""
    return any(f"submitted {name}" in told for name in jobs)


def take_up(done: Campaign, outcome: Outcome) -> None:
    """Count what came of one launcher."""
    if outcome.killed is None:
        done.too_late += 1
        return
    done.killed += 1
    if len(outcome.after) > 1:
        done.doubled.append(f"killed {outcome.killed}: {' and '.join(outcome.after)}")
    elif outcome.again != 0 or not outcome.after:
        done.other.append(
            f"ended with {outcome.again}, {len(outcome.after)} jobs: {outcome.said.strip()[-300:]}"
        )
    elif outcome.before:
        done.adopted += 1
