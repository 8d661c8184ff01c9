"""A job of which an incident is told: its hosts, their clocks, its version of torch, and who says what when."""

# ruff: noqa: E501 - the lines are those of programs

from __future__ import annotations

import random
from dataclasses import dataclass, field

PER_HOST = 8
VERSIONS = ("2.0", "2.2", "2.3", "2.5", "2.8", "2.13")
LAYOUTS = ("hosts", "gz", "ranks", "log-dir", "one", "kubectl", "srun", "mpirun", "cloudwatch")
CLOCKS = ("none", "glog", "iso", "slash", "shipped")
CPP, AGENT = "\x01", "\x02"
"""Before the letter of a level: where glog's header stands in a line of C++, and in one of torchrun."""


@dataclass(frozen=True, slots=True)
class Said:
    """Lines that one process printed, from a true moment on; `rank` is None for what is no rank's, such as
    the agent of the host. `whole` lines are not torn: they are what the root cause shows in."""

    at: float
    host: int
    rank: int | None
    lines: tuple[str, ...]
    whole: bool = False
    attempt: int = 0


@dataclass
class Job:
    """What is drawn for one incident. `skews` are by how many seconds each host's clock is ahead."""

    chance: random.Random
    ranks: int
    version: str
    layout: str
    clock: str
    skews: tuple[float, ...]
    steps_of: str
    sagemaker: bool
    restarts_container: bool
    said: list[Said] = field(default_factory=list)
    attempt: int = 0

    @property
    def hosts(self) -> int:
        return self.ranks // PER_HOST

    @property
    def has_agents(self) -> bool:
        """Whether torchrun starts the ranks, on every host its own."""
        return self.layout not in ("srun", "mpirun")

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split(".")
        return int(major), int(minor)

    @property
    def tells_ranks(self) -> bool:
        """Whether every line of a rank shows whose it is: by torch's prefix, the launcher's or the file."""
        return self.release >= (2, 3) or self.layout in ("ranks", "srun", "mpirun")

    @property
    def has_one_clock(self) -> bool:
        return self.layout == "cloudwatch"

    @property
    def is_anchored(self) -> bool:
        """Whether every host prints the same steps with the times of its clock."""
        timed = self.clock in ("shipped", "iso") or self.has_one_clock
        return timed and self.steps_of != "first" and self.hosts > 1

    def any_rank(self, *others: int) -> int:
        return self.chance.choice([rank for rank in range(self.ranks) if rank not in others])

    def of_rank(self, at: float, rank: int, *lines: str, whole: bool = False) -> None:
        """A rank prints these lines; those of torch 2.3 and later carry the rank where it wrote them."""
        self.said.append(Said(at, rank // PER_HOST, rank, lines, whole, self.attempt))

    def of_host(self, at: float, host: int, *lines: str, whole: bool = False) -> None:
        self.said.append(Said(at, host, None, lines, whole, self.attempt))

    def mark(self, rank: int) -> str:
        """How torch begins the lines of C++ of a rank, from 2.2 on."""
        return f"[rank{rank}]:" if self.release >= (2, 2) else ""

    def group(self, rank: int) -> str:
        """How it names the group of all ranks."""
        if self.release >= (2, 5):
            return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        return f"[PG 0 Rank {rank}]" if self.release >= (2, 3) else f"[Rank {rank}]"

    def nccl(self, rank: int, where: str, text: str) -> str:
        return f"algo-{rank // PER_HOST + 1}:{120 + rank % PER_HOST}:{200 + rank} [{rank % PER_HOST}] {where} {text}"

    def uncaught(self, rank: int, *lines: str) -> tuple[str, ...]:
        """A traceback as the interpreter prints it: from torch 2.3 on behind the rank."""
        mark = f"[rank{rank}]: " if self.release >= (2, 3) else ""
        return tuple(f"{mark}{line}" for line in lines)


def drawn(seed: int) -> Job:
    """The job of this number, the same in every run."""
    chance = random.Random(seed)
    ranks = chance.choices((8, 16, 64, 512), (3, 4, 3, 1))[0]
    layout = chance.choice(LAYOUTS)
    version = chance.choice(VERSIONS)
    clock = "none" if layout == "cloudwatch" else chance.choice(CLOCKS)
    skewed = chance.random() < 0.7 and layout != "cloudwatch"
    return Job(
        chance,
        ranks,
        version,
        layout,
        clock,
        tuple(chance.uniform(0, 120) if skewed else 0.0 for _ in range(ranks // PER_HOST)),
        chance.choice(("first", "hosts", "all" if ranks <= 16 else "hosts")),
        layout == "cloudwatch" or (layout in ("hosts", "gz") and chance.random() < 0.4),
        chance.random() < 0.5,
    )
