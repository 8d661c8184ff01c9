"""What the sections of the cluster file have in common: a strict model, and how a value is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from launcher.documents.validation import FilePart, refusal
from launcher.failure_modes import job_file
from launcher.failure_modes.model import FailureMode, Path
from launcher.text.uris import BUCKET_NAME

BucketName = Annotated[str, StringConstraints(pattern=f"^{BUCKET_NAME}$"), Field(description="Bucket name.")]
"""The name of a bucket that exists."""


class Section(FilePart):
    """A part of the cluster file; a field that it does not know is a mistake."""


def refuse(
    problem: str | None, *, remedy: str, mode: FailureMode = job_file.INVALID_VALUE, below: Path = ()
) -> None:
    """Refuse the value that is being validated, if there is a problem with it.

    Raises:
        PydanticCustomError: with the problem, its remedy and its failure mode.
    """
    if problem is not None:
        raise refusal(problem, remedy=remedy, mode=mode, below=below)
