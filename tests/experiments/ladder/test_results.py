"""What the first rung that broke says of the cause."""

from __future__ import annotations

from itertools import pairwise

import pytest

from launcher.experiments.ladder.results import Climbed, Result, verdict
from launcher.experiments.ladder.rungs import Rung, Where

ONE = Rung("1-here", Where.HERE, 1, 1)
MADE_UP = Rung("1-here-synthetic", Where.HERE, 1, 1, synthetic=True)
SEVERAL = Rung("n-here", Where.HERE, 1, 2)
HOST = Rung("1-host", Where.AWS, 1, 8, instance_type="ml.p4d.24xlarge")
HOSTS = Rung("2-hosts", Where.AWS, 2, 8, instance_type="ml.p4d.24xlarge")
ALL = Rung("all-hosts", Where.AWS, 16, 8, instance_type="ml.p4d.24xlarge")


def broke(*held: Rung, at: Rung, result: Result = Result.BROKE) -> str:
    return verdict([*(Climbed(rung, Result.HELD, "") for rung in held), Climbed(at, result, "")])


@pytest.mark.parametrize(
    ("held", "at", "said", "ruled_out"),
    [
        ((), ONE, "the script, its packages", "not the network between hosts, not anything between ranks"),
        ((), MADE_UP, "the script, its packages", "not the data"),
        ((MADE_UP,), ONE, "the data, or the code that reads them", "not the script by itself"),
        ((ONE,), SEVERAL, "something between ranks", "not the network between hosts, not the data"),
        (
            (ONE, SEVERAL),
            HOST,
            "what ml.p4d.24xlarge has and this machine has not",
            "not the network between hosts",
        ),
        ((SEVERAL, HOST), HOSTS, "the network between hosts (security group", "not the data"),
        ((HOST, HOSTS), ALL, "what grows from 2 to 16 hosts", "not the data"),
    ],
)
def test_what_a_rung_adds_is_where_the_fault_is(
    held: tuple[Rung, ...], at: Rung, said: str, ruled_out: str
) -> None:
    text = broke(*held, at=at)
    suspected = text.partition("but ")[2]
    assert suspected.startswith(said)
    assert ruled_out in text.partition("but ")[0]


def test_every_step_up_has_a_suspect_of_its_own() -> None:
    rungs = [MADE_UP, ONE, SEVERAL, HOST, HOSTS, ALL]
    suspects = {broke(below, at=above).partition("but ")[2] for below, above in pairwise(rungs)}
    assert len(suspects) == len(rungs) - 1


def test_a_ladder_that_begins_on_several_hosts_rules_nothing_out() -> None:
    text = broke(at=HOSTS)
    assert "not " not in text.replace("this machine has not", "").replace("not all of them", "")
    assert "the network between hosts" in text
    assert "something between ranks" in text


def test_what_a_skipped_rung_adds_is_suspected_as_well() -> None:
    text = broke(ONE, at=HOSTS)
    assert "the image" in text
    assert "the network between hosts (" in text


def test_it_holds_as_far_as_it_was_tried() -> None:
    held = [Climbed(ONE, Result.HELD, ""), Climbed(SEVERAL, Result.HELD, "")]
    assert verdict(held) == "It holds up to n-here: 2 processes here."
    assert verdict([*held, Climbed(HOST, Result.DECLINED, "")]) == verdict(held)
    assert verdict([Climbed(HOST, Result.DECLINED, "")]) == "No rung was tried."


def test_what_the_account_refuses_is_said() -> None:
    refused = Climbed(HOST, Result.REFUSED, "QUOTA001 too few")
    assert verdict([refused]).endswith("would break 1-host: QUOTA001 too few.")


def test_what_stood_still_is_not_called_broken() -> None:
    assert "showed no progress with 2 processes here" in broke(ONE, at=SEVERAL, result=Result.UNDECIDED)
