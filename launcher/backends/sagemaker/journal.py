"""The launches of this machine that are under way: what a new start needs to know of one that was killed.

Before anything is sent, a launch writes down its job's name and a fingerprint of its request. The entry
goes when it is certain what became of the launch. One that is left over, and whose lock nobody holds, is a
launch that was interrupted: starting the same job again goes on under its name, and as a name exists
once, no second job can come of it, whether the first had been created or not.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from launcher.cluster.cache_folder import cache_folder

if TYPE_CHECKING:
    from launcher.planning.training_plan import Operation, TrainingPlan


KEPT_SECONDS = 28 * 24 * 3600
"""No training job runs longer (SageMaker API, StoppingCondition); older entries are of no use."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A launch: the job's unique name, its user's name for it, and when it began (epoch seconds).

    `fingerprint` is the same for all launches of the same request; nothing of the request can be read
    from it.
    """

    name: str
    job: str
    region: str
    operation: Operation
    fingerprint: str
    started: float

    @classmethod
    def of(cls, plan: TrainingPlan) -> JournalEntry:
        """The launch of a plan that has a request, now."""
        name = str(plan.name)
        content = json.dumps([plan.operation, plan.region, plan.request], sort_keys=True)
        fingerprint = hashlib.sha256(content.replace(name, "JOB").encode()).hexdigest()
        return cls(
            name, str(plan.job.get("name", "")), str(plan.region), plan.operation, fingerprint, time.time()
        )


class Claim:
    """This process's hold on an entry; `done` removes the entry, `close` only lets go of it."""

    def __init__(self, launch: JournalEntry, file: IO[str] | None, path: Path | None) -> None:
        self.launch = launch
        self._file = file
        self._path = path

    @property
    def recorded(self) -> bool:
        """Whether there is an entry at all."""
        return self._file is not None

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
        """The interrupted launches of the same job in the same region, claimed, newest first.

        Whoever takes one closes it; those whose process still lives are not among them.
        """
        try:
            entries = sorted(self.folder.glob("*.json"), reverse=True)
        except FileNotFoundError:
            return  # Nothing can have been written where this user has no home.
        for path in entries:
            claim = _claimed(path)
            if claim is None:
                continue
            found = claim.launch
            if time.time() - found.started > KEPT_SECONDS:
                claim.done()
            elif (found.job, found.region) == (launch.job, launch.region):
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


def _claimed(path: Path) -> Claim | None:
    """The entry with its lock, or None where another process holds it, or it is gone or unreadable."""
    file: IO[str] | None = None
    try:
        file = path.open("r+", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        launch = JournalEntry(**json.load(file))
        # Between opening and locking, its process may have finished and removed it.
        if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return Claim(launch, file, path)
    except (OSError, ValueError, TypeError):
        pass
    with contextlib.suppress(OSError):
        if file is not None:
            file.close()
    return None
