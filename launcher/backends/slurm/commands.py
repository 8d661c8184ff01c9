"""Slurm's own programs: called with lists of words, and what they print read into plain data.

Only what every Slurm has: `squeue` and `scontrol` of jobs that the controller still knows, `sacct` of others
where the cluster keeps accounts. Their text forms are read (`scontrol -o`), as JSON is optional in Slurm.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from launcher.account.slurm_nodes import SlurmCluster, SlurmNode, SlurmPartition
from launcher.aws.errors import Outage
from launcher.backends.interface import BackendError, UncertainError
from launcher.backends.slurm.login_node import LoginNode, LoginSilent, NotInstalled
from launcher.backends.slurm.states import SlurmJob

BOUND_SECONDS = 60.0
"""For one answer; the controller's own limit is 10 s (slurm.conf(5), MessageTimeout), tried again."""

_MUNGE = re.compile(
    r"[Mm]unge|Protocol authentication error|Invalid (?:authentication )?credential", re.ASCII
)
_SILENT = re.compile(
    r"Unable to contact slurm controller|Unable to establish control machine|[Tt]imed out|Connection refused"
    r"|Zero Bytes were transmitted|slurm_receive_msg|temporarily unavailable|backup controller|"
    r"Slurm backup controller",
    re.ASCII,
)
_MAY_HAVE_ARRIVED = re.compile(r"[Tt]imed out|Zero Bytes|slurm_receive_msg|send/recv", re.ASCII)
_UNKNOWN = re.compile(r"Invalid job id|No jobs? in the system", re.ASCII)
_WORD = re.compile(r"(?:^| )([A-Za-z][\w/:]*)=")


class SlurmSilent(Outage):
    """Slurm's controller or its authentication does not answer: what passes by itself, or when somebody
    mends it; jobs go on meanwhile."""

    @property
    def reason(self) -> str:
        """As Outage."""
        return "Slurm does not answer"


class SlurmCommands:
    """Calls them on this machine, or on a login node. `environment` is what they run with here.

    All methods raise LoginSilent where the login node is not reached.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, login: LoginNode | None = None) -> None:
        self._environment = {**(environment or os.environ), **_READABLE}
        self._login = login

    def submit(self, script: Path, secrets: Mapping[str, str] | None = None) -> str:
        """Hand a script to sbatch, which hands its environment on to the job; the id of the job.

        `secrets` are the variables that a login node does not have. Raises BackendError where Slurm refuses
        it, SlurmSilent where nothing can have arrived, UncertainError where the answer is missing.
        """
        ran = self._run(["sbatch", "--parsable", str(script)], "submit the job", secrets)
        if ran.returncode == 0:
            # `4711;cluster` where there are several.
            return ran.stdout.strip().partition(";")[0]
        if _MAY_HAVE_ARRIVED.search(ran.stderr):
            raise _uncertain(f"Slurm did not say whether it took the job ({_first_line(ran.stderr)})")
        raise _refusal("submit the job", ran.stderr)

    def job(self, job_id: str) -> SlurmJob | None:
        """A job by its id; None where neither the controller nor an accounting database knows it."""
        ran = self._run(["scontrol", "show", "job", "-o", job_id], f"look at the job {job_id}")
        if ran.returncode == 0 and (found := jobs_in(ran.stdout)):
            return found[0]
        if ran.returncode != 0 and not _UNKNOWN.search(ran.stderr):
            raise _refusal(f"look at the job {job_id}", ran.stderr)
        return self._from_accounts(["-j", job_id])

    def job_named(self, name: str) -> SlurmJob | None:
        """The newest job of this user with that name; None without one."""
        words = ["squeue", "--noheader", "--states=all", f"--name={name}", "--format=%A"]
        ran = self._run(words, f"look for the job {name}")
        if ran.returncode != 0:
            raise _refusal(f"look for the job {name}", ran.stderr)
        ids = sorted(set(ran.stdout.split()), key=int)
        if ids:
            return self.job(ids[-1])
        return self._from_accounts([f"--name={name}", "--starttime=now-28days"])

    def cancel(self, job_id: str, *options: str) -> None:
        """scancel, with options; nothing happens to a job that has ended."""
        ran = self._run(["scancel", *options, job_id], f"stop the job {job_id}")
        if ran.returncode != 0 and not re.search(r"Invalid job id|already complet", ran.stderr):
            raise _refusal(f"stop the job {job_id}", ran.stderr)

    def cluster(self) -> SlurmCluster:
        """The partitions and nodes. Raises SlurmSilent or BackendError where they cannot be had."""
        shown = {}
        for kind in ("partition", "node"):
            ran = self._run(["scontrol", "show", kind, "-o", "--all"], f"look at Slurm's {kind}s")
            if ran.returncode != 0:
                raise _refusal(f"look at Slurm's {kind}s", ran.stderr)
            shown[kind] = [fields_of(line) for line in ran.stdout.splitlines() if "=" in line]
        return SlurmCluster(tuple(map(_partition, shown["partition"])), tuple(map(_node, shown["node"])))

    def _from_accounts(self, which: Sequence[str]) -> SlurmJob | None:
        """What an accounting database knows of a job; None without one."""
        if self._login is None and shutil.which("sacct", path=self._environment.get("PATH")) is None:
            return None
        form = "--format=JobID,State,NodeList,Start,End,Restarts"
        try:
            ran = self._run(["sacct", "-X", "-n", "-P", form, *which], "ask Slurm's accounts")
        except NotInstalled:
            return None
        # Without a database sacct fails; that is how the cluster is, and no trouble.
        lines = ran.stdout.splitlines() if ran.returncode == 0 else []
        if not lines:
            return None
        job_id, state, nodes, started, ended, restarts = (lines[-1].split("|") + [""] * 6)[:6]
        return SlurmJob(
            job_id,
            state.split()[0] if state else "UNKNOWN",
            nodes="" if nodes == "None assigned" else nodes,
            restarts=int(restarts) if restarts.isdecimal() else 0,
            started=_time(started),
            ended=_time(ended),
        )

    def _run(
        self, words: Sequence[str], what: str, secrets: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        if self._login is not None:
            return self._run_there(self._login, words, what, secrets or {})
        try:
            return subprocess.run(
                list(words),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=BOUND_SECONDS,
            )
        except FileNotFoundError:
            raise BackendError(
                f"could not {what}: there is no {words[0]} on this machine.",
                "Launch on a login node of the cluster, where Slurm's commands are on PATH.",
            ) from None
        except OSError as error:
            raise BackendError(
                f"could not {what}: {words[0]} cannot be run: {error.strerror}.", "Correct its installation."
            ) from error
        except subprocess.TimeoutExpired:
            if words[0] == "sbatch":
                raise _uncertain(f"sbatch said nothing for {BOUND_SECONDS:.0f} s") from None
            raise SlurmSilent(
                f"could not {what}: {words[0]} said nothing for {BOUND_SECONDS:.0f} s.",
                "Try again when the controller answers: scontrol ping",
            ) from None

    def _run_there(
        self, login: LoginNode, words: Sequence[str], what: str, secrets: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        settings = [f"{name}={value}" for name, value in _READABLE.items()]
        assignments = "\n".join(f"{name}={shlex.quote(value)}" for name, value in secrets.items())
        try:
            return login.run(["env", *settings, *words], what, assignments)
        except LoginSilent as silent:
            if words[0] == "sbatch" and silent.may_have_run:
                raise _uncertain(silent.message.rstrip(".")) from silent
            raise


_READABLE = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
"""Times as numbers, messages in English."""


def _uncertain(why: str) -> UncertainError:
    return UncertainError(
        f"{why}: whether Slurm took the job is open.",
        "Launch again: a job that is there is found by its name, and no second one is started.",
    )


def _refusal(what: str, said: str) -> BackendError | SlurmSilent:
    """What Slurm's message means for who tried this."""
    line = _first_line(said)
    if _MUNGE.search(said):
        return SlurmSilent(
            f"could not {what}: Slurm's authentication (munge) fails on this machine: {line}.",
            "Have whoever runs the cluster look at the service munge here and on the controller, its key and "
            "the clocks of the two: munge -n | unmunge",
        )
    if _SILENT.search(said):
        return SlurmSilent(
            f"could not {what}: Slurm's controller does not answer: {line}.",
            "Try again when it does: scontrol ping",
        )
    return BackendError(f"could not {what}: Slurm says: {line}.", "Correct what it names, then try again.")


def _first_line(said: str) -> str:
    """The line of a message that says most: the last of Slurm's errors, without who says it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if _MUNGE.search(line)] or lines
    text = telling[-1] if telling else "nothing"
    return re.sub(r"^(?:\w+: )?(?:error: )?", "", text)[:300].rstrip(".")


def fields_of(line: str) -> dict[str, str]:
    """The fields of a line of `scontrol -o`: values may hold blanks, and end where the next name begins.

    The first of a name counts: what users write, such as a comment, comes behind Slurm's own fields.
    """
    marks = list(_WORD.finditer(line))
    found: dict[str, str] = {}
    for mark, following in zip(marks, [*marks[1:], None], strict=True) if marks else ():
        end = len(line) if following is None else following.start()
        found.setdefault(mark[1], line[mark.end() : end].strip())
    return found


def jobs_in(text: str) -> list[SlurmJob]:
    """The jobs that `scontrol show job -o` prints."""
    found = []
    for line in text.splitlines():
        fields = fields_of(line)
        if "JobId" in fields:
            nodes = fields.get("NodeList", "")
            found.append(
                SlurmJob(
                    fields["JobId"],
                    fields.get("JobState", "UNKNOWN").split(",")[0],
                    fields.get("Reason", ""),
                    "" if nodes == "(null)" else nodes,
                    int(fields.get("Restarts", "0") or 0),
                    _time(fields.get("StartTime", "")),
                    _time(fields.get("EndTime", "")),
                )
            )
    return found


def _time(text: str) -> float | None:
    """A time, as a number or as Slurm writes it otherwise; None for none."""
    if text.isdecimal():
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _partition(fields: Mapping[str, str]) -> SlurmPartition:
    return SlurmPartition(
        name=fields.get("PartitionName", ""),
        is_default=fields.get("Default") == "YES",
        state=fields.get("State", "UP"),
        nodes=tuple(expand_nodes(fields.get("Nodes", ""))),
        max_seconds=_seconds(fields.get("MaxTime", "UNLIMITED")),
        max_nodes=int(most) if (most := fields.get("MaxNodes", "")).isdecimal() else None,
    )


def _node(fields: Mapping[str, str]) -> SlurmNode:
    gpus = 0
    for each in fields.get("Gres", "").split(","):
        # gpu:8, gpu:h100:8, gpu:h100:8(S:0-1)
        kind, _, rest = each.partition("(")[0].partition(":")
        if kind == "gpu":
            count = rest.rpartition(":")[2] if rest else "1"
            gpus += int(count) if count.isdecimal() else 0
    memory = fields.get("RealMemory", "")
    cpus = fields.get("CPUTot", "")
    return SlurmNode(
        name=fields.get("NodeName", ""),
        state=fields.get("State", "UNKNOWN"),
        cpus=int(cpus) if cpus.isdecimal() else 0,
        memory_mb=int(memory) if memory.isdecimal() else 0,
        gpus=gpus,
        features=tuple(each for each in fields.get("AvailableFeatures", "").split(",") if each != "(null)"),
    )


_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)")


def _seconds(text: str) -> int | None:
    """A limit of time as `scontrol` writes it (1-00:00:00); None where there is none."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


_RANGE = re.compile(r"(?P<prefix>[^\[\],]+)(?:\[(?P<ranges>[\d,-]+)\](?P<suffix>[^\[\],]*))?,?")


def expand_nodes(text: str) -> list[str]:
    """The names in a node list such as `gpu-[1-3,7],login`; those of several dimensions stay as they are."""
    found = []
    for match in _RANGE.finditer(text):
        if match["ranges"] is None:
            found.append(match["prefix"])
            continue
        for each in match["ranges"].split(","):
            first, _, last = each.partition("-")
            for number in range(int(first), int(last or first) + 1):
                found.append(f"{match['prefix']}{number:0{len(first)}d}{match['suffix']}")
    return [name for name in found if name != "(null)"]
