"""A command line that starts a training: which program starts the ranks, which script, with what.

torchrun (also as `python -m torch.distributed.run`), accelerate, deepspeed, mpirun and Python itself, alone
or behind srun, bash or a container's program. Options by torch 2.13 (torch.distributed.run), accelerate
(commands/launch.py, 00785cd9) and deepspeed (launcher/runner.py, 048b0d50).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.drafts.batch.shell_text import Value, Word, split_words
from launcher.drafts.job_draft import Path
from launcher.frozen import frozen

_FLAGS: Mapping[str, frozenset[str]] = {
    "torchrun": frozenset(
        {"standalone", "no_python", "run_path", "m", "module", "virtual_local_rank", "use_env"}
    ),
    "accelerate": frozenset(
        {
            "cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_xpu", "debug",
            "quiet", "q", "m", "module", "no_python", "same_network", "tpu_cluster", "no_tpu_cluster", "ipex",
            "use_parallelism_config", "enable_cpu_affinity", "tpu_use_sudo", "dynamo_use_fullgraph",
            "dynamo_use_dynamic", "downcast_bf16",
        }
    ),
    "composer": frozenset({"verbose", "v", "run_module_mode", "m", "command_mode", "c"}),
    "deepspeed": frozenset(
        {
            "no_local_rank", "no_python", "force_multi", "no_ssh", "no_ssh_check", "save_pid", "module",
            "bind_cores_to_rank", "elastic_training",
        }
    ),
}  # fmt: skip
"""The options of each that take no value."""

RANK_STARTERS = frozenset(_FLAGS)
"""The programs that start the ranks of a training with PyTorch."""

_MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun"}
_MODULES |= {"accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed"}
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_TOOLS = ("venv", "pip", "virtualenv", "ensurepip")
"""Modules that prepare an environment."""
_VALUED = ("-X", "-W")
"""Options of Python that take the next word."""
_SHELLS = ("bash", "sh")
_COMMANDS = ("-c", "-lc", "-xc", "-ec")
"""Options of a shell behind which the text of commands stands."""
_IN_THE_FOLDER = re.compile(r"(\$\{?PWD\}?|\$\(pwd\)|`pwd`|\$\{?SLURM_SUBMIT_DIR\}?)/(?P<path>[\w./-]+)")
_MPI = ("mpirun", "mpiexec")
_HARMLESS = frozenset(
    {
        "num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port", "multi_gpu",
        "same_network", "tee", "t", "log_dir", "role", "quiet", "q", "num_cpu_threads_per_process", "gpu_ids",
        "enable_cpu_affinity", "max_restarts", "monitor_interval", "m", "module", "hostfile", "H",
        "master_addr", "master_port", "launcher", "launcher_args", "num_nodes", "num_gpus", "no_local_rank",
        "force_multi", "no_ssh", "no_ssh_check", "save_pid", "bind_cores_to_rank", "bind_core_list",
        "enable_each_rank_log", "deepspeed_hostfile", "deepspeed_multinode_launcher", "debug",
        "num_accelerators",
    }
)  # fmt: skip
"""Options of accelerate and deepspeed that say where the ranks are, and not how they train."""


@frozen
class StartLine:
    """One such command.

    `starter` is torchrun, accelerate, deepspeed, composer, mpi, shell or python; `by_srun` says that Slurm
    starts it on each host. `hosts` and `processes` are what it says of numbers, None where it says nothing.
    `script` is a path, or with `is_module` a module. `lost` are options that a job file has no words for,
    `tasks` how many Slurm starts on each host, and `image` the container that it starts them in.
    """

    starter: str
    script: Word
    is_module: bool
    arguments: tuple[Word, ...]
    hosts: Word | None = None
    processes: Word | None = None
    restarts: Word | None = None
    lost: tuple[str, ...] = ()
    by_srun: bool = False
    tasks: Word | None = None
    image: Word | None = None

    def fields(self) -> Iterator[tuple[Path, Any]]:
        """The fields of a job file that the line says, each with its value."""
        if self.starter in _FLAGS:
            yield ("distribution", "strategy"), "torchrun"
        elif self.starter == "mpi":
            yield ("distribution", "strategy"), "mpi"
        if not self.script.is_open:
            yield from self._program(self.script.text)
        if known := [each.text for each in self._arguments()[0]]:
            yield ("code", "arguments"), known
        count = None if self.processes is None else self.processes.text
        if count is not None and count.isdecimal() and self.starter in ("torchrun", "composer"):
            yield ("distribution", "processes_per_host"), int(count)
        again = None if self.restarts is None else self.restarts.text
        if again is not None and again.isdecimal() and int(again):
            yield ("limits", "restarts"), int(again)

    def _arguments(self) -> tuple[list[Word], list[str]]:
        """Those that are known, and the texts of those that are not, each with the option before it."""
        known: list[Word] = []
        left: list[str] = []
        for each in self.arguments:
            if not each.is_open:
                known.append(each)
                continue
            is_value = bool(known) and known[-1].text.startswith("--") and "=" not in known[-1].text
            before = f"{known.pop().text} " if is_value and not each.text.startswith("-") else ""
            left.append(before + each.text)
        return known, left

    def _program(self, text: str) -> Iterator[tuple[Path, Any]]:
        if self.is_module:
            yield ("code", "module"), text
            return
        path = posixpath.normpath(text)
        if path.startswith(("/", "..", "$")):
            if self.image is None:
                yield ("code", "source_dir"), posixpath.dirname(path) or "."
            path = posixpath.basename(path)
        yield ("code", "entry_point"), path

    @property
    def questions(self) -> Iterator[tuple[Path, str]]:
        """What it leaves open, each with the field."""
        if self.script.is_open:
            yield ("code", "entry_point"), f"which script is {self.script.text}?"
        elif self.image is not None and self.script.text.startswith(("/", "..", "$")):
            yield ("code", "source_dir"), f"where is the code? The container has {self.script.text}"
        for text in self._arguments()[1]:
            yield ("code", "arguments"), f"what is {text}? It stands among the arguments."
        if self.lost:
            yield (
                ("distribution", "options"),
                f"{self.starter} is told {', '.join(self.lost)}: torchrun starts the ranks here, and what "
                "these say belongs into the script or its variables.",
            )
        if self.starter == "shell":
            yield ("distribution", "strategy"), "how does the shell script start its ranks?"
        if self.processes is not None and (self.processes.is_open or "$" in self.processes.text):
            yield (
                ("distribution", "processes_per_host"),
                f"how many on each host? The line has {self.processes.text}",
            )


def read_start_line(text: str) -> StartLine | None:
    """The start of a training that a text of a shell is; None where it is none, or several."""
    found = [start for words in split_words(text, {}) if (start := find_start(words, {})) is not None]
    return found[0] if len(found) == 1 else None


def find_start(words: Sequence[Word], variables: Mapping[str, Value | None]) -> StartLine | None:
    """The start of a training that a command is; `variables` are for the text of `bash -c`."""
    by_srun = by_mpi = False
    tasks = image = None
    for index, word in enumerate(words):
        name = posixpath.basename(word.text)
        rest = words[index + 1 :]
        if name == "srun":
            by_srun = True
            tasks, image = _option(rest, "ntasks-per-node"), _option(rest, "container-image")
        elif name in _MPI:
            by_mpi = True
        elif index and not by_srun and not by_mpi and not _runs_in(words[0].text):
            return None
        elif _is_starter(words, index, by_srun):
            start = _started_by(name, rest, word, "mpi" if by_mpi else "python", variables)
            if start is None:
                return None
            script = _below_the_folder(start.script)
            return replace(start, script=script, by_srun=by_srun, tasks=tasks, image=image)
    return None


def _below_the_folder(script: Word) -> Word:
    """A script's path from the folder in which the command is given, where that is how it is found."""
    found = _IN_THE_FOLDER.fullmatch(script.text)
    return script if found is None else Word(found["path"])


def _is_starter(words: Sequence[Word], index: int, by_srun: bool) -> bool:
    """Whether a word of a command is the program that starts the training, or the script itself."""
    name = posixpath.basename(words[index].text)
    following = words[index + 1].text if index + 1 < len(words) else ""
    if name == "accelerate":
        return following == "launch"
    if name in RANK_STARTERS or _PYTHON.fullmatch(name):
        return True
    if name in _SHELLS:
        return by_srun or following in _COMMANDS
    is_value = index > 0 and words[index - 1].text.startswith("-") and "=" not in words[index - 1].text
    return by_srun and name.endswith((".sh", ".py")) and not is_value


def _started_by(
    name: str, rest: Sequence[Word], word: Word, plain: str, variables: Mapping[str, Value | None]
) -> StartLine | None:
    if name == "accelerate":
        return _started(name, rest[1:])
    if name in RANK_STARTERS:
        return _started(name, rest)
    if _PYTHON.fullmatch(name):
        return _by_python(rest, plain)
    if name in _SHELLS:
        return _by_shell(rest, variables)
    return StartLine("shell" if name.endswith(".sh") else plain, word, False, tuple(rest))


def _runs_in(program: str) -> bool:
    """Whether a program runs another one in a container or under its eyes."""
    name = posixpath.basename(program)
    return name in (
        "docker", "singularity", "apptainer", "enroot", "nsys", "env", "numactl", "time", "sudo", "exec",
        "stdbuf", "conda", "uv", "poetry", "timeout", "nohup", "neuron_parallel_compile",
    )  # fmt: skip


def _option(words: Sequence[Word], wanted: str) -> Word | None:
    for index, word in enumerate(words):
        name, equals, value = word.text.lstrip("-").partition("=")
        if word.text.startswith("-") and name == wanted:
            if equals:
                return Word(value, word.is_open)
            return words[index + 1] if index + 1 < len(words) else None
    return None


def _by_python(words: Sequence[Word], plain: str) -> StartLine | None:
    words = [each for index, each in enumerate(words) if not index or words[index - 1].text not in _VALUED]
    for index, word in enumerate(words):
        rest = words[index + 1 :]
        if word.text == "-m" and rest:
            if rest[0].text in _MODULES:
                return _started(_MODULES[rest[0].text], rest[1:])
            return None if rest[0].text in _TOOLS else StartLine(plain, rest[0], True, tuple(rest[1:]))
        if word.text == "-c":
            return None
        if posixpath.basename(word.text) == "torchrun":
            return _started("torchrun", rest)
        if word.is_open or not word.text.startswith("-"):
            return StartLine(plain, word, False, tuple(rest))
    return None


def _by_shell(words: Sequence[Word], variables: Mapping[str, Value | None]) -> StartLine | None:
    for index, word in enumerate(words):
        if word.text in _COMMANDS and index + 1 < len(words):
            # What the outer shell leaves alone is for this one.
            commands = split_words(words[index + 1].text.replace("$${", "${"), variables)
            found = [start for each in commands if (start := find_start(each, variables)) is not None]
            return found[0] if len(found) == 1 else None
        if not word.text.startswith("-"):
            return StartLine("shell", word, False, tuple(words[index + 1 :]))
    return None


def _started(starter: str, words: Sequence[Word]) -> StartLine | None:
    """The rest of the line behind the program that starts ranks."""
    given: dict[str, Word] = {}
    flags: set[str] = set()
    index = 0
    while index < len(words):
        word = words[index]
        if not word.text.startswith("-"):
            # What only a run would tell is the script, unless something follows that is one.
            is_script = word.text.endswith((".py", ".sh")) or index + 1 == len(words)
            if word.is_open and not is_script and not words[index + 1].text.startswith("-"):
                given["?"] = word
                index += 1
                continue
            break
        name, equals, value = word.text.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if equals:
            given[name] = Word(value, word.is_open)
        elif name in _FLAGS[starter]:
            flags.add(name)
        elif index + 1 < len(words):
            given[name] = words[index + 1]
            index += 1
        index += 1
    if index >= len(words):
        return None
    unknown = given.pop("?", None)
    is_told = starter in ("accelerate", "deepspeed")
    lost = [
        f"--{each} {value.text}"
        for each, value in given.items()
        if is_told and each not in _HARMLESS and not each.startswith("rdzv_") and value.text != "no"
    ]
    lost += [f"--{each}" for each in sorted(flags - _HARMLESS) if is_told]
    if unknown is not None:
        lost.append(unknown.text)
    hosts = {"torchrun": "nnodes", "accelerate": "num_machines", "deepspeed": "num_nodes"}.get(starter, "")
    processes = "nproc" if starter == "composer" else "nproc_per_node"
    return StartLine(
        starter,
        words[index],
        bool(flags & {"m", "module", "run_module_mode"}),
        tuple(words[index + 1 :]),
        given.get(hosts),
        given.get(processes),
        given.get("max_restarts"),
        tuple(lost),
    )
