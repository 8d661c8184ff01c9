"""Where runs on Slurm are looked for: on shared folders of this machine, and behind login nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.aws.clients import Clients
from launcher.backends.interface import JobQuery
from launcher.backends.slurm.hyperpod import HyperPodEntry, HyperPodLogin
from launcher.backends.slurm.login_node import LoginSilent
from launcher.session.find_jobs import list_jobs
from launcher.session.slurm.known_folders import keep_folder, known_backends, login_on

UNREACHED = """#!/bin/sh
[ "$1" = -G ] && exit
echo 'ssh: connect to host login port 22: Connection timed out' >&2
exit 255
"""


@pytest.fixture
def unreached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `ssh` on PATH that reaches no host, and one `rsync` that calls it."""
    for name, text in (("ssh", UNREACHED), ("rsync", "#!/bin/sh\nssh login; exit 12\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_each_folder_is_known_once_by_its_login_node() -> None:
    for host in (None, "login", "alice@login", "login"):
        keep_folder(Path("/fsx/slipway"), host)
    assert len(known_backends()) == 3


def test_a_folder_of_a_hyperpod_cluster_is_known_without_asking_aws() -> None:
    entry = HyperPodEntry("dev", "us-west-2", "abc123def456", "controller")
    keep_folder(Path("/fsx/jobs/slipway"), str(entry))
    (backend,) = known_backends()
    assert backend.job_names() == []
    login = login_on(str(entry))
    assert isinstance(login, HyperPodLogin)
    assert login.host == "dev.abc123def456"


def test_a_login_node_that_is_not_reached_is_told_and_other_runs_are_listed(
    unreached: None, tmp_path: Path
) -> None:
    keep_folder(Path("/fsx/slipway"), "login")
    with pytest.raises(LoginSilent, match="login does not answer"):
        list_jobs(JobQuery(), Clients(), None, slurm=True)
    keep_folder(tmp_path / "slipway")
    told: list[str] = []
    assert list_jobs(JobQuery(), Clients(), None, slurm=True, tell=told.append) == []
    assert "not listed: could not read /fsx/slipway on login: login does not answer" in told[0]
