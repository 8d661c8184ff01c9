"""What a Slurm cluster consists of, as plain data: its partitions and nodes."""

from __future__ import annotations

from launcher.frozen import frozen


@frozen
class SlurmPartition:
    """A partition; `max_seconds` and `max_nodes` bound a job in it, None where nothing does."""

    name: str
    is_default: bool
    state: str
    nodes: tuple[str, ...]
    max_seconds: int | None = None
    max_nodes: int | None = None


@frozen
class SlurmNode:
    """A node; `state` is Slurm's, such as `IDLE` or `DOWN+DRAIN`, and `gpus` what its Gres says."""

    name: str
    state: str
    cpus: int
    memory_mb: int
    gpus: int = 0
    features: tuple[str, ...] = ()

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes jobs, now or after those that it has."""
        return not any(word in self.state for word in ("DOWN", "DRAIN", "FAIL", "FUTURE", "UNKNOWN"))


@frozen
class SlurmCluster:
    """All of them."""

    partitions: tuple[SlurmPartition, ...]
    nodes: tuple[SlurmNode, ...]

    def partition(self, name: str | None) -> SlurmPartition | None:
        """The partition of that name, without one the default one; None where there is none."""
        for each in self.partitions:
            if each.name == name or (name is None and each.is_default):
                return each
        return None
