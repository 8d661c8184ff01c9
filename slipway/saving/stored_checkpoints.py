"""What checkpoints lie on the hosts' disks, which files each consists of, and which of them all ranks take.

The manifest of a checkpoint is written last, so that it says "complete". Reading it is strict and bounded,
since what lies in a bucket may come from anybody: names stay below the checkpoint's folder, numbers and
counts have limits, and nothing but JSON is understood.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Which checkpoint all ranks take: from what lies on each host's disk to the newest that is whole.
#
# Pure: the hosts' surveys go in, candidates come out, and who verifies and sends which of their files.


@dataclass(frozen=True)
class Choice:
    """A checkpoint that has a manifest: `manifest`, or why it cannot be used in `reason`.

    `holders` says for each file on which hosts it lies with its size; none for one that the mirror has.
    """

    name: str
    manifest: CheckpointManifest | None
    reason: str | None
    holders: dict[str, list[str]]

    def lacking(self) -> list[CheckpointFile]:
        """The files that no host has."""
        files = self.manifest.files if self.manifest else ()
        return [entry for entry in files if not self.holders.get(entry.name)]


def survey_disk(shelf: Path) -> list[dict[str, Any]]:
    """What lies on this host's disk, as JSON takes it: for `order_candidates`.

    Folders without a manifest too: a host that was killed may have its files and not yet the manifest.
    """
    read = {one.name: one for one in stored_checkpoints(shelf)}
    found = []
    for name in checkpoint_folders(shelf):
        one = read.get(name)
        text = one.manifest.to_json() if one and one.manifest else None
        reason = one.reason if one else None
        found.append({"name": name, "manifest": text, "reason": reason, "files": file_sizes(shelf / name)})
    return found


def order_candidates(
    surveys: Mapping[str, Sequence[Mapping[str, Any]]], mirrored: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The checkpoints in the order in which they are tried, the newest first, as JSON takes them.

    `surveys` are the hosts', `mirrored` the texts of the manifests that a mirror has, both by name.
    """
    texts = {name: text for name, text in mirrored.items() if step_of(name) is not None}
    reasons: dict[str, str] = {}
    for host, found in surveys.items():
        for one in found:
            name, text = one["name"], one["manifest"]
            if text is not None and texts.setdefault(name, text) != text:
                reasons[name] = f"the manifest on {host} is not that of the others"
    for host, found in surveys.items():
        for one in found:
            if one["reason"] is not None and one["name"] not in texts:
                reasons.setdefault(one["name"], f"{one['reason']} ({host})")
    ordered = sorted({*texts, *reasons}, key=lambda name: (step_of(name) or 0, name), reverse=True)
    return [
        {
            "name": name,
            "manifest": texts.get(name),
            "reason": reasons.get(name),
            "holders": _holders(name, texts.get(name), surveys),
            "mirrored": name in mirrored,
        }
        for name in ordered
    ]


def _holders(
    name: str, text: str | None, surveys: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, list[str]]:
    """For each file of a checkpoint the hosts on which it lies with its size."""
    try:
        files = parse_manifest(text).files if text is not None else ()
    except BadManifest:
        # Only a mirror's can be: it is refused, with the reason, when it is its turn.
        files = ()
    there = {host: one["files"] for host, found in surveys.items() for one in found if one["name"] == name}
    return {
        entry.name: [host for host, sizes in there.items() if sizes.get(entry.name) == entry.bytes]
        for entry in files
    }


def parse_candidate(told: Mapping[str, Any]) -> Choice:
    """A candidate as all ranks were told of it, judged."""
    manifest, reason = None, told["reason"]
    if reason is None:
        try:
            manifest = parse_manifest(told["manifest"])
        except BadManifest as error:
            reason = str(error)
        else:
            if manifest.step != step_of(told["name"]):
                reason = f"the manifest is that of step {manifest.step}"
    one = Choice(told["name"], None if reason else manifest, reason, dict(told["holders"]))
    lacking = one.lacking()
    if lacking and not told["mirrored"]:
        first = lacking[0]
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        reason = f"{first.name}{more}, of {first.bytes} bytes, is whole on no host"
        return Choice(one.name, None, reason, one.holders)
    return one


def verifying_rank(entry: CheckpointFile, index: int, holders: Sequence[str], hosts: Sequence[str]) -> int:
    """The rank that reads a file whole to verify it: one of a host that has it, a different one each time.

    `hosts` are the ranks' hosts by rank. A file that is fetched is verified where it was written, if that
    host is there, else on the first host.
    """
    host = verified_host(entry, holders, hosts)
    ranks = [rank for rank, name in enumerate(hosts) if name == host]
    return ranks[index % len(ranks)]


def verified_host(entry: CheckpointFile, holders: Sequence[str], hosts: Sequence[str]) -> str:
    """The host whose copy of a file is verified, and sent to others."""
    able = [host for host in holders if host in hosts] or list(hosts)
    return entry.host if entry.host in able else able[0]


def leading_rank(hosts: Sequence[str], host: str) -> int:
    """The rank that acts for a host: its lowest one."""
    return list(hosts).index(host)


def plan_transfers(
    lacks: Iterable[Sequence[str]], one: Choice, hosts: Sequence[str]
) -> list[tuple[str, int, list[int]]]:
    """What hosts send each other: file, the rank that sends it, the ranks that write it.

    `lacks` are the names of the files that each rank needs and its host has not, by rank.
    """
    wanted: dict[str, list[int]] = {}
    for rank, names in enumerate(lacks):
        for name in names:
            receivers = wanted.setdefault(name, [])
            first = leading_rank(hosts, hosts[rank])
            if first not in receivers:
                receivers.append(first)
    files = {entry.name: entry for entry in one.manifest.files} if one.manifest else {}
    return [
        (
            name,
            leading_rank(hosts, verified_host(files[name], one.holders.get(name, ()), hosts)),
            sorted(receivers),
        )
        for name, receivers in sorted(wanted.items())
    ]


# The manifest of a checkpoint: which files it consists of.


FILE_NAME = "manifest.json"
FORMAT = 1

MAX_BYTES = 32 * 1024 * 1024
"""Of the manifest itself: 100,000 files with names of 150 characters need less."""

MAX_FILES = 100_000
MAX_WORLD_SIZE = 1_000_000
MAX_STEP = 10**12 - 1
"""What twelve digits in the folder's name can say."""

MAX_FILE_BYTES = 2**50
_MAX_PART = 128
_MAX_PARTS = 4
_MAX_HOST = 253
_MAX_DIGITS = 20
_HEX = frozenset("0123456789abcdef")
_NAME = frozenset(string.ascii_letters + string.digits + "._-")


class BadManifest(ValueError):
    """A manifest cannot be used; its text says why."""


@dataclass(frozen=True)
class CheckpointFile:
    """A file of a checkpoint: its name below the folder, bytes, SHA-256 in hex, the host that wrote it."""

    name: str
    bytes: int
    sha256: str
    host: str


@dataclass(frozen=True)
class CheckpointManifest:
    """A complete checkpoint. `position` is that of the sampler, if one was saved."""

    step: int
    world_size: int
    files: tuple[CheckpointFile, ...]
    position: dict[str, Any] | None
    made_by: dict[str, str]

    def file(self, name: str) -> CheckpointFile | None:
        """The entry of that name, None where the checkpoint has no such file."""
        return next((entry for entry in self.files if entry.name == name), None)

    def to_json(self) -> str:
        """The text of the file; `parse_manifest` gives back the same manifest."""
        files = [
            {"name": entry.name, "bytes": entry.bytes, "sha256": entry.sha256, "host": entry.host}
            for entry in self.files
        ]
        content = {
            "format": FORMAT,
            "step": self.step,
            "world_size": self.world_size,
            "files": files,
            "position": self.position,
            "made_by": self.made_by,
        }
        return json.dumps(content, indent=1)


def parse_manifest(text: str | bytes) -> CheckpointManifest:
    """Read a manifest. Raises BadManifest, with a sentence, for whatever is not exactly one."""
    if len(text) > MAX_BYTES:
        raise BadManifest(f"the manifest has {len(text)} bytes, more than {MAX_BYTES}")
    try:
        content = json.loads(text, parse_int=_integer, parse_constant=_no_number)
    except RecursionError:
        raise BadManifest("the manifest is nested too deeply") from None
    except ValueError as error:
        raise BadManifest(f"the manifest is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise BadManifest("the manifest is not a JSON object")
    if content.get("format") != FORMAT or isinstance(content.get("format"), bool):
        raise BadManifest(f"the manifest's format is {_shown(content.get('format'))}, not {FORMAT}")
    position, made_by = content.get("position"), content.get("made_by", {})
    if position is not None and not isinstance(position, dict):
        raise BadManifest(f"the manifest's position is {_shown(position)}, not an object")
    if not isinstance(made_by, dict) or not all(isinstance(value, str) for value in made_by.values()):
        raise BadManifest(f"the manifest's made_by is {_shown(made_by)}, not an object of texts")
    return CheckpointManifest(
        step=_bounded("step", content.get("step"), 0, MAX_STEP),
        world_size=_bounded("world_size", content.get("world_size"), 1, MAX_WORLD_SIZE),
        files=_files(content.get("files")),
        position=position,
        made_by=made_by,
    )


def is_safe_name(name: object) -> bool:
    """Whether a name leads to a file below the checkpoint's folder, whatever the platform."""
    if not isinstance(name, str):
        return False
    parts = name.split("/")
    return len(parts) <= _MAX_PARTS and all(
        0 < len(part) <= _MAX_PART and part.strip(".") and _NAME.issuperset(part) for part in parts
    )


def _files(files: object) -> tuple[CheckpointFile, ...]:
    if not isinstance(files, list) or not files:
        raise BadManifest("the manifest names no files")
    if len(files) > MAX_FILES:
        raise BadManifest(f"the manifest names {len(files)} files, more than {MAX_FILES}")
    entries = tuple(_entry(file) for file in files)
    names = {entry.name for entry in entries}
    if len(names) != len(entries):
        raise BadManifest("the manifest names a file twice")
    if FILE_NAME in names:
        raise BadManifest("the manifest names itself")
    return entries


def _entry(file: object) -> CheckpointFile:
    if not isinstance(file, dict):
        raise BadManifest(f"a file of the manifest is {_shown(file)}, not an object")
    name, digest, host = file.get("name"), file.get("sha256"), file.get("host")
    if not is_safe_name(name):
        raise BadManifest(
            f"a file of the manifest is called {_shown(name)}, which is no name below its folder"
        )
    if not isinstance(digest, str) or len(digest) != 64 or not _HEX.issuperset(digest):
        raise BadManifest(f"the sha256 of {name} is {_shown(digest)}, not 64 hexadecimal digits")
    if not isinstance(host, str) or not 0 < len(host) <= _MAX_HOST or not _NAME.issuperset(host):
        raise BadManifest(f"the host of {name} is {_shown(host)}, which is no host's name")
    size = _bounded(f"size of {name}", file.get("bytes"), 0, MAX_FILE_BYTES)
    return CheckpointFile(str(name), size, digest, host)


def _bounded(what: str, value: object, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise BadManifest(f"the {what} is {_shown(value)}, not a number from {lowest} to {highest}")
    return value


def _integer(digits: str) -> int:
    """Of a bounded length: reading a million digits takes Python before 3.11 minutes."""
    if len(digits) > _MAX_DIGITS:
        raise BadManifest(f"a number has {len(digits)} digits")
    return int(digits)


def _no_number(name: str) -> float:
    raise BadManifest(f"{name} is not a number")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


# What lies in the folder of checkpoints on this host's disk, and how something gets there or goes away.


DAMAGED = f"{FILE_NAME}.damaged"
"""What the manifest of a checkpoint is renamed to whose files are not those that it tells of."""

_FOLDER = re.compile(r"step-(?P<step>[0-9]{12})-(?P<token>[0-9a-f]{8})")
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Shelved:
    """A checkpoint's folder that has a manifest: `manifest`, or why it cannot be used in `reason`."""

    name: str
    step: int
    manifest: CheckpointManifest | None
    reason: str | None


def folder_name(step: int, token: str) -> str:
    """The folder of a step, saved by the start of the job that `token` (8 hex digits) stands for."""
    return f"step-{step:012d}-{token}"


def step_of(name: str) -> int | None:
    """The step of a folder of that name, None where it is no checkpoint's."""
    match = _FOLDER.fullmatch(name)
    return int(match["step"]) if match else None


def stored_checkpoints(shelf: Path) -> list[Shelved]:
    """The checkpoints that have a manifest, the newest first. Links are not followed."""
    found = []
    for name in checkpoint_folders(shelf):
        if (shelf / name / FILE_NAME).is_symlink() or (shelf / name / FILE_NAME).exists():
            found.append(_read(shelf / name))
    return sorted(found, key=lambda one: (one.step, one.name), reverse=True)


def checkpoint_folders(shelf: Path) -> list[str]:
    """The names of the checkpoints' folders, complete or not. Links are not followed."""
    try:
        with os.scandir(shelf) as entries:
            return [
                entry.name
                for entry in entries
                if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def file_sizes(folder: Path) -> dict[str, int]:
    """The bytes of the files in a checkpoint's folder and the folders in it, by name; of no links."""
    found: dict[str, int] = {}
    for place, inner, names in os.walk(folder):
        # os.walk follows no links; deeper than a manifest's names lies nothing of ours.
        if len(Path(place).relative_to(folder).parts) >= 3:
            inner.clear()
        for name in names:
            below = (Path(place) / name).relative_to(folder).as_posix()
            size = _size(folder, below)
            if size is not None:
                found[below] = size
    return found


def files_present(folder: Path, entries: Iterable[CheckpointFile]) -> list[str]:
    """The names of those files that are there, are files and no links, and have their size."""
    return [entry.name for entry in entries if _size(folder, entry.name) == entry.bytes]


def file_digest(file: Path) -> str:
    """The SHA-256 of a file's content in hex. Raises OSError."""
    sha256 = hashlib.sha256()
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as content:
        for block in iter(lambda: content.read(_BLOCK), b""):
            sha256.update(block)
    return sha256.hexdigest()


def entry_of(folder: Path, name: str, host: str) -> CheckpointFile:
    """The manifest's entry of a file that is written: read back, so it is what the file system gives."""
    file = folder / name
    return CheckpointFile(name, file.stat().st_size, file_digest(file), host)


def put_file(temporary: Path, file: Path) -> None:
    """Give a written file its name, durably: its content first, then the name. Raises OSError."""
    sync_to_disk(temporary)
    temporary.replace(file)
    sync_to_disk(file.parent)


def put_text(file: Path, text: str) -> None:
    """Write a text durably under a name that is never seen with half of it. Raises OSError."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.partial")
    temporary.write_text(text, encoding="utf-8")
    put_file(temporary, file)


def sync_to_disk(path: Path) -> None:
    """Wait until a file or folder is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a checkpoint's folder durably. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    sync_to_disk(folder.parent)


def incomplete_checkpoints(shelf: Path, host: str) -> list[str]:
    """The checkpoints that have a manifest but not all files that this host wrote, or no manifest to read."""
    names = []
    for one in stored_checkpoints(shelf):
        own = [entry for entry in one.manifest.files if entry.host == host] if one.manifest else []
        if one.manifest is None or len(files_present(shelf / one.name, own)) < len(own):
            names.append(one.name)
    return names


def remove_surplus(shelf: Path, keep: Iterable[str], token: str, step: int) -> None:
    """Remove all checkpoints but those to keep, and what starts that were killed have left.

    What this start of the job has saved after `step` stays: another rank may be further already. What
    cannot be removed stays, and is tried again the next time.
    """
    kept = set(keep)
    for name in checkpoint_folders(shelf):
        newer = name.endswith(f"-{token}") and (step_of(name) or 0) > step
        if name not in kept and not newer:
            remove_checkpoint(shelf / name)


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint: its manifest first, so that half of it never counts."""
    for name in (FILE_NAME, DAMAGED):
        try:
            (folder / name).unlink()
        except OSError:
            continue
    shutil.rmtree(folder, ignore_errors=True)


def mark_damaged(folder: Path) -> None:
    """Let a checkpoint no longer count; its files stay until the next one is complete."""
    try:
        (folder / FILE_NAME).replace(folder / DAMAGED)
    except OSError:
        return


def _read(folder: Path) -> Shelved:
    step = step_of(folder.name) or 0
    try:
        size = _size(folder, FILE_NAME)
        if size is None or size > MAX_BYTES:
            raise BadManifest("the manifest is no file, or too large")
        manifest = parse_manifest((folder / FILE_NAME).read_bytes())
        if manifest.step != step:
            raise BadManifest(f"the manifest is that of step {manifest.step}")
    except (OSError, BadManifest) as error:
        return Shelved(folder.name, step, None, str(error))
    return Shelved(folder.name, step, manifest, None)


def _size(folder: Path, name: str) -> int | None:
    """None where it is missing, no file, or reached over a link."""
    path = folder
    try:
        for part in name.split("/")[:-1]:
            path = path / part
            if not stat.S_ISDIR(path.lstat().st_mode):
                return None
        status = (folder / name).lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
