"""Times of the day and of the week, in UTC, as the cluster file and FSx write them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import StringConstraints

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
