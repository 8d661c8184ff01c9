"""`launch` in this process, as somebody calls it who has no terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

from launcher.cli.app import main


def call_launch(words: Sequence[str]) -> tuple[Any, str, str]:
    """How it ended, None where it just came back, and what it wrote to its output and as errors."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err), mock.patch("sys.stdin", io.StringIO()):
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code
    printed = (each.buffer.getvalue().decode("utf-8", "replace") for each in (out, err))  # type: ignore[attr-defined]
    return code, *printed
