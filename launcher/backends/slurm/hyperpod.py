"""The login node of a HyperPod cluster: found by asking SageMaker, reached by ssh through Systems Manager.

Nothing of the cluster can be reached from outside of its network. `aws ssm start-session` with the document
AWS-StartSSHSession carries ssh's connection to a node (SageMaker developer guide,
sagemaker-hyperpod-run-jobs-slurm-access-nodes; Systems Manager user guide,
session-manager-getting-started-enable-ssh-connections).
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from launcher.aws.errors import answers
from launcher.backends.interface import BackendError
from launcher.backends.slurm.login_node import LoginNode, LoginSilent
from launcher.cluster.names import HYPERPOD_USER, hyperpod_name
from launcher.frozen import frozen
from launcher.text.regular_files import cache_folder

_PROGRAMS = {
    "aws": "the AWS command line: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    "session-manager-plugin": "the plugin of Session Manager: https://docs.aws.amazon.com/systems-manager/"
    "latest/userguide/session-manager-working-with-install-plugin.html",
}

_NO_SESSION = re.compile(r"\((?P<code>\w+)\) when calling the StartSession operation: (?P<what>.+)", re.ASCII)
"""What the AWS command line says where no session comes about."""

_ENTRY = re.compile(
    "hyperpod"
    + "".join(rf"/(?P<{part}>[A-Za-z0-9][A-Za-z0-9-]*)" for part in ("cluster", "region", "id", "group")),
    re.ASCII,
)
"""Nothing but the characters of AWS's names: a shell reads them, and manifests may be anybody's files."""

_PLAIN_PATH = re.compile(r"[\w./+-]+", re.ASCII)
"""A path that no shell, nor ssh or rsync, reads otherwise."""

_TAKES_JOBS = "Running"
"""SageMaker API reference, ClusterInstanceStatusDetails."""


@frozen
class HyperPodEntry:
    """Where one logs in on a HyperPod cluster: name in its file, region, id in SageMaker, instance group."""

    cluster: str
    region: str
    id: str
    group: str

    def __str__(self) -> str:
        """The entry in one word, which `parse` reads."""
        return f"hyperpod/{self.cluster}/{self.region}/{self.id}/{self.group}"

    @classmethod
    def parse(cls, text: str) -> HyperPodEntry | None:
        """The entry that a word stands for; None where it stands for none, such as a host of ssh's."""
        found = _ENTRY.fullmatch(text)
        return None if found is None else cls(**found.groupdict())


class HyperPodLogin(LoginNode):
    """The first node of the group that runs. `sagemaker` makes the client that is asked for it, when a
    connection is needed."""

    def __init__(self, entry: HyperPodEntry, sagemaker: Callable[[], Any]) -> None:
        # A name that no other cluster has: connections and mirrors are kept by it.
        super().__init__(f"{entry.cluster}.{entry.id}")
        self._entry = entry
        self._sagemaker = sagemaker

    @cached_property
    def _ssh(self) -> tuple[str, ...]:
        """ssh as it reaches the node, which is looked up.

        Raises BackendError where there is none, or a program is missing here; AwsRefusal where AWS does not
        tell.
        """
        for program, what in _PROGRAMS.items():
            if shutil.which(program) is None:
                raise BackendError(
                    f"the nodes of {hyperpod_name(self._entry.cluster)} are reached through Systems Manager, "
                    f"and there is no {program} on this machine.",
                    f"Install {what}",
                )
        target = f"sagemaker-cluster:{self._entry.id}_{self._entry.group}-{self._node()}"
        session = (
            *("aws", "ssm", "start-session", "--region", self._entry.region, "--target", target),
            *("--document-name", "AWS-StartSSHSession", "--parameters", "portNumber=%p"),
            # ssh drops what the program says where it keeps a connection.
            *([f"2>{self._said}"] if self._said else []),
        )
        return (
            "ssh",
            *("-o", f"ProxyCommand={' '.join(session)}"),
            *("-o", f"User={HYPERPOD_USER}"),
            # The session leads to this node and no other one, by AWS's word: its key is taken the first time.
            *("-o", f"HostKeyAlias={target.removeprefix('sagemaker-cluster:')}"),
            *("-o", "StrictHostKeyChecking=accept-new"),
            *("-o", f"UserKnownHostsFile={self._kept('hosts') or '/dev/null'}"),
        )

    @property
    def _said(self) -> Path | None:
        """Where the program that opens sessions leaves what it says against it."""
        return self._kept("said")

    def _kept(self, what: str) -> Path | None:
        """A file of this user's about the cluster; None where there is no place for one."""
        try:
            folder = cache_folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return None
        file = folder / f"hyperpod-{self._entry.id}.{what}"
        return file if _PLAIN_PATH.fullmatch(str(file)) else None

    def _node(self) -> str:
        name, group = hyperpod_name(self._entry.cluster), self._entry.group
        with answers(f"look for a node of {name} to log in on"):
            pages = (
                self._sagemaker()
                .get_paginator("list_cluster_nodes")
                .paginate(ClusterName=name, InstanceGroupNameContains=group)
            )
            # The filter finds every group in whose name this one's stands.
            nodes = [
                each
                for page in pages
                for each in page["ClusterNodeSummaries"]
                if each["InstanceGroupName"] == group
            ]
        running = [each for each in nodes if each["InstanceStatus"]["Status"] == _TAKES_JOBS]
        if running:
            return str(min(each["InstanceId"] for each in running))
        states = sorted({str(each["InstanceStatus"]["Status"]) for each in nodes})
        raise BackendError(
            f"no node of the group {group} of {name} is {_TAKES_JOBS}: "
            f"{'they are ' + ', '.join(states) if states else 'it has none'}.",
            f"Wait until one is, or see what keeps it: aws sagemaker list-cluster-nodes --region "
            f"{self._entry.region} --cluster-name {name}",
        )

    def _silent(self, what: str, said: str) -> LoginSilent:
        # The node may have been replaced: the next connection looks again.
        self.__dict__.pop("_ssh", None)
        if self._said is not None:
            with contextlib.suppress(OSError):
                said += self._said.read_text(errors="replace")
        name = hyperpod_name(self._entry.cluster)
        nodes = f"aws sagemaker list-cluster-nodes --region {self._entry.region} --cluster-name {name}"
        refused = _NO_SESSION.search(said)
        if refused is not None:
            problem = f"Systems Manager opens no session with a node of {name}: {refused['what'].rstrip('.')}"
            remedy = f"Try again; where that goes on, look whether the node runs: {nodes}"
            if "AccessDenied" in refused["code"]:
                remedy = (
                    f"Attach the cluster's launcher policy, or ask for ssm:StartSession on {name} and on the "
                    "document AWS-StartSSHSession."
                )
        elif "Permission denied (" in said:
            problem = f"{name} knows no key of this user"
            remedy = (
                "Add the public key to `hyperpod.ssh_keys` of the cluster file and deploy, for new nodes, or "
                f"to ~{HYPERPOD_USER}/.ssh/authorized_keys on one; ssh needs its private half."
            )
        else:
            found = super()._silent(what, said)
            return LoginSilent(
                found.message, f"Look whether the node runs: {nodes}", may_have_run=found.may_have_run
            )
        return LoginSilent(f"could not {what}: {problem}.", remedy, may_have_run=False)
