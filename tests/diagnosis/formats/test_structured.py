"""Structured loggers' objects in the lines of a backend: message and traceback are read."""

from __future__ import annotations

import json

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.record import Record

PLACE = "/opt/ml/code/train.py"
TRACEBACK = (
    f"Traceback (most recent call last):\n  File \"{PLACE}\", line 9, in main\n    load()\nKeyError: 'label'"
)
FRAMES = [{"filename": PLACE, "lineno": 9, "name": "main", "locals": {"token": "hunter2"}}]
DICT = [
    {"exc_type": "KeyError", "exc_value": "'label'", "exc_notes": [], "is_cause": False, "frames": FRAMES}
]


@pytest.mark.parametrize(
    "written",
    [
        {"text": f"2026-08-20 10:00:00.1 | ERROR | __main__:main:9 - failed\n{TRACEBACK}\n", "record": {}},
        {"event": "failed", "level": "error", "timestamp": "2026-08-20T10:00:00Z", "exception": TRACEBACK},
        {"event": "failed", "level": "error", "exception": DICT},
        {"asctime": "2026-08-20 10:00:00", "levelname": "ERROR", "message": "failed", "exc_info": TRACEBACK},
    ],
    ids=["loguru", "structlog", "structlog's dict_tracebacks", "python-json-logger"],
)
def test_the_exception_in_an_object_is_the_root_cause(written: dict[str, object]) -> None:
    lines = ["starting", json.dumps(written | {"rank": 3})]
    cause = diagnose([Record(1000.0 + n, "algo-1", text) for n, text in enumerate(lines)]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("CODE001", 3)
    assert "KeyError: 'label' (train.py:9)" in cause.finding.message


@pytest.mark.parametrize(
    "exception", [[], [{}], [{"exc_type": 1}], {"exc_type": "E"}, [{"exc_type": "E"}], 7]
)
def test_other_shapes_beside_a_message_are_left_out(exception: object) -> None:
    line = json.dumps({"event": "step 1 loss 2", "exception": exception})
    assert diagnose([Record(None, "", line)]).root_cause is None


def test_the_variables_of_a_frame_are_told_to_nobody() -> None:
    line = json.dumps({"event": "failed", "exception": DICT})
    assert "hunter2" not in json.dumps(diagnose([Record(None, "", line)]).to_json())
