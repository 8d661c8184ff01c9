"""What somebody put before each line of a log is taken off, whatever the log is; nothing else is."""

from __future__ import annotations

import json

import pytest

from launcher.diagnosis.formats.blocks import HEAD
from launcher.diagnosis.formats.detection import format_of
from launcher.diagnosis.record import parse

LOG = [
    "step 10 loss 2.1",
    "",
    "Traceback (most recent call last):",
    '  File "/opt/ml/code/train.py", line 3, in <module>',
    "    main()",
    "ValueError: bad value 7",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0",
    "the end",
]


def read(lines: list[str]) -> list[str]:
    whole = "".join(f"{line}\n" for line in lines).encode()
    return b"".join(format_of(whole[:HEAD]).as_text([whole])).decode().splitlines()


MARGINS = {
    "indentation": "    {}",
    "a tab": "\t{}",
    "a quotation": "> {}",
    "a quotation in a quotation": "> > {}",
    "cat -n": "{n:6}\t{}",
    "an editor": "{n:4}  | {}",
    "grep -n": "{n}:{}",
    "grep -H": "logs/train.log:{}",
    "grep -Hn": "logs/train.log:{n}:{}",
    "a service": "stderr: {}",
    "GitHub's command line": "train\tRun it\t2026-11-21T10:00:00.1234567Z {}",
}


@pytest.mark.parametrize("name", MARGINS)
def test_a_margin_is_taken_off(name: str) -> None:
    covered = [MARGINS[name].format(line, n=number) for number, line in enumerate(LOG, 1)]
    assert [parse(line).text.rstrip() for line in read(covered)] == LOG


@pytest.mark.parametrize("margin", ["> {}", "    {}"])
def test_what_stands_behind_it_may_have_any_format(margin: str) -> None:
    events = [
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-21T10:00:00Z"}) for line in LOG
    ]
    whole = "".join(f"{margin.format(line)}\n" for line in events).encode()
    found = format_of(whole)
    assert found.as_events is not None
    assert [each.text.rstrip("\n") for each in found.as_events([whole])] == LOG


@pytest.mark.parametrize(
    "lines",
    [
        LOG,
        ["3: x", "3: y", "7: z"],
        ["  a frame of a stack", "and what was raised"],
        ["> a quoted line", *LOG],
        ["INFO: step 1", "INFO: step 2", "INFO: step 3"],
        ["[rank0]: x", "[rank0]: y", "[rank0]: z"],
    ],
    ids=[
        "nothing before it",
        "numbers that do not count lines",
        "some are indented",
        "one is quoted",
        "levels",
        "ranks",
    ],
)
def test_what_is_no_margin_stays(lines: list[str]) -> None:
    assert read(lines) == lines
