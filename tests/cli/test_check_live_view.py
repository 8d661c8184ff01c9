"""What the live stage of a launch shows where there is no terminal."""

from __future__ import annotations

import pytest

from launcher.cli.live_view import LiveView
from tests.rules.live.states import FILE_SYSTEM


def test_a_long_wait_is_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView() as view:
        for seconds in range(0, 150, 15):
            view.waiting(FILE_SYSTEM, seconds)
        view.progress(3, 20, "the subnets")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "looking at the account",
        "fs-1 is AVAILABLE, waiting for AVAILABLE (0 min)",
        "fs-1 is AVAILABLE, waiting for AVAILABLE (1 min)",
        "fs-1 is AVAILABLE, waiting for AVAILABLE (2 min)",
    ]
