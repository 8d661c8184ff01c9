"""launcher/account/quota_codes.json against public lists of quotas.

Gruntwork's is the one that it was made from. The other was quoted by hand, in part: the quotas of training
hosts among the codes L-00 to L-2B.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from launcher.account import facts
from launcher.facts import read_data_file
from tools.facts.comparison import Comparison, compare
from tools.facts.references import quoted

_LISTS: Final = {"gruntwork-io/terraform-aws-utilities": False, "klaffka/aws-quota-monitor": True}
"""The repositories that publish a list, and whether ours was made without it."""


def comparisons() -> Iterator[Comparison]:
    """The codes of the types that both name."""
    ours = read_data_file(facts.__file__, "quota_codes.json")["codes"]
    for repository, independent in _LISTS.items():
        quotation = quoted(repository)
        figures = (
            (f"quota of {instance_type} for {use} usage", ours[use][instance_type], code)
            for use, codes in quotation.rows.items()
            for instance_type, code in codes.items()
            if instance_type in ours.get(use, {})
        )
        yield compare(str(quotation), figures, independent=independent)
