"""Write requirements.lock: every package that the set-up may install, at one version, with its hashes.

    python -m scripts.generate_lock UV [--upgrade]

UV is the path of uv's executable (`make lock` puts it into build/uv). Versions that stand in the lock stay
where the ranges of requirements.txt and pyproject.toml allow them; with `--upgrade` all are the newest. One
file holds for Linux and macOS and for all Pythons from 3.11 on, and only for wheels: no package's own
program runs when it is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
SOURCES = ("requirements.txt", "pyproject.toml")

CPU_BUILDS = {
    "2.13.0": {
        "cp311-manylinux_2_28_x86_64": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "cp312-manylinux_2_28_x86_64": "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
        "cp313-manylinux_2_28_x86_64": "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
    }
}
"""The SHA-256 of torch's builds without CUDA, which PyPI does not have, by torch's version.

For those whose pip looks at PyTorch's own index (https://download.pytorch.org/whl/cpu/torch/, which tells
them): without CUDA the set-up is a third as large.
"""


def lock(uv: str, *options: str) -> str:
    """The text of the lock. Raises CalledProcessError where uv finds no versions that fit together."""
    version = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    command = [uv, "pip", "compile", *SOURCES, "--output-file", LOCK.name, "--generate-hashes", "--universal"]
    command += ["--python-version", "3.11", "--no-build", "--no-header", "--quiet", *options]
    subprocess.run(command, cwd=ROOT, check=True)
    header = f"# Written by `make lock` with uv {version} from {' and '.join(SOURCES)}. Not to be edited.\n"
    return header + _with_cpu_builds(LOCK.read_text("utf-8"))


def _with_cpu_builds(text: str) -> str:
    """The lock with the hashes of the builds of torch that are not on PyPI."""
    found = re.search(r"^torch==(\S+) \\\n", text, re.MULTILINE)
    if found is None:
        raise SystemExit("the lock has no torch")
    if found[1] not in CPU_BUILDS:
        raise SystemExit(
            f"CPU_BUILDS in {__file__} has no hashes for torch {found[1]}: add those of its wheels for Linux "
            "x86-64 from https://download.pytorch.org/whl/cpu/torch/."
        )
    lines = [f"    --hash=sha256:{digest} \\\n" for digest in CPU_BUILDS[found[1]].values()]
    # uv keeps what stood in the lock before for the same version.
    added = "".join(line for line in lines if line not in text)
    return text[: found.end()] + added + text[found.end() :]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    LOCK.write_text(lock(*sys.argv[1:]), "utf-8")
    print(f"wrote {LOCK.relative_to(ROOT)}")
