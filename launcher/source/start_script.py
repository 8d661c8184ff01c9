"""A shell script that starts trainings: what it starts, with which words and variables, in which folder.

Also one for sbatch, with what Slurm is asked for in its `#SBATCH` lines. Nothing is run.

Source of options: Slurm documentation, sbatch (24.11).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from launcher.frozen import frozen
from launcher.source.shell_text import ShellScript, Value, Word
from launcher.source.start_line import StartLine, find_start

_SHORT = {
    "N": "nodes", "n": "ntasks", "J": "job-name", "t": "time", "p": "partition", "G": "gpus",
    "c": "cpus-per-task", "C": "constraint", "A": "account", "q": "qos", "x": "exclude",
}  # fmt: skip
"""The short options of sbatch that are read, by their letters."""

_DIRECTIVE = re.compile(r"#SBATCH\s+(?P<words>.+)")
_GPUS = re.compile(r"(?:gpu(?::[\w.-]+)?:|\w+:)?(?P<count>\d+)")

NO_VARIABLES: Mapping[str, Value | None] = MappingProxyType({})

_PREPARES = re.compile(r"(prepare|download|preprocess|(pre)?tokeni[sz]e|install|setup)(_\w+)?\.(py|sh)")
"""What scripts are called that make ready what another one trains on."""


@frozen
class BatchJob:
    """A command of a batch script that starts a training, its line, and the names of the variables in it.

    `environment` are the variables that are set for it alone, `exports` those that the script has exported by
    then, each with its line. `folder` is where the shell is by then, None where it is started.
    """

    start: StartLine
    line: int
    uses: frozenset[str]
    environment: Mapping[str, Word]
    folder: Word | None
    exports: Mapping[str, tuple[Word, int]]

    @property
    def program(self) -> str | None:
        """The Python file that it starts, from the folder in which the script is started; None where a run
        alone would tell."""
        script, folder = self.start.script, self.folder or Word("")
        is_known = not (script.is_open or folder.is_open or "$" in script.text + folder.text)
        name = f"{script.text.replace('.', '/')}.py" if self.start.is_module else script.text
        place = posixpath.normpath(posixpath.join(folder.text, name))
        return place if is_known and place.endswith(".py") and place[0] not in "/." else None


@frozen
class BatchScript:
    """What was read of a batch script: `starts` are all commands that start a training, and `python` is the
    virtual environment that it activates, if any."""

    options: Mapping[str, tuple[str, int]]
    shell: ShellScript
    starts: tuple[BatchJob, ...]
    python: str | None
    exports: Mapping[str, tuple[Word, int]]

    @property
    def jobs(self) -> tuple[BatchJob, ...]:
        """The trainings, of which the same one in several branches is one."""
        lines = [each.start for each in self.starts]
        return tuple(each for number, each in enumerate(self.starts) if each.start not in lines[:number])

    @property
    def only_program(self) -> str | None:
        """The Python file that all its trainings start, from the folder in which it is started itself; None
        where there are several, or a run alone would tell."""
        found = {each.program for each in self.jobs}
        return found.pop() if len(found) == 1 else None

    def handed_on(self) -> Iterator[tuple[str, str, int]]:
        """The variables that what it starts has from it, with values that are written, and their lines."""
        own = [(name, *held) for name, held in self.exports.items()] if not self.starts else []
        for job in self.starts:
            own += [(name, *held) for name, held in job.exports.items() if name not in job.environment]
            own += [(name, value, job.line) for name, value in job.environment.items()]
        lines: dict[tuple[str, str], int] = {}
        for name, value, line in own:
            if not value.is_open and "$" not in value.text:
                lines.setdefault((name, value.text), line)
        yield from ((*variable, line) for variable, line in lines.items())


def is_batch_script(text: str) -> bool:
    """Whether a text is for sbatch, or starts programs by srun."""
    return _DIRECTIVE.search(text) is not None or re.search(r"^\s*srun\b", text, re.MULTILINE) is not None


def read_batch_script(text: str, variables: Mapping[str, Value | None] = NO_VARIABLES) -> BatchScript:
    """Read a batch script that whoever starts it gives these variables."""
    options = dict(_options(text))
    shell = ShellScript(text, {**dict(_told_by_slurm(options)), **variables})
    jobs: list[BatchJob] = []
    folders = _Folders()
    python: str | None = None
    for command in shell.commands():
        python = _environment_of(command.words) or python
        if folders.change(command.words):
            continue
        start = find_start(command.words, shell.variables) if command.words else None
        if start is not None:
            own = {**command.environment, **start.environment}
            jobs.append(
                BatchJob(start, command.line, command.uses, own, folders.current, dict(shell.exported))
            )
    # One that Slurm starts on the hosts is the training where others only prepare it.
    by_srun = [each for each in jobs if each.start.by_srun or each.start.starter not in ("python", "shell")]
    return BatchScript(options, shell, _without_preparation(by_srun or jobs), python, shell.exported)


@dataclass(slots=True)
class _Folders:
    """The folder in which a shell is, the one before, and those that `popd` goes back to; None is the one in
    which the script is started."""

    current: Word | None = None
    previous: Word | None = None
    stack: list[Word | None] = field(default_factory=list)

    def change(self, words: Sequence[Word]) -> bool:
        """Go where a command goes; False where it goes nowhere."""
        match [each.text for each in words]:
            case ["cd", "-"]:
                self.current, self.previous = self.previous, self.current
            case ["cd" | "pushd" as name, _]:
                self.stack += [self.current] if name == "pushd" else []
                self.current, self.previous = self._below(words[1]), self.current
            case ["popd"] if self.stack:
                self.current, self.previous = self.stack.pop(), self.current
            case _:
                return False
        return True

    def _below(self, place: Word) -> Word:
        """A folder as it is from where the script starts; what only the cluster's machines know is open."""
        if place.is_open or place.text.startswith("~"):
            return Word(place.text, is_open=True)
        if self.current is None or place.text.startswith(("/", "$")):
            return place
        return Word(posixpath.normpath(f"{self.current.text}/{place.text}"), self.current.is_open)


def _environment_of(words: Sequence[Word]) -> str | None:
    """The folder of the virtual environment that a command activates; None of one that has a name alone."""
    texts = ["" if each.is_open or "$" in each.text else each.text for each in words]
    folder = ""
    if len(texts) == 2 and texts[0] in ("source", "."):
        folder, mark, _ = texts[1].rpartition("/bin/activate")
        folder = folder if mark else ""
    elif len(texts) == 3 and texts[1] == "activate":
        folder = texts[2]
    return folder if folder.startswith("/") else None


def _without_preparation(jobs: Sequence[BatchJob]) -> tuple[BatchJob, ...]:
    """Those that are no preparation, where there are others."""
    others = [each for each in jobs if _PREPARES.match(posixpath.basename(each.start.script.text)) is None]
    return tuple(others or jobs)


def _options(text: str) -> Iterator[tuple[str, tuple[str, int]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        found = _DIRECTIVE.match(line)
        if found is None:
            continue
        try:
            words = shlex.split(found["words"], comments=True)
        except ValueError:
            continue
        index = 0
        while index < len(words):
            name, equals, value = words[index].lstrip("-").partition("=")
            if not words[index].startswith("--"):
                letter, rest = name[:1], name[1:] + equals + value
                name, equals, value = _SHORT.get(letter, letter), rest, rest.lstrip("=")
            if not equals and index + 1 < len(words) and not words[index + 1].startswith("-"):
                index += 1
                value = words[index]
            yield name, (value, number)
            index += 1


def _told_by_slurm(options: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, Value | None]]:
    """The variables of Slurm whose values follow from the options."""
    nodes = hosts_asked_for(options)
    if nodes is not None:
        yield "SLURM_NNODES", Word(nodes[0])
        yield "SLURM_JOB_NUM_NODES", Word(nodes[0])
    tasks = options.get("ntasks", ("", 0))[0]
    each = options.get("ntasks-per-node", options.get("tasks-per-node", ("", 0)))[0]
    if not tasks and nodes is not None and nodes[0].isdecimal() and each.isdecimal():
        tasks = str(int(nodes[0]) * int(each))
    if tasks.isdecimal():
        yield "SLURM_NTASKS", Word(tasks)
        yield "SLURM_NPROCS", Word(tasks)
    gpus = gpus_per_host(options)
    if gpus is not None:
        yield "SLURM_GPUS_ON_NODE", Word(str(gpus))
        yield "SLURM_GPUS_PER_NODE", Word(str(gpus))
    for option, variable in (
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
        ("job-name", "SLURM_JOB_NAME"),
    ):
        if option in options:
            yield variable, Word(options[option][0])


def hosts_asked_for(options: Mapping[str, tuple[str, int]]) -> tuple[str, int] | None:
    """How many hosts the script asks for, and in which line: `nodes`, or what its tasks need.

    One task is on one host; several are where it also says how many are on each.
    """
    if "nodes" in options:
        return options["nodes"]
    tasks, line = options.get("ntasks", ("", 0))
    each = options.get("ntasks-per-node", options.get("tasks-per-node", ("", 0)))[0]
    if tasks == "1":
        return "1", line
    if tasks.isdecimal() and each.isdecimal() and int(each) and int(tasks) % int(each) == 0:
        return str(int(tasks) // int(each)), line
    return None


def gpus_per_host(options: Mapping[str, tuple[str, int]]) -> int | None:
    """The GPUs of each host that the script asks for."""
    for name in ("gpus-per-node", "gres"):
        several = options.get(name, ("", 0))[0].split(",")
        for each in (each for each in several if name != "gres" or each.startswith("gpu")):
            found = _GPUS.fullmatch(each)
            if found is not None:
                return int(found["count"])
    together = _GPUS.fullmatch(options.get("gpus", ("", 0))[0])
    hosts = hosts_asked_for(options)
    if together is None or hosts is None or not hosts[0].isdecimal() or not int(hosts[0]):
        return None
    count, left = divmod(int(together["count"]), int(hosts[0]))
    return None if left else count
