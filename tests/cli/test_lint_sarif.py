"""SARIF that is valid against its schema, and whose results keep their identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.conftest import RunLaunch
from tests.program import trial_rules

SCHEMA = json.loads((Path(__file__).parent / "sarif" / "sarif-2.1.0-rtm.5.json").read_text("utf-8"))

SCRIPT = """\
if rank == 0:
    barrier()
barrier()  # slipway: ignore[DDP004] alone here
e["A"] = 4
init_process_group()
"""


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial_rules.use(monkeypatch)
    Path("train.py").write_text(SCRIPT, "utf-8")


def run_of(run_launch: RunLaunch, *paths: str | Path) -> dict[str, Any]:
    _, out, _ = run_launch("lint", *(paths or ["train.py"]), "--output", "sarif")
    log = json.loads(out)
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    run = log["runs"][0]
    assert isinstance(run, dict)
    return run


def prints(run: dict[str, Any]) -> list[str]:
    return [each["partialFingerprints"]["primaryLocationLineHash"] for each in run["results"]]


def test_the_log_is_valid_with_findings_notes_fixes_and_accepted_ones(run_launch: RunLaunch) -> None:
    run = run_of(run_launch)
    levels = [(each["ruleId"], each["level"]) for each in run["results"]]
    assert levels == [("DDP004", "error"), ("DDP004", "error"), ("CODE003", "error"), ("DDP006", "note")]
    first, accepted, fixable, _ = run["results"]
    assert first["relatedLocations"][0]["message"]["text"] == "under `if rank == 0`"
    assert [accepted.get("suppressions"), first.get("suppressions")] == [[{"kind": "inSource"}], None]
    (change,) = fixable["fixes"][0]["artifactChanges"]
    region = change["replacements"][0]["deletedRegion"]
    assert SCRIPT[region["charOffset"] :][: region["charLength"]] == "4"


def test_what_the_command_line_accepts_is_suppressed_from_outside(run_launch: RunLaunch) -> None:
    run = run_of(run_launch, "train.py", "--ignore", "CODE003")
    kinds = {each["ruleId"]: each.get("suppressions") for each in run["results"][1:]}
    assert kinds["CODE003"] == [{"kind": "external"}]
    assert kinds["DDP004"] == [{"kind": "inSource"}]


def test_a_log_without_findings_is_valid(run_launch: RunLaunch) -> None:
    Path("train.py").write_text("a = 1\n", "utf-8")
    assert run_of(run_launch)["results"] == []


def test_a_rule_has_help_and_a_result_names_it(run_launch: RunLaunch) -> None:
    run = run_of(run_launch)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["CODE003", "DDP004", "DDP006"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    assert all(rule["help"]["text"] and rule["help"]["markdown"] for rule in rules)
    assert "\n- Each call of something called `barrier`.\n  - Bad: " in rules[1]["help"]["markdown"]


def test_a_place_is_that_of_the_expression(run_launch: RunLaunch) -> None:
    place = run_of(run_launch)["results"][0]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 14}


def test_paths_are_relative_and_written_as_uris(run_launch: RunLaunch, tmp_path: Path) -> None:
    name = tmp_path / "a b" / "100% ü.py"
    name.parent.mkdir()
    name.write_text("barrier()\n", "utf-8")
    place = run_of(run_launch, name)["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/100%25%20%C3%BC.py", "uriBaseId": "%SRCROOT%"}


def test_a_file_outside_of_the_working_folder_has_its_whole_uri(
    run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    place = run_of(run_launch, "../train.py")["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": (tmp_path / "train.py").resolve().as_uri()}


def test_a_fingerprint_stays_when_lines_are_added_above_and_the_line_is_indented(
    run_launch: RunLaunch,
) -> None:
    before = prints(run_of(run_launch))
    indented = "".join(f"    {line}\n" for line in SCRIPT.splitlines())
    Path("train.py").write_text(f"# new\n\ndef main():\n{indented}", "utf-8")
    assert prints(run_of(run_launch)) == before


def test_fingerprints_differ_between_codes_files_and_lines(run_launch: RunLaunch) -> None:
    Path("other.py").write_text(SCRIPT + "barrier()\nbarrier()\n", "utf-8")
    found = prints(run_of(run_launch, "train.py", "other.py"))
    assert len(set(found)) == len(found) == 10
