"""What a comparison says, in sentences."""

from __future__ import annotations

import math

from launcher.experiments.pair.comparison import (
    APART_HERE,
    Judgement,
    LossComparison,
    RunComparison,
    SpeedComparison,
)

ONE_RUN_EACH = "It is one run each: another seed can move a loss further than the interval says."
"""What the interval, which is made of the noise within two runs, cannot know."""

ON_ONE_MACHINE = (
    "Runs on this machine share it with whatever else it does: speeds less than "
    f"{APART_HERE:g} times apart, or that vary by as much, are not told from each other here."
)

_TOO_MANY = 20
"""So many times what there is, nobody waits for."""


def verdicts(comparison: RunComparison, *, here: bool = False) -> list[str]:
    """Whole sentences on loss and speed, B held against A; `here` says that one ran on this machine."""
    said = [on_loss(comparison.loss), on_speed(comparison.speed)]
    difference = comparison.loss.difference
    if comparison.loss.judgement is Judgement.DIFFERS and difference and math.isfinite(difference.value):
        said.append(ONE_RUN_EACH)
    if here and comparison.speed.ratio is not None and comparison.speed.judgement is not Judgement.SAME:
        said.append(ON_ONE_MACHINE)
    return said


def on_loss(loss: LossComparison) -> str:
    """Whether both learn alike, by how much not, and how sure that is."""
    found, level = loss.difference, loss.level
    if found is None or level is None:
        if loss.judgement is Judgement.DIFFERS:
            return f"B learns {'worse' if loss.is_worse else 'better'} than A: {loss.why}."
        return f"Whether B learns as A does cannot be told: {loss.why}."
    where = f"over {loss.unit}s {_figure(loss.first)} to {_figure(loss.last)}"
    share = f", {_share(abs(found.value / level))} A's {level:.3g}" if level else ""
    by = f"by {abs(found.value):.3g} ± {found.half_width:.2g} ({where}{share})"
    higher = "higher" if found.value > 0 else "lower"
    if loss.judgement is Judgement.SAME:
        if found.value == 0 and found.half_width == 0:
            return f"B learns as A does, to the last digit printed ({where})."
        return f"B learns as A does: its loss is {higher} {by}, which counts as the same."
    if loss.judgement is Judgement.DIFFERS:
        return f"B learns {'worse' if loss.is_worse else 'better'} than A: its loss is {higher} {by}."
    return f"Whether B learns as A does cannot be told yet: its loss is {higher} {by}. {_more(loss)}"


def on_speed(speed: SpeedComparison) -> str:
    """Which is faster, how much, and how sure that is."""
    if speed.ratio is None:
        return f"Which is faster cannot be told: {speed.why}."
    medians = f"{_figure(speed.second)} {speed.unit} against {_figure(speed.first)}"
    ratio = speed.ratio
    factor = f"{ratio.value:.2f} times ({ratio.low:.2f} to {ratio.high:.2f})"
    if speed.judgement is Judgement.SAME:
        return f"B is as fast as A: {factor} its speed, {medians}."
    if speed.judgement is Judgement.DIFFERS:
        which = "faster" if speed.ratio.value > 1 else "slower"
        return f"B is {which} than A: {factor} its speed, {medians}."
    return f"Which is faster cannot be told: B has {factor} A's speed, {medians}."


def _more(loss: LossComparison) -> str:
    span = (loss.last or 0) - (loss.first or 0)
    if loss.more is None or loss.more > _TOO_MANY * max(span, 1):
        return "More of the same would take too long to tell: repeat both with other seeds."
    return f"About {_figure(max(1.0, math.ceil(loss.more)))} more {loss.unit}s would tell."


def _share(part: float) -> str:
    return f"{part:.1%} of" if part < 1 else f"{part:.3g} times"


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
