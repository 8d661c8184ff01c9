"""What torchrun's ranks print: through pipes of their own, masked, marked, passed on and kept by the boot.

torchrun's own ways do not do. Without options the ranks share its streams, and their lines mix. With `--tee`
and `--redirects` each rank writes into files: on a full disk that raises in the rank, so that it ends of what
it prints; nobody can mask what lies there; and the files have no bound.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from slipway.kept_log import KeptLog
from slipway.masking import Masking
from slipway.ranks.printing import STREAMS, pipe_of
from slipway.relay import Relay, say

FIRST_BYTES = LAST_BYTES = 8 * 1024 * 1024
"""Kept of each of a rank's streams. Less than of a host's (slipway/kept_log.py): there are many ranks."""

_JOIN_SECONDS = 3.0
_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ (fcntl(2)), for which Python has a name since 3.10."""


class RankTail(NamedTuple):
    """The end of what a rank printed on stderr, and when that came, in seconds since the epoch."""

    stderr: str
    time: float


class RankOutput:
    """The pipes of a host's ranks, read from before the first rank until `end`."""

    def __init__(self, pipes: Path, ranks: range, logs: Path, masking: Masking, template: str) -> None:
        """Make the pipes in the folder `pipes`; `ranks` are the global ranks by their local ones.

        What they print is kept below `logs`, as `rank-3/stdout.log`. `template` is the mark of their lines,
        in torchrun's notation. Raises OSError where no pipe can be made.
        """
        self._writing: list[int] = []
        self._relays: dict[int, dict[str, Relay]] = {}
        for local_rank, rank in enumerate(ranks):
            values = {"role_name": "default", "rank": rank, "local_rank": local_rank}
            mark = Template(template).safe_substitute(values).encode("utf-8", "surrogateescape")
            self._relays[local_rank] = {}
            for name in STREAMS:
                reading, writing = _open_pipe(pipe_of(pipes, local_rank, name))
                self._writing.append(writing)
                self._relays[local_rank][name] = Relay(
                    os.fdopen(reading, "rb", buffering=0),
                    sys.stdout if name == "stdout" else sys.stderr,
                    KeptLog(
                        logs / f"rank-{rank}" / f"{name}.log", first=FIRST_BYTES, last=LAST_BYTES, tell=say
                    ),
                    masking,
                    mark=mark,
                )

    def end(self) -> Mapping[int, RankTail]:
        """Pass on the rest, when no rank runs any more: what each of them printed, by its local rank."""
        for writing in self._writing:
            os.close(writing)
        for relays in self._relays.values():
            for relay in relays.values():
                relay.join(_JOIN_SECONDS)
        return {
            local_rank: RankTail(relays["stderr"].tail, relays["stderr"].last)
            for local_rank, relays in self._relays.items()
        }


def _open_pipe(file: Path) -> tuple[int, int]:
    """Both ends of a new pipe. As long as this process holds the end to write to, it is not at its end."""
    os.mkfifo(str(file), 0o600)
    reading = os.open(str(file), os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(str(file), os.O_WRONLY)
    os.set_blocking(reading, True)
    with contextlib.suppress(OSError):
        # A rank should not have to wait for whoever reads the container's own output.
        fcntl.fcntl(reading, _SET_PIPE_SIZE, _PIPE_BYTES)
    return reading, writing
