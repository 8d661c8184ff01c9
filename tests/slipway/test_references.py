"""`${SM_...}` in what the job gives its script."""

from __future__ import annotations

import pytest

from slipway.failure import BootError
from slipway.references import replaced

FOLDERS = {"SM_MODEL_DIR": "/opt/ml/model", "SM_CHANNEL_MY-TRAIN": "/data", "SLIPWAY_CHECKPOINT_DIR": "/c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${SM_MODEL_DIR}", "/opt/ml/model"),
        ("--out=${SM_MODEL_DIR}/a:${SM_CHANNEL_MY-TRAIN}", "--out=/opt/ml/model/a:/data"),
        ("${SLIPWAY_CHECKPOINT_DIR}", "/c"),
        ("$${SM_MODEL_DIR}", "${SM_MODEL_DIR}"),
        ("$$${SM_MODEL_DIR}", "$${SM_MODEL_DIR}"),
        ("${oc.env:HOME} $SM_MODEL_DIR ${SM_MODEL_DIR", "${oc.env:HOME} $SM_MODEL_DIR ${SM_MODEL_DIR"),
    ],
)
def test_folders_are_put_in_and_nothing_else(text: str, expected: str) -> None:
    assert replaced(text, FOLDERS) == expected


def test_what_was_put_in_is_not_looked_at_again() -> None:
    assert replaced("${SM_MODEL_DIR}", {"SM_MODEL_DIR": "${SM_OTHER}"}) == "${SM_OTHER}"


def test_a_folder_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(BootError, match=r"CODE002 \$\{SM_CHANNEL_VAL\}.*SM_CHANNEL_MY-TRAIN"):
        replaced("${SM_CHANNEL_VAL}", FOLDERS)
