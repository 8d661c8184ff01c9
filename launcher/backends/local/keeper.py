"""A process that outlives the launcher by a moment, and ends what is left of its job.

When a launcher is killed its boots notice and stop the job; when a boot is killed its launcher does. Where
both are killed together, as by the kernel that looks for memory, nobody would: torchrun and its ranks would
go on for ever. The keeper sleeps until the pipe that it shares with the boots is at its end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from launcher.backends.local.processes import boots_among, kill_all, processes_of

PATIENCE_SECONDS = 30.0
"""For the boots to end the job in order: they give its processes 10 s to save their work, and sweep for up
to 6 s (slipway/processes.py)."""

ORPHANED_FILE = "orphaned"
"""In a job's folder; its time is when the launcher was gone, which nobody else saw."""

_POLL_SECONDS = 0.2


def start_keeper(folder: Path, lifeline: int) -> subprocess.Popen[bytes]:
    """Start a keeper of the job in `folder`; kill it when the job is over.

    `lifeline` is the reading end of a pipe whose other end only the launcher holds. Raises OSError where no
    process can be started.
    """
    places = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        # -P: a folder `launcher` in the working directory is not ours.
        [sys.executable, "-P", "-m", __name__, str(lifeline), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(lifeline,),
        # Out of reach of what is sent to the launcher's terminal or process group.
        start_new_session=True,
    )


def keep(lifeline: int, folder: Path, patience: float = PATIENCE_SECONDS) -> None:
    """Wait for the end of the pipe, give the boots time to end their job, and kill what is left of it."""
    while os.read(lifeline, 1):
        pass
    with contextlib.suppress(OSError):
        (folder / ORPHANED_FILE).touch()
    deadline = time.monotonic() + patience
    while boots_among(processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    kill_all(folder)


if __name__ == "__main__":
    keep(int(sys.argv[1]), Path(sys.argv[2]))
