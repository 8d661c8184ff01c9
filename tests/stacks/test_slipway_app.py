"""Which cluster `-c cluster=` means, and what is said when it means none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cluster.files import ClusterFileError, load_cluster
from tests.stacks.synthesis import ROOT, dev_spec, synthesize

CLUSTERS = ROOT / "clusters"


def test_name_means_the_file_of_that_name() -> None:
    assert load_cluster("dev", CLUSTERS).name == "dev"


@pytest.mark.parametrize("chosen", ["./clusters/dev.yaml", str(CLUSTERS / "dev.yaml")])
def test_path_means_that_file(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert load_cluster(chosen, CLUSTERS).name == "dev"


@pytest.mark.parametrize("chosen", ["nope", "../dev", "no/such.yaml", ""])
def test_unknown_cluster_lists_the_known_ones(chosen: str) -> None:
    with pytest.raises(ClusterFileError, match=r"known clusters: dev"):
        load_cluster(chosen, CLUSTERS)


def test_file_must_be_called_like_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text((CLUSTERS / "dev.yaml").read_text())

    with pytest.raises(ClusterFileError, match=r"prod\.yaml: name: 'dev' must be 'prod'"):
        load_cluster("prod", tmp_path)


@pytest.mark.exhaustive
def test_app_refuses_an_unknown_cluster() -> None:
    done = run_app("nope")

    assert done.returncode == 2
    assert "there is no cluster 'nope'" in done.stderr
    assert "known clusters: dev" in done.stderr
    assert "Traceback" not in done.stderr


def test_app_refuses_a_broken_cluster_file(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: broken\nregion: us-west-2\navailability_zone: [us-west-2a]\n")

    done = run_app(str(broken))

    assert done.returncode == 2
    assert f"{broken}:3:1: SPEC002 unknown field `availability_zone`. Did you mean" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("written", ["'012345678901'", "012345678901"])
def test_app_refuses_credentials_of_another_account(written: str, tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text((CLUSTERS / "dev.yaml").read_text() + f"account: {written}\n")

    done = run_app(str(file), credentials_of="123456789012")

    assert done.returncode == 2
    assert "cluster dev is for account 012345678901, but these credentials are of account 123456789012" in (
        done.stderr
    )
    assert "Traceback" not in done.stderr


def test_templates_of_a_named_account_are_for_that_account() -> None:
    stacks = synthesize(dev_spec(account="012345678901")).stacks

    assert {stack.account for stack in (stacks.network, stacks.storage, stacks.manifest)} == {"012345678901"}


def test_without_node_the_app_says_where_it_comes_from() -> None:
    done = run_app("dev", path="/nonexistent")

    assert done.returncode == 2
    assert "source .venv/bin/activate" in done.stderr
    assert "Traceback" not in done.stderr


def run_app(
    cluster: str, path: str | None = None, credentials_of: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run app.py as the CDK command line does, which tells the account of the credentials it found."""
    path = path or os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    environment = {"PATH": path, "CDK_CONTEXT_JSON": json.dumps({"cluster": cluster})}
    if credentials_of:
        environment["CDK_DEFAULT_ACCOUNT"] = credentials_of
    command = [sys.executable, "app.py"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
