"""What of the folder of checkpoints is ready to be copied, and in which order it is copied to its place.

The checkpoints of slipway.CheckpointManager are copied by all hosts together, each its own files and the
first host the manifest; what scripts write by themselves is copied once it is closed and quiet.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from slipway.host_assembly import FirstHostSilent
from slipway.saving.stored_checkpoints import (
    FILE_NAME,
    CheckpointFile,
    CheckpointManifest,
    checkpoint_folders,
    step_of,
    stored_checkpoints,
)
from slipway.saving.upload_places import CheckpointPlace, is_relative_name

# The checkpoints of slipway.CheckpointManager: each host copies its own files, the first host the manifest.
#
# The manifest goes when all hosts have said that their files are there, so what has one is whole. The hosts
# say it over the assembly: the first host names the checkpoint that is wanted next, so that hosts which are
# slower than the saving still finish the same one.


_MOST_WITHDRAWN = 1000
"""Names of checkpoints that are gone which the first host still tells of."""

_SAY_SECONDS, _MOST_FAILURES = 5.0, 3


class WholeCheckpoints:
    """The checkpoints below `folder` that have a manifest, and how far they have come to `place`."""

    def __init__(self, folder: Path, place: CheckpointPlace, hosts: Hosts) -> None:
        self._folder, self._place = folder, place
        self.messages, self._leads = HostMessages(hosts), hosts.is_first
        self._host = manifest_name(hosts.current)
        self._there: dict[str, int] = {}
        self._own: set[str] = set()
        self._complete: set[str] = set()
        self._files: dict[str, list[str]] = {}
        self._withdrawn: list[str] = []
        self._parsed: dict[str, CheckpointManifest] = {}
        self._hosts_names = {manifest_name(host) for host in hosts.hosts}
        self._failures, self._said_at = 0, 0.0
        self._heard: set[str] = set()
        self.not_removed: Exception | None = None

    def look(self) -> None:
        """Know what an earlier start has put there; the first host removes what that left incomplete.

        Raises what the place raises.
        """
        self._there = {name: size for name, size in self._place.sizes().items() if _checkpoint(name)}
        names: dict[str, list[str]] = {}
        for name in self._there:
            names.setdefault(_checkpoint(name), []).append(name)
        here = checkpoint_folders(self._folder)
        for checkpoint, files in names.items():
            manifest = f"{checkpoint}/{FILE_NAME}"
            if manifest in files:
                self._complete.add(checkpoint)
                self._files[checkpoint] = [name for name in files if name != manifest]
            elif self._leads and checkpoint not in here:
                self._place.remove(files)

    def copy(self, until: Callable[[], bool]) -> dict[str, Exception]:
        """Copy this host's files of one checkpoint, and on the first host the manifests that are due.

        Returns what failed, by name.
        """
        here = self._whole_here()
        self._own = {name for name in self._own if name in here}
        due = [name for name in here if name not in self._own | self._complete]
        failed = self._copy_own(here, due, self._reporting_while(until)) if due else {}
        self._failures = self._failures + 1 if failed else 0
        # A host that has nothing to tell may outlive the first one without waiting for it.
        if due or self._own != self._heard:
            self._post_state(left=False)
        if self._leads:
            failed.update(self._complete_checkpoints(here, until))
        return failed

    def post_farewell(self) -> None:
        """Say that this host copies no more, where the first one may wait for it."""
        if checkpoint_folders(self._folder):
            self._post_state(left=True)

    def have_all_left(self) -> bool:
        """On the first host: whether nobody has anything to tell it any more."""
        left = {host for host, told in self.messages.states().items() if told["left"]}
        return not checkpoint_folders(self._folder) or left >= self._hosts_names

    def to_do(self) -> list[str]:
        """The checkpoints here for which this host has to do something still, or the first one to wait."""
        if not self._leads:
            return [name for name in self._whole_here() if name not in self._own | self._complete]
        gone = self._copied_by_gone_hosts()
        return [
            name
            for name, manifest in self._whole_here().items()
            if name not in self._complete
            and not any(name not in own for own in self._copied_by_gone_writers(manifest, gone))
        ]

    def missing(self) -> list[str]:
        """The checkpoints here that are newer than what is there, the newest first.

        What is there is whole for the first host; the others know of their own files alone.
        """
        there = self._complete if self._leads else self._own | self._complete
        newest = max((_step(name) for name in there), default=-1)
        return [name for name in self._whole_here() if _step(name) > newest]

    def awaited_hosts(self) -> list[str]:
        """The hosts whose files of the newest checkpoint are missing."""
        said = self.messages.states()
        for name, manifest in self._whole_here().items():
            if name not in self._complete:
                return sorted(host for host in _writers(manifest) if name not in _own_files_said(said, host))
        return []

    def _copied_by_gone_hosts(self) -> dict[str, list[str]]:
        """What the hosts had copied that copy no more."""
        return {host: told["own"] for host, told in self.messages.states().items() if told["left"]}

    def _copied_by_gone_writers(
        self, manifest: CheckpointManifest, gone: Mapping[str, list[str]]
    ) -> list[list[str]]:
        """What those of its hosts have copied that copy no more; hosts of another job have copied nothing."""
        return [
            gone.get(host, []) for host in _writers(manifest) if host in gone or host not in self._hosts_names
        ]

    def _whole_here(self) -> dict[str, CheckpointManifest]:
        """What is whole on this disk, the newest first. Each manifest is read once."""
        with_manifest = [
            name for name in checkpoint_folders(self._folder) if (self._folder / name / FILE_NAME).exists()
        ]
        if any(name not in self._parsed for name in with_manifest):
            for one in stored_checkpoints(self._folder):
                if one.manifest is not None:
                    self._parsed[one.name] = one.manifest
        self._parsed = {name: self._parsed[name] for name in with_manifest if name in self._parsed}
        return {name: self._parsed[name] for name in sorted(self._parsed, reverse=True)}

    def _copy_own(
        self, here: Mapping[str, CheckpointManifest], due: Sequence[str], until: Callable[[], bool]
    ) -> dict[str, Exception]:
        led = {} if self._leads else self.messages.wanted()
        name = led["wanted"] if led.get("wanted") in due else due[0]
        own = [entry for entry in here[name].files if entry.host == self._host]
        failed = self._place.put(
            {
                _below(name, entry): self._folder / name / entry.name
                for entry in own
                if not self._is_there(name, entry)
            },
            until,
        )
        if name in led.get("withdrawn", ()) or name not in self._whole_here():
            # It was deleted while it went: nobody has to have it any more.
            with contextlib.suppress(Exception):
                self._place.remove([_below(name, entry) for entry in own])
            return {}
        if not failed:
            self._own.add(name)
        return failed

    def _complete_checkpoints(
        self, here: Mapping[str, CheckpointManifest], until: Callable[[], bool]
    ) -> dict[str, Exception]:
        said = self.messages.states()
        failed: dict[str, Exception] = {}
        for name, manifest in here.items():
            self._files[name] = [_below(name, entry) for entry in manifest.files]
            if name in self._complete or not all(
                name in _own_files_said(said, host) for host in _writers(manifest)
            ):
                continue
            whole = f"{name}/{FILE_NAME}"
            failed.update(self._place.put({whole: self._folder / name / FILE_NAME}, until))
            if whole not in failed:
                self._complete.add(name)
        try:
            self._remove_deleted(here)
        except Exception as error:  # botocore makes its exceptions when they are raised
            self.not_removed = error
        wanted = next((name for name in here if name not in self._complete), None)
        self.messages.post_wanted({"wanted": wanted, "withdrawn": self._withdrawn})
        return failed

    def _remove_deleted(self, here: Mapping[str, CheckpointManifest]) -> None:
        """Remove what is deleted here, the manifest first, where something newer is whole here and there."""
        newest = max((_step(name) for name in self._complete if name in here), default=-1)
        for name in sorted(self._files):
            if name not in here and _step(name) < newest:
                self._place.remove([f"{name}/{FILE_NAME}", *self._files[name]])
                self._complete.discard(name)
                self._files.pop(name)
                self._withdrawn = [*self._withdrawn, name][-_MOST_WITHDRAWN:]

    def _is_there(self, name: str, entry: CheckpointFile) -> bool:
        return self._there.get(_below(name, entry)) == entry.bytes

    def _reporting_while(self, until: Callable[[], bool]) -> Callable[[], bool]:
        """`until`, telling the first host now and then that this one goes on: a file may take long."""

        def ask() -> bool:
            if time.monotonic() - self._said_at > _SAY_SECONDS:
                self._post_state(left=False)
            return until()

        return ask

    def _post_state(self, *, left: bool) -> None:
        self._said_at = time.monotonic()
        # What is sent again and again is no progress.
        progress = self._place.progress if self._failures < _MOST_FAILURES else 0
        if self.messages.post_state({"own": sorted(self._own), "progress": progress, "left": left}):
            self._heard = set(self._own)


def _own_files_said(said: Mapping[str, Any], host: str) -> list[str]:
    own: list[str] = said.get(host, {}).get("own", [])
    return own


def _step(name: str) -> int:
    return step_of(name) or 0


def _writers(manifest: CheckpointManifest) -> set[str]:
    return {entry.host for entry in manifest.files}


def _below(checkpoint: str, entry: CheckpointFile) -> str:
    return f"{checkpoint}/{entry.name}"


def _checkpoint(name: str) -> str:
    """The checkpoint that a file in the place belongs to; empty for one of none."""
    folder, _, rest = name.partition("/")
    return folder if rest and step_of(folder) is not None else ""


# What the hosts tell each other of their checkpoints: how far each is, and what the first one wants next.


_SAID, _LED = "checkpoints/said", "checkpoints/led"
_SILENCE_SECONDS = 60.0
"""So long a first host that did not answer is not asked again: each question waits for it by itself."""


class Hosts(Protocol):
    """The part of an Assembly that this needs."""

    @property
    def current(self) -> str:
        """This host's name."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the job."""

    @property
    def is_first(self) -> bool:
        """Whether this host is the one that answers."""

    def post(self, topic: str, value: Any) -> None:
        """Raises FirstHostSilent."""

    def read(self, topic: str) -> Mapping[str, Any]:
        """Raises FirstHostSilent."""


class HostMessages:
    """What this host and the first one tell each other of checkpoints.

    `silent` is set where the first host did not answer.
    """

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._not_before = 0.0
        self.silent: FirstHostSilent | None = None

    def post_state(self, value: Mapping[str, Any]) -> bool:
        """Tell how far this host is; whether it was heard."""
        return self._heard(_SAID, value)

    def states(self) -> dict[str, Any]:
        """How far each host has copied, by its name in manifests."""
        return {manifest_name(host): told for host, told in self._read(_SAID).items()}

    def post_wanted(self, value: Mapping[str, Any]) -> None:
        """On the first host: tell what is wanted next, and what was withdrawn."""
        self._heard(_LED, value)

    def wanted(self) -> dict[str, Any]:
        """What the first host wants next; empty before it said so."""
        return dict(next(iter(self._read(_LED).values()), {}))

    def _heard(self, topic: str, value: Mapping[str, Any]) -> bool:
        if time.monotonic() < self._not_before:
            return False
        try:
            self._hosts.post(topic, value)
        except FirstHostSilent as silent:
            self._note(silent)
            return False
        return True

    def _read(self, topic: str) -> Mapping[str, Any]:
        if time.monotonic() < self._not_before:
            return {}
        try:
            return self._hosts.read(topic)
        except FirstHostSilent as silent:
            self._note(silent)
            return {}

    def _note(self, silent: FirstHostSilent) -> None:
        self.silent = silent
        self._not_before = time.monotonic() + _SILENCE_SECONDS


def manifest_name(host: str) -> str:
    """A host's name as manifests have it (slipway/saving/manager.py)."""
    return "".join(one if one.isascii() and (one.isalnum() or one in ".-") else "-" for one in host)[:253]


# Which files a script has finished: closed, and unchanged for some seconds.


QUIET_SECONDS = 5.0
"""So long a closed file is unchanged before it is copied: scripts write one in several goes."""

_WRITING = os.O_WRONLY | os.O_RDWR


class FileState(NamedTuple):
    """What tells a changed file from an unchanged one: bytes, and the time of its change in nanoseconds."""

    size: int
    changed: int


def files_below(folder: Path) -> dict[str, FileState]:
    """The files in a folder by name, without those of slipway.CheckpointManager; links are not followed."""
    found: dict[str, FileState] = {}
    for place, folders, names in os.walk(folder):
        if Path(place) == folder:
            folders[:] = [name for name in folders if step_of(name) is None]
        for name in names:
            path = Path(place) / name
            try:
                status = path.lstat()
            except OSError:
                continue
            if path.is_symlink() or not path.is_file():
                continue
            found[path.relative_to(folder).as_posix()] = FileState(status.st_size, status.st_mtime_ns)
    return found


class Quiet:
    """Remembers since when each file has been what it is; times are in seconds of one clock."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[FileState, float]] = {}

    def unchanged(self, found: Mapping[str, FileState], now: float, seconds: float) -> list[str]:
        """The files that have been what they are for so many seconds."""
        self._since = {
            name: self._since[name] if self._since.get(name, (None, 0))[0] == one else (one, now)
            for name, one in found.items()
        }
        return [name for name, (_, since) in self._since.items() if now - since >= seconds]


def open_for_writing(folder: Path, processes: Path = Path("/proc")) -> set[str]:
    """The names of the files in a folder that a process has open to write; none where there is no /proc.

    Only processes that this one may look into are seen, as are all that it has started.
    """
    root = f"{os.path.realpath(folder)}/"
    names: set[str] = set()
    for process in _numbers(processes):
        for descriptor in _numbers(processes / process / "fd"):
            try:
                # Path has no readlink before Python 3.9.
                target = os.readlink(str(processes / process / "fd" / descriptor))  # noqa: PTH115
                if target.startswith(root) and _writes(processes / process / "fdinfo" / descriptor):
                    names.add(target[len(root) :])
            except (OSError, ValueError):
                continue
    return names


def _numbers(folder: Path) -> Iterable[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def _writes(information: Path) -> bool:
    """By the line `flags: 0100002`, which is octal (proc(5))."""
    for line in information.read_text().splitlines():
        if line.startswith("flags:"):
            return bool(int(line.split()[1], 8) & _WRITING)
    return False


# Files that scripts write without slipway.CheckpointManager: copied once they are finished.


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
            if is_relative_name(name)
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
