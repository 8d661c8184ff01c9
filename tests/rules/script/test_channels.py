"""Channels that the script reads, and those that the job has: DATA007."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.channels import channels_are_there
from tests.rules.script.counting import leaves_alone, shows
from tests.rules.script.judging_jobs import subject_of

TRAIN = {"train": {"s3_uri": "s3://bucket/train"}}
BOTH = {**TRAIN, "val": {"s3_uri": "s3://bucket/val"}}
START = "import argparse, os\nparser = argparse.ArgumentParser()\n"


def told(write_job: Callable[..., Path], script: str, **fields: object) -> list[tuple[str, str, Severity]]:
    found = channels_are_there(subject_of(write_job, START + script, **{"inputs": TRAIN, **fields}))
    return [(each.code, each.subject or "", each.severity) for each in found]


@shows(channels_are_there)
@pytest.mark.parametrize(
    ("script", "subject"),
    [
        ('data = os.environ["SM_CHANNEL_TRAINING"]', 'os.environ["SM_CHANNEL_TRAINING"]'),
        (
            'parser.add_argument("--data", default=os.environ["SM_CHANNEL_DATA"])',
            'os.environ["SM_CHANNEL_DATA"]',
        ),
        ('def main():\n    read(os.environ["SM_CHANNEL_TEST"])', 'os.environ["SM_CHANNEL_TEST"]'),
        (
            'if __name__ == "__main__":\n    read(os.environ["SM_CHANNEL_TEST"])',
            'os.environ["SM_CHANNEL_TEST"]',
        ),
    ],
)
def test_a_variable_of_a_channel_that_is_not_there_is_an_error(
    write_job: Callable[..., Path], script: str, subject: str
) -> None:
    assert told(write_job, script, inputs={}) == [("DATA007", subject, Severity.ERROR)]


@shows(channels_are_there)
@pytest.mark.parametrize(
    "script",
    ['data = "/opt/ml/input/data/training"', 'open("/opt/ml/input/data/training/a.txt")'],
)
def test_a_path_of_a_channel_that_is_not_there_is_a_warning(
    write_job: Callable[..., Path], script: str
) -> None:
    assert [(code, severity) for code, _, severity in told(write_job, script)] == [
        ("DATA007", Severity.WARNING),
    ]


@leaves_alone(channels_are_there)
@pytest.mark.parametrize(
    "script",
    [
        'data = os.environ["SM_CHANNEL_TRAIN"]',
        'data = os.environ.get("SM_CHANNEL_VAL", "data")\nprint("train")',
        'if "SM_CHANNEL_VAL" in os.environ:\n    val = os.environ["SM_CHANNEL_VAL"]\nprint("train")',
        'try:\n    val = os.environ["SM_CHANNEL_VAL"]\nexcept KeyError:\n    val = "train"',
        'os.environ["SM_CHANNEL_VAL"] = "/tmp/train"',
        'data = "/opt/ml/input/data/train/images"',
        'if os.path.exists("/opt/ml/input/data/val"):\n    print("train")',
        'resume = "/opt/ml/input/data/checkpoints/last.pt"\nprint("train")',
        "print('nothing of channels')",
        'data = os.environ["SM_CHANNEL_" + name]',
        '"""Reads /opt/ml/input/data/other in the container."""\nprint("train")',
    ],
)
def test_channels_that_are_there_or_may_be_are_fine(write_job: Callable[..., Path], script: str) -> None:
    assert told(write_job, script) == []


def test_a_default_that_the_job_replaces_is_fine(write_job: Callable[..., Path]) -> None:
    script = 'parser.add_argument("--data-dir", default="/opt/ml/input/data/other")'
    assert [severity for _, _, severity in told(write_job, script, inputs={})] == [Severity.WARNING]
    given = {"hyperparameters": {"data-dir": "/opt/ml/input/data/train"}}
    assert told(write_job, script, inputs={}, **given) == []


def test_a_channel_that_nobody_reads_is_a_warning(write_job: Callable[..., Path]) -> None:
    script = 'data = os.environ["SM_CHANNEL_TRAIN"]'
    found = list(channels_are_there(subject_of(write_job, START + script, inputs=BOTH)))
    assert [(each.severity, "`val`" in each.message) for each in found] == [(Severity.WARNING, True)]


@leaves_alone(channels_are_there)
@pytest.mark.parametrize(
    "script",
    [
        'a, b = os.environ["SM_CHANNEL_TRAIN"], os.environ.get("SM_CHANNEL_VAL")',
        'root = "/opt/ml/input/data"\na = os.environ["SM_CHANNEL_TRAIN"]',
        'a = os.environ["SM_CHANNEL_TRAIN"]\nb = read(a, "val.csv")',
        'a = os.environ["SM_CHANNEL_TRAIN"]\nb = f"/opt/ml/input/data/{name}"',
        "read_everything()",
    ],
)
def test_a_channel_that_may_be_read_is_fine(write_job: Callable[..., Path], script: str) -> None:
    assert told(write_job, script, inputs=BOTH) == []
