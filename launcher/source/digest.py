"""What identifies a source: a digest over the names, contents and executability of its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from launcher.documents.files import open_regular
from launcher.source.errors import SourceError
from launcher.source.files import SourceFile


class SourceDigest:
    """SHA-256 over files, added in the order of their names; owners and times do not count."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, file: SourceFile, content_digest: str) -> None:
        """One more file, with the SHA-256 of its content in hexadecimal."""
        # No name can hold a NUL.
        self._digest.update(os.fsencode(f"{file.name}\0{int(file.executable)}\0{content_digest}\n"))

    def hexdigest(self) -> str:
        """The digest of the files added so far, in hexadecimal."""
        return self._digest.hexdigest()


def digest_of(files: Iterable[SourceFile]) -> str:
    """The digest of files as they lie there. Raises SourceError where one cannot be read."""
    digest = SourceDigest()
    for file in files:
        try:
            with open_regular(file.path) as content:
                digest.add(file, hashlib.file_digest(content, "sha256").hexdigest())
        except OSError as error:
            raise unreadable(file.path, error) from error
    return digest.hexdigest()


def unreadable(path: Path, error: OSError) -> SourceError:
    """The refusal of a file that cannot be read, or changes while it is."""
    return SourceError(
        f"{path} cannot be packed: {error.strerror or error}.",
        "Make it readable and leave it as it is during the launch, or name it in .slipwayignore.",
    )
