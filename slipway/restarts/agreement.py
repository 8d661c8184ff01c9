"""What the hosts tell each other at the end of a start, and the bounds within which they must."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.hosts.assembly import Assembly
from slipway.hosts.wire import FirstHostSilent
from slipway.processes import StopRequest
from slipway.restarts.causes import RanksEnd

ANSWER_SECONDS = 30.0
"""From the first host that tells its end until the last must have: each has heard of it after half a second,
gives torchrun 5 s, and ends what is left of its processes within 6."""

_LEAVING_SECONDS = 3.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Ends:
    """How a start ended on all hosts that answered; `silent` says who did not, empty where all did.

    No `ends` at all where every host succeeded.
    """

    ends: Mapping[str, RanksEnd]
    silent: str = ""


def failed_topic(number: int) -> str:
    """Where the hosts tell that their ranks of this start have failed."""
    return f"restarts-{number}:failed"


def all_ends(
    assembly: Assembly, number: int, own: RanksEnd, stop: StopRequest, *, seconds: float = ANSWER_SECONDS
) -> Ends | None:
    """Tell how this host's ranks ended in start `number`, and hear it of the others.

    The same on all hosts. A host that succeeded waits for as long as the others work. None where a stop of
    the job came meanwhile.
    """
    found: list[Ends] = []
    thread = threading.Thread(
        target=lambda: found.append(_all_ends(assembly, number, own, seconds)), daemon=True
    )
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS / 2)
        if stop.at is not None:
            return None
    return found[0] if found else Ends({}, "this host could not ask the others")


def take_leave(assembly: Assembly, number: int) -> None:
    """Before the boot ends: the first host answers the others until they have heard what they need."""
    topic = f"restarts-{number}:left"
    if len(assembly.hosts) == 1:
        return
    with contextlib.suppress(FirstHostSilent):
        if not assembly.is_first:
            assembly.post(topic, True)
            return
        until = time.monotonic() + _LEAVING_SECONDS
        while len(assembly.read(topic)) < len(assembly.hosts) - 1 and time.monotonic() < until:
            time.sleep(_POLL_SECONDS / 4)


def _all_ends(assembly: Assembly, number: int, own: RanksEnd, seconds: float) -> Ends:
    try:
        if own.exit_code == 0 and _all_succeed(assembly, number):
            return Ends({})
        assembly.post(failed_topic(number), True)
        said = assembly.exchange(f"restarts-{number}:ends", dataclasses.asdict(own), seconds)
    except FirstHostSilent as error:
        if own.exit_code == 0:
            # What it did is done; whether the others succeeded is theirs to say.
            return Ends({})
        return Ends({assembly.current: own}, f"the first host is silent: {error}")
    missing = ", ".join(assembly.missing(said))
    silent = f"{missing} did not answer within {seconds:.0f} s" if missing else ""
    return Ends({host: RanksEnd(**end) for host, end in said.items()}, silent)


def _all_succeed(assembly: Assembly, number: int) -> bool:
    topic = f"restarts-{number}:done"
    assembly.post(topic, True)
    while not assembly.read(failed_topic(number)):
        if len(assembly.read(topic)) == len(assembly.hosts):
            return True
        time.sleep(_POLL_SECONDS)
    return False
