"""What a training script calls: save a step, go on from the newest one."""

from __future__ import annotations

import atexit
import os
import threading
import time
from pathlib import Path
from typing import Any

from slipway.errors import CheckpointError, say
from slipway.saving.load_checkpoint import Loader, Mirror, Resumed, generator_states, restore, unwrap_model
from slipway.saving.stored_checkpoints import MAX_STEP
from slipway.saving.upload_places import mirror_from
from slipway.saving.write_checkpoint import (
    CheckpointWriter,
    Copies,
    Shards,
    Snapshot,
    check_same_step,
    is_sharded,
    state_of,
)
from slipway.training.agreement import (
    ROLL_CALL_PATIENCE,
    RollCall,
    host_name,
    own_connection,
    rank_and_world_size,
)
from slipway.training.data_order import GlobalSampler

EXIT_SECONDS = 60.0
"""How long a process that ends waits for its last save. A host that SageMaker stops has 120 s in all."""

_PART_SECONDS = 5.0
_connected = 0


class CheckpointManager:
    """Saves a job's state while it trains, and goes on from the newest state that is whole.

    Make one on every rank. `folder` (default: SLIPWAY_CHECKPOINT_DIR) may be on a disk of each host or on
    one that all share; the newest `keep` checkpoints stay there. Every rank calls `save` and `resume`.
    `patience` is for how many seconds ranks wait for one that does not come, before it is named (CKPT003).
    `mirror` has copies of checkpoints elsewhere, for what no host has; with `checkpoint.sync: slipway` that
    is the job's prefix.

    Models may be plain, in DistributedDataParallel, compiled, or sharded (FSDP, DTensor; from torch 2.2 on).
    A plain model is taken to be the same on all ranks. What is saved is loaded as plain data: from torch
    1.13 on, a checkpoint of somebody else's cannot run code; before, loading it is running it.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        keep: int = 3,
        *,
        patience: float = ROLL_CALL_PATIENCE,
        mirror: Mirror | None = None,
    ) -> None:
        own = os.environ.get("SLIPWAY_CHECKPOINT_DIR")
        folder = folder or own
        if not folder:
            raise ValueError(
                "there is no folder for checkpoints: SLIPWAY_CHECKPOINT_DIR is not set, as in a job without "
                "`checkpoint`. Add it to the job file, or give CheckpointManager a folder"
            )
        if keep < 1:
            raise ValueError(f"keep={keep} keeps no checkpoint, so there would be none to resume from")
        self.folder, self.keep = Path(folder), keep
        # The boot copies the job's own folder, and no other.
        copied = mirror_from(os.environ) if mirror is None and own and self.folder == Path(own) else None
        self._patience, self._mirror = patience, mirror or copied
        self._call: RollCall | None = None
        self._hosts: list[str] = []
        self._token = ""
        self._copies = Copies()
        self._saved: int | None = None
        self._thread: threading.Thread | None = None
        self._failure: CheckpointError | None = None
        self._process = os.getpid()
        atexit.register(self._at_exit)

    def save(
        self,
        step: int,
        *,
        model: Any = None,
        optimizer: Any = None,
        extra: Any = None,
        sampler: GlobalSampler | None = None,
    ) -> None:
        """Copy the state after `step`, and let a thread write it while training goes on.

        Every rank calls it. `extra` is whatever this rank needs besides, of tensors, numbers, texts, lists,
        tuples and dicts, such as a scheduler's state; the random number generators are saved in any case.
        Waits where the save before is still being written. A step that is saved already is not saved again.

        Raises slipway.CheckpointError for the save before, on all ranks: DISK001 or CKPT004 where it could
        not be written, CKPT003 where a rank did not come. TypeError for what could not be loaded again.
        """
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= MAX_STEP:
            raise ValueError(f"step={step!r} is not a number from 0 to {MAX_STEP}")
        self.wait()
        if step == self._saved:
            return
        where = f"save(step={step})"
        call = self._connect(where)
        snapshot = self._snapshot(call, step, where, model, optimizer, extra, sampler)
        self._saved = step
        writer = CheckpointWriter(self.folder, call, self._hosts, self._token, self.keep)
        self._thread = threading.Thread(
            target=self._write, args=(writer, snapshot), name="slipway checkpoint", daemon=True
        )
        self._thread.start()

    def resume(
        self, *, model: Any = None, optimizer: Any = None, sampler: GlobalSampler | None = None
    ) -> Resumed | None:
        """Go on from the newest checkpoint that is whole: its state goes into model, optimizer and sampler.

        Every rank calls it. None without any checkpoint, and nothing is changed. With as many ranks as it
        was saved with, the random number generators go on too; a rank that was not there gets rank 0's
        `extra`. A checkpoint whose files are not what they were is refused aloud, and the one before taken.

        Raises slipway.CheckpointError: CKPT009 where none of the checkpoints can be used or it is of
        another model or data set, CKPT005 where its keys are not the model's. Nothing is loaded then.
        """
        self.wait()
        call = self._connect("resume()")
        loader = Loader(self.folder, call, self._hosts, self._mirror)
        choice = loader.choose()
        if choice is None:
            return None
        resumed = restore(loader, choice, self.folder / choice.name, model, optimizer, sampler)
        self._saved = resumed.step
        return resumed

    def wait(self) -> None:
        """Wait until the last save is complete. Raises slipway.CheckpointError where it is not, as `save`."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            failure, self._failure, self._saved = self._failure, None, None
            raise failure

    def _snapshot(
        self,
        call: RollCall,
        step: int,
        where: str,
        model: Any,
        optimizer: Any,
        extra: Any,
        sampler: GlobalSampler | None,
    ) -> Snapshot:
        position = sampler.position() if sampler is not None else None
        sharded = model is not None and is_sharded(model)
        self._copies.begin()
        state, shards = None, None
        if sharded:
            # Its state_dict is a collective: a rank that does not come is to be named before it.
            call.meet(where, {"step": step, "rank": call.rank}, check_same_step)
            shards = Shards.copied(state_of(model, optimizer), self._copies, call.rank == 0)
            state = {"rest": shards.rest}
        elif call.rank == 0:
            state = _plain_state(model, optimizer)
        whole = self._copies.take(state, "state") if call.rank == 0 else None
        own = {
            "rng": self._copies.take(generator_states(), "rng"),
            "extra": self._copies.take(extra, "extra"),
        }
        self._copies.end()
        return Snapshot(step, own, whole, shards, position)

    def _write(self, writer: CheckpointWriter, snapshot: Snapshot) -> None:
        try:
            writer.write(snapshot)
        except CheckpointError as error:
            self._failure = error
        except BaseException as error:
            # Whatever it is, it is told at the next save instead of in a thread that nobody reads.
            self._failure = CheckpointError(
                "CKPT004", f"the checkpoint of step {snapshot.step} could not be written: {error!r}"
            )

    def _connect(self, where: str) -> RollCall:
        """The roll-call of all ranks; the first time they agree on hosts and token. Raises as `meet`."""
        if self._call is not None:
            return self._call
        global _connected
        _connected += 1
        rank, world_size = rank_and_world_size()
        store = own_connection() if world_size > 1 else None
        call = RollCall(store, rank, world_size, f"slipway/checkpoints/{_connected}", self._patience)
        own = {"host": _host(), "token": os.urandom(4).hex()}
        agreed = call.meet(
            where,
            own,
            lambda all: {"token": all[0]["token"], "hosts": [one["host"] for one in all]},
        )
        self._token, self._hosts, self._call = agreed["token"], agreed["hosts"], call
        return call

    def _at_exit(self) -> None:
        """Let the last save end, and say where it does not: an exit code cannot be changed any more."""
        if os.getpid() != self._process or self._call is None:
            return
        deadline = time.monotonic() + EXIT_SECONDS
        failure = self._failure
        if self._thread is not None:
            self._thread.join(EXIT_SECONDS)
            failure = self._failure
            if self._thread.is_alive():
                failure = CheckpointError(
                    "CKPT004",
                    f"the checkpoint of step {self._saved} was not complete {EXIT_SECONDS:g} s after the "
                    "script's end, and does not count. Call wait() on every rank before the end",
                )
        if failure is not None:
            say(failure)
        elif self._thread is not None:
            self._call.part(min(_PART_SECONDS, deadline - time.monotonic()))


def _plain_state(model: Any, optimizer: Any) -> dict[str, Any]:
    state: dict[str, Any] = {}
    if model is not None:
        named = unwrap_model(model).state_dict()
        state["model"] = named
        # Which version of each module wrote its state: state_dict keeps it in an attribute.
        state["versions"] = {
            name: dict(versions) for name, versions in getattr(named, "_metadata", {}).items()
        }
    if optimizer is not None:
        state["optimizer"] = optimizer.state_dict()
    return state


def _host() -> str:
    """This host's name in characters that a manifest takes."""
    name = host_name()
    return "".join(one if one.isascii() and (one.isalnum() or one in ".-") else "-" for one in name)[:253]
