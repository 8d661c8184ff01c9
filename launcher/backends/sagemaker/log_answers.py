"""The answers of GetLogEvents as they come, without botocore's walk over every value of every event.

The walk turns what JSON cannot hold into Python values, such as times and bytes. A log event has neither:
its times are integers of milliseconds, its message is text. It takes two thirds of the time of a call with
thousands of events.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

_EVENT = "before-parse.cloudwatch-logs.GetLogEvents"


def take_events_as_they_come(logs: Any) -> None:
    """Let this client leave the events as they stand in the JSON: the same values, sooner.

    `logs` is boto3's client. Where its botocore knows no such event, or the service speaks another protocol
    than JSON, all goes on as usual.
    """
    logs.meta.events.register(_EVENT, _take_events, unique_id="slipway-log-events")


def _take_events(
    response_dict: MutableMapping[str, Any], customized_response_dict: MutableMapping[str, Any], **_: Any
) -> None:
    """botocore parses what is left in the body, and adds the second mapping to what it has parsed."""
    try:
        answer = json.loads(response_dict["body"])
    except ValueError:
        return  # botocore has its own answer to that.
    # Events of another form are left to the reader that says what is odd about them.
    if isinstance(answer, dict) and _are_events(answer.get("events")):
        customized_response_dict["events"] = answer.pop("events")
        response_dict["body"] = json.dumps(answer).encode()


def _are_events(events: Any) -> bool:
    return isinstance(events, list) and all(
        isinstance(event, dict)
        and isinstance(event.get("timestamp"), int)
        and isinstance(event.get("message"), str)
        for event in events
    )
