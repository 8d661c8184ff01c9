"""What a container is told, as plain data: SageMaker's config files and folders, and the boot's arguments.

Formats: Amazon SageMaker developer guide, "How Amazon SageMaker Provides Training Information". What
follows from them is here, too: where the ranks meet, the words that the script is given, and whether CUDA's
compatibility library is needed.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.failure import BootError
from slipway.watchdog.judge_stall import StallLimits

DEFAULT_ROOT = "/opt/ml"


@dataclass(frozen=True)
class Container:
    """One host of a training job, as its config files describe it.

    `root` is /opt/ml, or what stands for it; `hosts` are in natural order (algo-10 after algo-2), so
    that the same host is first everywhere; `interface` is the network interface that reaches them.
    """

    root: Path
    hosts: tuple[str, ...]
    current_host: str
    instance_type: str
    interface: str | None
    hyperparameters: Mapping[str, str]
    input_data_config: Mapping[str, Any]
    resource_config: Mapping[str, Any]

    @property
    def node_rank(self) -> int:
        """The place of this host among the hosts, from 0."""
        return self.hosts.index(self.current_host)

    @property
    def code(self) -> Path:
        """Where the user's source is unpacked, and the working directory of the script."""
        return self.root / "code"

    @property
    def input_data(self) -> Path:
        """The parent of the channels' folders."""
        return self.root / "input" / "data"

    @property
    def output_data(self) -> Path:
        """What the service keeps after the job, whether it failed or not."""
        return self.root / "output" / "data"

    @property
    def state(self) -> Path:
        """What this host knows of the job while it runs; nothing of it is kept."""
        return self.root / "slipway"

    @property
    def logs(self) -> Path:
        """The output and the error files of this host's ranks; named by host, as all hosts share a bucket."""
        return self.output_data / "slipway" / self.current_host

    @property
    def failure_file(self) -> Path:
        """What the service puts into FailureReason."""
        return self.root / "output" / "failure"


def read_container(root: Path) -> Container:
    """Read the config files below `root`.

    Raises OSError or ValueError where the resource config is missing or not JSON. Hyperparameters
    and channels may be missing: the service leaves the files out of a job that has none.
    """
    config = root / "input" / "config"
    resources = json.loads((config / "resourceconfig.json").read_text(encoding="utf-8"))
    return Container(
        root=root,
        hosts=tuple(sorted(resources["hosts"], key=natural_order)),
        current_host=resources["current_host"],
        instance_type=resources.get("current_instance_type", ""),
        interface=resources.get("network_interface_name"),
        hyperparameters=_optional(config / "hyperparameters.json"),
        input_data_config=_optional(config / "inputdataconfig.json"),
        resource_config=resources,
    )


def natural_order(host: str) -> list[tuple[int, str]]:
    """A sort key that orders numbers by their value: algo-2 before algo-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", host) if part]


def _optional(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) or {} if file.exists() else {}


# What the boot is asked to start: the container arguments, and the words that the script is given.


GATE_MODES = ("off", "warn", "on")
"""Not at all; said, and the job goes on; a finding that would end the job ends it before the ranks start."""


STYLES = ("spaced", "equals", "hydra", "none")
"""How hyperparameters become words: `--lr 0.1`, `--lr=0.1`, `lr=0.1`, or not at all."""

_MODEL_PARALLEL_HYPERPARAMETER = "mp_parameters"
"""The configuration of SageMaker's model parallel library, which comes among the hyperparameters."""

_PYTHON_SPELLINGS = {"true": "True", "false": "False"}


@dataclass(frozen=True)
class Task:
    """What the job's container arguments ask for: one of `entry_point` and `module` is given.

    `requirements` is the file to install, if any. `gate` is one of the health gate's MODES. `watchdog` says
    when the ranks stand still, None for never. `restarts` is how often they may be started again.
    """

    strategy: str
    processes_per_host: int
    arguments: tuple[str, ...] = ()
    entry_point: str | None = None
    module: str | None = None
    argument_style: str = "spaced"
    requirements: str | None = None
    watchdog: StallLimits | None = None
    gate: str = "off"
    efa_interfaces: int = 0
    """How many a host of the instance type has, 0 where that is not known: the gate counts them."""
    restarts: int = 0
    copies_checkpoints: bool = False
    """Whether the boot copies checkpoints to SLIPWAY_CHECKPOINT_URI (slipway/saving/uploads.py)."""

    @property
    def name(self) -> str:
        """What is started, as people and SageMaker's toolkit write it: `train.py` or `-m package.train`."""
        return self.entry_point or f"-m {self.module}"


def parse_task(arguments: Sequence[str]) -> Task:
    """Read the container arguments; what follows `--` belongs to the script."""
    own, script = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, script = own[:cut], own[cut + 1 :]
    parser = argparse.ArgumentParser(
        prog="slipway.pyz", description="Starts a training job in its container."
    )
    parser.add_argument("--strategy", choices=["torchrun", "none"], required=True)
    parser.add_argument("--processes-per-host", type=int, default=1)
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("--entry-point")
    program.add_argument("--module")
    parser.add_argument("--argument-style", choices=STYLES, default="spaced")
    parser.add_argument("--requirements")
    parser.add_argument("--watchdog-stall", default="off", help="off, auto, or seconds without a step")
    parser.add_argument("--watchdog-first-step", type=float, default=1800, help="seconds before the first")
    parser.add_argument("--gate", choices=GATE_MODES, default="off")
    parser.add_argument("--efa-interfaces", type=int, default=0, help="of the instance type, 0: not known")
    parser.add_argument("--checkpoint-sync", choices=["slipway"])
    parser.add_argument("--restarts", type=int, default=0, help="starts of the ranks after the first")
    options = parser.parse_args(own)
    return Task(
        strategy=options.strategy,
        processes_per_host=options.processes_per_host,
        arguments=tuple(script),
        entry_point=options.entry_point,
        module=options.module,
        argument_style=options.argument_style,
        requirements=options.requirements,
        watchdog=_limits(options.watchdog_stall, options.watchdog_first_step),
        gate=options.gate,
        efa_interfaces=options.efa_interfaces,
        copies_checkpoints=options.checkpoint_sync == "slipway",
        restarts=options.restarts,
    )


def _limits(stall: str, first_step: float) -> StallLimits | None:
    if stall == "off":
        return None
    return StallLimits(None if stall == "auto" else float(stall), first_step)


def script_arguments(task: Task, hyperparameters: Mapping[str, str]) -> list[str]:
    """All words that the script is given, in the order that its style asks for.

    `spaced` has the hyperparameters first. In the other styles they come last: after a subcommand (`fit`),
    whose options they are, and after a file of settings, which they override. So they do for a shell script,
    which takes its own arguments by their place (`$1`) and passes on the rest.
    """
    named = hyperparameter_arguments(hyperparameters, task.argument_style)
    by_place = (task.entry_point or "").endswith(".sh")
    named_first = task.argument_style == "spaced" and not by_place
    return [*named, *task.arguments] if named_first else [*task.arguments, *named]


def hyperparameter_arguments(hyperparameters: Mapping[str, str], style: str = "spaced") -> list[str]:
    """The words for the hyperparameters, in one of STYLES.

    `spaced` is what SageMaker's toolkit passes (mapping.py, to_cmd_args): `-e 5` where the name has one
    letter. `equals` writes true and false as Python does: scripts of that style evaluate what they are
    given (nanoGPT, Fire), and those that parse it take both.
    """
    if style == "none":
        return []
    if style == "spaced":
        return [word for name, value in hyperparameters.items() for word in (_option(name), str(value))]
    # Not the user's, and no script that takes these styles declares it: it is in SM_HP_MP_PARAMETERS.
    own = {name: value for name, value in hyperparameters.items() if name != _MODEL_PARALLEL_HYPERPARAMETER}
    if style == "hydra":
        return [f"{name}={value}" for name, value in own.items()]
    return [f"--{name}={_PYTHON_SPELLINGS.get(value, value)}" for name, value in own.items()]


def _option(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


# Where the ranks meet: an address and a port on the first host.


DEFAULT_PORT = 7777
"""The port of SageMaker's own toolkit (SM_MASTER_PORT in sagemaker-python-sdk and the training toolkit)."""


@dataclass(frozen=True)
class Rendezvous:
    """The first host's address and the port of the store."""

    address: str
    port: int


def find_rendezvous(container: Container, environment: Mapping[str, str]) -> Rendezvous:
    """The first host on MASTER_PORT, or on 7777; SLIPWAY_RENDEZVOUS=address:port overrides both.

    Raises ValueError for a port that is not a number.
    """
    override = environment.get("SLIPWAY_RENDEZVOUS")
    if override:
        address, _, port = override.rpartition(":")
        return Rendezvous(address, int(port))
    return Rendezvous(container.hosts[0], int(environment.get("MASTER_PORT") or DEFAULT_PORT))


def check_port(rendezvous: Rendezvous, host: str) -> None:
    """Make sure that the store can listen. Call on the first host only.

    Raises BootError (NCCL009) where another process holds the port.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the store itself does: connections of an earlier process that linger do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", rendezvous.port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise BootError(
                "NCCL009",
                f"rank 0 on {host} cannot listen on {rendezvous.address}:{rendezvous.port} "
                f"({error.strerror}), so the ranks could not meet: set MASTER_PORT in `environment` to a "
                "free port, or end the process that holds it",
            ) from None


# `${SM_MODEL_DIR}` and the like in the job's arguments, hyperparameters and environment.
#
# The launcher leaves the names of the container's folders as they are, so that a job means the same on
# every machine; here they become what the script's environment says.


_REFERENCE = re.compile(r"(\$?)\$\{(SM_[A-Za-z0-9_.-]+|SLIPWAY_CHECKPOINT_DIR)\}")


def replace_references(text: str, folders: Mapping[str, str]) -> str:
    """The text with each `${SM_...}` as `folders` has it; `$${SM_...}` becomes a literal `${SM_...}`.

    What was put in is not looked at again. Raises BootError (CODE002) for a name that is not there.
    """

    def value_of(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return match[0][1:]
        if name not in folders:
            raise BootError(
                "CODE002",
                f"${{{name}}} in the job's arguments, hyperparameters or environment is none of the folders "
                f"of this container: {', '.join(sorted(folders))}. Correct the name, or add the channel "
                "to `inputs`",
            )
        return folders[name]

    return _REFERENCE.sub(value_of, text)


# CUDA's compatibility library, which an image carries for drivers that are older than its CUDA.
#
# The images' own start script, in whose place the boot starts, puts it on LD_LIBRARY_PATH where the host's
# driver is older than the library (start_cuda_compat.sh of AWS's deep-learning-containers).


CUDA_COMPATIBILITY_FOLDER = Path("/usr/local/cuda/compat")
"""Where the images carry it."""

DRIVER_VERSION_FILE = Path("/proc/driver/nvidia/version")
"""What the loaded driver says of itself."""

_CUDA_LIBRARY = "libcuda.so.1"
_DRIVER_VERSION = re.compile(r"^NVRM version:.*? (\d+\.\d+[.\d]*) ", re.MULTILINE)
_CUDA_LIBRARY_VERSION = re.compile(r"^libcuda\.so\.(\d+\.\d+[.\d]*)$")


def with_cuda_compatibility(
    environment: Mapping[str, str],
    folder: Path = CUDA_COMPATIBILITY_FOLDER,
    driver: Path = DRIVER_VERSION_FILE,
) -> dict[str, str]:
    """The environment with the image's library in front, where the driver of this host needs it."""
    carried = _CUDA_LIBRARY_VERSION.match((folder / _CUDA_LIBRARY).resolve().name)
    found = _DRIVER_VERSION.search(_text(driver))
    if carried is None or found is None or loads_cuda_compatibility(environment, folder):
        return dict(environment)
    if not is_older_version(found[1], carried[1]):
        return dict(environment)
    print(
        f"slipway: the driver {found[1]} is older than this image's CUDA, whose library for it "
        f"({carried[1]}) is put in front: {folder}",
        flush=True,
    )
    paths = [str(folder), environment.get("LD_LIBRARY_PATH", "")]
    return {**environment, "LD_LIBRARY_PATH": os.pathsep.join(path for path in paths if path)}


def loads_cuda_compatibility(
    environment: Mapping[str, str], folder: Path = CUDA_COMPATIBILITY_FOLDER
) -> bool:
    """Whether programs in this environment load the image's library instead of the driver's."""
    return str(folder) in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)


def is_older_version(driver: str, library: str) -> bool:
    """Whether a version comes before another, number by number: 535.183.01 before 550.54.15."""
    return [int(part) for part in driver.split(".")] < [int(part) for part in library.split(".")]


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
