"""What a comparison of one of our tables with another source came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of ours that another source does not have so; `because` says why ours stands, if it does."""

    what: str
    ours: Any
    theirs: Any
    because: str | None = None

    def __str__(self) -> str:
        reason = f": {self.because}" if self.because else ""
        return f"{self.what} is {self.ours!r} here and {self.theirs!r} there{reason}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our figures against one source.

    `independent` is False where the table was made from that very source: then the comparison shows only
    that it was copied right, and whether the source has moved on.
    """

    against: str
    independent: bool
    compared: int
    differences: tuple[Difference, ...] = ()

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """The differences that somebody must look at."""
        return tuple(each for each in self.differences if each.because is None)


Figure = tuple[str, Any, Any]
"""What a figure is called, ours, theirs."""


def compare(
    against: str, figures: Iterable[Figure], *, independent: bool, known: Mapping[str, str] | None = None
) -> Comparison:
    """Compare figures one by one; `known` gives the reason for a difference that is meant, by its name.

    A reason for a difference that is not there any more is a difference itself.
    """
    reasons = dict(known or {})
    compared, differences = 0, []
    for what, ours, theirs in figures:
        compared += 1
        if ours != theirs:
            differences.append(Difference(what, ours, theirs, reasons.pop(what, None)))
    differences += [Difference(what, "explained", "no difference any more") for what in reasons]
    return Comparison(against, independent, compared, tuple(differences))


def memberships(what: str, ours: Iterable[str], theirs: Iterable[str]) -> Iterator[Figure]:
    """Two sets as figures: for every member of either whether it is in ours and in theirs."""
    ours, theirs = set(ours), set(theirs)
    for name in sorted(ours | theirs):
        yield f"{name} among the {what}", name in ours, name in theirs
