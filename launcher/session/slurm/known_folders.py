"""Which shared folders this user has launched to from this machine: where runs on Slurm are found by name."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.hyperpod import HyperPodEntry, HyperPodLogin
from launcher.backends.slurm.login_node import LoginNode
from launcher.text.regular_files import NoteFolder, cache_folder

_KEPT_SECONDS = 365 * 86_400.0
_NOTES = NoteFolder(lambda: cache_folder() / "slurm", _KEPT_SECONDS)
_FOLDERS, _MOST_FOLDERS = "folders", 100
_FOLDER = re.compile(r"(?:(?:hyperpod(?:/[\w-]+){4}|\w[\w@.-]*):)?/[^:]*", re.ASCII)


def known_backends() -> list[SlurmBackend]:
    """A backend for each shared folder that this user has launched to from this machine."""
    backends = []
    for known in _known_folders():
        host, _, folder = known.rpartition(":")
        backends.append(SlurmBackend(Path(folder), login=login_on(host) if host else None))
    return backends


def login_on(host: str) -> LoginNode:
    """The login node that `keep_folder` has kept: a host of ssh's, or a HyperPod cluster's."""
    entry = HyperPodEntry.parse(host)
    return LoginNode(host) if entry is None else HyperPodLogin(entry, partial(_sagemaker, entry.region))


def _sagemaker(region: str) -> Any:
    # When a node is looked up: who looks at other runs needs no AWS.
    from launcher.aws.clients import Clients

    return Clients()("sagemaker", region)


def keep_folder(home: Path, host: str | None = None) -> None:
    """Keep a folder of runs, behind a login node or not, for later commands.

    A machine that can keep nothing goes without.
    """
    known, here = _known_folders(), f"{host}:{home}" if host else str(home)
    if here not in known:
        _NOTES.write(_FOLDERS, json.dumps([here, *known][:_MOST_FOLDERS]))


def _known_folders() -> list[str]:
    try:
        content = _NOTES.read(_FOLDERS)
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(content, list):
        return []
    return [each for each in content if isinstance(each, str) and _FOLDER.fullmatch(each)]
