"""Where a symbolic link of a source folder leads, and which ones cannot be packed as what they lead to."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from launcher.source.errors import SourceError


def target_of(link: Path, shown: Path, source_dir: Path) -> Path:
    """The file or folder below the source folder that a link leads to, by whatever further links.

    `shown` is the link's path under the name by which it would be packed. Raises SourceError for a link that
    is absolute, that leads nowhere, in a circle or out of the folder.
    """
    try:
        written = link.readlink()
        if written.is_absolute():
            raise refused(shown, f"{written} is an absolute path, which is another place in the container")
        target = Path(os.path.realpath(link, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise refused(shown, "it leads back to itself") from error
        raise refused(shown, f"it leads nowhere ({error.strerror})") from error
    top = Path(os.path.realpath(source_dir))
    if top != target and top not in target.parents:
        raise refused(shown, f"{written} leads out of the source folder")
    return source_dir / target.relative_to(top)


def refused(link: Path, reason: str) -> SourceError:
    """What is told of a link that cannot be followed."""
    return SourceError(
        f"{link} is a symbolic link that cannot be packed: {reason}.",
        "Replace it with what it points to, or leave it out by a line in .slipwayignore. Links are followed "
        "where they are relative and stay in `code.source_dir`.",
    )
