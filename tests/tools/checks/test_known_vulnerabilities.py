"""What is said of pip-audit's report: a package without data is no package without vulnerabilities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.checks.known_vulnerabilities import judged, main

SOUND = {"name": "rich", "version": "15.0.0", "vulns": []}
SKIPPED = {"name": "boto3", "skip_reason": "Dependency not found on PyPI: boto3 (1.44.5)"}
VULNERABLE = {
    "name": "jinja2",
    "version": "2.4",
    "vulns": [{"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"]}, {"id": "X-1", "fix_versions": []}],
}


@pytest.mark.parametrize("report", [None, {"dependencies": []}, {"dependencies": [SKIPPED, SKIPPED]}])
def test_without_data_nothing_is_claimed_and_nothing_fails(report: dict[str, list[object]] | None) -> None:
    assert judged(report) == (
        0,
        ["known vulnerabilities: not checked, as the data about them cannot be had from here"],
    )


def test_a_finding_fails_and_names_the_version_that_repairs_it() -> None:
    code, lines = judged({"dependencies": [SOUND, VULNERABLE, SKIPPED]})
    assert code == 1
    assert lines == [
        "jinja2 2.4: PYSEC-2019-217 (repaired in 2.10.1)",
        "jinja2 2.4: X-1 (repaired in no version yet)",
        "not checked: Dependency not found on PyPI: boto3 (1.44.5)",
        "known vulnerabilities: in 1 of 2 packages that were checked",
    ]


def test_packages_without_findings_pass() -> None:
    assert judged({"dependencies": [SOUND]})[0] == 0


def test_a_report_that_was_not_written_is_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path / "nowhere.json") == 0
    assert "not checked" in capsys.readouterr().out
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"dependencies": [VULNERABLE]}))
    assert main(report) == 1
