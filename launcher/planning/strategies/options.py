"""What may stand in `distribution.options`: each name with the values that it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.text.nearest import nearest

OPTIONS = ("distribution", "options")

ValueCheck = Callable[[Any], str | None]
"""What a value must be, where it is not; None where it is."""


def whole(least: int) -> ValueCheck:
    """Accepts whole numbers from `least` on; a boolean is not one."""

    def check(value: Any) -> str | None:
        right = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if right else f"a whole number, at least {least}"

    return check


def number(least: float, most: float = math.inf) -> ValueCheck:
    """Accepts finite numbers from `least` to `most`; a boolean is not one."""

    def check(value: Any) -> str | None:
        right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        bound = f", at most {most:g}" if most < math.inf else ""
        return None if right and least <= value <= most else f"a number, at least {least:g}{bound}"

    return check


def one_of(*values: Any) -> ValueCheck:
    """Accepts a few values, each with its type: True is not 1."""

    def check(value: Any) -> str | None:
        right = any(type(value) is type(known) and value == known for known in values)
        return None if right else f"one of {', '.join(str(known) for known in values)}"

    return check


def boolean(value: Any) -> str | None:
    """Accepts true and false."""
    return None if isinstance(value, bool) else "true or false"


def truth(value: Any) -> str | None:
    """Accepts true and false, and 1 and 0 in their place, as the SageMaker SDK does."""
    return None if isinstance(value, int) and value in (0, 1) else "true or false"


def text(value: Any) -> str | None:
    """Accepts strings."""
    return None if isinstance(value, str) else "a string"


def mapping(value: Any) -> str | None:
    """Accepts mappings, whose own names are checked separately."""
    return None if isinstance(value, dict) else "a mapping"


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_options(
    given: Mapping[str, Any], known: Mapping[str, ValueCheck], path: tuple[str, ...], owner: str
) -> Iterator[Finding]:
    """Unknown names, with the nearest known, and values of the wrong kind."""
    for name, value in given.items():
        place = (*path, str(name))
        if name in known:
            wanted = known[name](value)
            if wanted is not None:
                yield job_file.INVALID_VALUE.at(
                    place,
                    f"{'.'.join(place)}: {value!r} is not {wanted}",
                    remedy=f"Give {wanted}, or leave it out.",
                )
            continue
        near = nearest(str(name), known)
        listed = f"Known are: {', '.join(sorted(known))}." if known else "It takes none."
        yield job_file.INVALID_VALUE.at(
            place,
            f"{owner} has no option {name!r}; it would be dropped silently",
            remedy=f"Did you mean `{near[0]}`?" if near else listed,
        )
