"""Every rule on scripts is listed, and says what it finds."""

from __future__ import annotations

from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import registered
from launcher.rules.script.check import JOB_RULES, RULES, unfinished_finding, unread_finding

RULES_ROOM = "launcher.rules.script."


def test_every_registered_rule_is_called_once() -> None:
    listed = [*RULES, *JOB_RULES]
    registered_rules = {
        each.function
        for each in registered()
        if each.stage is Stage.SCRIPT and each.name.startswith(RULES_ROOM) and ".acceptance." not in each.name
    }
    assert set(listed) == registered_rules - {unread_finding, unfinished_finding}
    assert len(listed) == len(set(listed))
