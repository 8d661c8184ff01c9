"""A job is started once: the one way to AWS of a launch, a queued launch and a resumption.

A backend starts one job under a name. What else could start a second one is met here, whatever the backend:
a launcher that was killed and is started again (its journal knows the name), and a run that is repeated on
another machine (its id gives the name). What the job was planned to be is noted at its start, for the page
of its run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from launcher.backends.interface import (
    Backend,
    JobState,
    NameTakenError,
    OnProgress,
    Progress,
    UncertainError,
)
from launcher.failure_modes.model import Figure, Refusal
from launcher.frozen import frozen
from launcher.planning.finished_request import build_resumed_request, make_resumed_name, make_unique_part
from launcher.planning.training_plan import TrainingPlan, fingerprint, name_plan_by_run, rename_plan
from launcher.report.plan_summary import summary_of_plan
from launcher.session.plan_notes import write_plan_note
from launcher.session.runs.diagnose_job import write_left_out_note
from launcher.text.regular_files import cache_folder, remove_old_files
from launcher.text.values import duration_in_words

if TYPE_CHECKING:
    from launcher.planning.training_plan import Operation

ENDED_SECONDS = 3600
"""An interrupted launch whose job has ended meanwhile is still the one meant for so long; after that, who
launches wants another run."""

IN_FLIGHT_SECONDS = 300
"""For so long a call of a killed launch might still be carried out; its entry is kept."""

Send = Callable[[TrainingPlan], str]
"""Starts the plan's job under the plan's name, and returns it."""


@frozen
class Begun:
    """A job that an earlier launch of the same plan has started; `news` tells the user which."""

    name: str
    state: JobState
    news: str


@frozen
class Started:
    """A job that runs now, by its name; `begun` where an earlier launch had started it."""

    name: str
    begun: Begun | None = None


@frozen
class Start:
    """The start of a job: where, and how often it can be repeated without starting another.

    `run_id` is the identity of the run, None where there is none: then the journal of this user on this
    machine knows what was interrupted. `on_progress` hears of both, and the name of what was submitted.
    """

    backend: Backend
    run_id: str | None = None
    journal: Journal | None = None
    on_progress: OnProgress | None = None

    def named(self, plan: TrainingPlan) -> TrainingPlan:
        """The plan under the name that the run gives it; as it is without a run."""
        return plan if self.run_id is None else name_plan_by_run(plan, self.run_id, self.backend.queue_arn)

    def begun(self, plan: TrainingPlan) -> Begun | None:
        """The job that an earlier launch of the same plan has started, if any. Starts nothing.

        Raises AwsRefusal where that cannot be seen.
        """
        if self.run_id is not None:
            return self._of_run(self.named(plan))
        found = _interrupted(self.backend, self._entry(plan), self._journal, lambda _: None)
        if found is None:
            return None
        claim, pending = found
        claim.close()
        return pending.begun

    def once(self, plan: TrainingPlan, send: Send | None = None) -> Started:
        """Start the plan's job, or go on with the one that an earlier launch has started.

        `send` starts it, by default the backend's `submit`. Raises what that raises.
        """
        send = send or (lambda each: self.backend.submit(each, self.on_progress))
        if self.run_id is not None:
            plan = self.named(plan)
            begun = self._of_run(plan)
            if begun is None:
                return self._sent(send(plan), plan)
            self._tell(begun.news)
            return Started(begun.name, begun)
        with self._pending(plan) as pending:
            if pending.begun is not None:
                return Started(pending.name, pending.begun)
            # Said before the note goes: whoever was told of the job does not need it any more.
            return self._sent(send(rename_plan(plan, pending.name)), plan)

    def _sent(self, name: str, plan: TrainingPlan) -> Started:
        write_start_notes(name, plan)
        self._tell(f"submitted {name}")
        return Started(name)

    def _of_run(self, plan: TrainingPlan) -> Begun | None:
        name = str(plan.name)
        state = self.backend.state_of(name, plan.operation)
        if state is None:
            return None
        again = "; another --run-id launches it again" if state.is_final else ""
        news = f"the run {self.run_id} has launched this job already: {name} is {state}{again}"
        return Begun(name, state, news)

    @property
    def _journal(self) -> Journal:
        return self.journal or Journal()

    def _entry(self, plan: TrainingPlan) -> JournalEntry:
        return JournalEntry.of_plan(plan, self.backend.queue_arn)

    @contextmanager
    def _pending(self, plan: TrainingPlan) -> Iterator[_Pending]:
        """An interrupted launch of the same plan, else a new one; its entry stays while its fate is open."""
        new = self._entry(plan)
        interrupted = _interrupted(self.backend, new, self._journal, self._tell)
        if interrupted is None:
            claim, pending = _recorded(new, self._journal, self._tell), _Pending(new.name)
        else:
            claim, pending = interrupted
        try:
            yield pending
            claim.done()
        except NameTakenError:
            claim.done()
            raise
        except UncertainError:
            raise
        except Refusal:
            # Nothing was created by this launch; what became of an interrupted one is another question.
            if interrupted is None:
                claim.done()
            raise
        finally:
            claim.close()

    def _tell(self, news: str) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(news))


@frozen
class _Pending:
    """The job to start, by its name; `begun` where it is there already."""

    name: str
    begun: Begun | None = None


def _recorded(launch: JournalEntry, journal: Journal, tell: Callable[[str], None]) -> Claim:
    try:
        return journal.record(launch)
    except OSError as error:
        place = f" in {error.filename}" if error.filename else ""
        tell(
            f"no note of this launch can be kept{place} ({error.strerror}); should it be killed, "
            f"look for the job {launch.name} before launching again"
        )
        return Claim(launch, None, None)


def _interrupted(
    backend: Backend, new: JournalEntry, journal: Journal, tell: Callable[[str], None]
) -> tuple[Claim, _Pending] | None:
    for claim in journal.interrupted(new):
        old, age = claim.launch, time.time() - claim.launch.started
        news = f"a launch of {old.job} was interrupted {duration_in_words(age)} ago"
        try:
            state = backend.state_of(old.name, old.operation)
        except BaseException:
            claim.close()
            raise
        running = state is not None and not state.is_final
        if old.fingerprint == new.fingerprint and (state is None or running or age < ENDED_SECONDS):
            found = f"its job {old.name} is {state}" if state else f"it had created nothing yet as {old.name}"
            news = f"{news}; {found}: going on with it"
            tell(news)
            return claim, _Pending(old.name, Begun(old.name, state, news) if state else None)
        if running:
            tell(f"{news}; its job {old.name}, of another request, is {state}")
        if state is not None or age > IN_FLIGHT_SECONDS:
            claim.done()
        claim.close()
    return None


FIGURES = (Figure("128", "characters of a run's id, a bound of our own", None),)

RUNS: tuple[tuple[str, ...], ...] = (
    ("GITHUB_REPOSITORY", "GITHUB_RUN_ID"),
    ("CI_PROJECT_ID", "CI_PIPELINE_ID"),
    ("BUILDKITE_BUILD_ID",),
    ("CIRCLE_WORKFLOW_ID",),
    ("CODEBUILD_BUILD_ID",),
    ("SYSTEM_TEAMPROJECTID", "BUILD_BUILDID"),
    ("BITBUCKET_REPO_UUID", "BITBUCKET_PIPELINE_UUID"),
    ("JENKINS_URL", "BUILD_TAG"),
    ("TRAVIS_BUILD_ID",),
)
"""The variables that tell one run from all others: of GitHub Actions, GitLab, Buildkite, CircleCI, CodeBuild,
Azure Pipelines, Bitbucket, Jenkins and Travis (each one's documentation of its predefined variables).

Those of the whole run, not of an attempt at it: a runner that died is followed by another, and the job that
it had started runs on meanwhile."""

_RUN_ID = re.compile(r"[\w.:/@=+-]{1,128}", re.ASCII)


def run_id_of(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The id of this run: as given, else that of the continuous integration that runs it, else None.

    An empty one is none. Raises Refusal for one that could not be told from others at a glance.
    """
    if given is not None:
        if given and not _RUN_ID.fullmatch(given):
            raise Refusal(
                f"{given!r} is not an id of a run.",
                "Write it with letters, digits and . : / @ = + - _, at most 128 characters.",
            )
        return given or None
    for names in RUNS:
        values = [environment.get(name) for name in names]
        if all(values):
            return ":".join(map(str, values))
    return None


# A new job from an earlier one's request, which goes on from that one's newest checkpoint.


@frozen
class Resumption:
    """What a resumed job will be: the earlier job's name and the plan of the new one.

    `begun` is the new job where an earlier resumption, interrupted or of the same run, has started it.
    """

    earlier: str
    plan: TrainingPlan
    start: Start
    begun: Begun | None = None

    @property
    def name(self) -> str:
        """The new job's name."""
        return self.begun.name if self.begun else str(self.plan.name)

    def run(self) -> Started:
        """Start the job, once, from the earlier one's newest checkpoint. Raises what that raises."""
        return self.start.once(self.plan, self._send)

    def run_here(self) -> str:
        """Start the job on this machine; returns its name."""
        return self._send(self.plan)

    def _send(self, plan: TrainingPlan) -> str:
        return self.start.backend.resume(self.earlier, plan.request or {}, self.start.on_progress)


def plan_resumption(start: Start, earlier: str, region: str | None = None) -> Resumption:
    """A job that goes on from an earlier one's checkpoints. Sends nothing.

    Raises UnknownJob where there is no such job, BackendError where it is a tuning job or the backend cannot
    resume.
    """
    request = start.backend.request_of(earlier)
    plan = TrainingPlan(
        job={"name": earlier},
        region=region,
        request=build_resumed_request(request, earlier, make_resumed_name(earlier, make_unique_part())),
        package=None,
        findings=(),
    )
    if start.backend.runs_here:
        return Resumption(earlier, plan, start)
    plan = start.named(plan)
    return Resumption(earlier, plan, start, start.begun(plan))


# The launches of this machine that are under way: what a new start needs to know of one that was killed.
#
# Before anything is sent, a launch writes down its job's name and a fingerprint of its request. The entry
# goes when it is certain what became of the launch. One that is left over, and whose lock nobody holds, is a
# launch that was interrupted: starting the same job again goes on under its name, and as a name exists once,
# no second job can come of it, whether the first had been created or not.


JOURNAL_KEPT_SECONDS = 28 * 24 * 3600
"""No training job runs longer (SageMaker API, StoppingCondition); older entries are of no use."""

_DRAFT_SECONDS = 3600
"""Writing an entry takes milliseconds; a draft of this age is nobody's any more."""


@frozen
class JournalEntry:
    """A launch: the job's unique name, its user's name for it, and when it began (epoch seconds).

    `fingerprint` is the same for all launches of the same request; nothing of the request can be read
    from it. `queue` is the ARN of the queue through which it goes, empty without one.
    """

    name: str
    job: str
    region: str
    operation: Operation
    fingerprint: str
    started: float
    queue: str = ""

    @classmethod
    def of_plan(cls, plan: TrainingPlan, queue: str = "") -> JournalEntry:
        """The launch of a plan that has a request, now."""
        return cls(
            str(plan.name),
            str(plan.job.get("name", "")),
            str(plan.region),
            plan.operation,
            fingerprint(plan),
            time.time(),
            queue,
        )


class Claim:
    """This process's hold on an entry; `done` removes the entry, `close` only lets go of it."""

    def __init__(self, launch: JournalEntry, file: IO[str] | None, path: Path | None) -> None:
        self.launch = launch
        self._file = file
        self._path = path

    def done(self) -> None:
        """It is certain what became of the launch."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go: an entry that is still there now counts as interrupted."""
        if self._file is not None:
            self._file.close()


class Journal:
    """The entries in a folder, a file each, for the user's eyes only. The lock ends with the process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Where the entries are. Raises FileNotFoundError for a user without a home."""
        return self._folder or cache_folder() / "launches"

    def interrupted(self, launch: JournalEntry) -> Iterator[Claim]:
        """The interrupted launches of the same job, region and queue, claimed, newest first.

        Whoever takes one closes it; those whose process still lives are not among them.
        """
        try:
            entries = sorted(self.folder.glob("*.json"), reverse=True)
            # What launches left that were killed while they wrote their entry, and so sent nothing.
            remove_old_files(self.folder, "*.new", _DRAFT_SECONDS)
        except OSError:
            return  # Nothing can have been written where this user has no home, or has nothing to say.
        for path in entries:
            claim = _claimed(path)
            if claim is None:
                continue
            found = claim.launch
            if time.time() - found.started > JOURNAL_KEPT_SECONDS:
                claim.done()
            elif (found.job, found.region, found.queue) == (launch.job, launch.region, launch.queue):
                yield claim
                continue
            claim.close()

    def record(self, launch: JournalEntry) -> Claim:
        """Write an entry and hold it. Raises OSError where there is no folder that can be written."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{launch.name}.json"
        draft = path.with_suffix(".new")
        file = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(asdict(launch), file)
        file.flush()
        os.fsync(file.fileno())
        # Under its name it is complete and locked from the first moment.
        draft.rename(path)
        return Claim(launch, file, path)


def _entry(content: Any) -> JournalEntry:
    """The entry that a file holds; what a newer launcher has added to it is left aside."""
    known = {each.name for each in fields(JournalEntry)}
    return JournalEntry(**{name: value for name, value in content.items() if name in known})


def _claimed(path: Path) -> Claim | None:
    """The entry with its lock, or None where another process holds it, or it is gone or unreadable."""
    file: IO[str] | None = None
    try:
        file = path.open("r+", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        launch = _entry(json.load(file))
        # Between opening and locking, its process may have finished and removed it.
        if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return Claim(launch, file, path)
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    with contextlib.suppress(OSError):
        if file is not None:
            file.close()
    return None


def write_start_notes(name: str, plan: TrainingPlan) -> None:
    """Keep what a diagnosis and a page ask of a run that begins: its plan, and what of the code was left
    out."""
    if plan.package is not None:
        write_left_out_note(name, plan.package.source)
    write_plan_note(name, summary_of_plan(plan))
