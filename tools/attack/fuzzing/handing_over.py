"""How a case is handed to the launcher: to a function or a command, as a user without AWS would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import psutil

from launcher.failure_modes.model import Refusal
from launcher.session.prepare_plan import JobSource, prepare, read_job
from tools.attack.calling import call_launch

REGION = "us-west-2"


class Crashed(Exception):
    """A command ended as it ends for a fault of its own."""


@contextmanager
def user_in(folder: Path) -> Iterator[None]:
    """The environment of a user who works in this folder, has no AWS configuration and no network."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_MAX_ATTEMPTS": "1",
    }
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "train.py").write_text("print('trained')\n")
    with chdir(folder), mock.patch.dict(os.environ, environment, clear=True):
        yield


def in_place(folder: Path, name: str, content: bytes) -> Path:
    """Write a file into the folder."""
    (folder / name).write_bytes(content)
    return folder / name


def prepared(file: Path) -> Any:
    """The plan of a job file, as the commands without AWS make it; None where it is refused."""
    return unless_refused(lambda: prepare(read_job(JobSource(file)), session_region=REGION))


def unless_refused(call: Callable[[], Any]) -> Any:
    """What the call gives; None where it is refused, in whole sentences."""
    try:
        return call()
    except Refusal as refusal:
        assert refusal.message and refusal.remedy
        return None


def command(*words: str) -> None:
    """Run `launch`; raises Crashed where it ends as it should never."""
    code, _, said = call_launch(words)
    if "This is a fault of the launcher" in said or "Traceback" in said or code not in (0, 1, 2, 3):
        raise Crashed(f"launch {' '.join(words)} ended with {code}: {said.strip()[:300]}")


@contextmanager
def nobody_is_killed() -> Iterator[None]:
    """A record that was spoilt may name any process as its launcher."""

    def refuse(*arguments: Any) -> NoReturn:
        raise Crashed(f"a signal was about to be sent: {arguments}")

    with (
        mock.patch.object(os, "killpg", refuse),
        mock.patch.object(psutil.Process, "kill", refuse),
        mock.patch.object(psutil.Process, "terminate", refuse),
        mock.patch.object(psutil.Process, "send_signal", refuse),
        mock.patch.object(signal, "pidfd_send_signal", refuse),
    ):
        yield
