"""`launch explain` answers people in words and programs in JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from launcher.cli.explain import explain
from launcher.cli.output import OutputFormat
from launcher.failure_modes import network, notices, sources
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.coverage import stages_covered

KEYS = ["code", "title", "cause", "remedy", "sources", "stages", "notices", "figures", "as_of"]

Captured = pytest.CaptureFixture[str]


def test_a_mode_is_explained_whole(capsys: Captured) -> None:
    assert explain("EFA002") == 0
    shown = " ".join(capsys.readouterr().out.split())
    mode = network.NO_EGRESS_TO_ITSELF
    for text in (mode.title, mode.cause, mode.remedy):
        assert text in shown


def test_its_severity_and_sources_are_named(capsys: Captured) -> None:
    explain("EFA006")
    shown = capsys.readouterr().out
    assert "warning" in shown
    assert all(source.title in shown for source in CATALOGUE["EFA006"].sources)


def test_the_stages_stand_there_in_words(capsys: Captured) -> None:
    explain("EFA002")
    assert "prevented by what `cdk deploy` provisions" in capsys.readouterr().out


def test_what_aws_announced_is_said_before_the_cause_with_where_it_was_read(capsys: Captured) -> None:
    explain("DBG001")
    shown = " ".join(capsys.readouterr().out.split())
    announced = shown.index("AWS closed SageMaker Debugger to new customers on 2026-07-30")
    cause = shown.index("Cause")
    assert announced < cause
    assert f"read {notices.DEBUGGER_CLOSED.source.as_of}" in shown[announced:cause]


def test_where_nothing_was_announced_no_heading_stands(capsys: Captured) -> None:
    explain("EFA002")
    assert "Announced" not in capsys.readouterr().out


def test_sources_say_when_they_were_last_read(capsys: Captured) -> None:
    explain("EFA007")
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{sources.EC2_EFA} (read {sources.EC2_EFA.as_of})" in shown
    plugin = sources.EFA_PLUGIN_ENVIRONMENT
    assert f"{plugin} (read {plugin.as_of}, commit {plugin.commit})" in shown


def test_figures_say_which_source_carries_them(capsys: Captured) -> None:
    explain("EFA004")
    shown = " ".join(capsys.readouterr().out.split())
    assert f"5: addresses of a subnet that AWS keeps ({sources.SUBNET_SIZES})" in shown
    assert "50: hosts at 5 addresses each in a /24: a sum" in shown


def test_notices_figures_and_dates_are_in_the_json(capsys: Captured) -> None:
    explain("DBG001", output=OutputFormat.JSON)
    shape = json.loads(capsys.readouterr().out)
    assert shape["notices"][0]["since"] == "2026-07-30"
    assert shape["as_of"] == str(min(source.as_of for source in CATALOGUE["DBG001"].sources))
    explain("EFA004", output=OutputFormat.JSON)
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert {"figure": "251", "what": "addresses of a /24 without these: a sum", "source": None} in figures
    assert sources.SUBNET_SIZES.title in {each["source"] for each in figures}


def test_capitals_do_not_matter(capsys: Captured) -> None:
    assert explain("efa002") == 0
    assert capsys.readouterr().out.startswith("EFA002")


def test_square_brackets_are_no_markup(capsys: Captured) -> None:
    explain("CKPT005")
    assert "partition('model.')[2]" in capsys.readouterr().out


def test_an_unknown_code_is_refused_with_the_nearest_ones(capsys: Captured) -> None:
    assert explain("EFA02") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "EFA002" in captured.err


def test_a_code_like_no_other_points_to_the_list(capsys: Captured) -> None:
    assert explain("nonsense") == 2
    assert "launch explain --all" in capsys.readouterr().err


def test_a_code_together_with_all_is_refused(capsys: Captured) -> None:
    assert explain("EFA002", all_=True) == 2
    assert capsys.readouterr().out == ""


def test_all_modes_are_listed_a_line_each(capsys: Captured) -> None:
    assert explain(all_=True) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.split() and line.split()[0] in CATALOGUE]
    assert listed == list(CATALOGUE)


def test_without_a_code_all_are_listed(capsys: Captured) -> None:
    explain(all_=True)
    everything = capsys.readouterr().out
    explain()
    assert capsys.readouterr().out == everything


def test_one_mode_in_json_has_exactly_the_contracts_keys(capsys: Captured) -> None:
    assert explain("EFA002", output=OutputFormat.JSON) == 0
    shape = json.loads(capsys.readouterr().out)
    assert list(shape) == KEYS
    assert shape["stages"] == [stage.value for stage in stages_covered("EFA002")]


def test_all_modes_in_json_have_exactly_the_contracts_keys(capsys: Captured) -> None:
    assert explain(all_=True, output=OutputFormat.JSON) == 0
    shapes = json.loads(capsys.readouterr().out)
    assert [shape["code"] for shape in shapes] == list(CATALOGUE)
    assert all(list(shape) == KEYS for shape in shapes)


def test_explaining_loads_neither_pydantic_nor_boto3_nor_yaml() -> None:
    program = (
        "import sys, launcher.cli.explain as command; command.explain('EFA002');"
        "print('loaded:', {'pydantic', 'boto3', 'botocore', 'yaml'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: set()"


def test_what_rules_find_in_scripts_is_shown_with_a_bad_and_a_good_line(capsys: Captured) -> None:
    explain("DATA008")
    shown = " ".join(capsys.readouterr().out.split())
    assert "In a script - A DistributedSampler whose seed is calculated from the rank." in shown
    assert "Bad: `DistributedSampler(dataset, seed=seed + dist.get_rank())`" in shown
    assert "Good: `DistributedSampler(dataset, seed=seed)`" in shown


def test_what_no_rule_finds_in_scripts_has_no_such_part(capsys: Captured) -> None:
    for code in ("EFA002", "SPEC002"):
        explain(code)
        assert "In a script" not in capsys.readouterr().out
