"""A real sshd on loopback, for one user, with keys and settings in a folder of its own.

It asks for the packages openssh-server and rsync; the service of the machine itself need not run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.backends.slurm.login_node import LoginNode
from tests.backends.slurm.mini_cluster import until

_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
PasswordAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
SetEnv {variables}
"""

_CLIENT = """\
Host login
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
"""


@dataclass
class SshServer:
    """The server in a folder: reached as `login` by an ssh with the options `ssh`.

    Programs in its folder `bin` come first in a login shell's PATH, and in no other's.
    """

    folder: Path

    @property
    def ssh(self) -> tuple[str, ...]:
        """The client with the settings of this folder, and no others."""
        return ("ssh", "-F", str(self.folder / "client.conf"))

    @property
    def login(self) -> LoginNode:
        """The server as the launcher sees it."""
        return LoginNode("login", self.ssh)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [str(shutil.which("sshd", path="/usr/sbin:/sbin")), "-f", str(self.folder / "server.conf")]
        subprocess.run(words, check=True, capture_output=True)
        until(lambda: _answers(self._port))

    def stop(self) -> None:
        """End it, and all its connections at once."""
        server = int((self.folder / "sshd.pid").read_text())
        for pid in [server, *_descendants(server)]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not _answers(self._port))

    def cut(self) -> None:
        """End the connections that there are, and no program that was started by them."""
        server = int((self.folder / "sshd.pid").read_text())
        for pid in _descendants(server):
            with contextlib.suppress(OSError):
                # sshd-session from OpenSSH 9.8 on.
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)

    @property
    def _port(self) -> int:
        return int((self.folder / "server.conf").read_text().split()[1])


def skip_without_sshd() -> None:
    """Skip the test that asks where no server can be started, and say what is missing."""
    path = "/usr/sbin:/usr/bin:/bin"
    missing = [name for name in ("sshd", "ssh", "rsync") if not shutil.which(name, path=path)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not there: apt-get install openssh-server rsync")


@contextlib.contextmanager
def ssh_server(folder: Path, variables: Mapping[str, str]) -> Iterator[SshServer]:
    """A server whose programs have these variables; nothing of it is left afterwards."""
    folder.mkdir()
    # Where sshd goes with the rights that it has given away; the package's service makes it else.
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host_key", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, capture_output=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "home").mkdir()
    (folder / "home" / ".bash_profile").write_text(f"echo welcome\nPATH={folder}/bin:$PATH\n")
    (folder / "bin").mkdir()
    given = f"HOME={folder}/home " + " ".join(f"{name}={value}" for name, value in variables.items())
    (folder / "server.conf").write_text(_SERVER.format(port=port, folder=folder, variables=given))
    (folder / "client.conf").write_text(_CLIENT.format(port=port, folder=folder))
    server = SshServer(folder)
    server.start()
    try:
        yield server
    finally:
        with contextlib.suppress(OSError, ValueError):
            server.stop()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        children = [int(each) for task in tasks for each in task.read_text().split()]
    except OSError:
        return []
    return [*children, *(each for child in children for each in _descendants(child))]
