"""The digest of a package of source files: the deployment writes it down, and what was deployed compares."""

from __future__ import annotations

import hashlib
from pathlib import Path

BYTECODE_FOLDER = "__pycache__"
"""Where Python keeps what it has compiled (PEP 3147), which no digest counts."""


def digest_of(folder: Path) -> str:
    """The SHA-256 of all files below a folder, by their names and contents, in hexadecimal digits.

    Bytecode is left out: two compilations of the same source may differ. Raises OSError where a file cannot
    be read.
    """
    digest = hashlib.sha256()
    for name, file in sorted((each.relative_to(folder).as_posix(), each) for each in folder.rglob("*")):
        if BYTECODE_FOLDER in file.parts or not file.is_file():
            continue
        content = file.read_bytes()
        # With its length, so that no content can go on as another file's name.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
