"""Run the boot with the oldest interpreters and PyTorch versions that jobs have, where these are at hand.

    make old-versions

For each row of VERSIONS whose interpreter is found: a virtual environment below build/old-versions, its
PyTorch from the package index (0.8 GB each, the first time), and two jobs of two ranks under torchrun, with
gloo: one that succeeds, and one whose rank 1 fails, which has to be named. Says what ran and what did not,
and exits with 1 where something failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from launcher.backends.local.layout import two_free_ports
from launcher.source.packaging import build_boot, build_source
from launcher.source.tree import read_source
from tools import ROOT
from tools.attack.real_ranks.local_hosts import environment_of, failure_of, lay_out_host

VERSIONS = (
    ("3.8", ("torch==1.11.0", "numpy==1.23.5")),
    ("3.9", ("torch==1.12.1", "numpy==1.23.5")),
    ("3.10", ("torch==1.12.1", "numpy==1.23.5")),
)
"""Interpreters, and for each what to install: wheels of PyTorch that bring their CUDA along."""

SECONDS = 240
BUILT = ROOT / "build" / "old-versions"

SCRIPT = """\
import sys
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
assert total.item() == 3, total
print(f"rank {dist.get_rank()} of {dist.get_world_size()}, torch {torch.__version__}", flush=True)
if "fail" in sys.argv and dist.get_rank() == 1:
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
dist.barrier()
"""


def interpreter(version: str) -> Path | None:
    """A Python of this version that runs, from PATH or from pyenv."""
    found = [Path(path) for path in [shutil.which(f"python{version}")] if path]
    found += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in found:
        shown = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
        if shown.stdout.startswith(f"Python {version}."):
            return python
    return None


def environment_with(python: Path, version: str, packages: tuple[str, ...]) -> Path:
    """The Python of a virtual environment with these packages.

    Raises CalledProcessError where they cannot be installed.
    """
    folder = BUILT / f"python{version}"
    made = folder / "installed"
    if not made.is_file() or made.read_text() != " ".join(packages):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        install = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *packages], check=True)
        made.write_text(" ".join(packages))
    return folder / "bin" / "python"


def run_job(python: Path, root: Path, *arguments: str) -> tuple[int, str, str]:
    """A job of two ranks on this machine: its exit code, what it printed, and its failure file."""
    code, source = lay_out_host(root / "algo-1", ["algo-1"]), root / "src"
    source.mkdir()
    (source / "train.py").write_text(SCRIPT)
    build_source(read_source(source, "train.py"), code / "source.tar.gz")
    build_boot(code / "slipway.pyz")
    words = ["--strategy", "torchrun", "--processes-per-host", "2", "--entry-point", "train.py", "--"]
    ended = subprocess.run(
        [python, code / "slipway.pyz", *words, *arguments],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            **environment_of(root / "algo-1", two_free_ports()),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr, failure_of(root, 1)


def judged(python: Path) -> str | None:
    """What is wrong with the boot under this Python, or None."""
    with tempfile.TemporaryDirectory() as folder:
        code, printed, reason = run_job(python, Path(folder) / "well")
        if code != 0 or "rank 1 of 2" not in printed:
            return f"a job that should succeed ended with {code}:\n{printed}\n{reason}"
        code, printed, reason = run_job(python, Path(folder) / "badly", "fail")
        if code == 0 or not reason.startswith("HW001 rank 1 on algo-1: "):
            return f"a job whose rank 1 fails ended with {code}, reported as {reason!r}:\n{printed}"
    return None


def main() -> int:
    """Run them all; the exit code."""
    wrong = 0
    for version, packages in VERSIONS:
        name = f"Python {version}, {packages[0]}"
        python = interpreter(version)
        if python is None:
            print(f"{name}: not run, there is no such Python here", flush=True)
            continue
        said = judged(environment_with(python, version, packages))
        wrong += said is not None
        print(f"{name}: {said or 'runs, and names the rank that fails'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
