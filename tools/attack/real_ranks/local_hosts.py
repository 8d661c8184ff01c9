"""Hosts of a job that are all this machine, each with the container's boot as a process of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher.backends.local.layout import two_free_ports
from tools.attack import ROOT

Boots = dict[int, subprocess.Popen[bytes]]


def start_boots(
    folder: Path,
    script: str,
    options: Sequence[str],
    variables: Callable[[Path], Mapping[str, str]] = lambda root: {},
) -> Boots:
    """Start the boots of both hosts of one job; `variables` are those of a host's root."""
    port = two_free_ports()
    return {
        host: start_boot(folder, host, port, script, options, variables(folder / f"algo-{host}"))
        for host in (1, 2)
    }


def await_boots(boots: Boots, seconds: float) -> dict[int, int | None]:
    """The exit codes, None of a boot that did not end within so many seconds; then nothing runs any more."""
    until = time.monotonic() + seconds
    codes: dict[int, int | None] = {}
    for host, boot in boots.items():
        try:
            codes[host] = boot.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            boot.send_signal(signal.SIGTERM)
            codes[host] = None
    for boot in boots.values():
        try:
            boot.wait(40)
        except subprocess.TimeoutExpired:
            boot.kill()
            boot.wait()
    return codes


def printed_by(folder: Path, host: int) -> str:
    """What a host has printed so far."""
    log = folder / f"algo-{host}.log"
    return log.read_text(errors="replace") if log.exists() else ""


def failure_of(folder: Path, host: int) -> str:
    """The reason that a host gave for its end; nothing where it wrote none."""
    failure = folder / f"algo-{host}" / "output" / "failure"
    return failure.read_text() if failure.exists() else ""


def keep_copy(folder: Path, place: Path) -> None:
    """Copy what a job left, but for its pipes and sockets, in the place of what lies there."""

    def special(folder: str, names: list[str]) -> list[str]:
        paths = {name: Path(folder) / name for name in names}
        return [name for name, path in paths.items() if not path.is_dir() and not path.is_file()]

    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place, symlinks=True, ignore=special)


def start_boot(
    folder: Path,
    host: int,
    port: int,
    script: str,
    options: Sequence[str],
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the boot of host 1 or 2, with two ranks of a script under torchrun; it prints to `algo-N.log`.

    `options` are container arguments besides, `variables` what the plan would put into the environment;
    `port` and the one after it are free.
    """
    root, content = folder / f"algo-{host}", script.encode()
    config, code = root / "input" / "config", root / "input" / "data" / "code"
    for each in (config, code):
        each.mkdir(parents=True, exist_ok=True)
    with tarfile.open(code / "source.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    resources = {
        "current_host": f"algo-{host}",
        "hosts": ["algo-1", "algo-2"],
        "network_interface_name": "lo",
    }
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    words = ["--strategy", "torchrun", "--processes-per-host", "2", "--entry-point", "train.py", *options]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SLIPWAY_ROOT": str(root),
        "SLIPWAY_RENDEZVOUS": f"127.0.0.1:{port}",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        **(variables or {}),
    }
    with (folder / f"algo-{host}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "import sys; from slipway.boot import main; sys.exit(main())", *words],
            env=environment,
            cwd=root,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
