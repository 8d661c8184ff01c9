"""The launches of this machine that are under way: what a new start needs to know of one that was killed.

Before anything is sent, a launch writes down its job's name and a fingerprint of its request. The entry
goes when it is certain what became of the launch. One that is left over, and whose lock nobody holds, is a
launch that was interrupted: starting the same job again goes on under its name, and as a name exists
once, no second job can come of it, whether the first had been created or not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from launcher.cluster.cache_folder import cache_folder
from launcher.planning.identity import fingerprint

if TYPE_CHECKING:
    from launcher.planning.training_plan import Operation, TrainingPlan


KEPT_SECONDS = 28 * 24 * 3600
"""No training job runs longer (SageMaker API, StoppingCondition); older entries are of no use."""

_DRAFT_SECONDS = 3600
"""Writing an entry takes milliseconds; a draft of this age is nobody's any more."""


@dataclass(frozen=True, slots=True)
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
    def of(cls, plan: TrainingPlan, queue: str = "") -> JournalEntry:
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
            self._collect_drafts()
        except OSError:
            return  # Nothing can have been written where this user has no home, or has nothing to say.
        for path in entries:
            claim = _claimed(path)
            if claim is None:
                continue
            found = claim.launch
            if time.time() - found.started > KEPT_SECONDS:
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

    def _collect_drafts(self) -> None:
        """Remove what launches left that were killed while they wrote their entry, and so sent nothing."""
        for draft in self.folder.glob("*.new"):
            with contextlib.suppress(OSError):
                if time.time() - draft.stat().st_mtime > _DRAFT_SECONDS:
                    draft.unlink()


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
