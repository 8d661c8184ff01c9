"""Python environments to run local jobs with: empty, or with a torch that has nothing but its version."""

from __future__ import annotations

import venv
from pathlib import Path


def environment(folder: Path, torch: str | None = None, cuda: str | None = None) -> Path:
    """The Python of a new virtual environment."""
    venv.create(folder, symlinks=True)
    if torch is not None:
        [packages] = folder.glob("lib/python*/site-packages")
        (packages / "torch").mkdir()
        # Importing it would fail, as that of a torch whose libraries lack.
        (packages / "torch" / "__init__.py").write_text("raise OSError('libcudart.so: not found')\n")
        (packages / "torch" / "version.py").write_text(f"__version__ = {torch!r}\ncuda = {cuda!r}\n")
    return folder / "bin" / "python"


def program(file: Path, text: str) -> Path:
    """A program that is no Python."""
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file
