"""The stacks of a cluster, by name."""

from __future__ import annotations

CLUSTER_NAME = r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$"
"""How a cluster may be called, as a regular expression."""

PARTS = ("network", "storage", "queue", "access", "observability", "manifest")
"""What a cluster's stacks hold, in the order of their deployment; they are deleted in the reverse order."""

ALWAYS_THERE = frozenset({"network", "storage", "access", "manifest"})
"""The parts that no cluster is without."""


def stack_name(cluster: str, part: str) -> str:
    """The name of the stack that holds a part of a cluster."""
    return f"slipway-{cluster}-{part}"
