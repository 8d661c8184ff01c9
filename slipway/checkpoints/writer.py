"""What a rank has copied, written beside the training: files first, the manifest when every rank has its own.

Runs in a thread of its own and meets the other ranks' writers over the roll-call alone.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.checkpoints.choosing import leader
from slipway.checkpoints.errors import CheckpointError, of_failed_write
from slipway.checkpoints.manifest import FILE_NAME, CheckpointFile, CheckpointManifest
from slipway.checkpoints.roll_call import RollCall
from slipway.checkpoints.sharded import Shards
from slipway.checkpoints.shelf import (
    entry_of,
    folder_name,
    incomplete,
    make_folder,
    put,
    put_text,
    stored,
    tidy,
)

MODEL_FILE = "model.pt"
"""The states of model and optimizer; of sharded ones what is no tensor."""


def rank_file(rank: int) -> str:
    """The file of what every rank has for itself: its random numbers and its `extra`."""
    return f"rank-{rank:05d}.pt"


@dataclass
class Snapshot:
    """The copies of one step: `own` of this rank, `whole` on rank 0, `shards` of a sharded state."""

    step: int
    own: dict[str, Any]
    whole: dict[str, Any] | None
    shards: Shards | None
    position: dict[str, Any] | None


class CheckpointWriter:
    """Writes the snapshots of one rank below `shelf`, and keeps the newest `keep` checkpoints there.

    `hosts` are the ranks' hosts by rank, `token` the same 8 hex digits on all ranks of this start.
    """

    def __init__(self, shelf: Path, call: RollCall, hosts: Sequence[str], token: str, keep: int) -> None:
        self._shelf, self._call, self._hosts, self._token, self._keep = shelf, call, hosts, token, keep
        self._host = hosts[call.rank]

    def write(self, snapshot: Snapshot) -> None:
        """Write it and let it count. Raises CheckpointError, on every rank, where one could not write."""
        folder = self._shelf / folder_name(snapshot.step, self._token)
        partial = folder / f"{rank_file(self._call.rank)}.{os.getpid()}.partial"
        names: list[str] = []
        try:
            report = self._report(snapshot, folder, partial, names)
            decided = self._call.meet(
                f"save(step={snapshot.step})",
                report,
                lambda reports: self._complete(snapshot, reports, partial),
            )
        except CheckpointError:
            # Its room may be what is missing. Only what is this rank's: others may be further already.
            for name in names:
                _unlink(folder / name)
            raise
        if self._call.rank == leader(self._hosts, self._host):
            self._settle(folder, decided, snapshot.step)

    def _report(self, snapshot: Snapshot, folder: Path, partial: Path, names: list[str]) -> dict[str, Any]:
        """What rank 0 gets to know; `names` grows by each file that is written."""
        report: dict[str, Any] = {"step": snapshot.step, "rank": self._call.rank, "host": self._host}
        try:
            make_folder(folder)
            if snapshot.whole is not None:
                names.append(_saved(snapshot.whole, partial, folder, MODEL_FILE))
            names.append(_saved(snapshot.own, partial, folder, rank_file(self._call.rank)))
        except OSError as error:
            report["error"] = _told(of_failed_write(error, snapshot.step))
        if snapshot.shards is not None:
            self._write_shards(snapshot, folder, partial, names, report)
        if "error" not in report:
            try:
                report["files"] = [_entry(entry_of(folder, name, self._host)) for name in names]
            except OSError as error:
                report["error"] = _told(of_failed_write(error, snapshot.step))
        if self._call.rank == leader(self._hosts, self._host):
            report["incomplete"] = incomplete(self._shelf, self._host)
        return report

    def _write_shards(
        self, snapshot: Snapshot, folder: Path, partial: Path, names: list[str], report: dict[str, Any]
    ) -> None:
        shards = snapshot.shards
        assert shards is not None

        def decide(values: list[dict[str, Any]]) -> list[str]:
            _refuse_failures(values)
            return shards.decide([value["plan"] for value in values])

        value = {**report, "plan": shards.packed_plan()}
        plan = self._call.meet(f"save(step={snapshot.step})", value, decide, each=True)
        try:
            written, report["results"] = shards.write(plan, partial, folder, self._call.rank == 0)
            names += written
        except (OSError, RuntimeError) as error:
            # torch's writer reports a full disk as a RuntimeError.
            report["error"] = _told(_of_failed_shards(error, folder, snapshot.step))

    def _complete(self, snapshot: Snapshot, reports: list[dict[str, Any]], partial: Path) -> dict[str, Any]:
        """On rank 0, when all have written: the manifest, and which checkpoints stay."""
        same_step(reports)
        _refuse_failures(reports)
        folder = self._shelf / folder_name(snapshot.step, self._token)
        files = [CheckpointFile(**entry) for report in reports for entry in report["files"]]
        try:
            if snapshot.shards is not None:
                results = [report["results"] for report in reports]
                names = snapshot.shards.finish(results, partial, folder)
                files += [entry_of(folder, name, self._host) for name in names]
            manifest = CheckpointManifest(
                snapshot.step, self._call.world_size, tuple(files), snapshot.position, made_by()
            ).to_json()
            put_text(folder / FILE_NAME, manifest)
        except OSError as error:
            raise of_failed_write(error, snapshot.step) from None
        halves = {name for report in reports for name in report.get("incomplete", ())}
        whole = [one.name for one in stored(self._shelf) if one.name not in halves | {folder.name}]
        return {"manifest": manifest, "keep": [folder.name, *whole[: self._keep - 1]]}

    def _settle(self, folder: Path, decided: Mapping[str, Any], step: int) -> None:
        """On each host: its disk has the manifest too, and nothing that is no longer kept."""
        try:
            if not (folder / FILE_NAME).exists():
                put_text(folder / FILE_NAME, decided["manifest"])
        except OSError as error:
            raise of_failed_write(error, step) from None
        tidy(self._shelf, decided["keep"], self._token, step)


def made_by() -> dict[str, str]:
    """What wrote a checkpoint, for people who wonder why another version does not read it."""
    import torch

    from slipway import __version__

    return {"torch": str(torch.__version__), "slipway": __version__, "python": platform.python_version()}


def same_step(reports: Sequence[Mapping[str, Any]]) -> None:
    """Raises CheckpointError where ranks save different steps at one time."""
    first = reports[0]
    for report in reports:
        if report["step"] != first["step"]:
            raise CheckpointError(
                "CKPT003",
                f"rank {report['rank']} saves step {report['step']} while rank 0 saves step {first['step']}: "
                "the checkpoint would be of no step. Call save on every rank after the same step",
            )


def _refuse_failures(reports: Sequence[Mapping[str, Any]]) -> None:
    for report in reports:
        if report.get("error"):
            told = report["error"]
            raise CheckpointError(
                told["code"], f"rank {report['rank']} on {report['host']}: {told['message']}"
            )


def _saved(content: dict[str, Any], partial: Path, folder: Path, name: str) -> str:
    import torch

    file = partial.with_name(f"{partial.name}.pt")
    try:
        with file.open("wb") as out:
            torch.save(content, out)
    except RuntimeError as error:
        # torch's zip writer gives the reason of a failed write to its context alone.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    put(file, folder / name)
    return name


def _of_failed_shards(error: Exception, folder: Path, step: int) -> CheckpointError:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    if isinstance(cause, OSError):
        return of_failed_write(cause, step)
    return CheckpointError("CKPT004", f"the shards of step {step} could not be written to {folder}: {error}")


def _told(error: CheckpointError) -> dict[str, str]:
    return {"code": error.code, "message": error.message}


def _entry(file: CheckpointFile) -> dict[str, Any]:
    return {"name": file.name, "bytes": file.bytes, "sha256": file.sha256, "host": file.host}


def _unlink(file: Path) -> None:
    try:
        file.unlink()
    except OSError:
        return
