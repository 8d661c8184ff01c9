"""launcher/account/quota_codes.json against a public list of quotas.

Quoted by hand, in part: the quotas of training hosts among the codes L-00 to L-2B of the list.
"""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account import quotas
from launcher.facts.data_file import read_data_file
from scripts.facts.comparison import Comparison, compare
from scripts.facts.references import quoted


def comparisons() -> Iterator[Comparison]:
    """The codes of the types that both name."""
    ours = read_data_file(quotas.__file__, "quota_codes.json")["codes"]
    quotation = quoted("klaffka/aws-quota-monitor")
    figures = (
        (f"quota of {instance_type} for {use} usage", ours[use][instance_type], code)
        for use, codes in quotation.rows.items()
        for instance_type, code in codes.items()
        if instance_type in ours.get(use, {})
    )
    # Both are listings of Service Quotas of the same month.
    yield compare(str(quotation), figures, independent=True)
