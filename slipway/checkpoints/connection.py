"""A connection of one's own to the store in which the ranks of a job leave each other messages.

A client that waits in `get` holds a lock, so that on torch's own one the training thread would wait with
it, and two ranks could wait for each other for ever. `store.clone()` makes a second client; where a version
of torch has none, one is made for the same server.
"""

from __future__ import annotations

import os
from typing import Any


def ranks() -> tuple[int, int]:
    """This process' rank and the world size; 0 and 1 without a process group."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def own_connection() -> Any:
    """A client of the store of the default process group that nobody else uses. Raises RuntimeError."""
    from torch.distributed import distributed_c10d

    store = distributed_c10d._get_default_store()
    return store.clone() if hasattr(store, "clone") else _second_client(store)


def _second_client(store: Any) -> Any:
    from torch.distributed import FileStore, PrefixStore, TCPStore

    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, FileStore):
        client = FileStore(store.path, -1)
    else:
        # Before torch 2.0 a store does not tell what it wraps, but where torchrun put it is told.
        address = getattr(store, "host", None) or os.environ["MASTER_ADDR"]
        port = getattr(store, "port", None) or int(os.environ["MASTER_PORT"])
        client = TCPStore(address, port, is_master=False)
    # The prefix of a restart is lost with the wrapping; a store may outlive the ranks that were before.
    return PrefixStore(f"slipway/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", client)
