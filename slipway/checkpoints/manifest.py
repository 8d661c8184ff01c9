"""The manifest of a checkpoint: which files it consists of. Written last, so that it says "complete".

Reading is strict and bounded, since what lies in a bucket may come from anybody: names stay below the
checkpoint's folder, numbers and counts have limits, and nothing but JSON is understood.
"""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from typing import Any

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
