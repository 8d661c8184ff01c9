"""The example of somebody else's CDK app synthesizes with `slipway_cdk`, not where training would hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "cdk" / "app.py"

ELSEWHERE = """
import pathlib, runpy, sys

sys.path = [
    sys.argv[1],
    *(each for each in sys.path if each and not pathlib.Path(each, "constructs", "training_key.py").exists()),
]
runpy.run_path(sys.argv[2])
import constructs
print([*constructs.__path__, *(name for name in ("stacks", "slipway") if name in sys.modules)])
"""
"""Runs a program with what the wheel installs, and without any checkout of this repository."""


def synthesize(app: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    installed = folder / "installed"
    installed.mkdir()
    for package in ("slipway_cdk", "launcher"):
        (installed / package).symlink_to(ROOT / package)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    # Into an empty home jsii would unpack the CDK once more.
    unpacked = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": os.environ["JSII_RUNTIME_PACKAGE_CACHE_ROOT"]}
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(installed), str(app)],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "CDK_OUTDIR": str(folder / "cdk.out"), **unpacked},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_example_synthesizes_without_anything_of_the_repository_but_the_package(tmp_path: Path) -> None:
    run = synthesize(APP, tmp_path)
    assert run.returncode == 0, run.stderr
    template = json.loads((tmp_path / "cdk.out" / "Research.template.json").read_text())
    kinds = [each["Type"] for each in template["Resources"].values()]
    (library,) = eval(run.stdout)
    assert "site-packages" in library
    assert kinds.count("AWS::FSx::FileSystem") == kinds.count("AWS::FSx::DataRepositoryAssociation") == 1
    assert set(template["Outputs"]) == {"FileSystemId", "MountName", "SecurityGroupId"}


@pytest.mark.few_cases("a group that the CDK makes")
@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        (
            'EfaSecurityGroup(stack, "Hosts", vpc=vpc)',
            'ec2.SecurityGroup(stack, "Hosts", vpc=vpc, allow_all_outbound=True)',
            ["EFA001", "EFA002"],
        ),
        ("cidr_mask=22", "cidr_mask=25", ["EFA004"]),
        ("capacity_gib=4800", "capacity_gib=5000", ["LustreSize"]),
    ],
    ids=["a group that the CDK makes", "a small subnet", "a size that FSx does not have"],
)
def test_the_example_fails_its_synthesis_where_training_would_hang(
    before: str, after: str, codes: list[str], tmp_path: Path
) -> None:
    text = APP.read_text("utf-8")
    assert text.count(before) == 1
    (tmp_path / "app.py").write_text(text.replace(before, after))
    run = synthesize(tmp_path / "app.py", tmp_path)
    assert run.returncode == 1
    assert "ValidationFailed" in run.stderr
    report = json.loads((tmp_path / "cdk.out" / "validation-report.json").read_text())
    (own,) = [each for each in report["pluginReports"] if each["pluginName"] == "Slipway"]
    assert [each["ruleName"] for each in own["violations"]] == codes


def test_a_type_of_file_system_that_fsx_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.read_text("utf-8").replace("PERSISTENT_2", "PERSISTENT_3"))
    run = synthesize(tmp_path / "app.py", tmp_path)
    assert "FSx has no deployment_type 'PERSISTENT_3'; use one of SCRATCH_1, SCRATCH_2" in run.stderr
