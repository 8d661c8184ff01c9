"""The health gate step by step: this host is probed, the hosts tell each other, all come to one verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from slipway.container import Container, Rendezvous, Task
from slipway.errors import say
from slipway.failure import write_failure
from slipway.gate.judge_host import (
    AskedFolders,
    HostFinding,
    Report,
    judge_gpus,
    judge_storage,
    report_from_json,
    torch_cuda_of,
    worst_first,
)
from slipway.gate.judge_network import (
    can_meet,
    first_host_silent,
    judge_network,
    judge_pairs,
    judge_ready,
    judge_reduction,
    missing_hosts,
)
from slipway.gate.probe_host import (
    PAIRS_SECONDS,
    SMI_SECONDS,
    Door,
    MeetingPoint,
    Reduction,
    device_count,
    efa_devices,
    is_loopback,
    look_at,
    read_mounts,
    read_nvidia,
    torch_version,
    ways_to,
)
from slipway.host_assembly import Assembly, FirstHostSilent, switchboard_port
from slipway.processes.supervise import StopRequest
from slipway.processes.torchrun import AFTER_INSTALLING

ROLL_CALL_SECONDS = 60.0
"""So long the first host to come waits for the last one; where packages are installed first, as long as
torchrun would."""

READY_SECONDS, REDUCTION_SECONDS = 30.0, 20.0
"""For importing torch and starting the devices, and for the all-reduce itself."""

_TELLING_SECONDS = 5.0
"""The hosts begin one and the same wait one after the other, at most so far apart."""

_REPORT_SECONDS = SMI_SECONDS + _TELLING_SECONDS
_POLL_SECONDS = 0.05
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Surroundings:
    """What the gate is passed with: the job's task, this container, where its ranks will meet, the package,
    and the environment that its own processes get."""

    task: Task
    container: Container
    rendezvous: Rendezvous
    package: Path
    environment: Mapping[str, str]

    @property
    def patience(self) -> float:
        """Seconds for the roll-call."""
        return ROLL_CALL_SECONDS if self.task.requirements is None else float(AFTER_INSTALLING)

    @property
    def is_one_machine(self) -> bool:
        """Whether all hosts are on this machine."""
        return is_loopback(self.rendezvous.address)


def pass_gate(around: Surroundings, assembly: Assembly, stop: StopRequest) -> int | None:
    """Judge this host together with the others before its ranks start; None where they may.

    Else the exit code: 1 with the reason in the failure file, or that of a requested stop.
    """
    if around.task.gate == "off":
        return None
    gate = _HostGate(around, assembly)
    thread = threading.Thread(target=gate.run, daemon=True)
    thread.start()
    # A stop is not kept waiting for hosts that do not come.
    while thread.is_alive() and stop.at is None:
        thread.join(_POLL_SECONDS)
    gate.end()
    if stop.at is not None:
        return 128 + stop.signal
    if gate.verdict is None:
        raise RuntimeError(f"the gate came to no verdict: {gate.trouble!r}")
    host = around.container.current_host
    for line in verdict_lines(gate.verdict, host, assembly.hosts, gate.seconds, gate.tried):
        say(line)
    if not gate.verdict.refused:
        return None
    write_failure(around.container.failure_file, failure_text(gate.verdict, host), time.time())
    return 1


class _HostGate:
    """One host's way through the gate; what it holds is let go by `end`."""

    def __init__(self, around: Surroundings, assembly: Assembly) -> None:
        self._around, self._assembly = around, assembly
        self._host, self._hosts = assembly.current, assembly.hosts
        self._door: Door | None = None
        self._reduction: Reduction | None = None
        self._began = time.monotonic()
        self._patience = _REPORT_SECONDS
        self.verdict: GateVerdict | None = None
        self.trouble: Exception | None = None
        self.seconds = 0.0
        self.tried = "this host's disks and devices"

    def run(self) -> None:
        """Come to a verdict, whatever happens."""
        mode = self._around.task.gate
        try:
            own = _ask_in_thread(self._probe_this_host)
            between = self._probe_between_hosts() if len(self._hosts) > 1 else self._probe_between_gpus()
            report = own.result() + between
            told = self._assembly.exchange("gate/reports", report.as_json(), self._patience)
            self.verdict = verdict_of(
                {host: report_from_json(each) for host, each in told.items()}, self._hosts, mode
            )
        except FirstHostSilent as silent:
            finding = first_host_silent(self._hosts[0], str(silent))
            self.verdict = verdict_of({self._host: Report((finding,))}, self._hosts, mode)
        except Exception as error:  # told by pass_gate, in the thread that reports
            self.trouble = error
        self.seconds = time.monotonic() - self._began

    def end(self) -> None:
        """Leave neither a port nor a process behind."""
        if self._door is not None:
            self._door.close()
        if self._reduction is not None:
            self._reduction.end()

    def _probe_this_host(self) -> Report:
        around, host = self._around, self._host
        container, environment = around.container, around.environment
        nvidia = _ask_in_thread(lambda: read_nvidia(environment))
        asked = _folders_to_ask(around)
        questions = [
            *(("read", Path(path)) for path in asked.channels.values()),
            ("write", Path(asked.checkpoints)),
            *(("room", Path(path)) for path in (*asked.disks, asked.shared_memory)),
        ]
        report = judge_storage(host, asked, look_at(questions, around.package), read_mounts())
        found = nvidia.result()
        if (
            container.instance_type.startswith(("ml.p", "ml.g"))
            and not found.present
            and not around.is_one_machine
        ):
            report += Report(
                (), (f"the GPUs of {host} (no driver is to be seen on this {container.instance_type})",)
            )
        version = torch_version() if found.present else None
        cuda = torch_cuda_of(version) if version else None
        processes = around.task.processes_per_host if around.task.strategy == "torchrun" else 1
        return report + judge_gpus(host, found, processes, cuda)

    def _probe_between_hosts(self) -> Report:
        around, hosts = self._around, self._hosts
        if not around.is_one_machine:
            self._reduction = self._start_reduction()
        self._door = Door(self._host, around.is_one_machine)
        doors = self._assembly.exchange("gate/roll-call", self._door.port, around.patience)
        missing = self._assembly.missing(doors)
        if missing:
            # They will not report either.
            self._patience = _TELLING_SECONDS
            port = switchboard_port(around.rendezvous)
            return Report(tuple(missing_hosts(missing, hosts, around.patience, port)))
        addresses = {
            host: (around.rendezvous.address if around.is_one_machine else host, int(port))
            for host, port in doors.items()
            if host != self._host
        }
        matrix = self._assembly.exchange("gate/pairs", ways_to(addresses), PAIRS_SECONDS + _TELLING_SECONDS)
        pairs = len(hosts) * (len(hosts) - 1)
        self.tried = f"{len(hosts)} hosts, {pairs} ways between them, disks and devices"
        report = judge_pairs(matrix, hosts)
        if any(finding.ends for finding in report.findings):
            return report
        if self._reduction is None:
            self.tried += "; no all-reduce, as the hosts are one machine"
            return report
        return report + self._reduce(self._reduction)

    def _probe_between_gpus(self) -> Report:
        """The all-reduce of a host alone, whose GPUs wait for each other as hosts do. One alone does not."""
        if self._device_count < 2:
            return Report()
        self._reduction = self._start_reduction()
        return self._reduce(self._reduction)

    @property
    def _device_count(self) -> int:
        """How many of the host's GPUs the ranks will use."""
        task = self._around.task
        processes = task.processes_per_host if task.strategy == "torchrun" else 1
        return min(device_count(self._around.environment), processes)

    def _start_reduction(self) -> Reduction:
        around, container = self._around, self._around.container
        logs = container.state / "gate"
        return Reduction(
            container.node_rank == 0, self._device_count, around.package, logs, around.environment
        )

    def _reduce(self, reduction: Reduction) -> Report:
        around, hosts = self._around, self._hosts
        left = self._began + READY_SECONDS - time.monotonic()
        stand = reduction.wait("ready", max(left, _TELLING_SECONDS))
        ready = self._assembly.exchange("gate/ready", stand.as_json(), READY_SECONDS)
        # What is the same for all hosts is told by the first one alone.
        report = judge_ready(ready, hosts, READY_SECONDS) if self._assembly.is_first else Report()
        if not can_meet(ready, hosts):
            return report
        ranks = [int(ready[host]["said"]["devices"]) or 1 for host in hosts]
        here = hosts.index(self._host)
        port = int(ready[hosts[0]]["said"]["port"])
        reduction.tell(
            MeetingPoint(around.rendezvous.address, port, here, len(hosts), sum(ranks[:here]), sum(ranks))
        )
        stand = reduction.wait("done", REDUCTION_SECONDS)
        done = self._assembly.exchange("gate/done", stand.as_json(), REDUCTION_SECONDS + _TELLING_SECONDS)
        log = reduction.network_log()
        if self._assembly.is_first:
            report += judge_reduction(done, hosts, REDUCTION_SECONDS)
        self.tried += ", an all-reduce"
        if ready[self._host]["said"].get("capability"):
            report += judge_network(self._host, log, efa_devices(), len(hosts), around.task.efa_interfaces)
        return report


def _folders_to_ask(around: Surroundings) -> AskedFolders:
    """The folders that the ranks will use. A channel in Pipe mode is none, and the code was read already."""
    container = around.container
    channels = {
        name: str(container.input_data / name)
        for name, channel in container.input_data_config.items()
        if name != "code" and channel.get("TrainingInputMode") != "Pipe"
    }
    checkpoints = around.environment["SLIPWAY_CHECKPOINT_DIR"]
    return AskedFolders(channels, checkpoints, (str(container.output_data), checkpoints, "/tmp"), "/dev/shm")


def _ask_in_thread(ask: Callable[[], _Answer]) -> Future[_Answer]:
    """What a question that is asked beside the others will answer; nobody waits for it at the end."""
    answer: Future[_Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # raised again where the answer is wanted
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


# One verdict for all hosts, from what all of them found, and what each says of it.


@dataclass(frozen=True)
class GateVerdict:
    """All findings, the worst first, and what is not known; `refused` is whether the ranks may not start."""

    findings: tuple[HostFinding, ...]
    unknown: tuple[str, ...]
    refused: bool

    @property
    def worst(self) -> HostFinding | None:
        """The finding that weighs most, the same on all hosts."""
        return self.findings[0] if self.findings else None


def verdict_of(reports: Mapping[str, Report], hosts: Sequence[str], mode: str) -> GateVerdict:
    """The verdict that every host comes to from the same reports."""
    together = Report()
    for host in hosts:
        together += reports.get(host, Report())
    silent = tuple(f"what {host} found (it did not tell in time)" for host in hosts if host not in reports)
    findings = tuple(worst_first(dict.fromkeys(together.findings), hosts))
    refused = mode == "on" and bool(findings) and findings[0].ends
    return GateVerdict(findings, tuple(dict.fromkeys((*together.unknown, *silent))), refused)


def failure_text(verdict: GateVerdict, host: str) -> str:
    """What the failure file of a host says of a verdict that refused the job."""
    worst = verdict.worst
    assert worst is not None
    if host == worst.host:
        return f"{worst.sentence}{_others_in_words(verdict)}"
    return f"{worst.code} refused because of {worst.host}: {worst.text}"


def verdict_lines(
    verdict: GateVerdict, host: str, hosts: Sequence[str], seconds: float, passed: str
) -> list[str]:
    """What a host prints: the first one all of it, the others what refused the job.

    `passed` says what was tried, for the line when all is well.
    """
    said = []
    if host == hosts[0]:
        for finding in verdict.findings[1 if verdict.refused else 0 :]:
            said.append(
                f"warning: gate: {finding.sentence}"
                if not verdict.refused
                else f"gate: also {finding.sentence}"
            )
        known = f"; not known: {'; '.join(verdict.unknown)}" if verdict.unknown else ""
        if not verdict.findings:
            said.append(f"gate: all well in {seconds:.1f} s ({passed}){known}")
        elif not verdict.refused:
            said.append(
                f"gate: {_count_in_words(verdict)} in {seconds:.1f} s ({passed}), the job goes on{known}"
            )
        elif known:
            said.append(f"gate{known}")
    if verdict.refused:
        said.append(failure_text(verdict, host))
    return said


def _count_in_words(verdict: GateVerdict) -> str:
    number = len(verdict.findings)
    return "1 finding" if number == 1 else f"{number} findings"


def _others_in_words(verdict: GateVerdict) -> str:
    others = [finding for finding in verdict.findings[1:] if finding.ends]
    return f" (and {len(others)} more, in the log of the first host)" if others else ""
