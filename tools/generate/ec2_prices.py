"""Write launcher/planning/ec2_prices.json: what EC2 asks for hosts with accelerators, by region.

    python -m tools.generate.ec2_prices KARPENTER AWS_GPU

reads clones of aws/karpenter-provider-aws, which has the prices of us-east-1, and of tsaol/aws-gpu, for the
other regions (their newest commits; no work tree is needed).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.facts.price_lists import PriceLists, aws_gpu_prices, karpenter_prices
from tools.facts.references import git
from tools.generate.generated import ROOT

TABLE = ROOT / "launcher" / "planning" / "ec2_prices.json"
SHELF_LIFE_DAYS: Final = 180
SOURCE: Final = (
    "EC2's prices on demand, as the repository beside each list quotes AWS's; as_of is the day of the oldest"
)

REGIONS: Final = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1", "eu-north-1"),
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
)
"""The regions that every account has from the start."""

Reader = Callable[[str], PriceLists]

_READ: Final[tuple[tuple[str, str, Reader], ...]] = (
    ("aws/karpenter-provider-aws", "pkg/providers/pricing/zz_generated.pricing_aws.go", karpenter_prices),
    ("tsaol/aws-gpu", "data/all_gpu_instances.js", aws_gpu_prices),
)
"""Repository, file in it and how it is read; a region's prices are those of the first that has the region."""


def table(directories: list[str]) -> dict[str, Any]:
    """The table from clones of the repositories, in their order."""
    lists: dict[str, dict[str, Any]] = {}
    for directory, source in zip(directories, _READ, strict=True):
        for price_list in _lists(directory, *source):
            lists.setdefault(price_list["region"], price_list)
    found = [lists[region] for region in REGIONS if region in lists]
    return {
        "as_of": min(each["as_of"] for each in found),
        "shelf_life_days": SHELF_LIFE_DAYS,
        "source": SOURCE,
        "unit": "USD per instance and hour, on demand, Linux, shared tenancy",
        "lists": found,
    }


def _lists(directory: str, repository: str, path: str, read: Reader) -> Iterator[dict[str, Any]]:
    commit = git(directory, "log", "-1", "--format=%h", "--abbrev=8").strip()
    found = read(git(directory, "show", f"HEAD:{path}"))
    for region, prices in found.prices.items():
        if prices:
            source = f"{repository}, {path}, at commit {commit}"
            yield {"region": region, "as_of": found.as_of, "source": source, "prices": prices}


def main(arguments: list[str]) -> int:
    """Write the table anew."""
    if len(arguments) != len(_READ):
        print("usage: python -m tools.generate.ec2_prices KARPENTER AWS_GPU", file=sys.stderr)
        return 2
    written = table(arguments)
    TABLE.write_text(json.dumps(written, indent=1) + "\n", "utf-8")
    print(f"wrote {TABLE.name}: {sum(len(each['prices']) for each in written['lists'])} prices")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
