"""What the sections of the cluster file have in common: a strict model, and how a value is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from launcher.documents.document import Path
from launcher.documents.validation import refusal

BucketName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"), Field(description="Bucket name.")
]
"""Amazon S3 user guide, bucketnamingrules."""


class Section(BaseModel):
    """A part of the cluster file; a field that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def refuse(problem: str | None, *, remedy: str, code: str = "SPEC003", below: Path = ()) -> None:
    """Refuse the value that is being validated, if there is a problem with it.

    Raises:
        PydanticCustomError: with the problem, its remedy and its code.
    """
    if problem is not None:
        raise refusal(problem, remedy=remedy, code=code, below=below)
