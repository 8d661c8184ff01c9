"""A command line that starts a training: which program starts the ranks, which script, with what.

torchrun (also as `python -m torch.distributed.run`), accelerate, deepspeed, mpirun and Python itself, alone
or behind srun, bash or a container's program. Options by torch 2.13 (torch.distributed.run), accelerate
(commands/launch.py, 00785cd9) and deepspeed (launcher/runner.py, 048b0d50).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.drafts.job_draft import Path
from launcher.drafts.shell_text import Value, Word, split_words
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
    "deepspeed": frozenset(
        {
            "no_local_rank", "no_python", "force_multi", "no_ssh", "no_ssh_check", "save_pid", "module",
            "bind_cores_to_rank", "elastic_training",
        }
    ),
}  # fmt: skip
"""The options of each that take no value."""

_MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun"}
_MODULES |= {"accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed"}
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_SHELLS = ("bash", "sh", "/bin/bash")
_OF_CLUSTERS = ("srun", "mpirun", "mpiexec")
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

    `starter` is torchrun, accelerate, deepspeed, mpi, shell or python; `by_srun` says that Slurm starts it on
    each host. `hosts` and `processes` are what it says of numbers, None where it says nothing. `script` is a
    path, or with `is_module` a module. `lost` are options that a job file has no words for.
    """

    starter: str
    by_srun: bool
    script: Word
    is_module: bool
    arguments: tuple[Word, ...]
    hosts: Word | None = None
    processes: Word | None = None
    restarts: Word | None = None
    lost: tuple[str, ...] = ()
    tasks: Word | None = None

    def fields(self) -> Iterator[tuple[Path, Any]]:
        """The fields of a job file that the line says, each with its value."""
        if self.starter in ("torchrun", "accelerate", "deepspeed"):
            yield ("distribution", "strategy"), "torchrun"
        elif self.starter == "mpi":
            yield ("distribution", "strategy"), "mpi"
        if not self.script.is_open:
            yield from self._program(self.script.text)
        if self.arguments and not any(each.is_open for each in self.arguments):
            yield ("code", "arguments"), [each.text for each in self.arguments]
        elif self.arguments:
            yield ("code", "arguments"), [each.text for each in self.arguments if not each.is_open]
        count = None if self.processes is None else self.processes.text
        if count is not None and count.isdecimal() and self.starter == "torchrun":
            yield ("distribution", "processes_per_host"), int(count)
        again = None if self.restarts is None else self.restarts.text
        if again is not None and again.isdecimal() and int(again):
            yield ("limits", "restarts"), int(again)

    def _program(self, text: str) -> Iterator[tuple[Path, Any]]:
        if self.is_module:
            yield ("code", "module"), text
            return
        path = posixpath.normpath(text)
        if path.startswith(("/", "..", "$")):
            yield ("code", "source_dir"), posixpath.dirname(path) or "."
            path = posixpath.basename(path)
        yield ("code", "entry_point"), path

    @property
    def questions(self) -> Iterator[tuple[Path, str]]:
        """What it leaves open, each with the field."""
        if self.script.is_open:
            yield ("code", "entry_point"), f"which script is {self.script.text}?"
        for each in self.arguments:
            if each.is_open:
                yield ("code", "arguments"), f"what is {each.text}? It stands among the arguments."
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
    by_srun = False
    tasks: Word | None = None
    mpi = False
    for index, word in enumerate(words):
        name = posixpath.basename(word.text)
        rest = list(words[index + 1 :])
        if name in _OF_CLUSTERS:
            by_srun |= name == "srun"
            mpi |= name != "srun"
            tasks = _option(rest, ("ntasks-per-node", "npernode", "N")) if name == "srun" else tasks
            continue
        if index and not by_srun and not mpi and not _runs_in(words[0].text):
            return None
        if name in ("torchrun", "torchrun_bin"):
            return _started("torchrun", rest, by_srun)
        if name == "accelerate" and rest and rest[0].text == "launch":
            return _started("accelerate", rest[1:], by_srun)
        if name == "deepspeed" and (not index or by_srun or _runs_in(words[0].text)):
            return _started("deepspeed", rest, by_srun)
        if _PYTHON.fullmatch(name):
            start = _by_python(rest, by_srun, mpi)
            return None if start is None else _with_tasks(start, tasks)
        if name in _SHELLS and rest:
            return _with_tasks(_by_shell(rest, by_srun, variables), tasks)
        if by_srun and name.endswith((".sh", ".py")) and not _is_value(words, index):
            kind = "shell" if name.endswith(".sh") else "python"
            return _with_tasks(StartLine(kind, by_srun, word, False, tuple(rest)), tasks)
    return None


def _with_tasks(start: StartLine | None, tasks: Word | None) -> StartLine | None:
    if start is None or tasks is None:
        return start
    return StartLine(
        start.starter, start.by_srun, start.script, start.is_module, start.arguments, start.hosts,
        start.processes, start.restarts, start.lost, tasks,
    )  # fmt: skip


def _is_value(words: Sequence[Word], index: int) -> bool:
    """Whether a word may be the value of the option before it."""
    return words[index - 1].text.startswith("-") and "=" not in words[index - 1].text


def _runs_in(program: str) -> bool:
    """Whether a program runs another one in a container or under its eyes."""
    name = posixpath.basename(program)
    return name in (
        "docker", "singularity", "apptainer", "enroot", "nsys", "env", "numactl", "time", "sudo", "exec",
        "stdbuf", "conda", "uv", "poetry", "timeout", "nohup", "neuron_parallel_compile",
    )  # fmt: skip


def _option(words: Sequence[Word], names: Sequence[str]) -> Word | None:
    for index, word in enumerate(words):
        name, equals, value = word.text.lstrip("-").partition("=")
        if word.text.startswith("-") and name in names:
            if equals:
                return Word(value, word.is_open)
            return words[index + 1] if index + 1 < len(words) else None
    return None


def _by_python(words: list[Word], by_srun: bool, mpi: bool) -> StartLine | None:
    kind = "mpi" if mpi else "python"
    for index, word in enumerate(words):
        text = word.text
        if text == "-m" and index + 1 < len(words):
            module = words[index + 1]
            if module.text in _MODULES:
                return _started(_MODULES[module.text], words[index + 2 :], by_srun)
            return StartLine(kind, by_srun, module, True, tuple(words[index + 2 :]))
        if text == "-c":
            return None
        if text.startswith("-") and not word.is_open:
            continue
        if posixpath.basename(text) == "torchrun":
            return _started("torchrun", words[index + 1 :], by_srun)
        return StartLine(kind, by_srun, word, False, tuple(words[index + 1 :]))
    return None


def _by_shell(words: list[Word], by_srun: bool, variables: Mapping[str, Value | None]) -> StartLine | None:
    for index, word in enumerate(words):
        if word.text in ("-c", "-lc", "-xc", "-ec") and index + 1 < len(words):
            inner = words[index + 1]
            found = [
                start
                for each in split_words(inner.text, variables)
                if (start := find_start(each, variables)) is not None
            ]
            if len(found) != 1:
                return None
            only = found[0]
            return StartLine(
                only.starter, by_srun, only.script, only.is_module, only.arguments, only.hosts,
                only.processes, only.restarts, only.lost,
            )  # fmt: skip
        if not word.text.startswith("-"):
            if not by_srun:
                return None
            return StartLine("shell", by_srun, word, False, tuple(words[index + 1 :]))
    return None


def _started(starter: str, words: Sequence[Word], by_srun: bool) -> StartLine | None:
    """The rest of the line behind the program that starts ranks."""
    given: dict[str, Word] = {}
    flags: set[str] = set()
    index = 0
    while index < len(words):
        word = words[index]
        if not word.text.startswith("-"):
            if word.is_open and word.text.startswith(("$", '"$')) and index + 1 < len(words):
                given["?"] = word  # Options of which only a run would tell.
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
    is_told = starter != "torchrun"
    lost = [
        f"--{each} {value.text}"
        for each, value in given.items()
        if is_told and each not in _HARMLESS and not each.startswith("rdzv_") and value.text != "no"
    ]
    lost += [f"--{each}" for each in sorted(flags - _HARMLESS) if is_told]
    if unknown is not None:
        lost.append(unknown.text)
    hosts = {"torchrun": "nnodes", "accelerate": "num_machines", "deepspeed": "num_nodes"}[starter]
    return StartLine(
        starter,
        by_srun,
        words[index],
        bool(flags & {"m", "module"}),
        tuple(words[index + 1 :]),
        given.get(hosts),
        given.get("nproc_per_node"),
        given.get("max_restarts"),
        tuple(lost),
    )
