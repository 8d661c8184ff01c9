"""launcher/planning/ec2_prices.json against another list of EC2's prices, in the region that both have."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.facts import read_data_file
from launcher.planning import job_cost
from tools.facts.comparison import Comparison, compare
from tools.facts.references import quoted


def comparisons() -> Iterator[Comparison]:
    """The types that both name: theirs are half a year older, and no price has changed."""
    quotation = quoted("tsaol/aws-gpu")
    lists = read_data_file(job_cost.__file__, "ec2_prices.json")["lists"]
    ours = next(each["prices"] for each in lists if each["region"] == "us-east-1")
    figures = (
        (f"EC2's price of {name} in us-east-1", ours[name], usd)
        for name, usd in quotation.rows.items()
        if name in ours
    )
    yield compare(str(quotation), figures, independent=True)
