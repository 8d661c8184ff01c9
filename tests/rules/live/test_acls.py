"""Network ACLs: the first entry that is about the traffic decides."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.account.network_acls import NetworkAclEntry
from launcher.rules.live.acls import ANSWERS, lets_pass
from tests.rules.live.states import ANY, acl, entry

LAST = entry(32767, "egress", False)
HTTPS = (443, 443)
NEIGHBOUR, HALF_OF_IT, PRIVATE = "10.0.1.0/24", "10.0.1.0/25", "10.0.0.0/8"


@pytest.mark.parametrize(
    ("entries", "cidr", "passes"),
    [
        pytest.param([entry(100, "egress", True), LAST], ANY, True, id="the default"),
        pytest.param([LAST], ANY, False, id="nothing but the last"),
        pytest.param([], ANY, False, id="nothing at all"),
        pytest.param(
            [entry(50, "egress", False, ports=HTTPS), entry(100, "egress", True), LAST],
            ANY,
            False,
            id="denied before",
        ),
        pytest.param(
            [entry(100, "egress", True), entry(150, "egress", False, ports=HTTPS), LAST],
            ANY,
            True,
            id="denied after",
        ),
        pytest.param([entry(100, "egress", True, ports=HTTPS), LAST], ANY, True, id="HTTPS alone"),
        pytest.param([NetworkAclEntry(100, "egress", True, "17", ANY), LAST], ANY, False, id="UDP alone"),
        pytest.param([entry(100, "ingress", True), LAST], ANY, False, id="the other direction"),
        pytest.param([entry(100, "egress", True, "::/0"), LAST], ANY, False, id="IPv6"),
        pytest.param(
            [entry(50, "egress", False, PRIVATE), entry(100, "egress", True), LAST],
            ANY,
            True,
            id="private addresses are not those of AWS",
        ),
        pytest.param([entry(100, "egress", True, "52.0.0.0/8"), LAST], ANY, None, id="a public range alone"),
        pytest.param([entry(100, "egress", True, PRIVATE), LAST], NEIGHBOUR, True, id="a wider range"),
        pytest.param(
            [entry(50, "egress", False, HALF_OF_IT), entry(100, "egress", True), LAST],
            NEIGHBOUR,
            None,
            id="denied in part",
        ),
    ],
)
def test_first_entry_that_matches_decides(entries: list[Any], cidr: str, passes: bool | None) -> None:
    assert lets_pass(acl(*entries), "egress", HTTPS, cidr) is passes


@pytest.mark.parametrize(
    ("entries", "passes"),
    [
        pytest.param([(True, 1024, 40000), (True, 40001, 65535)], True, id="two entries, side by side"),
        pytest.param([(True, 1024, 40000), (True, 40002, 65535)], False, id="with a port between them"),
        pytest.param([(True, 1024, 50000), (False, 45000, 65535)], False, id="the rest is denied"),
        pytest.param([(True, 1024, 65535), (False, 45000, 65535)], True, id="denied after it was opened"),
    ],
)
def test_entries_open_a_range_together(entries: list[tuple[bool, int, int]], passes: bool) -> None:
    numbered = [
        entry(100 + number, "ingress", allows, ports=(first, last))
        for number, (allows, first, last) in enumerate(entries)
    ]
    assert lets_pass(acl(*numbered), "ingress", ANSWERS, ANY) is passes
