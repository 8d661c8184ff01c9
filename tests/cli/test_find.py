"""`launch find`: what is printed, with what exit code, and that nothing is called without `--live`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from moto import mock_aws

from launcher.cluster.instances import find_hint
from tests.cli.conftest import RunLaunch
from tests.emulator.account import use_test_keys
from tests.emulator.service_quotas import emulated_quotas

H100 = ["find", "--gpu", "H100", "--count", "16", "--region", "us-west-2"]


def test_the_table_has_a_row_for_each_type_with_its_price_and_day(run_launch: RunLaunch) -> None:
    code, out, err = run_launch(*H100)
    assert (code, err) == (0, "")
    row = next(line for line in out.splitlines() if line.startswith("ml.p5.48xlarge"))
    assert row.split() == [
        *("ml.p5.48xlarge", "2", "×", "8", "H100", "80", "3200", "126.59", "8.00"),
        *("us-west-2", "2026-09-01", "yes"),
    ]
    assert "~ is estimated from EC2's price" in out


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_into_the_terminal(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = run_launch("find")
    assert max(map(len, out.splitlines())) <= columns
    assert all(name in out for name in ("ml.p6e-gb200.36xlarge", "SPOT", "~131.02"))


def test_an_unknown_figure_is_a_question_mark_and_one_that_is_not_there_a_hyphen(
    run_launch: RunLaunch,
) -> None:
    _, out, _ = run_launch("find", "--gpu", "V100")
    row = next(line for line in out.splitlines() if line.startswith("ml.p3.2xlarge"))
    assert row.split()[5:10] == ["16", "-", "?", "-", "?"]


def test_the_json_has_all_figures_and_what_was_excluded(run_launch: RunLaunch) -> None:
    code, out, _ = run_launch(*H100, "--output", "json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ["types", "looked_at", "exclusions"]
    first = found["types"][0]
    assert first["instance_type"] == "ml.p5.48xlarge"
    assert (first["hosts"], first["gpus"], first["gpu_bf16_tflops"]) == (2, 16, 989.5)
    assert (first["efa_gbps"], first["usd_per_hour"], first["quota"]) == (3200, 126.592, None)
    assert first["price"] == {
        "usd_per_host_hour": 63.296,
        "region": "us-west-2",
        "as_of": "2026-09-01",
        "times_the_price_of_ec2": None,
    }
    assert [each["condition"] for each in found["exclusions"]] == ["--gpu H100", "--region us-west-2"]


def test_where_there_is_none_each_condition_says_what_it_excludes(run_launch: RunLaunch) -> None:
    code, out, _ = run_launch("find", "--gpu", "H100", "--region", "eu-west-1", "--max-usd-hour", "100")
    assert code == 1
    assert "None of 62 instance types" in out
    assert "--gpu H100 excludes 60" in out
    assert "without it there would be ml.p5.4xlarge, ml.p5.48xlarge" in out
    assert "of which it is not known" in out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--gpu", "H1000"], "Did you mean H100"),
        (["--count", "0"], "--count 0 is no number of GPUs"),
        (["--memory", "80X"], "--memory 80X is not a size"),
        (["--region", "mars-1"], "--region mars-1: it is not known"),
        (["--max-usd-hour", "-1"], "--max-usd-hour -1 is no price"),
        (["--sort", "price"], '"hour", "tflop"'),
        (["--count", "many"], "--count"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_wrong_options_are_refused_and_nothing_is_listed(
    run_launch: RunLaunch, wrong: list[str], told: str
) -> None:
    code, out, err = run_launch("find", *wrong)
    assert (code, out) == (2, "")
    assert told in err


def test_live_shows_the_quotas_of_the_account(run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    use_test_keys(monkeypatch, "us-west-2")
    applied = {"ml.p5.48xlarge for training job usage": 4.0}
    defaults = {"ml.p5.4xlarge for training job usage": 0.0}
    with mock_aws(), emulated_quotas(applied, defaults):
        _, out, _ = run_launch("find", "--gpu", "H100", "--live", "--output", "json")
        quotas = {each["instance_type"]: each["quota"]["hosts"] for each in json.loads(out)["types"]}
        _, table, _ = run_launch("find", "--gpu", "H100", "--live")
    assert quotas == {"ml.p5.48xlarge": 4, "ml.p5.4xlarge": 0}
    assert table.splitlines()[1].split()[-1] == "QUOTA"


def test_live_asks_for_quotas_of_spot_hosts_where_spot_is_wanted(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_test_keys(monkeypatch, "us-west-2")
    with mock_aws(), emulated_quotas({"ml.p4d.24xlarge for spot training job usage": 7.0}, {}):
        _, out, _ = run_launch("find", "--gpu", "A100", "--spot", "--live", "--output", "json")
    quotas = {each["instance_type"]: each["quota"] for each in json.loads(out)["types"]}
    assert quotas["ml.p4d.24xlarge"]["hosts"] == 7
    assert quotas["ml.p4de.24xlarge"] is None


def test_live_without_a_region_is_refused(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    code, _, err = run_launch("find", "--live")
    assert code == 2
    assert "--region us-west-2" in err


@pytest.mark.parametrize(
    ("instance_type", "hosts"),
    [("ml.p5.48xlarge", 2), ("ml.g7e.48xlarge", 1), ("ml.trn1.32xlarge", None), ("ml.p9.48xlarge", 1)],
)
def test_what_errors_advise_is_a_command_that_finds_something(
    run_launch: RunLaunch, instance_type: str, hosts: int | None
) -> None:
    command = find_hint(instance_type, hosts).split("`")[1]
    code, out, _ = run_launch(*shlex.split(command)[1:])
    assert code == 0
    assert instance_type in out or instance_type == "ml.p9.48xlarge"


def test_nothing_is_advised_for_hosts_without_gpus() -> None:
    assert find_hint("ml.m5.xlarge", 4) == ""
