"""A local job's folders, config files and environment: what SageMaker gives a container, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.backends.interface import BackendError
from launcher.backends.local.files import ROOT_VARIABLE, Host, hosts_of
from launcher.backends.local.python import python_environment
from launcher.jobs.script_inputs import (
    CHECKPOINT_CHANNEL,
    CHECKPOINT_DIR_VARIABLE,
    CHECKPOINT_URI_VARIABLE,
    CONTAINER_ROOT,
    DEFAULT_CHECKPOINT_PATH,
    RESERVED_CHANNEL,
    channel_folder,
)
from launcher.planning.request_view import (
    CHECKPOINT_SYNC_OPTION,
    REQUIREMENTS_OPTION,
    RequestChannel,
    RequestView,
    S3Channel,
)
from launcher.planning.training_plan import SourcePackage
from launcher.source.packaging import BOOT_NAME, SOURCE_NAME, build_boot, build_source

_PLACE = re.compile(
    # What may stand before a path in a word: its beginning, `--out=`, `a:`, JSON's quotes, `file://`, `-o`.
    r"(?:^|(?<=[\s=:,;|&<>!?\"'`(\[{])|(?<=file://)|(?<=^-[A-Za-z]))"
    rf"{re.escape(CONTAINER_ROOT)}"
    # And what ends the name: /opt/mlx and /opt/ml-data are other folders.
    r"(?=$|[\s/=:,;|&<>!?\"'`)\]}\\])"
)


def below(root: Path, text: str) -> str:
    """The text with /opt/ml replaced by `root`, wherever it begins a path; in longer paths it stays."""
    return _PLACE.sub(lambda _: str(root), text)


def leads_inside(path: str) -> bool:
    """Whether a path of the container is below /opt/ml, also after its `..` are followed."""
    return posixpath.normpath(path).startswith(f"{CONTAINER_ROOT}/")


def check_inputs(request: RequestView, inputs: Mapping[str, Path]) -> None:
    """Raise BackendError unless each of the request's channels has a folder of this machine."""
    channels = {channel.name: channel for channel in request.inputs}
    names = sorted(channels.keys() - ({CHECKPOINT_CHANNEL} if _lustre_checkpoints(request) else set()))
    for name, folder in inputs.items():
        if name not in names:
            raise BackendError(
                f"the job has no channel {name!r}; it has {', '.join(names) or 'none'}.",
                f"Add the channel to the job file, `inputs: {{{name}: s3://BUCKET/PREFIX}}`, or correct the "
                "name in `--input NAME=DIR`.",
            )
        if not folder.is_dir():
            raise BackendError(
                f"{folder}, given for the channel {name}, is not a folder.", "Correct the path."
            )
    for name in names:
        if channels[name].mode == "Pipe":
            raise BackendError(
                f"the channel {name} is a Pipe, which a local run cannot provide.",
                "Use the mode File or FastFile.",
            )
        if name not in inputs:
            raise BackendError(
                f"the channel {name} comes from {_channel_source(channels[name])}, which a local run does "
                "not read.",
                f"Pass `--input {name}=DIR` with a folder of this machine that holds the data.",
            )


LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
"""The network interface by which the hosts of a machine reach each other."""


def lay_out(
    folder: Path,
    request: RequestView,
    package: SourcePackage,
    inputs: Mapping[str, Path],
    interface: str | None = LOOPBACK,
    place: Path | None = None,
) -> list[Host]:
    """Create the hosts' folders as a container finds /opt/ml when it starts; returns the hosts.

    `interface` is the network interface by which the hosts reach each other, None where each knows best;
    `place` where the hosts find `folder` and the inputs, if that is on another machine.

    `folder` is the job's own and holds `checkpoints`, which all hosts share as they share a prefix on
    S3; where the boot copies there, each host has a folder of its own. Raises BackendError where the source
    cannot be packed.
    """
    hosts, shared = hosts_of(folder, request.hosts or 1), (place or folder) / "checkpoints"
    (folder / "checkpoints").mkdir(exist_ok=True)
    build_boot(folder / BOOT_NAME)
    build_source(package.source, folder / SOURCE_NAME)
    for host in hosts:
        config, data = host.root / "input" / "config", host.root / "input" / "data"
        config.mkdir(parents=True)
        seen = host if place is None else Host(host.name, place / "hosts" / host.name)
        for name, content in _config_files(request, hosts, seen, interface).items():
            (config / name).write_text(json.dumps(content), encoding="utf-8")
        (data / RESERVED_CHANNEL).mkdir(parents=True)
        for name in (BOOT_NAME, SOURCE_NAME):
            shutil.copyfile(folder / name, data / RESERVED_CHANNEL / name)
        for channel, source in inputs.items():
            target = source.resolve() if place is None else source
            (data / channel).symlink_to(target, target_is_directory=True)
        checkpoints = Path(below(host.root, checkpoint_path(request)))
        checkpoints.parent.mkdir(parents=True, exist_ok=True)
        if copied_by_boot(request):
            checkpoints.mkdir()
        else:
            checkpoints.symlink_to(shared, target_is_directory=True)
        on_lustre = _lustre_checkpoints(request)
        if on_lustre is not None:
            mounted = Path(below(host.root, on_lustre))
            mounted.parent.mkdir(parents=True)
            mounted.symlink_to(shared, target_is_directory=True)
        host.log.touch()
    return hosts


def boot_command(request: RequestView, root: Path, python: str, *, installs: bool = False) -> list[str]:
    """The container's command with the Python that was chosen and the boot below `root`, a host's own.

    Unless it `installs`, that Python has what the job requires already, and the boot is not asked to.
    """
    boot = root / "input" / "data" / RESERVED_CHANNEL / BOOT_NAME
    words = list(request.arguments)
    if REQUIREMENTS_OPTION in request.boot_options and not installs:
        at = words.index(REQUIREMENTS_OPTION)
        del words[at : at + 2]
    return [python, str(boot), *(below(root, word) for word in words)]


def check_boot_starts(request: RequestView) -> None:
    """Raise BackendError for a job that the boot does not start."""
    if not request.entrypoint or not request.entrypoint[-1].endswith(f"/{BOOT_NAME}"):
        raise BackendError(
            "this strategy is started by the training toolkit of AWS's images, which is not on this machine.",
            "Run locally with the strategy torchrun or none.",
        )


def host_environment(
    request: RequestView,
    host: Host,
    rendezvous: str,
    python: Path,
    devices: Mapping[str, str],
    machine: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of a host's boot, which `python` runs.

    The request's values win over everything but the places, and over what suits this `machine` instead of
    the job's hosts.
    """
    return {
        **python_environment(python, os.environ),
        **devices,
        **job_variables(request, host.root, host.job_folder),
        **machine,
        ROOT_VARIABLE: str(host.root),
        RENDEZVOUS_VARIABLE: rendezvous,
    }


RENDEZVOUS_VARIABLE = "SLIPWAY_RENDEZVOUS"
"""The environment variable with the first host's address and port (`slipway/container.py`)."""


def job_variables(request: RequestView, root: Path, folder: Path) -> dict[str, str]:
    """The variables of the request for a host whose /opt/ml is `root`, of the job in `folder`."""
    # Absolute, as the boot works elsewhere.
    prefix = {CHECKPOINT_URI_VARIABLE: str((folder / "checkpoints").absolute())}
    return {
        "TRAINING_JOB_NAME": str(request.name),
        CHECKPOINT_DIR_VARIABLE: below(root, checkpoint_path(request)),
        **{name: below(root, value) for name, value in request.environment.items()},
        **(prefix if copied_by_boot(request) else {}),
    }


def choose_rendezvous(request: RequestView) -> str:
    """An address and a port on loopback: the user's MASTER_PORT, else one that is free now.

    So is the one after it, on which the hosts' boots speak (slipway/host_assembly.py).
    """
    port = request.environment.get("MASTER_PORT")
    return f"127.0.0.1:{two_free_ports() if port is None else port}"


def debugging_here(
    request: RequestView, devices: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """TORCH_DISTRIBUTED_DEBUG for hosts without GPUs, where the plan's DETAIL is for hosts with them.

    Over gloo it crashes DistributedDataParallel (torch 2.13, c10d::Logger). The user's own value, in
    `given`, stands.
    """
    name = "TORCH_DISTRIBUTED_DEBUG"
    planned = request.environment.get(name)
    if planned != "DETAIL" or name in given or devices.get("CUDA_VISIBLE_DEVICES"):
        return {}
    return {name: "INFO"}


def share_devices(devices: Sequence[str], hosts: int, processes: int) -> list[dict[str, str]]:
    """What each host sees of this machine's GPUs: its own share, or none where they are too few.

    NCCL refuses two ranks on one device, so a job that needs more GPUs than there are runs on CPUs.
    """
    share = len(devices) // hosts
    if not devices or share < processes:
        return [{"CUDA_VISIBLE_DEVICES": ""} if devices else {}] * hosts
    return [
        {"CUDA_VISIBLE_DEVICES": ",".join(devices[index * share : (index + 1) * share])}
        for index in range(hosts)
    ]


def share_threads(ranks: int, users_environment: Mapping[str, str]) -> dict[str, str]:
    """The threads that each rank may have on this machine, unless the user said how many.

    The plan counts the vCPUs of the job's hosts; with theirs, ranks on a smaller machine wait for each
    other's threads most of the time.
    """
    if "OMP_NUM_THREADS" in users_environment:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // ranks))}


def _config_files(
    request: RequestView, hosts: Sequence[Host], host: Host, interface: str | None
) -> dict[str, Any]:
    names, instance_type = [each.name for each in hosts], request.instance_type
    group = "homogeneousCluster"
    return {
        "hyperparameters.json": {
            name: below(host.root, value) for name, value in request.hyperparameters.items()
        },
        "inputdataconfig.json": {
            channel.name: {
                "TrainingInputMode": channel.mode,
                "S3DistributionType": channel.distribution
                if isinstance(channel, S3Channel)
                else "FullyReplicated",
                "RecordWrapperType": "None",
            }
            for channel in request.channels
        },
        "resourceconfig.json": {
            "current_host": host.name,
            "current_instance_type": instance_type,
            "current_group_name": group,
            "hosts": names,
            "instance_groups": [
                {"instance_group_name": group, "instance_type": instance_type, "hosts": names}
            ],
            "network_interface_name": interface,
        },
    }


def checkpoint_path(request: RequestView) -> str:
    """The job's checkpoint path; one outside /opt/ml cannot be had here and becomes the default."""
    path = request.checkpoints.local_path.rstrip("/")
    return path if leads_inside(path) else DEFAULT_CHECKPOINT_PATH


def copied_by_boot(request: RequestView) -> bool:
    """Whether the hosts have checkpoints of their own, and the boot copies them to the job's folder."""
    return CHECKPOINT_SYNC_OPTION in request.boot_options


def _lustre_checkpoints(request: RequestView) -> str | None:
    """The job's own directory in the channel that stands for `checkpoint.lustre`, or None without it."""
    place = request.checkpoints.directory
    inside = f"{channel_folder(CHECKPOINT_CHANNEL)}/"
    return place if place is not None and posixpath.normpath(place).startswith(inside) else None


def _channel_source(channel: RequestChannel) -> str:
    if isinstance(channel, S3Channel):
        return channel.uri
    return f"the file system path {channel.directory}"


def two_free_ports() -> int:
    """The first of two neighbours that nobody listens on."""
    while True:
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError, OverflowError):
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            second.bind(("127.0.0.1", port + 1))
            return port
