"""A job is started once: the one way to AWS of a launch, a queued launch and a resumption.

A backend starts one job under a name. What else could start a second one is met here, whatever the backend: a
launcher that was killed and is started again (its journal knows the name), and a run that is repeated on
another machine (its id gives the name).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.backends.interface import (
    Backend,
    JobState,
    NameTakenError,
    OnProgress,
    Progress,
    UncertainError,
)
from launcher.failure_modes.refusal import Refusal
from launcher.planning.identity import named_by_run, renamed
from launcher.planning.training_plan import TrainingPlan
from launcher.session.journal import Claim, Journal, JournalEntry
from launcher.session.plan_notes import note_start
from launcher.text.durations import duration_in_words

ENDED_SECONDS = 3600
"""An interrupted launch whose job has ended meanwhile is still the one meant for so long; after that, who
launches wants another run."""

IN_FLIGHT_SECONDS = 300
"""For so long a call of a killed launch might still be carried out; its entry is kept."""

Send = Callable[[TrainingPlan], str]
"""Starts the plan's job under the plan's name, and returns it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A job that an earlier launch of the same plan has started; `news` tells the user which."""

    name: str
    state: JobState
    news: str


@dataclass(frozen=True, slots=True)
class Started:
    """A job that runs now, by its name; `begun` where an earlier launch had started it."""

    name: str
    begun: Begun | None = None


@dataclass(frozen=True, slots=True)
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
        return plan if self.run_id is None else named_by_run(plan, self.run_id, self.backend.queue_arn)

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
            return self._sent(send(renamed(plan, pending.name)), plan)

    def _sent(self, name: str, plan: TrainingPlan) -> Started:
        note_start(name, plan)
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
        return JournalEntry.of(plan, self.backend.queue_arn)

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


@dataclass(frozen=True, slots=True)
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
