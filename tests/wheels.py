"""Packages for pip to install without a network, and a Python to install them into that is nobody's."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    modules: Mapping[str, str] | None = None,
    commands: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel of pure Python: `modules` by file name, `commands` such as {"greet": "mod:main"}."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        **(modules or {f"{name}.py": f"version = {version!r}\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if commands:
        lines = "".join(f"{command} = {target}\n" for command, target in commands.items())
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, content in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, content)
    return wheel


def make_python(folder: Path) -> Path:
    """A Python with pip and nothing else, which keeps to itself what is installed."""
    venv.create(folder, symlinks=True)
    for part in Path(sysconfig.get_path("purelib")).glob("pip*"):
        if part.name == "pip" or part.name.endswith(".dist-info"):
            (packages_of(folder) / part.name).symlink_to(part)
    return folder / "bin" / "python"


def packages_of(folder: Path) -> Path:
    """Where such a Python keeps its packages."""
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """Install a wheel without commands into such a Python, as pip would."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages_of(folder))


def only_from(folder: Path) -> dict[str, str]:
    """The environment in which pip looks into this folder and nowhere else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


def run(python: Path, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run this Python with these words, and see what it prints."""
    return subprocess.run([str(python), *words], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]
