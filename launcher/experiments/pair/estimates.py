"""The mean of values that hang together, with an interval that says how far it can be trusted.

What a training prints at one step resembles what it printed the step before. An interval that took the values
for independent would be too narrow, and would see differences where there is chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LEVEL = 0.95
"""How often the interval of a mean holds the true one."""

_TREND = 3
"""Parameters of the smooth trend (a parabola) that is no noise: curves of two runs approach or part."""

_HIGHEST_CORRELATION = 0.99
_NODES = 64
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the half width of its interval at `LEVEL`."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.value + self.half_width

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside of the interval."""
        return abs(self.value) > self.half_width

    def lies_within(self, bound: float) -> bool:
        """Whether the whole interval lies between -bound and bound."""
        return max(abs(self.low), abs(self.high)) <= bound


def mean_of_correlated(values: Sequence[float]) -> Estimate:
    """The mean of values in their order, with an interval that allows for their correlation.

    The values are taken as a smooth trend and noise that resembles the noise before it (an autoregressive
    process of first order). So many values as the noise is worth independent ones, and no more, narrow the
    interval, at least one beyond the trend. The correlation is taken high: its estimate in short series is
    too low, by (k + (k + 2) r) / n with k parameters of the trend (Kendall 1954 for a mean, extended to a
    trend), and one to two of its standard errors are added. Simulated with noise of correlation 0 to 0.9 and
    10 to 400 values, an interval of equal series leaves out zero in at most 5 of 100 cases; tests hold it.

    Raises ValueError for fewer than six values.
    """
    count = len(values)
    if count < 2 * _TREND:
        raise ValueError(f"{count} values have no interval")
    mean = math.fsum(values) / count
    noise = _without_trend(values)
    squares = math.fsum(value * value for value in noise)
    # Of equal curves the difference is rounding alone.
    if squares <= count * (1e-12 * max(abs(value) for value in values)) ** 2:
        return Estimate(mean, 0.0)
    correlation = math.fsum(a * b for a, b in pairwise(noise)) / squares
    correlation += (_TREND + (_TREND + 2) * max(correlation, 0.0)) / count
    errors = min(2.0, max(1.0, 50 / count))
    correlation += errors * math.sqrt(max(0.0, 1 - correlation * correlation) / count)
    correlation = min(max(correlation, 0.0), _HIGHEST_CORRELATION)
    worth = max(count * (1 - correlation) / (1 + correlation), _TREND + 1)
    variance = squares / (count * (1 - _TREND / worth))
    return Estimate(mean, student_t(worth - _TREND) * math.sqrt(variance / worth))


def student_t(freedom: float) -> float:
    """The value that Student's t with so many degrees of freedom stays below, in size, in 95 of 100 cases.

    `freedom` is at least 1, and need not be whole. Found by bisection of the distribution's tail, to 0.001.
    """
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    factor = math.exp(scale) / math.sqrt(freedom * math.pi)
    low, high = 1.9, 13.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if factor * _tail(middle, freedom) > (1 - LEVEL) / 2:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _tail(begin: float, freedom: float) -> float:
    """The integral of (1 + t²/freedom)^(-(freedom+1)/2) from `begin` to infinity, with t = begin / u."""
    total = 0.0
    for node in range(_NODES):
        u = (node + 0.5) / _NODES
        t = begin / u
        total += (1 + t * t / freedom) ** (-(freedom + 1) / 2) * begin / (u * u)
    return total / _NODES


def _without_trend(values: Sequence[float]) -> list[float]:
    """The values less the parabola that lies nearest to them."""
    count, rest = len(values), list(values)
    basis: list[list[float]] = []
    for power in range(_TREND):
        direction = [(2 * number / (count - 1) - 1) ** power for number in range(count)]
        for earlier in basis:
            share = math.fsum(a * b for a, b in zip(earlier, direction, strict=True))
            direction = [a - share * b for a, b in zip(direction, earlier, strict=True)]
        length = math.sqrt(math.fsum(a * a for a in direction))
        direction = [a / length for a in direction]
        basis.append(direction)
        share = math.fsum(a * b for a, b in zip(direction, rest, strict=True))
        rest = [a - share * b for a, b in zip(rest, direction, strict=True)]
    return rest
