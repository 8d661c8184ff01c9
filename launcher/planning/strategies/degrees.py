"""Parallel degrees cut the ranks into equal groups, so they must divide the world size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.smp_parameters import PARAMETERS

_SEARCHED = 100_000


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def divide(job: JobSpec, ranks: int, degrees: Mapping[str, int]) -> Iterator[Finding]:
    """The product of the degrees must divide the number of ranks; degrees of 1 group nothing."""
    grouping = {name: degree for name, degree in degrees.items() if degree > 1}
    product = prod(grouping.values())
    if ranks % product == 0:
        return
    factors = " x ".join(f"{name} {degree}" for name, degree in grouping.items())
    is_a_product = f" = {product}" if len(grouping) > 1 else ""
    yield distribution.DEGREES_DO_NOT_DIVIDE.at(
        (*PARAMETERS, next(iter(grouping))),
        f"{factors}{is_a_product} does not divide the world size {ranks} "
        f"({job.resources.instance_count} hosts)",
        remedy=f"Choose a product that divides it{_nearest_divisors(ranks, product)}, or change the "
        "number of hosts.",
    )


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def within(inner: tuple[str, int], outer: tuple[str, int]) -> Iterator[Finding]:
    """The inner degree, by name and number, may not be larger than the outer one."""
    if inner[1] > outer[1]:
        yield distribution.DEGREES_DO_NOT_DIVIDE.at(
            (*PARAMETERS, inner[0]),
            f"{inner[0]} {inner[1]} is larger than {outer[0]} {outer[1]}",
            remedy=f"Lower {inner[0]} to at most {outer[1]}, or raise {outer[0]}.",
        )


def _nearest_divisors(ranks: int, product: int) -> str:
    """`, such as 4 or 8`: the nearest below and above; nothing where there are too many ranks to search."""
    if ranks > _SEARCHED:
        return ""
    divisors = [degree for degree in range(1, ranks + 1) if ranks % degree == 0]
    near = [
        *[degree for degree in divisors if degree < product][-1:],
        *[degree for degree in divisors if degree > product][:1],
    ]
    return f", such as {' or '.join(map(str, near))}"
