"""A command line that starts a training: which program starts the ranks, which script, with what.

torchrun (also as `python -m torch.distributed.run`), accelerate, deepspeed, mpirun and Python itself, alone
or behind srun, bash or a container's program. Options by torch 2.13 (torch.distributed.run), accelerate
(commands/launch.py, 00785cd9) and deepspeed (launcher/runner.py, 048b0d50).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from launcher.frozen import frozen
from launcher.source.shell_text import Value, Word, read_commands

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
PROCESS_OPTIONS = ("nproc_per_node", "num_processes", "num_gpus", "nproc")
"""By which torchrun, accelerate, deepspeed and composer are told how many ranks to start."""
PORT_OPTIONS = ("master_port", "main_process_port")
"""By which they are told the port on which the first rank listens."""
_MEETING_OPTIONS = ("rdzv_endpoint", "master_addr", "main_process_ip")
"""By which torchrun, deepspeed and accelerate are told where the ranks meet."""
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
    starts it on each host. `hosts` and `processes` are what it says of numbers, None where it says nothing;
    torchrun's --standalone is one host.
    `script` is a path, or with `is_module` a module. `meets_at` is the address at which the ranks are told to
    meet, with its port or without, `port` the port alone, `configuration` the file of accelerate's settings.
    `lost` are options that a job file has no words for, `tasks` how many Slurm starts on each host, and
    `image` the container that it starts them in. `environment` are the variables that a shell sets for this
    command alone.
    """

    starter: str
    script: Word
    is_module: bool
    arguments: tuple[Word, ...]
    hosts: Word | None = None
    processes: Word | None = None
    restarts: Word | None = None
    meets_at: Word | None = None
    port: Word | None = None
    configuration: Word | None = None
    lost: tuple[str, ...] = ()
    by_srun: bool = False
    tasks: Word | None = None
    image: Word | None = None
    environment: Mapping[str, Word] = field(default_factory=dict)

    @property
    def processes_per_host(self) -> int | None:
        """How many ranks each host has; accelerate is told how many all have together."""
        count = None if self.processes is None else self.processes.text
        if count is None or not count.isdecimal():
            return None
        if self.starter != "accelerate":
            return int(count)
        hosts = "1" if self.hosts is None else self.hosts.text
        if not hosts.isdecimal() or not int(hosts) or int(count) % int(hosts):
            return None
        return int(count) // int(hosts)


def read_start_line(text: str) -> StartLine | None:
    """The start of a training that a text of a shell is; None where it is none, or several."""
    return _only_start(text, {})


def _only_start(text: str, variables: Mapping[str, Value | None]) -> StartLine | None:
    found = [
        replace(start, environment={**command.environment, **start.environment})
        for command in read_commands(text, variables)
        if (start := find_start(command.words, variables)) is not None
    ]
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
        elif index and not by_srun and not by_mpi and not _runs_in(words[0]):
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


def _runs_in(program: Word) -> bool:
    """Whether a program runs another one in a container or under its eyes, as one in a variable does."""
    name = posixpath.basename(program.text)
    return program.text.startswith("$") or name in (
        "docker", "singularity", "apptainer", "enroot", "nsys", "env", "numactl", "time", "sudo", "exec",
        "stdbuf", "conda", "uv", "poetry", "timeout", "nohup", "eval",
        "neuron_parallel_compile",
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
            return _only_start(words[index + 1].text.replace("$${", "${"), variables)
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
    processes = {"composer": "nproc", "accelerate": "num_processes", "deepspeed": "num_gpus"}
    return StartLine(
        starter,
        words[index],
        bool(flags & {"m", "module", "run_module_mode"}),
        tuple(words[index + 1 :]),
        Word("1") if "standalone" in flags else given.get(hosts),
        given.get(processes.get(starter, "nproc_per_node")),
        given.get("max_restarts"),
        next((given[name] for name in _MEETING_OPTIONS if name in given), None),
        next((given[name] for name in PORT_OPTIONS if name in given), None),
        given.get("config_file"),
        tuple(lost),
    )
