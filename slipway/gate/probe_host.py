"""What this host is like, and what it can do with the others: the one place where the gate asks and tries.

Its files, folders and tools are asked, each with a deadline; it connects to every other host, and its
processes take part in a short all-reduce, which are killed in the end.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from slipway.container import loads_cuda_compatibility

LOOK_SECONDS = 10.0
"""A sound mount answers in milliseconds; Lustre under load within a few seconds."""

SMI_SECONDS = 20.0
"""Without persistence the driver initialises each of 8 GPUs first, which takes it about a second each."""

_DMESG_SECONDS = 5.0


@dataclass(frozen=True)
class Look:
    """What came of looking at folders: answers by kind (`read`, `write`, `room`) and path.

    A question without an answer had none within `seconds`; `trouble` says why there is none at all.
    """

    answers: Mapping[tuple[str, str], Mapping[str, Any]]
    seconds: float
    trouble: str | None = None


@dataclass(frozen=True)
class Nvidia:
    """What the driver's own tools say: the XML of `nvidia-smi -q`, the kernel's log, the visible devices.

    `present` is whether there is a driver. What could not be had is None, and `reasons` say why.
    """

    present: bool
    smi: CommandOutput | None = None
    kernel_log: str | None = None
    visible: str | None = None
    reasons: tuple[str, ...] = ()
    has_compatibility: bool = False
    """Whether the ranks load the image's library for older drivers (slipway/container.py)."""


def look_at(questions: Sequence[tuple[str, Path]], package: Path, seconds: float = LOOK_SECONDS) -> Look:
    """Ask about folders in a child process, which is given up after so many seconds."""
    asks = [[kind, str(path)] for kind, path in questions]
    environment = {"PYTHONPATH": str(package), "PATH": os.environ.get("PATH", os.defpath)}
    try:
        answer = run_bounded(
            [sys.executable, "-S", "-m", "slipway.gate.look", json.dumps(asks)], seconds, environment
        )
    except OSError as error:
        return Look({}, seconds, f"no process could be started: {error.strerror}")
    answers = {}
    for line in answer.output.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            told = json.loads(line)
            answers[told["kind"], told["path"]] = told
    if answer.exit_code not in (0, None):
        return Look(
            answers, seconds, f"looking ended with {answer.exit_code}: {answer.output[-200:].strip()}"
        )
    return Look(answers, seconds)


def file_system_of(path: str, mounts: str) -> tuple[str, str]:
    """The kind and the mount point of what holds a path, by the text of /proc/self/mounts (proc(5))."""
    found, best = "", ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            found, best = words[2], point
    return found, best


def read_mounts() -> str:
    """The mounts of this process; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        return Path("/proc/self/mounts").read_text(errors="replace")
    return ""


def read_nvidia(environment: Mapping[str, str]) -> Nvidia:
    """Ask the driver, where there is one. A job sees the devices that CUDA_VISIBLE_DEVICES leaves."""
    if not Path("/dev/nvidiactl").exists():
        return Nvidia(False)
    program, reasons = shutil.which("nvidia-smi"), []
    smi = None
    if program is None:
        reasons.append("the GPUs (there is no nvidia-smi)")
    else:
        with contextlib.suppress(OSError):
            smi = run_bounded([program, "-q", "-x"], SMI_SECONDS)
    kernel_log = None
    try:
        kernel = run_bounded(["dmesg"], _DMESG_SECONDS)
        kernel_log = kernel.output if kernel.exit_code == 0 else None
    except OSError:
        pass
    if kernel_log is None:
        reasons.append("the kernel's log (dmesg is not permitted here)")
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    return Nvidia(True, smi, kernel_log, visible, tuple(reasons), loads_cuda_compatibility(environment))


def device_count(environment: Mapping[str, str], folder: Path = Path("/dev")) -> int:
    """How many GPUs a job sees, without asking the driver, which takes seconds."""
    present = sum(1 for file in folder.glob("nvidia[0-9]*") if file.name[6:].isdigit())
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    return min(present, sum(1 for word in visible.split(",") if word.strip() not in ("", "-1")))


def efa_devices(folder: Path = Path("/sys/class/infiniband")) -> tuple[str, ...]:
    """The devices of the host that speak EFA: Amazon's vendor is 0x1d0f."""
    found = []
    with contextlib.suppress(OSError):
        for device in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                if (device / "device" / "vendor").read_text().strip() == "0x1d0f":
                    found.append(device.name)
    return tuple(found)


def torch_version(paths: Iterable[str] | None = None) -> str | None:
    """The text of torch's own version.py, found without importing torch; None where torch is not there."""
    found = PathFinder.find_spec("torch", None if paths is None else list(paths))
    if found is None or not found.origin:
        return None
    with contextlib.suppress(OSError):
        return (Path(found.origin).parent / "version.py").read_text(encoding="utf-8", errors="replace")
    return None


# A command with a deadline: what it printed until then, and nothing of it left behind.


_MAX_BYTES = 8 * 1024 * 1024
_KILLED_SECONDS = 1.0


@dataclass(frozen=True)
class CommandOutput:
    """What a command printed, both streams together, and its exit code: None where it was killed."""

    exit_code: int | None
    output: str


def run_bounded(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
) -> CommandOutput:
    """Run a command for so many seconds at most.

    Raises OSError where it cannot be started.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return CommandOutput(process.returncode, output[:_MAX_BYTES].decode("utf-8", "replace"))
    except subprocess.TimeoutExpired as late:
        kill_session(process)
        output = late.stdout or b""
        # A process that a dead mount holds does not die, and its pipe stays open: it is not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=_KILLED_SECONDS)
        return CommandOutput(None, output[:_MAX_BYTES].decode("utf-8", "replace"))


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads its session, and all that it started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


# Whether every host reaches every other one: each listens on a port, and all others connect.


CONNECT_SECONDS = 5.0
"""A refused connection fails at once; packets that are dropped are sent again after 1 and after 3 s."""

GREETING_SECONDS = 10.0
"""A host that is connected is there; a busy one may take its time to say who it is."""

AT_ONCE = 32
"""So many hosts are asked at once."""

PAIRS_SECONDS = 15.0
"""For all of them; names that a dead resolver does not answer take longest, 10 s by default
(resolv.conf(5): 5 s, twice)."""

LONGEST_GREETING = 4096

Paths = typing.Mapping[str, typing.Mapping[str, Any]]
"""By host how the way there ended: `ended` is `ok` (with `offset`, by how many seconds its clock is ahead at
least), `name`, `connection`, `stranger` or `late`, with a `reason` and the address."""


class Door:
    """The port on which this host can be reached while the gate lasts; it greets with name and time."""

    def __init__(self, host: str, loopback: bool) -> None:
        """Raises OSError where no port can be had."""
        self._server = _Server(("127.0.0.1" if loopback else "", 0), _Greeting)
        self._server.host = host
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    host: str

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up early learns nothing."""


class _Greeting(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Say who this is and what time it is."""
        self.connection.settimeout(GREETING_SECONDS)
        self.wfile.write(json.dumps({"host": self.server.host, "time": time.time()}).encode() + b"\n")


def is_loopback(address: str) -> bool:
    """Whether all hosts of the job are on this machine, as those of a local run."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def ways_to(addresses: Mapping[str, tuple[str, int]], seconds: float = PAIRS_SECONDS) -> Paths:
    """Connect to all hosts, each at its name or address and its port."""
    found: dict[str, Mapping[str, Any]] = {}
    left = list(addresses.items())[::-1]

    def ask() -> None:
        # A list's pop is one step: no two threads get the same host.
        while True:
            try:
                host, address = left.pop()
            except IndexError:
                return
            found[host] = _try_way(host, *address)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(min(AT_ONCE, len(left)))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = {"ended": "late", "reason": f"nothing came of it within {seconds:.0f} s"}
    # A copy: threads that are late may still write.
    answered = dict(found)
    return {host: answered.get(host, late) for host in addresses}


def _try_way(host: str, name: str, port: int) -> Mapping[str, Any]:
    try:
        *_, address = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)[0]
    except OSError as error:
        return {"ended": "name", "reason": error.strerror or str(error), "address": name}
    where = f"{address[0]}:{port}"
    try:
        with socket.create_connection((str(address[0]), port), timeout=CONNECT_SECONDS) as connection:
            connection.settimeout(GREETING_SECONDS)
            asked = time.time()
            with connection.makefile("rb") as stream:
                greeting = json.loads(stream.readline(LONGEST_GREETING))
            answered = time.time()
            if greeting["host"] != host:
                return {"ended": "stranger", "reason": str(greeting["host"])[:64], "address": where}
            return {"ended": "ok", "offset": _clock_offset(float(greeting["time"]), asked, answered)}
    except socket.timeout:  # noqa: UP041 (a class of its own before Python 3.10)
        reason = "no answer in time"
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return {"ended": "connection", "reason": reason, "address": where}


def _clock_offset(theirs: float, asked: float, answered: float) -> float:
    """By how much another clock is ahead of this one at least, whatever part of the round trip went where.

    Negative where it is behind; 0.0 where the round trip explains all of it.
    """
    if theirs > answered:
        return round(theirs - answered, 3)
    return round(min(0.0, theirs - asked), 3)


# This host's part in the all-reduce: its processes, started early, told where to meet, killed in the end.


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
        """The stand as the other hosts are told of it."""
        return {"stage": self.stage, "said": dict(self.said)}


_ORDER = ("error", "without", "started", "ready", "gloo", "nccl", "done")


class Reduction:
    """This host's processes of the short all-reduce. They import torch meanwhile, which takes longest."""

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
        """Tell the processes where they meet, so that they begin."""
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
            kill_session(process)
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    if stream is not None and process.returncode is not None:
                        stream.close()
