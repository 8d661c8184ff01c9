"""Where checkpoints are kept beside the disks of the hosts, as `resume` asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Mirror(Protocol):
    """Copies of complete checkpoints elsewhere, such as in a bucket."""

    def manifests(self) -> Mapping[str, str]:
        """By folder name (`step-...`) the texts of the manifests; asked on rank 0 alone. Raises OSError."""
        ...

    def fetch(self, name: str, files: Sequence[str], folder: Path) -> None:
        """Put files of the checkpoint `name` into `folder`, under their names in its manifest.

        Asked on one rank of a host, for what no host has whole. What comes is verified by who asks.
        Raises OSError where it cannot be had.
        """
        ...
