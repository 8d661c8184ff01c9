"""The packed function by a clock that is set, in processes that may be killed, one call after the other."""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from threading import Event
from typing import Any

from tests.emulator.faulty_server import FaultyServer
from tests.emulator.managed_cluster import FUNCTION
from tests.emulator.packed_function import function_environment, running_package
from tests.emulator.stepped_clients import Call
from tools.attack.managed.lockstep import Killed

RUNTIME = """
import json, mmap, os, struct, sys, time, traceback
from dataclasses import replace

CLOCK, FUNCTION, CHANGE = sys.argv[1:]
with open(CLOCK, "rb") as file:
    clock = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
skew = 0.0
time.time = lambda: struct.unpack("d", clock[:8])[0] + skew
time.sleep = lambda seconds: None

from launcher import controller
from launcher.backends.sagemaker import resume

# Which of several copies comes first is no part of a run.
resume.COPIES_AT_ONCE = 1
# A client that was throttled would pace its calls by the clock, which nobody moves while it waits.
controller.FOLLOWING = replace(controller.FOLLOWING, paced=False)
exec(CHANGE)


class Context:
    invoked_function_arn = FUNCTION

    def __init__(self, call, until):
        self.aws_request_id, self._until = call, until

    def get_remaining_time_in_millis(self):
        return int(1000 * (self._until - time.time() + skew))


# A message meets clients that have been made, and a package that has been looked at.
clients = controller._clients()
deployed = controller.DeployedController.of_environment(os.environ)
controller._controller(deployed, clients, Context("", 0.0))
for service in ("scheduler", "sns", "sqs"):
    clients(service, deployed.region)
controller.check_package(controller.Path(controller.__file__).parents[1], os.environ["SLIPWAY_DIGEST"])
credentials = clients._session.get_credentials()

for line in sys.stdin:
    given = json.loads(line)
    child = os.fork()
    if child:
        print("pid:", child, flush=True)
        os.waitpid(child, 0)
        print("ended:", flush=True)
        continue
    skew, credentials.access_key = given["skew"], given["key"]
    try:
        done = controller.handle({"Records": [given["message"]]}, Context(given["key"], given["until"]))
        print("told:", len(done["batchItemFailures"]), flush=True)
    except Exception:
        traceback.print_exc()
    os._exit(0)
"""
"""What Lambda does for a function that is given its messages; each is handled by a process of its own."""


class CrashedFunction(Exception):
    """The function has ended a message with an error of its own; the text is what it printed."""


class SharedClock:
    """Seconds since the epoch that other processes read in a file."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(struct.pack("d", 0.0))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), 8)

    @property
    def seconds(self) -> float:
        """What the clock shows."""
        found: float = struct.unpack("d", self._shared[:8])[0]
        return found

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._shared[:8] = struct.pack("d", seconds)


class SteppedFunction:
    """The packed function, one message at a time; each call that it makes passes through `step`.

    A step that raises Killed is to be followed by `kill`; whatever the killed process still asks for is not
    answered.
    """

    def __init__(self, name: str, server: FaultyServer, process: Popen[str]) -> None:
        self.step = lambda call: call.carry_out()
        self._name, self._server, self._process = name, server, process
        self._handled = self._pid = 0
        self._started = Event()

    def handle(self, message: Mapping[str, Any], *, until: float, skew: float) -> bool:
        """Whether the message could be done, by a clock that is off by `skew` seconds.

        It has time until the shared clock shows `until`. Raises Killed where the process was killed, and
        CrashedFunction where it ended with an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._handled += 1
        key = f"{self._name}-{self._handled}"
        self._server.steps[key] = self._pass_through
        given = {"message": message, "until": until, "skew": skew, "key": key}
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            word, _, rest = line.partition(" ")
            if word == "pid:":
                self._pid = int(rest)
                self._started.set()
            elif word.strip() == "ended:":
                break
            else:
                printed.append(line)
        self._started.clear()
        self._server.steps[key] = _cut
        told = [line for line in printed if line.startswith("told:")]
        if told:
            return told == ["told: 0\n"]
        if printed and printed[-1][:1].isalpha() and "Traceback (most recent call last):\n" in printed:
            raise CrashedFunction("".join(printed))
        raise Killed

    def kill(self) -> None:
        """Kill the process that handles a message, by SIGKILL."""
        self._started.wait()
        os.kill(self._pid, signal.SIGKILL)

    def _pass_through(self, call: Call) -> Any:
        try:
            return self.step(call)
        except Killed:
            return _cut(call)


def _cut(call: Call) -> Any:
    raise ConnectionAbortedError(f"who asked for {call.name} was killed")


@contextmanager
def stepped_function(
    name: str, server: FaultyServer, topic: str, clock: Path, folder: Path, change: str = ""
) -> Iterator[SteppedFunction]:
    """The function with the package below the folder, by the clock in a file; `name` is its own.

    `change` are statements that change the function, to see what is then found.
    """
    environment = function_environment(topic)
    words = [str(clock), FUNCTION, change]
    with running_package(RUNTIME, words, server.url, environment, folder) as process:
        yield SteppedFunction(name, server, process)
