"""A table must be looked at again where it is too old and something newer is there; never for age alone."""

from __future__ import annotations

import datetime

import pytest

from launcher.facts import Provenance
from tools.facts.freshness import installed_versions, must_be_looked_at

LOOKED = datetime.date(2026, 1, 1)
HEAD = Provenance(LOOKED, shelf_life_days=90, source="botocore 1.9.0", packages={"botocore": "1.9.0"})
FRESH, OLD = LOOKED + datetime.timedelta(days=90), LOOKED + datetime.timedelta(days=91)


@pytest.mark.parametrize(
    ("head", "today", "installed"),
    [
        (HEAD, FRESH, {"botocore": "1.10.0"}),  # something newer, but it still keeps
        (HEAD, OLD, {"botocore": "1.9.0"}),  # too old, but there is nothing newer
        (HEAD, OLD, {"botocore": "1.8.9"}),
        (Provenance(LOOKED, 90, "a page"), OLD, {}),  # waits for somebody
        (Provenance(LOOKED, 90, "a page", packages={"no-such-package-at-all": "1.0"}), OLD, None),
    ],
)
def test_one_of_the_two_is_not_enough(
    head: Provenance, today: datetime.date, installed: dict[str, str] | None
) -> None:
    if installed is None:
        installed = installed_versions(head)
        assert installed == {}
    assert must_be_looked_at(head, today, installed) is None


def test_too_old_with_something_newer_installed_must_be_looked_at() -> None:
    reason = must_be_looked_at(HEAD, OLD, {"botocore": "1.10.0"})
    assert reason == (
        "was looked at 91 days ago and may be believed for 90; installed is botocore 1.10.0 "
        "(the table was compared with 1.9.0)"
    )
