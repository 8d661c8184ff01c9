"""Whole boots of a host whose file systems are full, tiny, read-only or dead, each in its own namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.slipway.gate.namespaces import PACKAGE, PATIENCE_SECONDS, WITHOUT_TORCH

PERMITTED = (
    shutil.which("unshare") is not None
    and not subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode
)
pytestmark = pytest.mark.skipif(not PERMITTED, reason="mounting in a namespace is not permitted here")

BOOT = """
import ctypes, os, sys
from slipway.gate import probe_host as machine

def mount(kind, folder, options="", flags=0):
    os.makedirs(folder, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"test", folder.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)

def dead(folder):
    # A file system whose server has answered nothing yet: each question about it blocks.
    machine.look_at.__defaults__ = (2.0,)
    server = os.open("/dev/fuse", os.O_RDWR)
    mount("fuse", folder, f"fd={server},rootmode=40000,user_id=0,group_id=0")

root = os.environ["SLIPWAY_ROOT"]
machine.look_at.__defaults__ = (4.0,)
exec(sys.argv[1])
from slipway.boot import main
sys.exit(main(sys.argv[2:]))
"""


def boot(folder: Path, setup: str, gate: str = "on") -> tuple[int, str, str]:
    """Boot a host after a setup in its own mount namespace: exit code, output, failure file."""
    config, data = folder / "input" / "config", folder / "input" / "data"
    for each in (config, data / "code", data / "train"):
        each.mkdir(parents=True)
    (data / "train" / "shard-0").write_text("data")
    (config / "resourceconfig.json").write_text(json.dumps({"current_host": "algo-1", "hosts": ["algo-1"]}))
    channels = {"code": {}, "train": {"TrainingInputMode": "File"}}
    (config / "inputdataconfig.json").write_text(json.dumps(channels))
    script = folder / "train.py"
    script.write_text("print('trained')\n")
    with tarfile.open(data / "code" / "source.tar.gz", "w:gz") as archive:
        archive.add(script, "train.py")
    words = ["--strategy", "none", "--entry-point", "train.py", "--gate", gate]
    ended = subprocess.run(
        ["unshare", "-m", WITHOUT_TORCH, "-c", BOOT, setup, *words],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(PACKAGE),
            "SLIPWAY_ROOT": str(folder),
            "SLIPWAY_CHECKPOINT_DIR": str(folder / "checkpoints"),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    failure = folder / "output" / "failure"
    return ended.returncode, ended.stdout + ended.stderr, failure.read_text() if failure.exists() else ""


def test_a_host_whose_file_systems_are_sound_trains(tmp_path: Path) -> None:
    code, output, failure = boot(tmp_path, "")
    assert (code, failure) == (0, ""), output
    assert "trained" in output


@pytest.mark.few_cases("dead channel", "full disk", "read-only")
@pytest.mark.parametrize(
    ("setup", "code", "said"),
    [
        ("dead(root + '/input/data/train')", "FSX005", "the channel train at"),
        ("dead(root + '/checkpoints')", "FSX005", "the checkpoints' folder"),
        ("mount('tmpfs', '/dev/shm', 'size=1m')", "DATA005", "/dev/shm has 1 MB"),
        (
            "mount('tmpfs', root + '/checkpoints', 'size=300k')",
            "DISK001",
            "kB of 307 kB are free on the disk of",  # The probes of other processes take a page for a moment.
        ),
        (
            "mount('tmpfs', root + '/checkpoints', 'size=64k')\n"
            "open(root + '/checkpoints/old', 'wb', buffering=0).write(bytes(65536))",
            "DISK001",
            "0 kB of 66 kB are free on the disk of",
        ),
        ("mount('tmpfs', root + '/checkpoints', '', 1)", "CKPT007", "Read-only file system"),
    ],
    ids=["dead channel", "dead checkpoints", "tiny shared memory", "tiny disk", "full disk", "read-only"],
)
def test_an_unsound_file_system_ends_the_job_before_the_script(
    tmp_path: Path, setup: str, code: str, said: str
) -> None:
    exit_code, output, failure = boot(tmp_path, setup)
    assert exit_code == 1, output
    assert "trained" not in output
    assert failure.startswith(f"{code} algo-1: "), output
    assert said in failure


def test_with_warn_it_is_told_and_the_script_runs(tmp_path: Path) -> None:
    code, output, failure = boot(tmp_path, "mount('tmpfs', '/dev/shm', 'size=1m')", gate="warn")
    assert (code, failure) == (0, ""), output
    assert "trained" in output
    assert "warning: gate: DATA005 algo-1: /dev/shm has 1 MB" in output
