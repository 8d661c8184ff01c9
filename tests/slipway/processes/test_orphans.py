"""Nobody's processes leave no zombie, and somebody's are left to who started them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")

PROGRAM = """
import os, subprocess, sys
from slipway.processes.supervise import Orphans, adopt_orphans

now = 0.0
adopt_orphans()
orphans = Orphans(clock=lambda: now)
subprocess.run([sys.executable, "-c", '''
import os
for _ in range(30):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(1)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
'''], stdout=subprocess.PIPE, check=True)

def zombies():
    found = []
    for entry in os.listdir("/proc"):
        try:
            state, parent = open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if parent == str(os.getpid()):
            found.append(state)
    return found

while zombies() != ["Z"] * 30:
    pass
print(len(zombies()))
orphans.reap()
print(len(zombies()))
started = subprocess.Popen(["true"])
while len(zombies()) < 31 or set(zombies()) != {"Z"}:
    pass
now = 4.5
orphans.reap()
now = 6.0
orphans.reap()
print(len(zombies()), started.wait())
"""


def test_those_that_nobody_waits_for_are_gone_after_some_seconds_and_no_others() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.splitlines() == ["30", "30", "1 0"]
