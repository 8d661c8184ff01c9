"""Two looks at a rank: what is equal in both, and what travels between hosts."""

from __future__ import annotations

import json
from dataclasses import replace

from slipway.watchdog.views import from_json, steady, to_json
from tests.slipway.watchdog.ranks_seen import operation, seen, waiting


def test_who_made_a_step_or_entered_a_collective_gets_on() -> None:
    assert steady(seen(0), seen(0, steps=36)) is None
    assert steady(seen(0), waiting(0)) is None
    assert steady(seen(0), seen(0)) == seen(0)


def test_what_was_waited_in_only_once_is_not_waited_in() -> None:
    before = waiting(0, operation(35, waits=False), operation(36, waits=False))
    after = waiting(0, operation(35, waits=False), operation(36))
    stable = steady(before, after)
    assert stable is not None and stable.waiting == ()
    stable = steady(after, after)
    assert stable is not None and [each.number for each in stable.waiting] == [36]


def test_a_state_that_changed_is_not_a_stopped_one() -> None:
    stopped = seen(0, state="T")
    one = steady(seen(0, state="R"), stopped)
    both = steady(stopped, stopped)
    assert one is not None and one.state == "S"
    assert both is not None and both.state == "T"


def test_a_view_travels_as_json() -> None:
    view = replace(waiting(1, operation(peer=0), operation(37, group="1")), ended=True)
    assert from_json(json.loads(json.dumps(to_json(view)))) == view
