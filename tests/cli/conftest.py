"""Running `launch` in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.app import main

RunLaunch = Callable[..., tuple[int, str, str]]
WriteJob = Callable[..., Path]


@pytest.fixture
def run_launch(capsys: pytest.CaptureFixture[str]) -> RunLaunch:
    """Call `launch` with arguments; return exit code, stdout and stderr."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run
