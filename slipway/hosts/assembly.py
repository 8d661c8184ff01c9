"""This host among the job's hosts: ask all of them something, and know what all of them answered."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from slipway.container import Container
from slipway.failure import BootError
from slipway.hosts.switchboard import Answers, Switchboard
from slipway.hosts.wire import DistantSwitchboard, SwitchboardServer, port_of
from slipway.rendezvous import Rendezvous


class Assembly:
    """The hosts' boots together. The first host's answers everybody, so nothing works without it.

    Where one host is alone nothing is listened to and nothing is sent.
    """

    def __init__(self, container: Container, rendezvous: Rendezvous, job: str) -> None:
        """`job` is the job's name.

        Raises OSError on the first host where the port after the rendezvous' is taken.
        """
        self.hosts, self.current = container.hosts, container.current_host
        self._served: SwitchboardServer | None = None
        self._line: Switchboard | DistantSwitchboard
        if container.node_rank > 0:
            self._line = DistantSwitchboard(rendezvous, job)
        else:
            self._line = Switchboard(self.hosts)
            if len(self.hosts) > 1:
                self._served = SwitchboardServer(self._line, rendezvous, job)

    @property
    def is_first(self) -> bool:
        """Whether this host is the one that answers."""
        return self.current == self.hosts[0]

    def post(self, topic: str, value: Any) -> None:
        """Say something under a topic, in place of what this host said there before.

        Raises FirstHostSilent, as the other three do.
        """
        self._line.post(topic, self.current, value)

    def read(self, topic: str) -> Answers:
        """What each host said last under a topic, at this moment."""
        return self._line.read(topic)

    def exchange(self, topic: str, value: Any, seconds: float) -> Answers:
        """Say something and wait for the others: the same answers for all hosts.

        Who has not spoken `seconds` after the first is not among them. A topic is exchanged once.
        """
        return self._line.exchange(topic, self.current, value, seconds)

    def decide(self, topic: str, value: Any) -> Any:
        """The value of the host that asked first, the same for all."""
        return self._line.decide(topic, self.current, value)

    def missing(self, answers: Answers) -> tuple[str, ...]:
        """The hosts that are not among the answers, in the job's order."""
        return tuple(host for host in self.hosts if host not in answers)

    def close(self) -> None:
        """Answer nobody any more."""
        if self._served is not None:
            self._served.close()


def assemble(container: Container, rendezvous: Rendezvous, environment: Mapping[str, str]) -> Assembly:
    """The hosts of the job that the environment names.

    Raises BootError (NCCL009) where another process holds the first host's port.
    """
    try:
        return Assembly(container, rendezvous, environment.get("TRAINING_JOB_NAME", ""))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise BootError(
            "NCCL009",
            f"{container.current_host} cannot listen on port {port_of(rendezvous)} ({error.strerror}), where "
            "the hosts of this job tell each other how they are, so none would know of the others: set "
            "MASTER_PORT in `environment` so that it and the port after it are free",
        ) from None
