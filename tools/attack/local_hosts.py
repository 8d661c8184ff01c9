"""Hosts of a job that are all this machine, each with the container's boot as a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


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
        "PYTHONPATH": str(REPOSITORY),
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
