"""The packages of requirements.txt in the container, with a real pip and without a network."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from launcher.source.packaging import build_source
from launcher.source.tree import read_source
from slipway.container import Rendezvous, read_container
from slipway.failure import BootError
from slipway.processes.supervise import StopRequest
from slipway.processes.torchrun import torchrun_command
from slipway.requirements import held_versions, index_settings, install, why_pip_failed
from tests.compiled_boot import build_boot
from tests.wheels import make_python, make_wheel, only_from, run, unpack_wheel

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0


def try_to_install(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m slipway.requirements` on a file, with the wheels below `folder/wheels`."""
    (folder / "requirements.txt").write_text(text)
    python = make_python(folder / "python")
    unpack_wheel(make_wheel(folder, "torch", "2.8.0+cu129"), folder / "python")
    return run(
        python,
        "-m",
        "slipway.requirements",
        "requirements.txt",
        cwd=folder,
        env={**os.environ, **only_from(folder / "wheels"), "PYTHONPATH": str(ROOT), **environment},
        timeout=PATIENCE_SECONDS,
    )


def test_the_boot_installs_what_the_script_imports_and_keeps_what_pip_said(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "tinyone", "1.2")
    source, data = tmp_path / "src", tmp_path / "ml" / "input" / "data" / "code"
    config = tmp_path / "ml" / "input" / "config"
    for folder in (source, data, config):
        folder.mkdir(parents=True)
    (source / "train.py").write_text("import tinyone; print('tinyone is', tinyone.version)\n")
    (source / "requirements.txt").write_text("tinyone\n")
    build_source(read_source(source, "train.py"), data / "source.tar.gz")
    build_boot(data / "slipway.pyz")
    resources = {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    words = ["--strategy", "none", "--entry-point", "train.py", "--requirements", "requirements.txt"]
    ended = run(
        make_python(tmp_path / "python"),
        str(data / "slipway.pyz"),
        *words,
        env={**os.environ, **only_from(tmp_path / "wheels"), "SLIPWAY_ROOT": str(tmp_path / "ml")},
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "tinyone is 1.2"
    kept = read_container(tmp_path / "ml").logs / "pip.stdout.log"
    assert "Successfully installed tinyone-1.2" in kept.read_text()


def test_a_package_that_is_nowhere_is_named(tmp_path: Path) -> None:
    ended = try_to_install(tmp_path, "nosuchthing>=3\n")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "CODE005 requirements.txt cannot be installed: nosuchthing>=3: the package index has no package of "
        "that name for this Python and machine"
    )


def test_a_version_that_is_nowhere_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    for version in ("1.0", "1.1"):
        make_wheel(tmp_path / "wheels", "tinyone", version)
    ended = try_to_install(tmp_path, "tinyone==9\n")
    assert "there is no version tinyone==9 for this Python" in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith("the newest are 1.0, 1.1")


def test_torch_stays_what_it_is_and_who_wants_another_is_named(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "oldthing", "1.0", requires=["torch<2"])
    make_wheel(tmp_path / "wheels", "torch", "1.13")
    last = try_to_install(tmp_path, "oldthing\n").stderr.splitlines()[-1]
    assert last.startswith("CODE005 requirements.txt cannot be installed: no versions fit together: ")
    assert "oldthing 1.0 depends on torch<2" in last
    assert "torch 2.8.0+cu129 stays as it is, since other libraries there are built for it" in last


def test_an_index_that_nobody_reaches_is_told_from_a_package_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as probe:  # its port is free, and nobody listens there
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    ended = try_to_install(
        tmp_path,
        "tinyone\n",
        PIP_NO_INDEX="0",
        PIP_FIND_LINKS="",
        PIP_RETRIES="1",
        PIP_INDEX_URL=f"http://aws:s3cr3t-token@127.0.0.1:{closed}/simple/",
    )
    assert ended.stderr.splitlines()[-1].endswith("tinyone: the package index cannot be reached")
    assert "s3cr3t-token" not in ended.stdout + ended.stderr


def test_a_source_without_the_default_file_has_nothing_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("requirements.txt", folder=tmp_path, environment={}, stop=StopRequest())
    assert capsys.readouterr().out == "slipway: the source has no requirements.txt: nothing to install\n"


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BootError, match=r"^CODE005 gpu\.txt is not in the job's source"):
        install("gpu.txt", folder=tmp_path, environment={}, stop=StopRequest())


def test_a_stop_ends_pip_and_is_no_failure_of_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("nosuchthing\n")
    program = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from slipway.processes.supervise import StopRequest\n"
        "from slipway.requirements import install\n"
        "stop = StopRequest()\n"
        "stop.request(signal.SIGTERM)\n"
        "install('requirements.txt', folder=Path.cwd(), environment=os.environ, stop=stop)\n"
    )
    environment = {**os.environ, **only_from(tmp_path), "PYTHONPATH": str(ROOT)}
    ended = run(make_python(tmp_path / "python"), "-c", program, cwd=tmp_path, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")


def distribution(name: str, version: str, *requires: str) -> Any:
    return SimpleNamespace(metadata={"Name": name}, version=version, requires=list(requires))


def test_torch_its_cuda_and_what_is_built_for_it_are_held_and_nothing_else() -> None:
    installed = [
        distribution("torch", "2.8.0+cu129", "filelock", "nvidia-cudnn-cu12==9.10; sys_platform == 'linux'"),
        distribution("nvidia_cudnn_cu12", "9.10", "nvidia-cublas-cu12"),
        distribution("nvidia-cublas-cu12", "12.8"),
        distribution("nvidia-ml-py", "13.0"),
        distribution("torchvision", "0.23.0", "numpy", "torch==2.8.0"),
        distribution("filelock", "3.0"),
        distribution("numpy", "2.0"),
        distribution("torch", "1.0"),  # further behind on the path, so not the one that is imported
    ]
    assert held_versions(installed) == {
        "torch": "2.8.0+cu129",
        "torchvision": "0.23.0",
        "nvidia-cudnn-cu12": "9.10",
        "nvidia-cublas-cu12": "12.8",
    }


class CodeArtifact:
    """What boto3's client answers."""

    def get_authorization_token(self, *, domain: str, domainOwner: str) -> dict[str, str]:  # noqa: N803
        assert (domain, domainOwner) == ("team", "111122223333")
        return {"authorizationToken": "t0ken"}

    def get_repository_endpoint(self, *, repository: str, format: str, **domain: str) -> dict[str, str]:
        host = "team-111122223333.d.codeartifact.eu-west-1.amazonaws.com"
        return {"repositoryEndpoint": f"https://{host}/{format}/{repository}/"}


@pytest.fixture
def boto3(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("boto3")
    module.client = lambda service, region_name: {("codeartifact", "eu-west-1"): CodeArtifact()}[
        service, region_name
    ]
    monkeypatch.setitem(sys.modules, "boto3", module)
    return module


def test_a_repository_of_code_artifact_becomes_pips_index(
    boto3: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = "arn:aws:codeartifact:eu-west-1:111122223333:repository/team/python"
    assert index_settings({"CA_REPOSITORY_ARN": arn}) == {
        "PIP_INDEX_URL": "https://aws:t0ken@team-111122223333.d.codeartifact.eu-west-1.amazonaws.com/pypi/"
        "python/simple/"
    }
    assert capsys.readouterr() == ("", "")


def test_what_aws_refuses_is_told_with_the_permissions(boto3: Any) -> None:
    arn = "arn:aws:codeartifact:us-east-1:111122223333:repository/team/python"
    with pytest.raises(BootError, match=r"^CODE005 .*sts:GetServiceBearerToken"):
        index_settings({"CA_REPOSITORY_ARN": arn})


def test_what_is_no_arn_of_a_repository_is_refused() -> None:
    with pytest.raises(BootError, match=r"^CODE005 CA_REPOSITORY_ARN 'my-repo' is not the ARN"):
        index_settings({"CA_REPOSITORY_ARN": "my-repo"})


def test_without_the_variable_pip_has_its_own_index() -> None:
    assert index_settings({}) == {}


def test_hosts_that_install_wait_longer_for_each_other(tmp_path: Path) -> None:
    config = tmp_path / "input" / "config"
    config.mkdir(parents=True)
    (config / "resourceconfig.json").write_text(json.dumps({"hosts": ["a", "b"], "current_host": "a"}))
    where = (
        read_container(tmp_path),
        Rendezvous("a", 7777),
        2,
        ["python", "train.py"],
        tmp_path,
    )
    assert "--rdzv_conf" not in torchrun_command(*where)
    assert "--rdzv_conf timeout=1800" in " ".join(torchrun_command(*where, patience=1800))


def test_the_package_and_the_reason_are_named() -> None:
    otherwise = []
    for row in yaml.safe_load((Path(__file__).parent / "pip_failures.yaml").read_text("utf-8")):
        code, said = why_pip_failed(row.get("stdout", ""), row["stderr"], 3)
        if code != "CODE005" or not said.startswith(row["reason"]) or "token" in said:
            otherwise.append((row, code, said))
    assert otherwise == []


def test_a_conflict_is_told_with_what_causes_it() -> None:
    stdout = (
        "\nThe conflict is caused by:\n    lightning 2.0 depends on torch<2.1\n"
        "    The user requested (constraint) torch==2.8.0\n\nTo fix this you could try to:\n1. loosen\n"
    )
    stderr = (
        "ERROR: Cannot install lightning==2.0 because these package versions have conflicting dependencies.\n"
        "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/\n"
    )
    assert why_pip_failed(stdout, stderr, 1) == (
        "CODE005",
        "no versions fit together: lightning 2.0 depends on torch<2.1; "
        "The user requested (constraint) torch==2.8.0",
    )


def test_a_full_disk_is_that_and_no_fault_of_a_package() -> None:
    stderr = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
    assert why_pip_failed("", stderr, 1) == ("DISK001", "the disk is full (No space left on device)")
