"""What a resuming rank asks of the prefix: which checkpoints are whole there, and their files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.checkpoints.manifest import FILE_NAME, MAX_BYTES
from slipway.checkpoints.shelf import put, step_of
from slipway.uploads.causes import cause_of
from slipway.uploads.places import CheckpointPlace, place_of

VARIABLE = "SLIPWAY_CHECKPOINT_MIRROR"
"""Set by the boot for the ranks where it copies checkpoints: to where."""

MOST_CHECKPOINTS = 20
"""So many of the newest are offered; a manager keeps three."""


class PlaceMirror:
    """The checkpoints in a place (see slipway/checkpoints/mirror.py)."""

    def __init__(self, place: CheckpointPlace) -> None:
        self._place = place

    def manifests(self) -> Mapping[str, str]:
        """By folder name the texts of the newest manifests. Raises OSError."""
        try:
            found = [name.split("/")[0] for name in self._place.sizes() if name.endswith(f"/{FILE_NAME}")]
            names = sorted((name for name in found if step_of(name) is not None), reverse=True)
            return {
                name: self._place.text(f"{name}/{FILE_NAME}", MAX_BYTES).decode("utf-8", "replace")
                for name in names[:MOST_CHECKPOINTS]
            }
        except Exception as error:  # botocore makes its exceptions when they are raised
            raise OSError(cause_of(error).sentence) from None

    def fetch(self, name: str, files: Sequence[str], folder: Path) -> None:
        """Put files of the checkpoint `name` into `folder`, all at once. Raises OSError."""
        try:
            sizes = self._place.sizes()
        except Exception as error:  # botocore makes its exceptions when they are raised
            raise OSError(cause_of(error).sentence) from None
        wanted = {file: sizes.get(f"{name}/{file}", 0) for file in files}
        room = shutil.disk_usage(folder).free
        if sum(wanted.values()) > room:
            raise OSError(f"{sum(wanted.values())} bytes do not fit into the {room} left in {folder}")
        halves = {file: folder / f"{file}.{os.getpid()}.partial" for file in files}
        failed = self._place.get({f"{name}/{file}": half for file, half in halves.items()})
        for file, half in halves.items():
            if f"{name}/{file}" not in failed:
                put(half, folder / file)
        if failed:
            missing, why = next(iter(failed.items()))
            raise OSError(f"{missing}: {cause_of(why).sentence}")


def mirror_of(environment: Mapping[str, str]) -> PlaceMirror | None:
    """The place to which the boot copies, None where it copies nothing.

    Raises ImportError as `place_of` does, of which the boot has told before.
    """
    uri = environment.get(VARIABLE)
    if not uri:
        return None
    return PlaceMirror(place_of(uri, environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")))
