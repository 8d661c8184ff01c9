"""The user's script: its source is verified and unpacked, its command and environment are put together.

What is run is a Python script, a module, or a shell script. Nothing that is already set in the environment
is overwritten; PYTHONPATH and PATH alone are extended. Sources of the SM_* variables:
aws/sagemaker-training-toolkit, environment.py (to_env_vars and the dict of its properties, which is
SM_TRAINING_ENV); sagemaker-python-sdk 3, train/container_drivers/scripts/environment.py, which adds
SM_MASTER_ADDR, SM_HOST_COUNT and some more. Where the two differ in the spelling of a name, both are set.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from slipway.container import Container, Rendezvous, Task
from slipway.failure import BootError
from slipway.ranks.attendant import STATE_VARIABLE
from slipway.ranks.start import words_for_rank
from slipway.watchdog.watch_ranks import is_watched

# What is run, as words for the interpreter or for torchrun.


class ProgramCommand(NamedTuple):
    """A program and its arguments: a Python file, with `is_module` the name of a module, or with `by_shell`
    the command of a shell script."""

    is_module: bool
    words: tuple[str, ...]
    by_shell: bool = False

    @property
    def command(self) -> list[str]:
        """What starts it alone; Python without buffering."""
        if self.by_shell:
            return list(self.words)
        return [sys.executable, "-u", *(["-m"] if self.is_module else []), *self.words]

    def command_for(self, environment: Mapping[str, str]) -> list[str]:
        """What starts it alone, by the interpreter that this environment asks of torchrun, in PYTHON_EXEC."""
        return [environment.get("PYTHON_EXEC", sys.executable), *self.command[1:]]


def program_of(
    task: Task, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> ProgramCommand:
    """The program that a task names, below the code's `folder`.

    Raises BootError (CODE002) where it is not there or its strategy cannot start it.
    """
    if task.entry_point is not None and task.entry_point.endswith(".sh"):
        if task.strategy != "none":
            raise BootError(
                "CODE002",
                f"{task.entry_point} is a shell script, and {task.strategy} starts Python programs only. Use "
                "`strategy: none`, and start the ranks in the script, or name a .py file",
            )
        script = find_entry_point(folder, task.entry_point)
        return ProgramCommand(
            False, tuple(shell_command(script, arguments, environment.get("PATH"))), by_shell=True
        )
    if task.module is not None:
        find_module(folder, task.module)
        return ProgramCommand(
            *words_for_rank(task.module, arguments, environment, is_module=True, watched=is_watched(task))
        )
    script = find_entry_point(folder, task.entry_point or "")
    return ProgramCommand(*words_for_rank(str(script), arguments, environment, watched=is_watched(task)))


def shell_command(script: Path, arguments: Sequence[str], search_path: str | None) -> list[str]:
    """The script itself where it has a shebang and the run bit, else bash with the script.

    `search_path` is the PATH in which bash is looked for. Raises BootError (CODE002) where the shebang's
    interpreter or bash is not in the image.
    """
    with script.open("rb") as file:
        first = file.readline(256)
    # Also false on a file system that is mounted without permission to run anything (access(2)).
    if first.startswith(b"#!") and os.access(script, os.X_OK):
        _check_interpreter(script, first[2:])
        return [str(script), *arguments]
    bash = shutil.which("bash", path=search_path)
    if bash is None:
        raise BootError(
            "CODE002",
            f"{script.name} has no shebang with a run bit, and there is no bash in the image to run it with. "
            "Begin it with the line #!/bin/sh and make it executable (chmod +x), or use an image with bash",
        )
    return [bash, str(script), *arguments]


def _check_interpreter(script: Path, line: bytes) -> None:
    text = line.decode("utf-8", "replace").rstrip("\n")
    words = text.split()
    if text.endswith("\r"):
        raise BootError(
            "CODE002",
            f"{script.name} has Windows line ends, so that Linux looks for an interpreter called "
            f"{text.strip(' ')!r}. Save it with Unix line ends (in git, .gitattributes: `*.sh text eol=lf`)",
        )
    if not words or not Path(words[0]).exists():
        raise BootError(
            "CODE002",
            f"{script.name} begins with `#!{text}`, and that interpreter is not in the image. "
            "Correct the first line, such as #!/bin/bash",
        )


# The user's source: know it for what was submitted, unpack it, refuse what would leave its folder.


CODE_DIGEST_VARIABLE = "SLIPWAY_CODE_SHA256"
"""The job's environment variable with what `verify` expects; the launcher writes it into the request."""

_CHUNK = 1024 * 1024
_SHOWN = 12


def verify_source(archive: Path, expected: str) -> None:
    """Hold the archive (tar.gz) against the digest that its job was submitted with.

    That is the SHA-256, in hexadecimal, of all that the archive holds once it is decompressed; `gunzip -c
    source.tar.gz | sha256sum` computes it too. Raises BootError (CODE002) where it is another one, and where
    the archive is missing or unreadable. Nothing of it has been unpacked by then.
    """
    digest = hashlib.sha256()
    try:
        with gzip.open(archive) as content:
            for chunk in iter(lambda: content.read(_CHUNK), b""):
                digest.update(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise BootError("CODE002", f"the job's source {archive} cannot be read: {error}") from error
    found = digest.hexdigest()
    if found != expected:
        raise BootError(
            "CODE002",
            f"the job's source {archive.name} is not the code that was submitted: it has the SHA-256 "
            f"{found[:_SHOWN]}..., the job's request says {expected[:_SHOWN]}... ({CODE_DIGEST_VARIABLE}). "
            "Somebody else's code would have run with the job's role, so nothing was started. Find out who "
            "wrote to the folder of the request's channel `code` on S3, remove it there, and launch again",
        )


def unpack_source(archive: Path, folder: Path) -> None:
    """Extract `archive` (tar.gz) below `folder`.

    Raises BootError (CODE002) where the archive is missing, unreadable, or holds a link, a device or a
    path outside the folder; nothing is extracted then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive, "r:gz") as source:
            members = source.getmembers()
            for member in members:
                _check(member, archive)
            # The filter drops set-uid bits and owners; Python 3.8.17, 3.9.17, 3.10.12 and later have it.
            if hasattr(tarfile, "data_filter"):
                source.extractall(folder, members, filter="data")
            else:
                source.extractall(folder, members)
    except (FileNotFoundError, EOFError, tarfile.TarError) as error:
        raise BootError("CODE002", f"the job's source {archive} cannot be unpacked: {error}") from error


def find_entry_point(folder: Path, entry_point: str) -> Path:
    """The script below `folder`. Raises BootError (CODE002) where it is not there."""
    script = folder / entry_point
    if not script.is_file():
        there = ", ".join(sorted(file.name for file in folder.iterdir())[:20]) or "nothing"
        raise BootError(
            "CODE002",
            f"the entry point {entry_point} is not in the job's source, which holds: {there}. "
            "Correct `code.entry_point` or `code.source_dir`",
        )
    return script


def find_module(folder: Path, module: str) -> None:
    """Make sure that the source holds the module where it holds the package that the module is in.

    Any other may be installed, which only Python can tell. Raises BootError (CODE002).
    """
    names = module.split(".")
    package, path = folder / names[0], folder.joinpath(*names)
    # Without this file the folder may be no package, and hide none that is installed.
    if not (package / "__init__.py").is_file():
        return
    if not (path.with_name(f"{names[-1]}.py").is_file() or path.is_dir()):
        there = ", ".join(sorted(str(file.relative_to(folder)) for file in package.rglob("*.py"))[:20])
        raise BootError(
            "CODE002",
            f"the module {module} is not in the job's source, whose package {names[0]} holds: {there}. "
            "Correct `code.module` or `code.source_dir`",
        )


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise BootError("CODE002", f"{archive.name} holds {member.name!r}, a path outside its folder")
    if not (member.isfile() or member.isdir()):
        raise BootError("CODE002", f"{archive.name} holds {member.name!r}, which is not a regular file")


# The environment of the script: what SageMaker's own launchers set, and what only the container knows.


LOG_LINE_PREFIX = "[rank${rank}]:"
"""Marks each line with the global rank."""

MARK_VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
"""Holds the mark of each line, in torchrun's notation (PyTorch documentation, torchrun)."""


def script_environment(
    task: Task,
    container: Container,
    existing: Mapping[str, str],
    *,
    archive: Path,
    rendezvous: Rendezvous,
    arguments: Sequence[str],
) -> dict[str, str]:
    """The whole environment of the script's processes.

    `existing` is the container's own environment and wins; `archive` is what this package was loaded
    from, put on PYTHONPATH so that scripts may import it; this interpreter's folder is first on PATH;
    `arguments` are what the script is given.
    """
    derived = {
        **sagemaker_variables(task, container, rendezvous, existing, arguments),
        **_network(container, rendezvous),
        "PYTHONUNBUFFERED": "1",
        STATE_VARIABLE: str(container.state),
        MARK_VARIABLE: LOG_LINE_PREFIX,
        **_training_on_cpus(task, existing),
    }
    paths = [str(archive), str(container.code), existing.get("PYTHONPATH", "")]
    # Shell scripts call `python` and `accelerate`: those of the interpreter that runs the boot.
    programs = [str(Path(sys.executable).parent), existing.get("PATH", os.defpath)]
    return {
        **derived,
        **existing,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PATH": os.pathsep.join(programs),
    }


def _training_on_cpus(task: Task, existing: Mapping[str, str]) -> dict[str, str]:
    """What tells accelerate, and the Trainer of transformers since 4.32, that ranks train on CPUs: without it
    they look for accelerators, find none, and each trains alone (accelerate/state.py, _prepare_backend)."""
    if task.strategy != "torchrun" or sees_accelerators(existing):
        return {}
    return {"ACCELERATE_USE_CPU": "true"}


_ACCELERATORS = ("nvidia[0-9]*", "nvidia-caps", "dxg", "kfd", "neuron*")
"""Their files in /dev: of NVIDIA's GPUs, under Windows too, of AMD's, and of AWS' chips."""


def sees_accelerators(existing: Mapping[str, str], devices: Path = Path("/dev")) -> bool:
    """Whether there may be any; CUDA_VISIBLE_DEVICES may hide them all."""
    visible = existing.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not visible.strip():
        return False
    return any(True for name in _ACCELERATORS for _ in devices.glob(name))


def make_folders(environment: Mapping[str, str]) -> None:
    """Create the folders that scripts and PyTorch's flight recorder expect to find."""
    folders = [environment[name] for name in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SLIPWAY_CHECKPOINT_DIR")]
    # The recorder opens `<prefix><rank>` and writes nothing where the folder is missing.
    dumps = environment.get("TORCH_FR_DUMP_TEMP_FILE") or environment.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    folders += [str(Path(dumps).parent)] if dumps else []
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)


def _network(container: Container, rendezvous: Rendezvous) -> dict[str, str]:
    variables = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
    if container.interface:
        # Without it NCCL and gloo take the first interface they find, which other hosts may not reach.
        variables["NCCL_SOCKET_IFNAME"] = container.interface
        variables["GLOO_SOCKET_IFNAME"] = container.interface
    return variables


# The SM_* variables by which scripts find what they need.


OWN_CHANNEL = "code"
"""Holds the job's source and this package. It is none of the user's channels, so no script is told of it."""

_LOG_LEVEL = 20
"""Python's logging.INFO, the default of both."""


def folder_variables(container: Container, existing: Mapping[str, str]) -> dict[str, str]:
    """The variables that name a folder of the container; what `existing` sets wins."""
    root, data = container.root, container.input_data
    checkpoints = existing.get("SLIPWAY_CHECKPOINT_DIR") or str(root / "checkpoints")
    found = {
        "SM_MODEL_DIR": str(root / "model"),
        "SM_INPUT_DIR": str(root / "input"),
        "SM_INPUT_DATA_DIR": str(data),
        "SM_INPUT_CONFIG_DIR": str(root / "input" / "config"),
        "SM_OUTPUT_DIR": str(root / "output"),
        "SM_OUTPUT_DATA_DIR": str(container.output_data),
        "SM_OUTPUT_INTERMEDIATE_DIR": str(root / "output" / "intermediate"),
        "SM_MODULE_DIR": str(container.code),
        "SM_SOURCE_DIR": str(container.code),
        "SM_CHECKPOINT_DIR": checkpoints,
        "SLIPWAY_CHECKPOINT_DIR": checkpoints,
        **_with_underscores("SM_CHANNEL_", {name: str(data / name) for name in _channels(container)}),
    }
    return {name: existing.get(name, folder) for name, folder in found.items()}


def sagemaker_variables(
    task: Task,
    container: Container,
    rendezvous: Rendezvous,
    existing: Mapping[str, str],
    arguments: Sequence[str],
) -> dict[str, str]:
    """The SM_* variables: the folders, the hosts, the hyperparameters, and the whole as SM_TRAINING_ENV.

    `existing` is the container's own environment, `arguments` what the script is given.
    """
    values = {name: _decoded(text) for name, text in container.hyperparameters.items()}
    shared = _shared_variables(task, container, rendezvous, existing)
    places = folder_variables(container, existing)
    channels = shared["channel_input_dirs"]
    training = {
        **shared,
        **{name[3:].lower(): place for name, place in places.items() if _is_the_toolkits(name)},
        "additional_framework_parameters": {},
        "hyperparameters": values,
        "is_master": container.node_rank == 0,
        "job_name": existing.get("TRAINING_JOB_NAME", ""),
        "master_hostname": container.hosts[0],
    }
    variables: dict[str, Any] = {
        **{f"SM_{name.upper()}": value for name, value in shared.items() if name != "channel_input_dirs"},
        **places,
        "SM_CHANNELS": list(channels),
        "SM_CURRENT_HOST_RANK": container.node_rank,
        "SM_ENTRY_SCRIPT": task.entry_point or "",
        "SM_FRAMEWORK_PARAMS": {},
        "SM_HOST_COUNT": len(container.hosts),
        "SM_HPS": values,
        "SM_OUTPUT_FAILURE": str(container.failure_file),
        "SM_TRAINING_ENV": training,
        "SM_USER_ARGS": list(arguments),
        **_with_underscores("SM_HP_", container.hyperparameters),
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in variables.items()}


def _shared_variables(
    task: Task, container: Container, rendezvous: Rendezvous, existing: Mapping[str, str]
) -> dict[str, Any]:
    """What stands both in SM_TRAINING_ENV and, under its name in capitals, in a variable of its own."""
    resources = container.resource_config
    groups = resources.get("instance_groups") or []
    group = resources.get("current_group_name", "homogeneousCluster")
    return {
        "channel_input_dirs": {name: str(container.input_data / name) for name in _channels(container)},
        "current_host": container.current_host,
        "current_instance_group": group,
        "current_instance_group_hosts": _hosts_of(group, groups),
        "current_instance_type": container.instance_type,
        "distribution_instance_groups": [] if task.strategy == "none" else [group],
        "framework_module": existing.get("SAGEMAKER_TRAINING_MODULE", ""),
        "hosts": list(container.hosts),
        "input_data_config": _channels(container),
        "instance_groups": [each["instance_group_name"] for each in groups],
        "instance_groups_dict": {each["instance_group_name"]: each for each in groups},
        "is_hetero": len(groups) > 1,
        "log_level": _LOG_LEVEL,
        "master_addr": rendezvous.address,
        "master_port": rendezvous.port,
        "module_name": task.module or _without_suffix(task.name),
        "network_interface_name": container.interface or "",
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": count_gpus(existing),
        "num_neurons": _count_neurons(),
        "resource_config": resources,
        "user_entry_point": task.name,
    }


def count_gpus(existing: Mapping[str, str]) -> int:
    """The GPUs that this host's processes can use, without loading torch."""
    visible = existing.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return sum(line.startswith("GPU ") for line in _output("nvidia-smi", "--list-gpus").splitlines())


def _count_neurons() -> int:
    """The Neuron cores of this host, as the SDK's driver counts them; 0 without Neuron's tools."""
    try:
        return sum(int(device.get("nc_count", 0)) for device in json.loads(_output("neuron-ls", "-j")))
    except (ValueError, TypeError, AttributeError):
        return 0


def _output(*command: str) -> str:
    """What a program prints; nothing where it is not there or does not answer within a minute."""
    try:
        return subprocess.run(list(command), capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _channels(container: Container) -> dict[str, Any]:
    return {name: each for name, each in container.input_data_config.items() if name != OWN_CHANNEL}


def _with_underscores(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    """Each under its name as it is and, since no shell reads hyphens, with underscores."""
    underscored = {f"{prefix}{name.replace('-', '_').upper()}": value for name, value in values.items()}
    return {**underscored, **{f"{prefix}{name.upper()}": str(value) for name, value in values.items()}}


def _hosts_of(group: str, groups: Sequence[Mapping[str, Any]]) -> list[str]:
    return next((list(each["hosts"]) for each in groups if each["instance_group_name"] == group), [])


def _is_the_toolkits(folder: str) -> bool:
    return folder.startswith("SM_") and not folder.startswith("SM_CHANNEL_")


def _without_suffix(name: str) -> str:
    return name[:-3] if name.endswith(".py") else name


def _decoded(text: str) -> Any:
    """The number, boolean or structure that a hyperparameter spells, else its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
