"""Write docs/reference/costs.md from the table of prices and the synthesized clusters.

The prices are those of launcher/provisioning/resting_prices.json, everything else comes from
tools/generate/pages/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from launcher.provisioning.rest_costs import CostLine, prices, rest_costs, total
from tools.generate.generated import ROOT, filled_in, table_of
from tools.generate.synthesis import synthesize

PAGE = ROOT / "docs" / "reference" / "costs.md"

CLUSTERS = ("dev", "p4d", "p5-large", "isolated")
"""The shipped clusters, in the order in which the page tells them."""

REGION = "us-west-2"
"""Of all shipped clusters."""


def generated() -> dict[Path, str]:
    """What the page should hold now."""
    tables = {
        name: cluster_table(name, rest_costs(synthesize(name).templates.values(), REGION))
        for name in CLUSTERS
    }
    origin = "launcher/provisioning/resting_prices.json"
    return {PAGE: filled_in(PAGE, __name__, origin, {"prices": price_table(), **tables})}


def price_table() -> str:
    """Every price with its source."""
    return table_of(("what", "price", "source and its date", "looked up"), _prices())


def cluster_table(name: str, lines: tuple[CostLine, ...]) -> str:
    """What one cluster costs, line by line."""
    return f"## {name}\n\n{table_of(('what', 'a month'), _lines(lines))}"


def _prices() -> Iterator[tuple[str, ...]]:
    for each in prices():
        source = each.source if each.verified else f"**not verified**: {each.source}"
        yield each.what, f"{_usd(each.usd)} per {each.per}", source, each.looked_up


def _lines(lines: tuple[CostLine, ...]) -> Iterator[tuple[str, str]]:
    for line in lines:
        what = f"{line.what} ({line.reservation})" if line.reservation else line.what
        if line.usd_a_month is None:
            yield what, "not known"
            continue
        *counts, usd = line.factors
        product = " x ".join([*(f"{count:g}" for count in counts), _usd(usd)])
        yield what, f"{product} = {line.usd_a_month:.2f}"
    yield "**together**", f"**{total(lines):.2f}**"


def _usd(price: float) -> str:
    """Two digits after the point, or the three that some prices have."""
    return f"{price:.2f}" if round(price, 2) == price else f"{price:.3f}"
