"""Files that scripts write without slipway.CheckpointManager: copied once they are finished."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from slipway.checkpoints.shelf import step_of
from slipway.uploads.places import CheckpointPlace, is_name
from slipway.uploads.watching import QUIET_SECONDS, FileState, Quiet, files_below, open_for_writing


class PlainFiles:
    """This host's files in the folder of checkpoints, and which of them are in their place."""

    def __init__(
        self,
        folder: Path,
        place: CheckpointPlace,
        *,
        seconds: float = QUIET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._place, self._seconds, self._clock = folder, place, seconds, clock
        self._quiet = Quiet()
        self._there: dict[str, FileState] = {}

    def bring(self) -> int:
        """Have here what an earlier start has put there, as SageMaker's own copying does; how many files.

        Raises what the place raises, OSError where the disk is too small.
        """
        listed = self._place.sizes()
        here = files_below(self._folder)
        wanted = {
            name: size
            for name, size in listed.items()
            if is_name(name)
            and step_of(name.split("/")[0]) is None
            and (name not in here or here[name].size != size)
        }
        room = shutil.disk_usage(self._folder).free
        if sum(wanted.values()) > room:
            raise ValueError(
                f"the files have {sum(wanted.values())} bytes, and {self._folder} has room for {room}. "
                "Raise `resources.volume_size_gb`"
            )
        halves = {name: self._folder / f"{name}.fetching" for name in wanted}
        for error in self._place.get(halves).values():
            raise error
        for name, half in halves.items():
            half.replace(self._folder / name)
        found = files_below(self._folder)
        self._there = {name: found[name] for name in listed if name in found}
        return len(wanted)

    def copy(self, until: Callable[[], bool], *, ending: bool) -> dict[str, Exception]:
        """Copy what is finished, and let what the script has deleted go; what failed, by name.

        When everything is `ending` nothing is waited for but that files are closed.
        """
        found = files_below(self._folder)
        finished = self._quiet.unchanged(found, self._clock(), 0.0 if ending else self._seconds)
        due = [name for name in finished if self._there.get(name) != found[name]]
        if due:
            writing = open_for_writing(self._folder)
            due = [name for name in due if name not in writing]
        failed = self._place.put({name: self._folder / name for name in due}, until) if due else {}
        after = files_below(self._folder) if due else found
        for name in due:
            # One that has changed meanwhile goes again.
            if name not in failed and after.get(name) == found[name]:
                self._there[name] = found[name]
        self._forget(after)
        return {name: error for name, error in failed.items() if name in after}

    def missing(self) -> list[str]:
        """The names of the files here that are not there as they are here."""
        return [name for name, one in files_below(self._folder).items() if self._there.get(name) != one]

    def _forget(self, found: dict[str, FileState]) -> None:
        """Remove what is deleted here, if it is what this host put there and something newer is there."""
        newest = max((one.changed for name, one in self._there.items() if name in found), default=0)
        for name in [name for name in self._there if name not in found]:
            if self._there[name].changed < newest and self._folder.is_dir():
                if self._place.changed(name) in (None, self._there[name].changed):
                    self._place.remove([name])
                del self._there[name]
