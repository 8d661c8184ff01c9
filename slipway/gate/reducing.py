"""This host's part in the all-reduce: its processes, started early, told where to meet, killed in the end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slipway.gate.asking import kill

_LOG_BYTES = 4 * 1024 * 1024
_NOT_FOR_THIS = ("TORCH_DISTRIBUTED_DEBUG", "CUDA_LAUNCH_BLOCKING", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")


@dataclass(frozen=True)
class MeetingPoint:
    """Where the processes meet, and the place of this host and of its first rank."""

    address: str
    port: int
    host: int
    hosts: int
    first_rank: int
    ranks: int


@dataclass(frozen=True)
class Stand:
    """How far this host came: the last stage of the process that came least far, and what it said there.

    The stages are `started`, `ready`, `gloo`, `nccl`, `done`; or `without` (torch cannot do it here) or
    `error`, with a `reason`.
    """

    stage: str
    said: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """What the other hosts are told."""
        return {"stage": self.stage, "said": dict(self.said)}


_ORDER = ("error", "without", "started", "ready", "gloo", "nccl", "done")


class Reduction:
    """The processes of one host. They import torch meanwhile, which takes longest."""

    def __init__(
        self, is_first: bool, devices: int, package: Path, logs: Path, environment: Mapping[str, str]
    ) -> None:
        """Raises OSError where no process can be started or no log be kept in the folder `logs`."""
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._changed = threading.Condition()
        kept = {name: value for name, value in environment.items() if name not in _NOT_FOR_THIS}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._said: list[list[dict[str, Any]]] = []
        for device in range(max(devices, 1)):
            words = [str(int(number)) for number in (is_first, device, devices)]
            with (logs / f"stderr-{device}").open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "slipway.gate.reduction", *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=logs,
                    env={
                        **kept,
                        "PYTHONPATH": str(package),
                        "NCCL_DEBUG": "INFO",
                        "NCCL_DEBUG_FILE": str(logs / f"nccl-{device}"),
                        "OMP_NUM_THREADS": "1",
                    },
                    start_new_session=True,
                )
            self._processes.append(process)
            self._said.append([])
            threading.Thread(target=self._listen, args=(device,), daemon=True).start()

    def _listen(self, device: int) -> None:
        stream = self._processes[device].stdout
        assert stream is not None
        with contextlib.suppress(ValueError, OSError):
            for line in stream:
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    with self._changed:
                        self._said[device].append(said)
                        self._changed.notify_all()
        with self._changed:
            last = self._said[device][-1]["stage"] if self._said[device] else "started"
            if last not in ("done", "error", "without"):
                said = {"stage": "error", "reason": self._end_of(device)}
                self._said[device].append(said)
            self._changed.notify_all()

    def _end_of(self, device: int) -> str:
        """What a process that ended by itself left: its exit code and the end of what it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[device].wait(1)
        lines = self._text(f"stderr-{device}").strip().splitlines()
        return f"ended with {self._processes[device].returncode} {lines[-1][:300] if lines else ''}".strip()

    def wait(self, stage: str, seconds: float) -> Stand:
        """How far this host came, once all processes are at that stage, one failed, or the time is over."""
        until = time.monotonic() + seconds
        with self._changed:
            while True:
                stand = self._stand()
                left = until - time.monotonic()
                settled = stand.stage in ("error", "without") or _ORDER.index(stand.stage) >= _ORDER.index(
                    stage
                )
                if settled or left <= 0:
                    return stand
                self._changed.wait(left)

    def _stand(self) -> Stand:
        least = [said[-1] if said else {"stage": "started"} for said in self._said]
        last = min(least, key=lambda each: _ORDER.index(each["stage"]))
        ready = [each for each in self._said[0] if each["stage"] == "ready"]
        more = {name: value for each in ready for name, value in each.items() if name != "stage"}
        return Stand(last["stage"], {**more, **{k: v for k, v in last.items() if k != "stage"}})

    def tell(self, meeting: MeetingPoint) -> None:
        """Let them meet."""
        line = json.dumps(asdict(meeting)).encode() + b"\n"
        for process in self._processes:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.write(line)
                process.stdin.flush()

    def network_log(self) -> str:
        """What NCCL and its plugins said in the first process, to the file and to stderr."""
        return self._text("nccl-0") + self._text("stderr-0")

    def _text(self, name: str) -> str:
        with contextlib.suppress(OSError), (self._logs / name).open("rb") as file:
            return file.read(_LOG_BYTES).decode("utf-8", "replace")
        return ""

    def end(self) -> None:
        """Kill them, and wait a second for each at most: one that a driver holds does not die."""
        for process in self._processes:
            kill(process)
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    if stream is not None and process.returncode is not None:
                        stream.close()
