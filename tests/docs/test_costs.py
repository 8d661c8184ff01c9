"""The page of the costs at rest: its arithmetic is right, and its quantities are those of the templates."""

from __future__ import annotations

import math
import re

import pytest

from launcher.provisioning.rest_costs import CostLine
from tests.stacks import synthesis
from tools.generate.pages.costs_page import PAGE, cluster_table


def section(cluster: str) -> str:
    return PAGE.read_text("utf-8").split(f"\n## {cluster}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("cluster", synthesis.CLUSTERS)
def test_every_line_and_the_sum_are_as_a_reader_would_reckon_them(cluster: str) -> None:
    rows = re.findall(r"^\| [^|*]+ \| ([\d. x]+) = ([\d.]+) \|$", section(cluster), re.MULTILINE)
    amounts = [float(amount) for _, amount in rows]
    assert [math.prod(map(float, factors.split(" x "))) for factors, _ in rows] == pytest.approx(amounts)
    (together,) = re.findall(r"\*\*together\*\* \| \*\*([\d.]+)\*\*", section(cluster))
    assert len(rows) > 2 and sum(amounts) == pytest.approx(float(together))


def test_a_price_that_nobody_could_verify_is_marked() -> None:
    assert "Lustre PERSISTENT_2, 500 MB/s per TiB (price not verified) |" in section("p5-large")


def test_what_has_no_price_is_no_zero() -> None:
    table = cluster_table("own", (CostLine("Lustre of a new kind", 1, None),))
    assert "| Lustre of a new kind (price not known) | not known |" in table
