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
from tools import ROOT

Boots = dict[int, subprocess.Popen[bytes]]


def start_boots(
    folder: Path,
    script: str,
    options: Sequence[str],
    variables: Callable[[Path], Mapping[str, str]] = lambda root: {},
    ranks: int = 2,
) -> Boots:
    """Start the boots of both hosts of one job, with so many ranks each of a script under torchrun.

    `options` are container arguments besides, `variables` what the plan would put into the environment of a
    host, by its root. Each prints to `algo-N.log`.
    """
    port = two_free_ports()
    words = [
        "--strategy",
        "torchrun",
        "--processes-per-host",
        str(ranks),
        "--entry-point",
        "train.py",
        *options,
    ]
    boots = {}
    for host in (1, 2):
        root = folder / f"algo-{host}"
        code = lay_out_host(root, ["algo-1", "algo-2"])
        with tarfile.open(code / "source.tar.gz", "w:gz") as archive:
            entry = tarfile.TarInfo("train.py")
            entry.size = len(script.encode())
            archive.addfile(entry, io.BytesIO(script.encode()))
        environment = {**environment_of(root, port), "CUDA_VISIBLE_DEVICES": "", **variables(root)}
        command = [
            sys.executable,
            "-c",
            "import sys; from slipway.boot import main; sys.exit(main())",
            *words,
        ]
        with (folder / f"algo-{host}.log").open("wb") as log:
            boots[host] = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                cwd=root,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
    return boots


def lay_out_host(root: Path, hosts: Sequence[str]) -> Path:
    """The folders and configuration of a container, as SageMaker makes them; the one that code goes into."""
    config, code = root / "input" / "config", root / "input" / "data" / "code"
    for each in (config, code):
        each.mkdir(parents=True, exist_ok=True)
    resources = {"current_host": root.name, "hosts": [*hosts], "network_interface_name": "lo"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    return code


def environment_of(root: Path, port: int) -> dict[str, str]:
    """What a boot on this machine needs in its environment; `port` and the one after it are free."""
    return {
        "SLIPWAY_ROOT": str(root),
        "SLIPWAY_RENDEZVOUS": f"127.0.0.1:{port}",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }


def run_torchrun(folder: Path, script: str, ranks: int, variables: Mapping[str, str] | None = None) -> str:
    """What a script prints under torchrun alone, as the boot starts it, on two hosts of so many ranks."""
    (folder / "train.py").write_text(script)
    words = ["--nnodes", "2", "--nproc_per_node", str(ranks), "--monitor_interval", "0.1"]
    words += ["--master_addr", "127.0.0.1", "--master_port", str(two_free_ports())]
    hosts = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words, "--node_rank", host, folder / "train.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(variables or {})},
        )
        for host in ("0", "1")
    ]
    return "".join(host.communicate(timeout=300)[0] for host in hosts)


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
