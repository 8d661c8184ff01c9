"""`launch` as a process of its own, against moto's server on loopback."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.emulator.account import REGION
from tests.emulator.faulty_server import FaultyServer, faulty_server
from tools import ROOT
from tools.attack.matrix.account import Attacked, attacked_account


@contextmanager
def served_account(folder: Path, *, in_earnest: bool = False) -> Iterator[tuple[FaultyServer, Attacked]]:
    """The account of the matrix behind a server, its queue included."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    # The server first: it empties moto.
    with faulty_server(in_earnest=in_earnest) as server, attacked_account(folder) as attacked:
        server.queue = attacked.queue
        yield server, attacked


def start(
    server: FaultyServer, words: Sequence[str], folder: Path, home: Path, key: str = "testing"
) -> subprocess.Popen[str]:
    """Start `launch` in a folder, for a user with that home and access key."""
    return subprocess.Popen(
        [sys.executable, "-m", "launcher.cli.app", *words],
        cwd=folder,
        env={
            "PATH": os.defpath,
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
