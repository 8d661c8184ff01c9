"""Whether the ranks of a job ever met, seen from outside by their TCP connections.

No script is changed for it. Ranks that train together hold connections to one another: torchrun's ranks to
the store of its agent, on the rendezvous port (TORCHELASTIC_USE_AGENT_STORE of
torch/distributed/rendezvous.py), gloo's, NCCL's and others' to the ranks beside them. Where no rank ever
had one, each of them trained for itself. What cannot be seen for certain, as where there is no /proc, is
never called so.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from slipway.container import Container, Rendezvous, Task
from slipway.errors import say
from slipway.output_signatures import table
from slipway.processes.supervise import families, process_itself, workers

MODE = "DIST008"

PATIENCE_SECONDS = 60.0
"""From the first look that finds a training framework in a rank until it is said that none has met: most
scripts join within seconds, and who prepares data first is only told how it stands."""

_LOOK_SECONDS, _LATER_SECONDS = 0.25, 5.0
"""Between two looks: in the ranks' first minute, and until it was said where they train; later. A look goes
through all processes and connections of the host: four in a second are a tenth of a core on a busy one. A
connection that comes and goes between two looks is remembered by Linux for a minute."""

_FRAMEWORKS = {"/torch/lib/": "torch", "/tensorflow/": "tensorflow", "/jaxlib/": "jaxlib"}
"""What is mapped into a process that trains, by the names of `table().meetings`: a program without any of
them is none of our business."""

_BY_LIKELIHOOD = ("jaxlib", "torch", "tensorflow")
"""Which of several that are loaded trains: JAX has others load its data, and TensorBoard loads TensorFlow."""

_LEAVE_IT_OUT = (
    "Leave `rank`, `world_size`, `store` and `init_method` of init_process_group out: it takes them from "
    "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which the launcher sets for all hosts together."
)
_BY_TORCHRUN = "Set `distribution.strategy: torchrun`, which gives each process its rank, and in the script: "


class Meeting:
    """Watches the ranks of this host: whether one of them ever met another, anywhere in the job."""

    def __init__(
        self,
        *,
        needed: bool,
        port: int,
        addresses: Callable[[], set[str] | None],
        ranks: Callable[[int], list[int]],
        subject: str,
        remedy: Callable[[str], str],
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `needed` nothing is looked at. `port` is the rendezvous', `addresses` are those of the
        job's hosts, None as long as they are not known; `ranks` finds the processes of ranks below the
        command's; `remedy` has the words for a framework (see `_FRAMEWORKS`); `patience` is in seconds."""
        self.met = False
        self._port, self._addresses, self._ranks = port, addresses, ranks
        self._subject, self._remedy = subject, remedy
        self._patience, self._clock = patience, clock
        self._others: set[frozenset[SocketEnd]] = set()
        self._since: float | None = None
        self._training_since: float | None = None
        self._frameworks: set[str] = set()
        self._told = self._undecided = False
        self._blind = not needed
        self._needed = needed
        self._next = -math.inf

    def look(self, command: int) -> None:
        """Look at the ranks below the command's process, at most four times a second."""
        now = self._clock()
        if self.met or self._blind or now < self._next:
            return
        self._since = now if self._since is None else self._since
        self._look(self._ranks(command))
        untrained = self._training_since is None and now - self._since >= self._patience
        self._next = now + (_LATER_SECONDS if self._told or untrained else _LOOK_SECONDS)
        waited = 0.0 if self._training_since is None else now - self._training_since
        if not self._told and waited >= self._patience and self._never_met():
            self._told = True
            say(
                f"warning: after {waited:.0f} s none of {self._subject} has met another one, and each would "
                f"train for itself ({MODE}, if it stays so) → {self._remedy_here()}"
            )

    def tell_of_groups(self, sizes: Sequence[int], world: int) -> None:
        """Say after a success that the ranks trained in several groups, each for itself: `sizes` says of each
        rank of the job how many its group had, `world` how many ranks were started."""
        if self._needed and len(sizes) >= world and all(0 < size < world for size in sizes):
            self._blind = True
            say(
                f"{MODE} none of {self._subject} ever met another one outside of its process group of "
                f"{max(sizes)}: the groups ran as independent programs, each of which was paid for → "
                f"{_LEAVE_IT_OUT}"
            )

    def tell_of_the_end(self) -> None:
        """Say after a success that nobody met; called once, when the command has ended."""
        if self._training_since is None or self.met or self._blind:
            return
        self._look([])
        if self._never_met():
            say(
                f"{MODE} none of {self._subject} ever met another one: they ran as independent programs, "
                f"each of which was paid for → {self._remedy_here()}"
            )

    def _remedy_here(self) -> str:
        return self._remedy(next((each for each in _BY_LIKELIHOOD if each in self._frameworks), "torch"))

    def _never_met(self) -> bool:
        return not (self.met or self._blind or self._undecided)

    def _look(self, ranks: Sequence[int]) -> None:
        try:
            trees = families(ranks)
            owners = {inode: n for n, tree in enumerate(trees) for pid in tree for inode in sockets_of(pid)}
            if self._training_since is None:
                self._frameworks.update(name for tree in trees for pid in tree for name in _frameworks(pid))
                self._training_since = self._clock() if self._frameworks else None
            ends = connections()
        except (OSError, ValueError):
            self._blind = True
            return
        self._undecided = False
        inodes = {(end.local, end.remote): end.inode for end in ends}
        for end in ends:
            self._judge(end, inodes.get((end.remote, end.local)), owners)

    def _judge(self, end: Connection, other: int | None, owners: Mapping[int, int]) -> None:
        """Take one end into account; `other` is the socket at the other end, None where that is elsewhere."""
        both = frozenset((end.local, end.remote))
        at_store = self._port in (end.local.port, end.remote.port)
        owner = owners.get(end.inode)
        if owner is None:
            if at_store and end.inode:
                # An agent's; on this machine also one of the job's other hosts.
                self._others.add(both)
            elif at_store and end.closing and both not in self._others:
                self.met = True
        elif other == 0:
            return  # Not accepted yet: the next look knows by whom.
        elif other is not None and owners.get(other) == owner:
            self._others.add(both)
        elif at_store or other in owners or self._is_of_the_job(end.remote.address):
            self.met = True

    def _is_of_the_job(self, address: str) -> bool:
        if ipaddress.ip_address(address).is_loopback:
            return True
        known = self._addresses()
        self._undecided |= known is None
        return known is not None and address in known


class HostAddresses:
    """The addresses of hosts, resolved beside everything else, as a name service may take its time."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = list(hosts)
        self._found: set[str] | None = None
        threading.Thread(target=self._resolve, daemon=True).start()

    def __call__(self) -> set[str] | None:
        """The addresses of all hosts, None as long as one of them is not known."""
        return self._found

    def _resolve(self) -> None:
        with contextlib.suppress(OSError):
            entries = [socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP) for host in self._hosts]
            self._found = {str(entry[4][0]) for host in entries for entry in host}


def meeting_of(task: Task, container: Container, rendezvous: Rendezvous) -> Meeting:
    """What watches this host's ranks, or looks at nothing where there is nobody to meet or nobody need meet.

    The first host alone watches: every other one connects to it. Hosts that are each given a part of the
    data (ShardedByS3Key), without a launcher of ranks, may well work side by side.
    """
    hosts, processes = len(container.hosts), task.processes_per_host
    torchrun = task.strategy != "none"
    world = hosts * processes if torchrun else hosts
    channels = [each for each in container.input_data_config.values() if isinstance(each, dict)]
    sharded = any(channel.get("S3DistributionType") == "ShardedByS3Key" for channel in channels)
    needed = world > 1 and container.node_rank == 0 and (torchrun or not sharded)
    return Meeting(
        needed=needed,
        port=rendezvous.port,
        addresses=_addresses_of(container, rendezvous) if needed else set,
        ranks=workers if torchrun else process_itself,
        subject=f"the {world} ranks" if torchrun else f"the {world} hosts",
        remedy=partial(_remedy, hosts=hosts, processes=processes, torchrun=torchrun),
    )


def _remedy(framework: str, *, hosts: int, processes: int, torchrun: bool) -> str:
    """How ranks of a framework meet, with the numbers of this job."""
    words = table().meetings[framework].replace("PROCESSES PER HOST", str(processes))
    words = words.replace("HOSTS", str(hosts), 1) if framework == "torch" else words
    return (_BY_TORCHRUN if framework == "torch" and not torchrun else "") + words


def _addresses_of(container: Container, rendezvous: Rendezvous) -> Callable[[], set[str] | None]:
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(rendezvous.address).is_loopback:
            return set  # All hosts are this machine.
    if len(container.hosts) == 1:
        return set
    return HostAddresses(container.hosts)


def _frameworks(pid: int) -> set[str]:
    """The frameworks that a process has loaded; a process that is gone has none."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {name for place, name in _FRAMEWORKS.items() if place in maps}


# The TCP connections of this host and whose they are, as Linux shows them (proc(5), /proc/net/tcp).


_ESTABLISHED = 0x01
_CLOSING = frozenset({0x04, 0x05, 0x06, 0x09, 0x0B})
"""FIN_WAIT1, FIN_WAIT2, TIME_WAIT, LAST_ACK and CLOSING, by the numbers of the kernel's tcp_states.h."""


class SocketEnd(NamedTuple):
    """An address and a port; an IPv4 address that IPv6 carries is an IPv4 address."""

    address: str
    port: int


class Connection(NamedTuple):
    """One end of a connection. `inode` is its socket's, 0 where no process has it, or not yet."""

    local: SocketEnd
    remote: SocketEnd
    inode: int
    closing: bool
    """Whether it was closed from here. Linux remembers that for a minute (TIME_WAIT), nobody's by then."""


def connections(proc: Path = Path("/proc/self/net")) -> list[Connection]:
    """All ends of connections on this host that are established or were lately.

    Raises OSError where the system has no such table, as on macOS.
    """
    found = list(_read_table(proc / "tcp"))
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        found += _read_table(proc / "tcp6")
    return found


def sockets_of(pid: int) -> set[int]:
    """The inodes of a process' open sockets; none of a process that is gone.

    Raises PermissionError where another user's process is not ours to look at.
    """
    inodes = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                name = os.readlink(descriptor.path)  # noqa: PTH115  Path has it since Python 3.9
                if name.startswith("socket:["):
                    inodes.add(int(name[len("socket:[") : -1]))
    return inodes


def _read_table(file: Path) -> Iterator[Connection]:
    for line in file.read_text().splitlines()[1:]:
        fields = line.split()
        state = int(fields[3], 16)
        if state == _ESTABLISHED or state in _CLOSING:
            yield Connection(
                _socket_end(fields[1]), _socket_end(fields[2]), int(fields[9]), state in _CLOSING
            )


def _socket_end(text: str) -> SocketEnd:
    """`0100007F:1E61` is 127.0.0.1:7777: each 32 bits of the address as this machine writes a number."""
    digits, port = text.split(":")
    packed = b"".join(
        struct.pack("=I", int(digits[start : start + 8], 16)) for start in range(0, len(digits), 8)
    )
    if len(packed) == 4:
        return SocketEnd(str(ipaddress.IPv4Address(packed)), int(port, 16))
    address = ipaddress.IPv6Address(packed)
    return SocketEnd(str(address.ipv4_mapped or address), int(port, 16))
