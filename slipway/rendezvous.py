"""Where the ranks meet: an address and a port on the first host."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.container import Container
from slipway.failure import BootError

DEFAULT_PORT = 7777
"""The port of SageMaker's own toolkit (SM_MASTER_PORT in sagemaker-python-sdk and the training toolkit)."""


@dataclass(frozen=True)
class Rendezvous:
    """The first host's address and the port of the store."""

    address: str
    port: int


def find_rendezvous(container: Container, environment: Mapping[str, str]) -> Rendezvous:
    """The first host on MASTER_PORT, or on 7777; SLIPWAY_RENDEZVOUS=address:port overrides both.

    Raises ValueError for a port that is not a number.
    """
    override = environment.get("SLIPWAY_RENDEZVOUS")
    if override:
        address, _, port = override.rpartition(":")
        return Rendezvous(address, int(port))
    return Rendezvous(container.hosts[0], int(environment.get("MASTER_PORT") or DEFAULT_PORT))


def check_port(rendezvous: Rendezvous, host: str) -> None:
    """Make sure that the store can listen. Call on the first host only.

    Raises BootError (NCCL009) where another process holds the port.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the store itself does: connections of an earlier process that linger do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", rendezvous.port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise BootError(
                "NCCL009",
                f"rank 0 on {host} cannot listen on {rendezvous.address}:{rendezvous.port} "
                f"({error.strerror}), so the ranks could not meet: set MASTER_PORT in `environment` to a "
                "free port, or end the process that holds it",
            ) from None
