"""Where a job's results are: a place is named only where something lies there, as far as that can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from launcher.backends.interface import JobStatus

_OURS = ("slipway", "flight_recorder")
"""What below /opt/ml/output/data is not of the script: the ranks' output, and PyTorch's flight recorder."""


def places_of(status: JobStatus) -> Iterator[tuple[str, str]]:
    """What to call each place, and the place: a folder of this machine that holds something, or a URI of S3,
    which is not asked and of which is said only what goes there."""
    if status.checkpoints:
        if "://" in status.checkpoints:
            yield "checkpoints go to", status.checkpoints
        elif _holds_a_file(Path(status.checkpoints)):
            yield "checkpoints", status.checkpoints
    if status.output:
        if "://" in status.output:
            yield "output goes to", status.output
        elif any(map(_holds_results, Path(status.output).glob("*/ml"))):
            yield "output", status.output


def left_checkpoints(status: JobStatus) -> bool:
    """Whether a job may have left checkpoints: no, where it keeps none or their folder here is empty."""
    place = status.checkpoints
    return place is not None and ("://" in place or _holds_a_file(Path(place)))


def _holds_results(root: Path) -> bool:
    """Whether a folder that stood for /opt/ml holds what the service would have kept."""
    data = root / "output" / "data"
    kept = [folder for folder in data.glob("*") if folder.name not in _OURS]
    return _holds_a_file(root / "model") or any(file.is_file() or _holds_a_file(file) for file in kept)


def _holds_a_file(folder: Path) -> bool:
    return any(file.is_file() for file in folder.rglob("*"))
