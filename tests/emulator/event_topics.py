"""EventBridge's rules that send to a topic, which moto's do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto.events.models import Rule
from moto.sns.models import sns_backends
from moto.utilities.arns import parse_arn

_send = Rule.send_to_targets


@contextmanager
def emulated_event_topics() -> Iterator[None]:
    """Within this, a rule's event reaches its topics, as it came. Use inside `mock_aws` or a server."""

    def send(rule: Rule, original_event: Any, *more: Any, **options: Any) -> None:
        everything, topics = rule.targets, [each for each in rule.targets if ":sns:" in each["Arn"]]
        for target in topics:
            arn = parse_arn(target["Arn"])
            sns_backends[arn.account][arn.region].publish(json.dumps(original_event), arn=target["Arn"])
        rule.targets = [each for each in everything if each not in topics]
        try:
            _send(rule, original_event, *more, **options)
        finally:
            rule.targets = everything

    with mock.patch.object(Rule, "send_to_targets", send):
        yield
