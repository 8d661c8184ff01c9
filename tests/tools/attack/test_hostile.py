"""A sample of the hostile files and folders, each handed to the real command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.attack import hostile
from tools.attack.hostile import Case, cases, try_case

EVERY = 6


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", list(cases(heavy=False))[::EVERY], ids=lambda case: case.name)
def test_what_nobody_means_well_ends_in_time_and_without_a_crash(case: Case) -> None:
    tried = try_case(case)
    assert tried.wrong is None, tried.printed


def test_a_command_that_does_not_end_is_killed_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "SECONDS", 0.01)
    tried = try_case(Case("too slow for this", lambda folder: ("check", "job.yaml")))
    assert tried.wrong == "not ended after 0 s"


def test_a_crash_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(folder: Path) -> tuple[str, ...]:
        # A file of this name in the folder of the command comes before Python's own.
        (folder / "yaml.py").write_text("raise RuntimeError('planted')\n")
        return ("check", "job.yaml")

    assert try_case(Case("a foreign module", spoil)).wrong == "crashed"
