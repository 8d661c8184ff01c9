"""Parallel degrees cut the ranks into equal groups, so they must divide the world size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.options import OPTIONS
from launcher.planning.strategies.strategy import Objection

PARAMETERS = (*OPTIONS, "parameters")

_SEARCHED = 100_000


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def divide(job: JobSpec, world_size: int, degrees: Mapping[str, int]) -> Iterator[Objection]:
    """The product of the degrees against the world size; degrees of 1 group nothing."""
    grouping = {name: degree for name, degree in degrees.items() if degree > 1}
    product = prod(grouping.values())
    if world_size % product == 0:
        return
    told = " x ".join(f"{name} {degree}" for name, degree in grouping.items())
    is_a_product = f" = {product}" if len(grouping) > 1 else ""
    yield Objection(
        distribution.DEGREES_DO_NOT_DIVIDE,
        f"{told}{is_a_product} does not divide the world size {world_size} "
        f"({job.resources.instance_count} hosts)",
        f"Choose a product that divides it{_nearest_divisors(world_size, product)}, or change the number of "
        "hosts.",
        (*PARAMETERS, next(iter(grouping))),
    )


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def within(inner: tuple[str, int], outer: tuple[str, int]) -> Iterator[Objection]:
    """A degree that may not be larger than another."""
    if inner[1] > outer[1]:
        yield Objection(
            distribution.DEGREES_DO_NOT_DIVIDE,
            f"{inner[0]} {inner[1]} is larger than {outer[0]} {outer[1]}",
            f"Lower {inner[0]} to at most {outer[1]}, or raise {outer[0]}.",
            (*PARAMETERS, inner[0]),
        )


def _nearest_divisors(world_size: int, product: int) -> str:
    """`, such as 4 or 8`; nothing for worlds that are too large to search."""
    if world_size > _SEARCHED:
        return ""
    divisors = [degree for degree in range(1, world_size + 1) if world_size % degree == 0]
    near = [
        *[degree for degree in divisors if degree < product][-1:],
        *[degree for degree in divisors if degree > product][:1],
    ]
    return f", such as {' or '.join(map(str, near))}"
