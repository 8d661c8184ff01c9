"""A package that is missing is told with the file that should bring it, and under the name that pip knows."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.failure_modes.model import Retry


def log(*lines: str) -> list[Record]:
    return [Record(None, host, line) for host in ("algo-1", "algo-2") for line in lines]


def raised(module: str) -> list[Record]:
    return log(
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 3, in <module>',
        f"    import {module}",
        f"ModuleNotFoundError: No module named '{module}'",
    )


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("einops", "module einops is not installed: requirements.txt in the source folder does not bring it"),
        ("cv2", "module cv2 is not installed: it is opencv-python-headless in requirements.txt"),
        ("yaml", "module yaml is not installed: it is PyYAML in requirements.txt"),
    ],
)
def test_a_missing_module_is_a_missing_package(module: str, says: str) -> None:
    cause = diagnose(raised(module)).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("CODE005", "algo-1")
    assert cause.finding.message == f"algo-1: {says} (train.py:3)"
    assert cause.finding.remedy.startswith("Add what the script imports to requirements.txt")


def test_a_module_within_a_package_that_is_there_is_no_missing_package() -> None:
    cause = diagnose(raised("transformers.newest")).root_cause
    assert cause is not None
    assert cause.finding.code == "CODE001"


def test_what_pip_cannot_install_is_the_cause_and_not_the_script_that_lacks_it() -> None:
    found = diagnose(
        log(
            "ERROR: Could not find a version that satisfies the requirement einops==99 "
            "(from versions: 0.8.1)",
            "ERROR: No matching distribution found for einops==99",
            "Traceback (most recent call last):",
            '  File "/opt/ml/code/train.py", line 3, in <module>',
            "ModuleNotFoundError: No module named 'einops'",
        )
    )
    assert found.root_cause is not None
    message = "algo-1: pip finds no einops==99; versions that it finds: 0.8.1"
    assert (found.root_cause.finding.code, found.root_cause.finding.message) == ("CODE005", message)
    assert found.retry is Retry.NEVER
