"""A diagnosis on a terminal."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from launcher.cli.diagnosis_view import show_cause
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import AccountCheck, CheckOutcome
from launcher.diagnosis.record import Record


def test_what_the_account_shows_stands_below_the_remedy_and_a_remedy_below_what_is_wrong() -> None:
    diagnosis = replace(
        diagnose([Record(None, "algo-1", "NCCL WARN Bootstrap : no socket interface found")]),
        checked=(
            AccountCheck("EFA001", CheckOutcome.RIGHT, "security group sg-1 is right, so not EFA001"),
            AccountCheck("EFA002", CheckOutcome.WRONG, "sg-1 has no egress to itself", "Add the rule."),
            AccountCheck("NCCL007", CheckOutcome.NOT_VERIFIED, "subnets could not be read", "Ask for it."),
        ),
    )
    written = StringIO()
    show_cause(Console(file=written, width=2000), diagnosis)
    lines = written.getvalue().splitlines()
    first = lines.index("Checked: security group sg-1 is right, so not EFA001")
    assert lines[first : first + 4] == [
        "Checked: security group sg-1 is right, so not EFA001",
        "Checked: sg-1 has no egress to itself",
        "→ Add the rule.",
        "Checked: subnets could not be read",
    ]
    assert lines[first - 1].startswith("→ ")
    assert lines[first + 4].startswith("→ Retry ")
