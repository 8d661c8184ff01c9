"""What the sections of the cluster file have in common: a strict model, times in UTC, and how a value is
refused."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from launcher.documents import FilePart, field_error
from launcher.failure_modes import job_file
from launcher.failure_modes.model import FailureMode, Path
from launcher.text.values import BUCKET_NAME

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
        raise field_error(problem, remedy=remedy, mode=mode, below=below)


_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"

TimeOfDay = Annotated[str, StringConstraints(pattern=rf"^{_TIME}$")]
"""Such as `03:00`."""

TimeOfWeek = Annotated[str, StringConstraints(pattern=rf"^({'|'.join(_DAYS)}) {_TIME}$")]
"""Such as `sun 03:00`."""


def numbered_weekday(time: str) -> str:
    """`sun 03:00` as FSx writes it, `7:03:00`; 1 is Monday.

    Source: FSx API reference, CreateFileSystemLustreConfiguration (WeeklyMaintenanceStartTime).
    """
    day, time_of_day = time.split(" ")
    return f"{_DAYS.index(day) + 1}:{time_of_day}"
