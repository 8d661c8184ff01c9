"""The checkpoints of slipway.CheckpointManager: each host copies its own files, the first host the manifest.

The manifest goes when all hosts have said that their files are there, so what has one is whole. The hosts
say it over the assembly: the first host names the checkpoint that is wanted next, so that hosts which are
slower than the saving still finish the same one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.checkpoints.manifest import FILE_NAME, CheckpointFile, CheckpointManifest
from slipway.checkpoints.shelf import folders, step_of, stored
from slipway.uploads.places import CheckpointPlace
from slipway.uploads.talking import Hosts, Talk, manifest_name

_MOST_WITHDRAWN = 1000
"""Names of checkpoints that are gone which the first host still tells of."""

_SAY_SECONDS, _MOST_FAILURES = 5.0, 3


class WholeCheckpoints:
    """The checkpoints below `folder` that have a manifest, and how far they have come to `place`."""

    def __init__(self, folder: Path, place: CheckpointPlace, hosts: Hosts) -> None:
        self._folder, self._place = folder, place
        self.talk, self._leads = Talk(hosts), hosts.is_first
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
        here = folders(self._folder)
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
        here = self._here()
        self._own = {name for name in self._own if name in here}
        due = [name for name in here if name not in self._own | self._complete]
        failed = self._copy_own(here, due, self._telling(until)) if due else {}
        self._failures = self._failures + 1 if failed else 0
        # A host that has nothing to tell may outlive the first one without waiting for it.
        if due or self._own != self._heard:
            self._say(left=False)
        if self._leads:
            failed.update(self._lead(here, until))
        return failed

    def leave(self) -> None:
        """Say that this host copies no more, where the first one may wait for it."""
        if folders(self._folder):
            self._say(left=True)

    def all_left(self) -> bool:
        """On the first host: whether nobody has anything to tell it any more."""
        left = {host for host, told in self.talk.said().items() if told["left"]}
        return not folders(self._folder) or left >= self._hosts_names

    def to_do(self) -> list[str]:
        """The checkpoints here for which this host has to do something still, or the first one to wait."""
        if not self._leads:
            return [name for name in self._here() if name not in self._own | self._complete]
        gone = self._gone()
        return [
            name
            for name, manifest in self._here().items()
            if name not in self._complete and not any(name not in own for own in self._left(manifest, gone))
        ]

    def missing(self) -> list[str]:
        """The checkpoints here that are newer than what is there, the newest first.

        What is there is whole for the first host; the others know of their own files alone.
        """
        there = self._complete if self._leads else self._own | self._complete
        newest = max((_step(name) for name in there), default=-1)
        return [name for name in self._here() if _step(name) > newest]

    def awaited(self) -> list[str]:
        """The hosts whose files of the newest checkpoint are missing."""
        said = self.talk.said()
        for name, manifest in self._here().items():
            if name not in self._complete:
                return sorted(host for host in _writers(manifest) if name not in _own_of(said, host))
        return []

    def _gone(self) -> dict[str, list[str]]:
        """What the hosts had copied that copy no more."""
        return {host: told["own"] for host, told in self.talk.said().items() if told["left"]}

    def _left(self, manifest: CheckpointManifest, gone: Mapping[str, list[str]]) -> list[list[str]]:
        """What those of its hosts have copied that copy no more; hosts of another job have copied nothing."""
        return [
            gone.get(host, []) for host in _writers(manifest) if host in gone or host not in self._hosts_names
        ]

    def _here(self) -> dict[str, CheckpointManifest]:
        """What is whole on this disk, the newest first. Each manifest is read once."""
        with_manifest = [name for name in folders(self._folder) if (self._folder / name / FILE_NAME).exists()]
        if any(name not in self._parsed for name in with_manifest):
            for one in stored(self._folder):
                if one.manifest is not None:
                    self._parsed[one.name] = one.manifest
        self._parsed = {name: self._parsed[name] for name in with_manifest if name in self._parsed}
        return {name: self._parsed[name] for name in sorted(self._parsed, reverse=True)}

    def _copy_own(
        self, here: Mapping[str, CheckpointManifest], due: Sequence[str], until: Callable[[], bool]
    ) -> dict[str, Exception]:
        led = {} if self._leads else self.talk.led()
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
        if name in led.get("withdrawn", ()) or name not in self._here():
            # It was deleted while it went: nobody has to have it any more.
            with contextlib.suppress(Exception):
                self._place.remove([_below(name, entry) for entry in own])
            return {}
        if not failed:
            self._own.add(name)
        return failed

    def _lead(
        self, here: Mapping[str, CheckpointManifest], until: Callable[[], bool]
    ) -> dict[str, Exception]:
        said = self.talk.said()
        failed: dict[str, Exception] = {}
        for name, manifest in here.items():
            self._files[name] = [_below(name, entry) for entry in manifest.files]
            if name in self._complete or not all(name in _own_of(said, host) for host in _writers(manifest)):
                continue
            whole = f"{name}/{FILE_NAME}"
            failed.update(self._place.put({whole: self._folder / name / FILE_NAME}, until))
            if whole not in failed:
                self._complete.add(name)
        try:
            self._withdraw(here)
        except Exception as error:  # botocore makes its exceptions when they are raised
            self.not_removed = error
        wanted = next((name for name in here if name not in self._complete), None)
        self.talk.lead({"wanted": wanted, "withdrawn": self._withdrawn})
        return failed

    def _withdraw(self, here: Mapping[str, CheckpointManifest]) -> None:
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

    def _telling(self, until: Callable[[], bool]) -> Callable[[], bool]:
        """`until`, telling the first host now and then that this one goes on: a file may take long."""

        def ask() -> bool:
            if time.monotonic() - self._said_at > _SAY_SECONDS:
                self._say(left=False)
            return until()

        return ask

    def _say(self, *, left: bool) -> None:
        self._said_at = time.monotonic()
        # What is sent again and again is no progress.
        progress = self._place.progress if self._failures < _MOST_FAILURES else 0
        if self.talk.say({"own": sorted(self._own), "progress": progress, "left": left}):
            self._heard = set(self._own)


def _own_of(said: Mapping[str, Any], host: str) -> list[str]:
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
