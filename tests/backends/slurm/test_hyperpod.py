"""Nodes of HyperPod clusters, found by asking SageMaker, and reached by ssh through a session.

In place of the AWS command line stands a program that carries the connection to a real sshd, and keeps the
words that it was called with.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from moto.sagemaker.models import sagemaker_backends

from launcher.backends.interface import BackendError
from launcher.backends.slurm.hyperpod import HyperPodEntry, HyperPodLogin
from launcher.backends.slurm.login_node import LoginSilent
from launcher.cli.app import main
from launcher.failure_modes.model import AwsRefusal
from tests.backends.slurm.cluster import SlurmPlace
from tests.backends.slurm.mini_cluster import MiniCluster
from tests.backends.slurm.ssh_server import SshServer, skip_without_sshd, ssh_server
from tests.emulator.faults import DENIED, inject
from tests.session.deployed import ACCOUNT, REGION, client, deploy
from tests.stacks.synthesis import dev_spec, synthesize

GROUPS = [
    {"name": "entry", "role": "login", "instance_type": "ml.m5.large", "count": 2},
    # In whose name the other one's stands.
    {"name": "entry-gpus", "instance_type": "ml.g5.8xlarge", "count": 2},
]

CARRIES = """\
#!{python}
import json, os, select, socket, sys
with open("{folder}/sessions", "a") as kept:
    kept.write(json.dumps(sys.argv[1:]) + "\\n")
target = sys.argv[sys.argv.index("--target") + 1]
refused = "{folder}/refused"
if os.path.exists(refused):
    instance, words = open(refused).read().split(" ", 1)
    if instance in target:
        sys.exit("\\n" + words)
port = int(open("{folder}/server.conf").read().split()[1])
with socket.create_connection(("127.0.0.1", port)) as there:
    ways = {{0: there.fileno(), there.fileno(): 1}}
    while True:
        for ready in select.select(list(ways), [], [])[0]:
            data = os.read(ready, 65536)
            if not data:
                sys.exit()
            os.write(ways[ready], data)
"""


@pytest.fixture
def entry() -> Iterator[HyperPodEntry]:
    with mock_aws():
        deploy(synthesize(dev_spec(hyperpod={"groups": GROUPS})), "dev")
        yield HyperPodEntry("dev", REGION, made().arn.rpartition("/")[2], "entry")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first on PATH, with what Session Manager takes."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("aws", "session-manager-plugin"):
        put(folder / name, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


@pytest.fixture
def server(tmp_path: Path, programs: Path, short_cache: str) -> Iterator[SshServer]:
    """An sshd that only the session leads to, and an ssh with its key and for its user."""
    skip_without_sshd()
    with ssh_server(tmp_path / "sshd", {}) as server:
        reach(server, programs)
        yield server


def reach(server: SshServer, programs: Path) -> None:
    """Have the stand-ins lead to the server."""
    put(programs / "aws", CARRIES.format(python=sys.executable, folder=server.folder))
    key = f"-F none -o IdentityFile={server.folder}/key -o IdentitiesOnly=yes"
    # The user of HyperPod's image is not one of this machine.
    put(programs / "ssh", f'#!/bin/sh\nexec /usr/bin/ssh {key} -o User=$(id -un) "$@"\n')


def put(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)


def made() -> Any:
    return sagemaker_backends[ACCOUNT][REGION].clusters["slipway-dev"]


def nodes(group: str) -> list[Any]:
    return [each for each in made().nodes.values() if each.instance_group_name == group]


def login(entry: HyperPodEntry) -> HyperPodLogin:
    return HyperPodLogin(entry, lambda: client("sagemaker"))


def sessions(server: SshServer) -> list[list[str]]:
    return [json.loads(line) for line in (server.folder / "sessions").read_text().splitlines()]


def test_an_entry_is_one_word_that_is_read_again() -> None:
    entry = HyperPodEntry("dev", "us-west-2", "abc123def456", "controller")
    assert HyperPodEntry.parse(str(entry)) == entry
    assert HyperPodEntry.parse("login") is None
    assert HyperPodEntry.parse("hyperpod/dev/us-west-2/abc/a;reboot") is None


def test_a_program_runs_on_a_node_of_the_group_and_nothing_of_ssh_is_the_users(
    entry: HyperPodEntry, server: SshServer
) -> None:
    there = login(entry)

    assert there.run(["echo", "hello"], "say hello").stdout == "hello\n"

    instance = min(each.instance_id for each in nodes("entry"))
    (words,) = sessions(server)
    target = f"sagemaker-cluster:{entry.id}_entry-{instance}"
    assert words == [
        *("ssm", "start-session", "--region", REGION, "--target", target),
        *("--document-name", "AWS-StartSSHSession", "--parameters", "portNumber=22"),
    ]
    known = Path(os.environ["XDG_CACHE_HOME"], "slipway", f"hyperpod-{entry.id}.hosts").read_text()
    assert known.startswith(f"{entry.id}_entry-{instance} ssh-")


def test_folders_are_copied_there_and_back_over_one_connection(
    entry: HyperPodEntry, server: SshServer, tmp_path: Path
) -> None:
    there, run = login(entry), tmp_path / "run"
    run.mkdir()
    (run / "status.json").write_text("{}")

    there.push(run, tmp_path / "far")
    assert (tmp_path / "far" / "status.json").read_text() == "{}"
    assert there.pull(tmp_path / "far", tmp_path / "back", ["/status.json"])
    assert (tmp_path / "back" / "status.json").read_text() == "{}"
    assert len(sessions(server)) == 1


def test_a_node_that_does_not_run_is_passed_over(entry: HyperPodEntry, server: SshServer) -> None:
    first, second = sorted(nodes("entry"), key=lambda each: each.instance_id)
    first.status = "SystemUpdating"

    login(entry).run(["true"], "try it")

    assert second.instance_id in " ".join(sessions(server)[0])


def test_a_node_that_was_replaced_is_looked_up_again(entry: HyperPodEntry, server: SshServer) -> None:
    first, _ = sorted(nodes("entry"), key=lambda each: each.instance_id)
    words = (
        "An error occurred (TargetNotConnected) when calling the StartSession operation: "
        f"sagemaker-cluster:{entry.id}_entry-{first.instance_id} is not connected."
    )
    (server.folder / "refused").write_text(f"{first.instance_id} {words}")
    there = login(entry)
    with pytest.raises(
        LoginSilent, match=r"could not try it: Systems Manager opens no session .* not connected"
    ):
        there.run(["true"], "try it")
    first.status = "ShuttingDown"

    assert there.run(["echo", "again"], "try it").stdout == "again\n"


def test_a_session_that_is_not_allowed_names_the_permission(entry: HyperPodEntry, server: SshServer) -> None:
    words = (
        "An error occurred (AccessDeniedException) when calling the StartSession operation: User: "
        "arn:aws:sts::123456789012:assumed-role/r/s is not authorized to perform: ssm:StartSession"
    )
    (server.folder / "refused").write_text(f"i- {words}")

    with pytest.raises(LoginSilent) as silent:
        login(entry).run(["true"], "try it")

    assert "is not authorized to perform: ssm:StartSession" in silent.value.message
    assert "AWS-StartSSHSession" in silent.value.remedy
    assert not silent.value.may_have_run


def test_a_key_that_the_node_does_not_know_is_told_with_where_it_goes(
    entry: HyperPodEntry, server: SshServer
) -> None:
    (server.folder / "authorized_keys").write_text("")

    with pytest.raises(LoginSilent, match="slipway-dev knows no key of this user") as silent:
        login(entry).run(["true"], "try it")

    assert "`hyperpod.ssh_keys`" in silent.value.remedy


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (
            ["Pending", "Failure"],
            "no node of the group entry of slipway-dev is Running: they are Failure, Pending",
        ),
        ([], "no node of the group entry of slipway-dev is Running: it has none"),
    ],
)
def test_without_a_node_that_runs_their_states_are_told(
    states: list[str], told: str, entry: HyperPodEntry, programs: Path
) -> None:
    for node, state in zip(nodes("entry"), states or [None, None], strict=True):
        node.status = state
        if state is None:
            del made().nodes[node.instance_id]

    with pytest.raises(BackendError, match=told):
        login(entry).run(["true"], "try it")


@pytest.mark.parametrize("missing", ["aws", "session-manager-plugin"])
def test_a_program_that_is_missing_here_is_named(
    missing: str, entry: HyperPodEntry, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / missing).unlink()
    monkeypatch.setenv("PATH", str(programs))

    with pytest.raises(BackendError, match=f"there is no {missing} on this machine") as error:
        login(entry).run(["true"], "try it")

    assert "https://docs.aws.amazon.com/" in error.value.remedy


def test_a_lookup_that_is_denied_names_what_was_tried(entry: HyperPodEntry, programs: Path) -> None:
    denied = client("sagemaker")
    inject(denied, "ListClusterNodes", DENIED)

    with pytest.raises(AwsRefusal, match="look for a node of slipway-dev to log in on"):
        HyperPodLogin(entry, lambda: denied).run(["true"], "try it")


@pytest.mark.slurm
@pytest.mark.xdist_group("slurm")
def test_a_job_that_names_the_cluster_runs_on_its_slurm(
    slurm: MiniCluster,
    entry: HyperPodEntry,
    programs: Path,
    tmp_path: Path,
    short_cache: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From a machine without sbatch; the run is then found by its name alone."""
    skip_without_sshd()
    shared = slurm.shared / tmp_path.name
    shared.mkdir()
    with ssh_server(tmp_path / "sshd", {"SLURM_CONF": slurm.environment["SLURM_CONF"]}) as server:
        reach(server, programs)
        for name in ("rsync", "sh", "id"):
            (programs / name).symlink_to(str(shutil.which(name)))
        monkeypatch.setenv("PATH", str(programs))
        monkeypatch.setenv("AWS_REGION", REGION)
        section = {"partition": "train", "shared": str(shared), "python": sys.executable}
        job = SlurmPlace(slurm, tmp_path, shared).job("print('trained')", slurm=section)

        def said(*words: str) -> str:
            with pytest.raises(SystemExit) as ended:
                main(words)
            printed = capsys.readouterr()
            assert ended.value.code == 0, f"{printed.out}\n{printed.err}"
            return printed.out

        name = json.loads(said(str(job), "--cluster", "dev", "--detach", "--output", "json"))["name"]
        assert "trained" in said("logs", name, "--follow")
        assert json.loads(said("status", name, "--output", "json"))["state"] == "Completed"
        assert (shared / "slipway" / name / "job.sbatch").exists()
        assert {words[5] for words in sessions(server)} == {
            f"sagemaker-cluster:{entry.id}_entry-{min(each.instance_id for each in nodes('entry'))}"
        }
