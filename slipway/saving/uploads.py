"""The copying of checkpoints beside the ranks, and what is said of it at their end.

A thread of the boot, so that it outlives a rank which is killed, and has the time that a stop leaves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from slipway.container import Task
from slipway.errors import say
from slipway.failure import BootError, write_failure
from slipway.host_assembly import Assembly
from slipway.processes.supervise import StopRequest
from slipway.saving.copy_checkpoints import QUIET_SECONDS, PlainFiles, WholeCheckpoints
from slipway.saving.upload_places import MIRROR_VARIABLE as MIRROR_VARIABLE
from slipway.saving.upload_places import CheckpointPlace, TransferFailure, place_of, transfer_failure

MODE = "CKPT004"
URI_VARIABLE = "SLIPWAY_CHECKPOINT_URI"
FOLDER_VARIABLE = "SLIPWAY_CHECKPOINT_DIR"

LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""So long the end waits while nothing goes on, neither here nor on a host whose files are missing: a host
that copies tells so every 5 s, one that failed tries again after 30 s at most."""

FAREWELL_SECONDS = 10.0
"""So long the first host stays for the others' last word, which they would wait longer to say in vain."""

_LONGEST_PAUSE = 30.0
_MOST_NAMED = 5


class Uploads:
    """The copying from a folder to a place, until `end`. `begin_uploads` starts one."""

    def __init__(
        self,
        folder: Path,
        place: CheckpointPlace,
        assembly: Assembly,
        stop: StopRequest,
        *,
        uri: str,
        look: float = LOOK_SECONDS,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        """`look` is how often, `quiet` for how long a file is unchanged before it goes, both in seconds."""
        self._place, self._stop, self._uri, self._look = place, stop, uri, look
        self._host = assembly.current
        self._first = assembly.is_first
        self._plain = PlainFiles(folder, place, seconds=quiet)
        self._whole = WholeCheckpoints(folder, place, assembly)
        self._ended = threading.Event()
        self._told: set[str] = set()
        self._last: TransferFailure | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="slipway uploads", daemon=True)
        self.lost: list[str] = []

    def begin(self) -> None:
        """Fetch what an earlier start has left, and copy from now on. Raises BootError (CKPT004)."""
        try:
            brought = self._plain.bring()
            self._whole.look()
        except Exception as error:  # botocore makes its exceptions when they are raised
            raise BootError(
                MODE,
                f"{self._host} cannot read {self._uri}, where the job's checkpoints are kept: "
                f"{transfer_failure(error).sentence}. The script was not started, as it would go on from "
                "nothing",
            ) from None
        if brought:
            say(f"{brought} {'file was' if brought == 1 else 'files were'} fetched from {self._uri}")
        self._thread.start()

    def end(self, patience: float = PATIENCE_SECONDS) -> None:
        """Copy what is left, after the last process, and say what cannot be; fills `lost`."""
        self._ended.set()
        self._thread.join()
        quiet_since, last = time.monotonic(), self._state()
        while self._round(ending=True) and not self._out_of_time():
            now, state = time.monotonic(), self._state()
            if state != last:
                quiet_since, last = now, state
            elif now - quiet_since > patience or (self._last and not self._last.passes):
                break
            time.sleep(min(self._look, 1.0))
        self._whole.post_farewell()
        self._tell_of_losses()
        until = time.monotonic() + min(patience, FAREWELL_SECONDS)
        while self._first and not self._whole.have_all_left() and time.monotonic() < until:
            time.sleep(self._look / 10)

    def verdict(self, failure_file: Path) -> int:
        """The exit code of a job that is a success otherwise: 1 where its checkpoints are lost."""
        if not self.lost:
            return 0
        write_failure(failure_file, self.lost[0], time.time())
        return 1

    def _run(self) -> None:
        while not self._ended.wait(self._pause()):
            self._round(ending=False)

    def _round(self, *, ending: bool) -> bool:
        """Copy what is due; whether something is left to do."""
        try:
            failed = self._whole.copy(self._out_of_time)
            failed.update(self._plain.copy(self._out_of_time, ending=ending))
            self._note(failed)
            return bool(self._plain.missing() or self._whole.to_do())
        except Exception as error:  # the copying must not end in silence, nor hide how the script ended
            self._note({"the folder of checkpoints": error})
            return True

    def _state(self) -> object:
        """What changes while something goes on, here or on another host."""
        others = self._whole.messages.states() if self._first else {}
        return (
            [*self._whole.to_do(), *self._plain.missing()],
            [(told["own"], told["progress"]) for told in others.values()],
        )

    def _pause(self) -> float:
        return float(min(_LONGEST_PAUSE, self._look * 2 ** min(self._failures, 10)))

    def _out_of_time(self) -> bool:
        return self._stop.at is not None and time.time() > self._stop.at + self._stop.grace

    def _note(self, failed: Mapping[str, BaseException]) -> None:
        """Say each cause once."""
        self._failures = self._failures + 1 if failed else 0
        self._last = None
        for name, error in failed.items():
            self._last = transfer_failure(error)
            self._warn(self._last.kind, f"{name} could not be copied to {self._uri}: {self._last.sentence}")
        if self._whole.not_removed is not None:
            why = transfer_failure(self._whole.not_removed)
            self._warn(f"remove {why.kind}", f"a deleted checkpoint stays in {self._uri}: {why.sentence}")
        if self._whole.messages.silent is not None:
            self._warn(
                "silent", f"no checkpoint can be completed in {self._uri}: {self._whole.messages.silent}"
            )

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            say(f"warning: {text}")

    def _tell_of_losses(self) -> None:
        lost = [*self._whole.missing(), *self._plain.missing()]
        if not lost:
            return
        more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        named = ", ".join(lost[:_MOST_NAMED]) + more
        why = self._last.sentence if self._last else self._reason_not_copied()
        text = f"{MODE} {self._host}: not copied to {self._uri} and lost with the host: {named}: {why}"
        self.lost.append(text)
        say(text)

    def _reason_not_copied(self) -> str:
        if self._out_of_time():
            return f"the {self._stop.grace:g} s that a stop leaves were over"
        awaited = self._whole.awaited_hosts() if self._first else []
        if awaited:
            return f"the files of {', '.join(awaited)} did not come"
        return str(self._whole.messages.silent or "they changed, or were written, to the very end")


class NoUploads:
    """What a job has whose checkpoints the boot does not copy."""

    def end(self) -> None:
        """Nothing is left to do."""

    def verdict(self, failure_file: Path) -> int:
        """Nothing is lost of what was never there to copy."""
        return 0


def begin_uploads(
    task: Task, environment: dict[str, str], assembly: Assembly, stop: StopRequest
) -> Uploads | NoUploads:
    """Start the copying that the job asks for; `environment` is the script's, which is told of it.

    Raises BootError (CKPT004) where it cannot be done.
    """
    if not task.copies_checkpoints:
        return NoUploads()
    uri = environment[URI_VARIABLE]
    try:
        place = place_of(uri, environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"))
    except ImportError:
        raise BootError(
            MODE,
            "checkpoints are copied with boto3, which this Python does not have, so all would be lost with "
            "the hosts. Add boto3 to requirements.txt, or leave `checkpoint.sync` out",
        ) from None
    environment[MIRROR_VARIABLE] = uri
    uploads = Uploads(Path(environment[FOLDER_VARIABLE]), place, assembly, stop, uri=uri)
    uploads.begin()
    return uploads
