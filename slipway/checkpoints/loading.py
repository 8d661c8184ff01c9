"""The newest checkpoint that is whole, verified by all ranks together, and put into model and optimizer."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.checkpoints.choosing import (
    Choice,
    candidate,
    candidates,
    home,
    leader,
    survey,
    transfers,
    verifier,
)
from slipway.checkpoints.errors import CheckpointError, of_failed_write
from slipway.checkpoints.manifest import FILE_NAME, CheckpointFile, CheckpointManifest
from slipway.checkpoints.mirror import Mirror
from slipway.checkpoints.roll_call import RollCall
from slipway.checkpoints.shelf import digest, make_folder, mark_damaged, present, put_text

_WHERE = "resume()"


class Loader:
    """What one rank does, together with all others, to find a checkpoint that is whole.

    `hosts` are the ranks' hosts by rank; `mirror` has copies of checkpoints elsewhere, if anything.
    """

    def __init__(self, shelf: Path, call: RollCall, hosts: Sequence[str], mirror: Mirror | None) -> None:
        self.call = call
        self._shelf, self._hosts, self._mirror = shelf, hosts, mirror
        self._host = hosts[call.rank]
        self._leads = call.rank == leader(hosts, self._host)
        self._verified: set[str] = set()

    def choose(self) -> Choice | None:
        """The newest checkpoint whose files all have their SHA-256, the same on all ranks; None without any.

        Raises CheckpointError (CKPT009) where there are some and none can be used: to train from the start
        in silence would throw them away.
        """
        found = survey(self._shelf) if self._leads else None
        told = self.call.meet(_WHERE, found, self._candidates)
        refused: list[str] = []
        for one in told:
            choice = candidate(one)
            reason = choice.reason or self._damage(choice, mirrored=one["mirrored"])
            if reason is None:
                return choice
            refused.append(f"{choice.name}: {reason}")
            if self.call.rank == 0:
                text = f"{CheckpointError('CKPT009', refused[-1])}: not loaded, the one before is tried"
                print(f"slipway: {text}", file=sys.stderr, flush=True)
        if refused:
            raise CheckpointError(
                "CKPT009",
                f"none of the {len(refused)} checkpoints in {self._shelf} can be used ({refused[0]}). "
                "Training from the start would throw them away: remove the folder if that is what you want",
            )
        return None

    def provide(self, choice: Choice, names: Sequence[str]) -> None:
        """Have these files of the checkpoint, verified, on this host's disk. A collective.

        Raises CheckpointError where a file cannot be had.
        """
        folder = self._shelf / choice.name
        entries = {entry.name: entry for entry in _files(choice)}
        foreign = [name for name in names if name not in entries]
        if foreign:
            wrong: str | None = f"{choice.name} has no {foreign[0]} in its manifest"
            lacks: list[str] = []
        else:
            wrong = None
            lacks = [name for name in names if not self._has(folder, entries[name])]

        def decide(values: list[dict[str, Any]]) -> Any:
            _refuse([value["wrong"] for value in values])
            return transfers([value["lacks"] for value in values], choice, self._hosts)

        plan = self.call.meet(_WHERE, {"lacks": lacks, "wrong": wrong}, decide)
        if not plan:
            return
        from slipway.checkpoints.sharing import share

        went_wrong = [share(folder, entries[name], source, receivers) for name, source, receivers in plan]
        first = next((wrong for wrong in went_wrong if wrong), None)
        self.agree(CheckpointError("CKPT009", f"{choice.name}: {first}") if first else None)

    def settle(self, choice: Choice) -> None:
        """Once a host has its files it has the manifest too, so that the checkpoint counts there."""
        file = self._shelf / choice.name / FILE_NAME
        if self._leads and choice.manifest is not None and not file.exists():
            try:
                make_folder(file.parent)
                put_text(file, choice.manifest.to_json())
            except OSError as error:
                raise of_failed_write(error, choice.manifest.step) from None

    def agree(self, error: CheckpointError | None) -> None:
        """Go on together: an error of one rank is raised by all."""
        value = {"code": error.code, "message": error.message} if error else None

        def decide(values: list[dict[str, str] | None]) -> None:
            for told in values:
                if told:
                    raise CheckpointError(told["code"], told["message"])

        self.call.meet(_WHERE, value, decide)

    def _candidates(self, surveys: list[Any]) -> list[dict[str, Any]]:
        by_host = {self._hosts[rank]: found for rank, found in enumerate(surveys) if found is not None}
        mirrored: dict[str, str] = {}
        if self._mirror is not None:
            try:
                mirrored = dict(self._mirror.manifests())
            except OSError as error:
                raise CheckpointError(
                    "CKPT009", f"the mirror of the checkpoints cannot be read: {error}"
                ) from None
        return candidates(by_host, mirrored)

    def _damage(self, choice: Choice, *, mirrored: bool) -> str | None:
        """Why a checkpoint is not what its manifest says, None where it is; what is missing is fetched."""
        self._verified = set()
        lacking = choice.lacking()
        wrong = self._fetch(choice, lacking) if lacking else None
        if wrong:
            return wrong
        bad = self._verify(choice, _files(choice))
        if bad and mirrored and self._mirror is not None:
            wrong = self._fetch(choice, bad)
            bad = [] if wrong else self._verify(choice, bad)
        if not (bad or wrong):
            return None
        if bad and self._leads:
            mark_damaged(self._shelf / choice.name)
        return wrong or f"{bad[0].name} has another SHA-256 than the manifest says: its content has changed"

    def _verify(self, choice: Choice, entries: Sequence[CheckpointFile]) -> list[CheckpointFile]:
        """The files that are not what the manifest says; each is read by one rank."""
        folder = self._shelf / choice.name
        bad = []
        for index, entry in enumerate(entries):
            holders = choice.holders.get(entry.name, ())
            if home(entry, holders, self._hosts) == self._host:
                self._verified.add(entry.name)
            if verifier(entry, index, holders, self._hosts) == self.call.rank and not _is(folder, entry):
                bad.append(entry.name)
        named = set(self.call.meet(_WHERE, bad, lambda values: [name for names in values for name in names]))
        self._verified -= named
        return [entry for entry in entries if entry.name in named]

    def _fetch(self, choice: Choice, entries: Sequence[CheckpointFile]) -> str | None:
        """Have the mirror's copies written where they are verified; why not, on all ranks alike."""
        own = [
            entry.name
            for entry in entries
            if home(entry, choice.holders.get(entry.name, ()), self._hosts) == self._host
        ]
        wrong = None
        if self._leads and own and self._mirror is not None:
            try:
                make_folder(self._shelf / choice.name)
                self._mirror.fetch(choice.name, own, self._shelf / choice.name)
            except OSError as error:
                wrong = f"{own[0]} cannot be fetched: {error}"
        first = self.call.meet(_WHERE, wrong, lambda values: next((one for one in values if one), None))
        return None if first is None else str(first)

    def _has(self, folder: Path, entry: CheckpointFile) -> bool:
        if entry.name in self._verified:
            return True
        return bool(present(folder, [entry])) and _is(folder, entry)


def read(file: Any) -> Any:
    """What torch.save wrote, of tensors and plain values alone. Raises CheckpointError.

    From torch 1.13 on (`weights_only`) a hostile file runs nothing; before, loading one is running it.
    """
    import torch

    safely: dict[str, Any] = (
        {"weights_only": True} if "weights_only" in inspect.signature(torch.load).parameters else {}
    )
    try:
        return torch.load(file, map_location="cpu", **safely)
    except Exception as error:
        # A file from anywhere can make the reader raise anything.
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise CheckpointError(
            "CKPT009", f"{file} is not what CheckpointManager saves ({reason}). Take another checkpoint"
        ) from None


def section(content: Any, name: str, file: Path) -> Any:
    """A part of what was read. Raises CheckpointError where the file holds no such part."""
    if not isinstance(content, dict) or content.get(name) is None:
        raise CheckpointError(
            "CKPT009",
            f"{file} holds no {name}: it was saved without. Resume without {name}=, or take another",
        )
    return content[name]


def _files(choice: Choice) -> tuple[CheckpointFile, ...]:
    manifest: CheckpointManifest | None = choice.manifest
    return manifest.files if manifest else ()


def _is(folder: Path, entry: CheckpointFile) -> bool:
    try:
        return bool(present(folder, [entry])) and digest(folder / entry.name) == entry.sha256
    except OSError:
        return False


def _refuse(reasons: Sequence[str | None]) -> None:
    for reason in reasons:
        if reason:
            raise CheckpointError("CKPT009", reason)


@dataclass(frozen=True)
class Resumed:
    """What training goes on from: the step, this rank's `extra`, and the position of the sampler if saved."""

    step: int
    extra: Any
    position: dict[str, Any] | None
