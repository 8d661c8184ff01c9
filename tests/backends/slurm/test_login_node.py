"""A login node behind a program that stands for ssh: it runs all here, or fails as ssh does."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from launcher.backends.interface import BackendError, JobQuery, JobState, UncertainError
from launcher.backends.local.processes import ProcessId
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginNode, LoginSilent, NotInstalled
from launcher.backends.slurm.records import SlurmRecord
from launcher.backends.slurm.shared_folder import MirroredFolder
from tests.backends.slurm.test_script import plan_of

RUNS_HERE = """#!/bin/bash
printf '%s\\n' "$@" >> "{folder}/asked"
[ "$1" != -G ] || {{ cat "{folder}/settings" 2> /dev/null; exit; }}
while [ "${{1#-}}" != "$1" ]; do
  case "$1" in -o | -l) shift ;; esac
  shift
done
echo "$1" > "{folder}/host"
shift
HOME="{folder}/home" exec sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path: Path) -> Path:
    """A folder with a program `ssh` that runs everything here, and a home whose login shell greets."""
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "home" / ".bash_profile").write_text(f"echo welcome\nPATH={tmp_path}/bin:$PATH\n")
    _program(tmp_path / "ssh", RUNS_HERE.format(folder=tmp_path))
    return tmp_path


@pytest.fixture
def login(ssh: Path) -> LoginNode:
    return LoginNode("alice@login", (str(ssh / "ssh"),))


def _program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def failing(folder: Path, said: str, code: int = 255) -> LoginNode:
    """One whose ssh fails with that message."""
    text = f'#!/bin/sh\n[ "$1" = -G ] && exit\necho {shlex.quote(said)} >&2\nexit {code}\n'
    _program(folder / "fails", text)
    return LoginNode("login", (str(folder / "fails"),))


def test_words_reach_the_program_as_they_are_and_greetings_are_not_its_output(login: LoginNode) -> None:
    words = ["a b", "it's", "$HOME", "`id`", "*", "", "x;y", "line\nline"]
    ran = login.run(["printf", "%s\\0", *words], "print")
    assert ran.stdout.split("\0")[:-1] == words
    ran = login.run(["bash", "-c", "echo out; echo err >&2; exit 3"], "fail")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("out\n", "err\n", 3)


def test_programs_on_the_path_of_a_login_shell_are_found_and_others_named(
    login: LoginNode, ssh: Path
) -> None:
    _program(ssh / "bin" / "sbatch", "#!/bin/sh\necho '4711;gpu'\n")
    assert SlurmCommands(login=login).submit(Path("/fsx/job.sbatch")) == "4711"
    with pytest.raises(NotInstalled, match="there is no squeueue on alice@login, in the PATH"):
        login.run(["env", "A=b", "squeueue"], "look")


def test_a_job_that_a_cluster_without_accounts_has_forgotten_is_unknown(login: LoginNode, ssh: Path) -> None:
    forgot = "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n"
    _program(ssh / "bin" / "scontrol", forgot)
    _program(ssh / "bin" / "sacct", "#!/bin/sh\nexit 127\n")
    assert SlurmCommands(login=login).job("3") is None


def test_a_secret_reaches_sbatch_and_no_list_of_processes(login: LoginNode, ssh: Path) -> None:
    _program(ssh / "bin" / "sbatch", f'#!/bin/sh\nprintf %s "$TOKEN" > {ssh}/token\necho 1\n')
    secret = 'it\'s $HOME\n"quoted"'
    assert SlurmCommands(login=login).submit(Path("/fsx/job.sbatch"), {"TOKEN": secret}) == "1"
    assert (ssh / "token").read_text() == secret
    assert "quoted" not in (ssh / "asked").read_text()


def test_a_connection_is_shared_unless_the_user_shares_it_already(
    login: LoginNode, ssh: Path, short_cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    login.run(["true"], "try")
    assert f"ControlPath={short_cache}/slipway/ssh/%C" in (ssh / "asked").read_text()
    too_long = str(ssh / (50 * "x"))
    for settings, cache in (("controlpath /run/user/1/%C\n", short_cache), ("", too_long)):
        (ssh / "asked").unlink()
        (ssh / "settings").write_text(f"user alice\n{settings}")
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        LoginNode("login", (str(ssh / "ssh"),)).run(["true"], "try")
        asked = (ssh / "asked").read_text()
        assert "BatchMode=yes" in asked
        assert "Control" not in asked


@pytest.mark.parametrize(
    ("said", "words", "remedy", "may_have_run"),
    [
        (
            "ssh: Could not resolve hostname login: Name or service not known",
            "ssh does not know the host login", "slurm.host", False,
        ),
        (
            "Warning: Permanently added 'login' to the list of known hosts.\n"
            "alice@login: Permission denied (publickey,password).",
            "does not let this user in without a password: alice@login: Permission denied", "ssh-add", False,
        ),
        ("Host key verification failed.", "the key of login is not the one", "by hand", False),
        (
            "ssh: connect to host login port 22: Connection timed out",
            "login does not answer: connect to host login port 22: Connection timed out", "VPN", False,
        ),
        ("ssh: connect to host login port 22: Connection refused", "login does not answer", "VPN", False),
        (
            "kex_exchange_identification: Connection closed by remote host",
            "the connection to login was lost", "ssh login true", False,
        ),
        ("Timeout, server login not responding.", "login does not answer", "ssh login true", True),
        ("client_loop: send disconnect: Broken pipe", "was lost: client_loop", "ssh login true", True),
        ("Connection to login closed by remote host.", "was lost", "ssh login true", True),
        ("", "the connection to login was lost: it said nothing", "ssh login true", True),
    ],
)  # fmt: skip
def test_why_a_login_node_is_not_reached_is_told_in_our_words(
    ssh: Path, said: str, words: str, remedy: str, may_have_run: bool
) -> None:
    login = failing(ssh, said)
    with pytest.raises(LoginSilent, match="could not look at the job 3") as silent:
        SlurmCommands(login=login).job("3")
    assert words in silent.value.message
    assert remedy in silent.value.remedy
    with pytest.raises(UncertainError if may_have_run else LoginSilent):
        SlurmCommands(login=login).submit(Path("/fsx/job.sbatch"))


def test_without_ssh_on_this_machine_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="there is no absent on this machine"):
        LoginNode("login", ("absent",)).run(["true"], "try")


needs_rsync = pytest.mark.skipif(not shutil.which("rsync"), reason="rsync is not installed")


@needs_rsync
class TestMirror:
    """The mirror of a folder of runs."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """The folder of the runs there, which holds one."""
        home = tmp_path / "fsx" / "slipway"
        host = home / "digits-1" / "hosts" / "algo-1"
        for folder in (host / "ml" / "output", host / "ml" / "model", home / "digits-1" / "checkpoints"):
            folder.mkdir(parents=True)
        (home / "digits-1" / "slurm").mkdir()
        (host / "log").write_text("line 1\n")
        (host / "ml" / "output" / "failure").write_text("CODE001")
        (host / "ml" / "model" / "model.pt").write_text("weights")
        (home / "digits-1" / "checkpoints" / "step-1").write_text("weights")
        (home / "digits-1" / "token").write_text("secret")
        self.write(home / "digits-1", JobState.IN_PROGRESS)
        return home

    @staticmethod
    def write(folder: Path, state: JobState) -> None:
        SlurmRecord(folder, 1, {}, ProcessId.of_this_process(), state=state).write()

    @pytest.fixture
    def mirror(self, home: Path, login: LoginNode) -> MirroredFolder:
        return MirroredFolder(home, login)

    def seen(self, mirror: MirroredFolder) -> set[str]:
        run = mirror.runs.home / "digits-1"
        return {str(each.relative_to(run)) for each in run.rglob("*") if each.is_file()}

    def test_what_is_small_and_grows_is_brought_and_nothing_else(self, mirror: MirroredFolder) -> None:
        mirror.look("digits-1")
        failure = "hosts/algo-1/ml/output/failure"
        assert self.seen(mirror) == {"status.json", "hosts/algo-1/log", failure}

    def test_what_is_not_there_any_more_goes_and_logs_grow(self, mirror: MirroredFolder, home: Path) -> None:
        mirror.look("digits-1")
        host = home / "digits-1" / "hosts" / "algo-1"
        (host / "ml" / "output" / "failure").unlink()
        with (host / "log").open("a") as log:
            log.write("line 2\n")
        mirror.look("digits-1")
        assert self.seen(mirror) == {"status.json", "hosts/algo-1/log"}
        log = mirror.runs.home / "digits-1" / "hosts" / "algo-1" / "log"
        assert log.read_text() == "line 1\nline 2\n"

    def test_of_a_run_that_has_ended_nothing_is_brought_twice(
        self, mirror: MirroredFolder, home: Path, ssh: Path
    ) -> None:
        self.write(home / "digits-1", JobState.COMPLETED)
        mirror.look("digits-1")
        (ssh / "asked").unlink()
        mirror.look("digits-1")
        assert not (ssh / "asked").exists()

    def test_what_a_run_prints_until_its_end_is_brought_also_if_it_ends_meanwhile(
        self, home: Path, ssh: Path
    ) -> None:
        log = Path("digits-1", "hosts", "algo-1", "log")

        class EndsMeanwhile(LoginNode):
            def pull(self, folder: Path, here: Path, patterns: Sequence[str], *, grows: bool = False) -> bool:
                found = super().pull(folder, here, patterns, grows=grows)
                (home / log).write_text("line 1\nthe last line\n")
                TestMirror.write(home / "digits-1", JobState.COMPLETED)
                return found

        mirror = MirroredFolder(home, EndsMeanwhile("login", (str(ssh / "ssh"),)))
        for _ in range(3):
            mirror.look("digits-1")
        assert (mirror.runs.home / log).read_text() == "line 1\nthe last line\n"

    def test_what_the_hosts_wrote_until_slurm_said_that_the_job_had_ended_is_its_reason(
        self, login: LoginNode, home: Path, ssh: Path
    ) -> None:
        run = home / "digits-1"
        (run / "hosts" / "algo-1" / "ml" / "output" / "failure").unlink()
        (run / "job").write_text("3")
        ends = f"cd {run}/hosts/algo-1; echo '1 1700000000' > end; echo 'CODE001 rank 3' > ml/output/failure"
        _program(ssh / "bin" / "scontrol", f"#!/bin/sh\n{ends}\necho 'JobId=3 JobState=FAILED Reason=None'\n")
        (job,) = SlurmBackend(home, login=login).jobs(JobQuery())
        assert job.state is JobState.FAILED
        # Where other machines read it.
        assert "CODE001 rank 3" in json.loads((run / "status.json").read_text())["failure_reason"]

    def test_runs_that_are_gone_there_are_gone_here(self, mirror: MirroredFolder, home: Path) -> None:
        (home / "environments").mkdir()
        mirror.look_at_all()
        assert mirror.runs.names() == ["digits-1"]
        mirror.look("digits-1")
        shutil.rmtree(home / "digits-1")
        mirror.look_at_all()
        assert list(mirror.runs.home.iterdir()) == []

    def test_a_folder_that_nobody_has_launched_to_is_empty(self, login: LoginNode, tmp_path: Path) -> None:
        mirror = MirroredFolder(tmp_path / "nowhere" / "slipway", login)
        mirror.look_at_all()
        mirror.look("digits-1")
        assert mirror.runs.names() == []

    def test_one_launcher_alone_claims_a_run_and_nothing_is_made_where_nothing_is_mounted(
        self, mirror: MirroredFolder, home: Path, login: LoginNode, tmp_path: Path
    ) -> None:
        assert mirror.claim("digits-2")
        assert not mirror.claim("digits-2")
        with pytest.raises(BackendError, match=r"alice@login says: .*No such file"):
            MirroredFolder(tmp_path / "absent" / "slipway", login).claim("digits-2")
        assert not (tmp_path / "absent").exists()

    def test_a_draft_is_sent_whole_and_nothing_is_left_of_one_that_fails(
        self, mirror: MirroredFolder, home: Path
    ) -> None:
        for name in ("digits-2", "digits-3"):
            assert mirror.claim(name)
        with mirror.draft("digits-2") as draft:
            (draft / "link").symlink_to("/fsx/data")
            (draft / "token").write_text("secret")
            (draft / "token").chmod(0o600)
        assert (home / "digits-2" / "link").readlink() == Path("/fsx/data")
        assert (home / "digits-2" / "token").stat().st_mode & 0o777 == 0o600
        with pytest.raises(BackendError, match="No space"), mirror.draft("digits-3"):
            raise OSError(28, os.strerror(28))
        assert not (home / "digits-3").exists()

    def test_a_run_is_prepared_here_for_where_it_lies_there(
        self, login: LoginNode, ssh: Path, tmp_path: Path
    ) -> None:
        for name, answer in (("sbatch", "echo 7"), ("squeue", "exit 0"), ("sacct", "exit 1")):
            _program(ssh / "bin" / name, f"#!/bin/sh\n{answer}\n")
        shared, data = tmp_path / "fsx", tmp_path / "absent" / "data"
        shared.mkdir()
        section = {"host": "login", "shared": str(shared), "python": sys.executable}
        plan = plan_of(
            tmp_path,
            {**section, "inputs": {"train": str(data)}},
            inputs={"train": "s3://bucket/train"},
            hyperparameters={"out": "/opt/ml/model/x"},
        )
        backend = SlurmBackend(shared / "slipway", login=login)
        name = backend.submit(plan)
        run = shared / "slipway" / name
        root = run / "hosts" / "algo-2" / "ml"
        assert f"export SLIPWAY_RUN={run}\n" in (run / "job.sbatch").read_text()
        given = json.loads((root / "input" / "config" / "hyperparameters.json").read_text())
        assert given["out"] == f"{root}/model/x"
        assert (root / "input" / "data" / "train").readlink() == data
        assert (root / "checkpoints").resolve() == run / "checkpoints"
        assert json.loads((run / "status.json").read_text())["job_id"] == "7"
        assert backend.job_names() == [name]
        mirrored = MirroredFolder(shared / "slipway", login).runs.folder(name)
        assert [each.name for each in mirrored.rglob("*")] == ["status.json"]

    def test_links_of_a_run_are_not_followed_here(self, mirror: MirroredFolder, home: Path) -> None:
        (home / "digits-1" / "hosts" / "algo-1" / "node").symlink_to("/etc/hostname")
        mirror.look("digits-1")
        assert "hosts/algo-1/node" not in self.seen(mirror)

    def test_the_absolute_links_of_checkpoints_lead_into_the_copy(
        self, mirror: MirroredFolder, home: Path
    ) -> None:
        earlier = home / "digits-1" / "checkpoints"
        (earlier / "deep").mkdir()
        (earlier / "deep" / "latest").symlink_to(earlier / "step-1")
        (earlier / "best").symlink_to("step-1")
        assert mirror.claim("digits-2")
        mirror.copy_checkpoints(earlier, "digits-2")
        copy = home / "digits-2" / "checkpoints"
        assert (copy / "deep" / "latest").readlink() == Path("../step-1")
        assert (copy / "best").readlink() == Path("step-1")
        assert (copy / "deep" / "latest").read_text() == "weights"
