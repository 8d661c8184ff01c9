"""A login node that is reached over ssh: programs that run there, and folders that are copied to and from it.

OpenSSH's own `ssh` and `rsync` do both, as the user has set them up (~/.ssh/config, agent, known hosts).
Nobody is asked for a password, and one connection is kept for a minute, so that a look every few seconds is
no new one each time (ssh_config(5): BatchMode, ControlMaster, ControlPersist).
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from functools import cached_property
from pathlib import Path

from launcher.aws.errors import Outage
from launcher.backends.interface import BackendError
from launcher.text.regular_files import cache_folder

BOUND_SECONDS = 60.0
"""For one answer: three times ServerAliveInterval, after which ssh itself gives a dead connection up."""

_ALWAYS = (
    "-T",
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=15"),
    # A forwarded port of the user's own session is taken already.
    *("-o", "ClearAllForwardings=yes"),
)

_LONGEST_FOLDER = 45
"""Characters of a folder of sockets: a socket's path has 103 at most on macOS, and ssh adds a slash, the 40
digits of %C, and 17 characters while it makes the socket."""

# What Slurm's clusters put on PATH they put there for login shells (/etc/profile.d), whose greetings are not
# the program's output.
_IN_LOGIN_SHELL = (
    "bash",
    "-c",
    'exec 3>&1 4>&2 >/dev/null 2>&1; exec bash -lc \'LC_ALL=C exec "$@" >&3 2>&4 3>&- 4>&-\' bash "$@"',
    "bash",
)

# Set from the input, so that no list of processes shows the values.
_WITH_VARIABLES = ("bash", "-c", 'set -a; eval "$(cat)"; exec "$@" </dev/null', "bash")

_NO_CONNECTION = re.compile(
    r"Could not resolve hostname|connect to (?:host|address)|Permission denied \(|Connection timed out during"
    r"|Host key verification failed|kex_exchange_identification|Too many authentication failures"
    r"|Bad configuration|terminating, \d+ bad configuration",
    re.ASCII,
)
"""ssh's messages before there is a connection: the program has not run then."""

_OF_SSH = re.compile(
    rf"{_NO_CONNECTION.pattern}|client_loop|Connection (?:closed|reset|to \S+ (?:closed|timed out))"
    r"|Timeout, server|Broken pipe|mux_client|Connection timed out|Shared connection",
    re.ASCII,
)

_UNKNOWN_HOST = re.compile(r"Could not resolve hostname", re.ASCII)
_DENIED = re.compile(r"Permission denied \(|Too many authentication failures", re.ASCII)
_HOST_KEY = re.compile(r"Host key verification failed", re.ASCII)
_UNREACHED = re.compile(r"connect to (?:host|address)|timed out|Timeout, server", re.ASCII)


class LoginSilent(Outage):
    """The login node cannot be reached; jobs go on meanwhile. `may_have_run` says whether the program that
    was to run there may have run all the same."""

    def __init__(self, message: str, remedy: str, *, may_have_run: bool) -> None:
        super().__init__(message, remedy)
        self.may_have_run = may_have_run

    @property
    def reason(self) -> str:
        """As Outage."""
        return "no connection to the login node"


class NotInstalled(BackendError):
    """A program is not there on the login node."""


class LoginNode:
    """A host as ssh knows it: a name, an alias of ~/.ssh/config, or `user@name`.

    `ssh` is the program with the options that come before all others.
    """

    def __init__(self, host: str, ssh: Sequence[str] = ("ssh",)) -> None:
        self.host = host
        self._program = tuple(ssh)

    @cached_property
    def _ssh(self) -> tuple[str, ...]:
        """The program with its options, which of some hosts are looked up first."""
        return self._program

    def run(
        self, words: Sequence[str], what: str, variables: str = "", bound: float | None = BOUND_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there, in a login shell's environment, in English; its exit code and what it printed.

        `what` says in words what it is for. `variables` are assignments for a shell (`NAME=value`, quoted),
        which the program gets in its environment, `bound` the seconds that it may take. Raises LoginSilent
        without a connection, NotInstalled where the program is not there, BackendError without ssh here.
        """
        asked = [*(_WITH_VARIABLES if variables else ()), *words]
        ran = self._call(self._there(asked), what, variables, bound)
        self._check_ran(ran.returncode, ran.stderr, words, what)
        return ran

    def follow(self, words: Sequence[str], what: str) -> Generator[str, None, None]:
        """Run a program there as `run` does; the lines that it prints, as they come.

        Its input is at its end when nobody takes them any more, or the connection is lost. Raises as `run`.
        """
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self._there(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
            )
            try:
                yield from process.stdout or ()
            finally:
                try:
                    process.communicate(timeout=BOUND_SECONDS)
                except (OSError, subprocess.TimeoutExpired):
                    process.kill()
                    process.wait()
            errors.seek(0)
            self._check_ran(process.returncode, errors.read().decode("utf-8", "replace"), words, what)

    def _there(self, words: Sequence[str]) -> list[str]:
        return [*self._ssh, *self._options, "--", self.host, shlex.join([*_IN_LOGIN_SHELL, *words])]

    def _check_ran(self, code: int, said: str, words: Sequence[str], what: str) -> None:
        if code == 255:
            raise self._silent(what, said)
        if code == 127:
            program = next(word for word in words if word != "env" and "=" not in word)
            raise NotInstalled(
                f"could not {what}: there is no {program} on {self.host}, in the PATH of a login shell.",
                f"Correct `slurm.host`, or PATH there: ssh {self.host} bash -lc 'type {program}'",
            )

    def pull(self, folder: Path, here: Path, patterns: Sequence[str], *, grows: bool = False) -> bool:
        """Make what a folder there holds by rsync's patterns the same here; False where it is not there.

        Of files that only grow (`grows`) what is new is sent. Raises as `run`.
        """
        here.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Links are left out: what they would lead to here is another machine's.
        words = [
            *("-rt", "--delete", "--prune-empty-dirs"),
            *(["--append"] if grows else []),
            *(f"--include={pattern}" for pattern in patterns),
            *("--exclude=*", "--"),
            *(f"{self.host}:{folder}/", f"{here}/"),
        ]
        return self._copy(words, f"read {folder} on {self.host}")

    def push(self, here: Path, place: Path) -> None:
        """Copy a folder with all that it holds, or a file, to that place there. Raises as `run`."""
        what, end = f"write {place} on {self.host}", "/" if here.is_dir() else ""
        if not self._copy(["-rltp", "--", f"{here}{end}", f"{self.host}:{place}{end}"], what):
            raise BackendError(f"could not {what}: the folder is not there.", "Launch again.")

    def _copy(self, words: Sequence[str], what: str) -> bool:
        """Whether rsync copied, and did not miss the folder itself."""
        shell = shlex.join([*self._ssh, *self._options])
        ran = self._call(["rsync", "--compress", "--timeout=45", f"--rsh={shell}", *words], what, bound=None)
        said = ran.stderr
        # 24: files that went away meanwhile.
        if ran.returncode in (0, 24):
            return True
        if re.search(r'(?:change_dir|mkdir|link_stat) "[^"]*" failed: No such file', said):
            return False
        if ran.returncode == 127 or re.search(r"rsync: (?:command )?not found", said):
            raise NotInstalled(
                f"could not {what}: there is no rsync on {self.host}.",
                f"Have rsync installed there, or launch on {self.host} itself.",
            )
        # 255 and 12 are the codes of a lost connection, 30 of one that stands still.
        if ran.returncode in (12, 30, 255) or _OF_SSH.search(said):
            raise self._silent(what, said)
        raise BackendError(
            f"could not {what}: rsync says: {_telling_line(said)}.", "Correct what it names, then try again."
        )

    def _call(
        self, words: Sequence[str], what: str, given: str = "", bound: float | None = BOUND_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        # Not a pipe for its errors: a connection that is kept holds the other end of it (ssh before 8.5).
        with tempfile.TemporaryFile() as errors:
            try:
                ran = subprocess.run(
                    list(words),
                    input=given,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    errors="replace",
                    check=False,
                    timeout=bound,
                )
            except FileNotFoundError:
                raise BackendError(
                    f"could not {what}: there is no {words[0]} on this machine.",
                    f"Install {words[0]} here, or launch on {self.host} itself, without `slurm.host`.",
                ) from None
            except subprocess.TimeoutExpired:
                raise LoginSilent(
                    f"could not {what}: {self.host} said nothing for {bound:.0f} s.",
                    f"Try again when this answers: ssh {self.host} true",
                    may_have_run=True,
                ) from None
            errors.seek(0)
            ran.stderr = errors.read().decode("utf-8", "replace")
            return ran

    @cached_property
    def _options(self) -> list[str]:
        """What ssh is told besides what the user has set up; a connection that they share is theirs."""
        asked = self._call([*self._ssh, "-G", "--", self.host], f"reach {self.host}")
        if re.search(r"^controlpath (?!none$)", asked.stdout, re.MULTILINE):
            return [*_ALWAYS]
        try:
            folder = cache_folder() / "ssh"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return [*_ALWAYS]
        if len(str(folder)) > _LONGEST_FOLDER:
            return [*_ALWAYS]
        shared = ("ControlMaster=auto", "ControlPersist=60", f"ControlPath={folder}/%C")
        return [*_ALWAYS, *(word for each in shared for word in ("-o", each))]

    def _silent(self, what: str, said: str) -> LoginSilent:
        """What ssh's message means for who tried this."""
        line, host = _telling_line(said), self.host
        problem = f"the connection to {host} was lost"
        remedy = f"Try again when this answers: ssh {host} true"
        if _UNKNOWN_HOST.search(said):
            problem = f"ssh does not know the host {host}"
            remedy = "Correct `slurm.host`, or add it to ~/.ssh/config; offline, try again later."
        elif _DENIED.search(said):
            problem = f"{host} does not let this user in without a password"
            remedy = (
                "Give ssh a key that it accepts (ssh-add, or IdentityFile in ~/.ssh/config), until this "
                f"works: ssh -o BatchMode=yes {host} true"
            )
        elif _HOST_KEY.search(said):
            problem = f"the key of {host} is not the one that this machine knows, or not known here"
            remedy = f"Connect once by hand, and compare the key with what the cluster publishes: ssh {host}"
        elif _UNREACHED.search(said):
            problem = f"{host} does not answer"
            remedy = f"Look at the network or VPN; try again when this answers: ssh {host} true"
        return LoginSilent(
            f"could not {what}: {problem}: {line}.", remedy, may_have_run=not _NO_CONNECTION.search(said)
        )


def _telling_line(said: str) -> str:
    """The line of ssh's or rsync's messages that says most."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # rsync's last line says where in rsync it was.
    own = [line for line in lines if not line.startswith("rsync error: ")]
    telling = [line for line in lines if _OF_SSH.search(line)] or own or lines
    return re.sub(r"^(?:ssh|rsync): ", "", telling[-1])[:300].rstrip(".") if telling else "it said nothing"
