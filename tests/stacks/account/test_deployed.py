"""What is deployed is asked before a synthesis, and the CDK validates where somebody deploys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from launcher.cluster.files import load_cluster_file
from stacks.account.deployed import NotCompared, deployed_clusters, refused_changes
from stacks.validation import Purpose, purpose
from tests.session.checkout import ACCOUNT, TEAM, hold_stack
from tests.stacks.synthesis import ROOT, synthesize

MANIFEST = "slipway-team-manifest"
FASTER = {"lustre": {**TEAM["lustre"], "throughput": 250}}
SMALLER = {"lustre": {**TEAM["lustre"], "capacity_gib": 1200}}


@pytest.fixture
def aws(credentials: None) -> Iterator[None]:
    with mock_aws():
        yield


def write(folder: Path, **changed: Any) -> Path:
    file = folder / "team.yaml"
    file.write_text(yaml.safe_dump({**TEAM, **changed}, sort_keys=False))
    return file


def deploy(file: Path) -> None:
    hold_stack(MANIFEST, synthesize(load_cluster_file(file)).template("manifest"))


def refused(file: Path, **options: Any) -> list[str]:
    options = {"replace_data": False, "account": ACCOUNT, **options}
    return refused_changes(load_cluster_file(file), file, **options)


@pytest.mark.usefixtures("aws")
def test_a_change_that_replaces_data_is_refused_at_its_line(tmp_path: Path) -> None:
    deploy(write(tmp_path))
    file = write(tmp_path, **FASTER)
    line = file.read_text().splitlines().index("  throughput: 250") + 1

    (problem,) = refused(file)
    assert problem.startswith(f"{file}:{line}:3: `lustre.throughput` replaces data: ")
    assert refused(file, replace_data=True) == []


@pytest.mark.usefixtures("aws")
def test_what_aws_refuses_is_refused_whatever_is_asked_for(tmp_path: Path) -> None:
    deploy(write(tmp_path))
    file = write(tmp_path, **SMALLER)

    (problem,) = refused(file, replace_data=True)
    assert "`lustre.capacity_gib`: AWS refuses the change: FSx does not shrink a file system." in problem


@pytest.mark.usefixtures("aws")
def test_what_the_table_allows_is_not_refused(tmp_path: Path) -> None:
    deploy(write(tmp_path))

    assert refused(write(tmp_path, tags={"team": "research"}, observability={})) == []


@pytest.mark.usefixtures("aws")
def test_a_first_deployment_is_compared_with_nothing(tmp_path: Path) -> None:
    assert refused(write(tmp_path)) == []


@pytest.mark.usefixtures("aws")
def test_a_cluster_of_an_earlier_version_is_said_not_to_be_compared(tmp_path: Path) -> None:
    hold_stack(MANIFEST, {"Resources": {"Parameter": {"Type": "AWS::SSM::Parameter"}}})

    with pytest.raises(NotCompared, match="an earlier version of Slipway deployed it"):
        refused(write(tmp_path))


@pytest.mark.usefixtures("aws")
def test_credentials_of_another_account_see_nothing_of_it(tmp_path: Path) -> None:
    with pytest.raises(NotCompared, match="of account 123456789012, not 999999999999"):
        refused(write(tmp_path), account="999999999999")


class Refusing:
    """A client each of whose calls ends in this error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def get_caller_identity(self) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no\nreally"}}, "GetTemplate"),
            "AccessDenied: no really",
        ),
        (EndpointConnectionError(endpoint_url="https://sts"), "Could not connect"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, error: Exception, said: str) -> None:
    with pytest.raises(NotCompared, match=said) as raised:
        refused(write(tmp_path), client=lambda service, region: Refusing(error))

    assert "\n" not in str(raised.value)
    assert "launch cluster plan team" in str(raised.value)


def run_app(endpoint: str, file: Path | None = None, **context: str) -> subprocess.CompletedProcess[str]:
    """Run app.py as the CDK command line does that has found credentials."""
    if file is not None:
        context["cluster"] = str(file)
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_DEFAULT_ACCOUNT": ACCOUNT,
        "CDK_VALIDATION": "false",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    command = [sys.executable, "app.py"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.usefixtures("credentials")
def test_the_app_itself_refuses_and_says_what_to_do(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    deploy(write(tmp_path))
    file = write(tmp_path, **FASTER)
    done = run_app(endpoint, file)

    assert done.returncode == 2
    assert "`lustre.throughput` replaces data" in done.stderr
    assert f"launch cluster plan {file}" in done.stderr and "-c replace_data=true" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.usefixtures("credentials")
def test_the_app_itself_takes_what_is_asked_for(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    deploy(write(tmp_path))

    assert run_app(endpoint, write(tmp_path, **FASTER), replace_data="true").returncode == 0


def manifest_of(name: str, **client: Any) -> None:
    ssm = boto3.client("ssm", region_name="us-west-2", **client)
    ssm.put_parameter(Name=f"/slipway/clusters/{name}", Value="{}", Type="String")


@pytest.mark.usefixtures("aws")
def test_the_clusters_of_a_region_are_known_by_their_manifests() -> None:
    for name in ("team", "dev", *(f"c{number}" for number in range(12))):
        manifest_of(name)

    found = deployed_clusters("us-west-2", ACCOUNT)
    assert (len(found), found[-2:]) == (14, ["dev", "team"])
    assert deployed_clusters("eu-west-1", ACCOUNT) == []


def test_dev_is_not_taken_for_chosen_where_others_stand(endpoint: str) -> None:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    manifest_of("dev", endpoint_url=endpoint, **keys)
    manifest_of("prod", endpoint_url=endpoint, **keys)
    done = run_app(endpoint)

    assert done.returncode == 2
    assert "no cluster was chosen, so this would be dev; in us-west-2 stand prod" in done.stderr
    assert "`-c cluster=prod`" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(("standing", "chosen"), [("dev", {}), ("prod", {"cluster": "dev"})])
def test_dev_is_taken_where_it_is_chosen_or_stands_alone(
    endpoint: str, standing: str, chosen: dict[str, str]
) -> None:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    for name in {"dev", standing}:
        manifest_of(name, endpoint_url=endpoint, **keys)

    assert run_app(endpoint, **chosen).returncode == 0


SHELL = ["/bin/sh", "-c", "python3 app.py"]
NODE = ".venv/bin/node"
ITS_OWN = "CloudFormation Validate"


@pytest.mark.parametrize("command", ["synth", "synthesize", "diff", "ls", "list"])
def test_a_command_that_changes_nothing_only_looks(command: str) -> None:
    above = [SHELL, [NODE, "/home/me/node_modules/.bin/cdk", command, "--quiet"]]

    assert purpose(above) is Purpose.LOOKING


def test_only_destroy_destroys() -> None:
    cdk = [NODE, "node_modules/.bin/cdk"]

    assert purpose([SHELL, [*cdk, "destroy", "--all"]]) is Purpose.DESTROYING
    assert purpose([SHELL, [*cdk, "deploy", "destroy"]]) is Purpose.DEPLOYING
    assert purpose([["bash", "destroy"]]) is Purpose.DEPLOYING


@pytest.mark.parametrize(
    "command_line",
    [
        [NODE, "node_modules/.bin/cdk", "deploy", "--all"],
        [NODE, "node_modules/.bin/cdk", "deploy", "synth"],
        [NODE, "node_modules/.bin/cdk", "watch"],
        [NODE, "node_modules/.bin/cdk", "--app", "synth", "deploy"],
        [NODE, "node_modules/.bin/cdk"],
        ["synth"],
        ["bash", "synth", "cdk"],
        [],
    ],
)
def test_what_is_not_known_to_look_may_deploy(command_line: list[str]) -> None:
    assert purpose([SHELL, command_line, ["bash"]]) is Purpose.DEPLOYING


def test_the_nearest_command_line_of_the_cdk_decides() -> None:
    assert purpose([[NODE, "cdk", "deploy"], [NODE, "cdk", "synth"]]) is Purpose.DEPLOYING


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "switch", "validated"),
    [("synth", None, False), ("synth", "true", True), ("deploy", None, True)],
)
def test_the_app_is_validated_before_it_is_deployed(
    command: str, switch: str | None, validated: bool, tmp_path: Path
) -> None:
    # Stands for the CDK's command line: a program of its name and its words that starts the app.
    program = tmp_path / "cdk"
    program.write_text("import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'app.py']))\n")
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
        "CDK_CONTEXT_JSON": json.dumps({"cluster": "dev"}),
        "CDK_OUTDIR": str(tmp_path / "out"),
        **({"CDK_VALIDATION": switch} if switch else {}),
    }

    subprocess.run([sys.executable, program, command], cwd=ROOT, env=environment, check=True, timeout=120)

    report = json.loads((tmp_path / "out" / "validation-report.json").read_text())
    assert (ITS_OWN in {each["pluginName"] for each in report["pluginReports"]}) is validated
