"""Rules on a job's environment: variables that turn EFA off, hide or fight its plugin, or are obsolete.

Variables that are for debugging are found in a normal run, which they make slow.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from launcher.failure_modes import nccl, network
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.image_choice import efa_plugin_version, job_image_software
from launcher.planning.images import torch_version
from launcher.planning.settings import PLUGIN_CHOOSES_PROVIDER
from launcher.rules.job.subject import GivenVariable, JobSubject
from launcher.rules.shared_facts import (
    SWITCHED_ON,
    advice_on,
    debugging_cost,
    excludes_efa,
    interface_harm,
    is_only_verbose,
    why_obsolete,
)

# The plugin that is called Libfabric, and answers to OFI and to its old name too
# (aws-ofi-nccl src/nccl_ofi_interface_nvidia.c of v1.13.0).
HAS_SHORT_NAMES = Version("1.13")


@finds(Stage.SPEC, nccl.FIGHTS_THE_PLUGIN)
def efa_is_not_turned_off(subject: JobSubject) -> Iterator[Finding]:
    """Providers and networks other than EFA's, where there is EFA; networks by a name that is not there."""
    if subject.facts is None:
        return
    for variable in subject.variables():
        if variable.name == "FI_PROVIDER":
            harm = _provider_harm(variable.value, subject)
        elif variable.name == "NCCL_NET":
            harm = _network_harm(variable.value, subject)
        else:
            continue
        if harm:
            yield _plugin_finding(nccl.FIGHTS_THE_PLUGIN, variable, harm)


@finds(Stage.SPEC, nccl.FIGHTS_THE_PLUGIN)
def settings_are_left_to_the_plugin(subject: JobSubject) -> Iterator[Finding]:
    """What NCCL and the plugin choose for each instance type is better left to them."""
    for variable in subject.variables():
        harm = _setting_harm(variable, subject)
        if harm:
            yield _plugin_finding(nccl.FIGHTS_THE_PLUGIN, variable, harm, Severity.WARNING)


@finds(Stage.SPEC, network.EFA_NOT_USED)
def plugin_is_found(subject: JobSubject) -> Iterator[Finding]:
    """Without the plugin NCCL falls back to TCP, and says so only in a verbose log."""
    if not subject.has_efa:
        return
    for variable in subject.variables():
        value = variable.value
        if variable.name == "NCCL_NET_PLUGIN" and value.lower() == "none":
            harm = "keeps NCCL from loading aws-ofi-nccl: every message would go over TCP"
            yield _plugin_finding(network.EFA_NOT_USED, variable, harm)
        elif variable.name == "NCCL_NET_PLUGIN" and value and not _names_the_plugin(value):
            harm = "loads another plugin than aws-ofi-nccl; without that one NCCL falls back to TCP"
            yield _plugin_finding(network.EFA_NOT_USED, variable, harm, Severity.WARNING)
        elif variable.name in ("LD_LIBRARY_PATH", "LD_PRELOAD") and not _names_the_plugin(value):
            harm = (
                "replaces the image's own value, by which NCCL finds libnccl-net.so of aws-ofi-nccl and "
                "libfabric; where they are not found it falls back to TCP"
            )
            yield _plugin_finding(
                network.EFA_NOT_USED,
                variable,
                harm,
                Severity.WARNING,
                f"Do not set {variable.name} for the job; extend it in the script's own start, or put the "
                "libraries on the loader's path in an image of your own.",
            )


@finds(Stage.SPEC, network.DEVICE_RDMA_FAILS)
def device_rdma_only_where_it_is(subject: JobSubject) -> Iterator[Finding]:
    """Forced on an EFA device that cannot read by RDMA, libfabric aborts the process (since 1.18)."""
    if not subject.has_efa or subject.facts is None or subject.facts.efa_rdma_read is not False:
        return
    if _has_plugin_before(PLUGIN_CHOOSES_PROVIDER, subject):  # then its libfabric is from before 1.18 as well
        return
    for variable in subject.variables():
        if variable.name == "FI_EFA_USE_DEVICE_RDMA" and variable.value.strip().lower() in SWITCHED_ON:
            harm = (
                f"forces reads by RDMA, which the EFA device of {_type_in_words(subject)} cannot do: "
                "libfabric would abort every process at its start"
            )
            yield _plugin_finding(network.DEVICE_RDMA_FAILS, variable, harm)


def _provider_harm(value: str, subject: JobSubject) -> str | None:
    if subject.has_efa and excludes_efa(value):
        return f"turns EFA off on {_type_in_words(subject)}: every message between hosts would go over TCP"
    return None


def _network_harm(value: str, subject: JobSubject) -> str | None:
    network_name = value.strip().lower()
    is_the_plugins = network_name in ("libfabric", "aws libfabric", "ofi")
    if is_the_plugins and subject.has_efa:
        if network_name != "aws libfabric" and _has_plugin_before(HAS_SHORT_NAMES, subject):
            return "names no network that this image has, whose plugin is called 'AWS Libfabric': no start"
        return None
    if not network_name:
        return None
    if is_the_plugins:
        return f"asks for EFA's network, which {_type_in_words(subject)} does not have: NCCL would not start"
    if network_name == "ib":
        return "asks for InfiniBand, which no training instance has: NCCL would not start"
    if network_name == "socket" and subject.has_efa:
        return f"turns EFA off on {_type_in_words(subject)}: NCCL would use TCP sockets"
    return None


def _setting_harm(variable: GivenVariable, subject: JobSubject) -> str | None:
    value = variable.value.strip()
    if variable.name == "NCCL_SOCKET_IFNAME":
        return interface_harm(value)
    if variable.name == "FI_EFA_USE_DEVICE_RDMA":
        return _device_rdma_harm(value, subject)
    if variable.name == "FI_PROVIDER":
        is_wanted = value.lower() == "efa" and subject.facts is not None and not subject.has_efa
        return (
            f"asks for EFA, which {_type_in_words(subject)} does not have; NCCL uses TCP"
            if is_wanted
            else None
        )
    if variable.name == "FI_EFA_FORK_SAFE":
        return _fork_harm(value, subject)
    is_simple = (variable.name, value.lower()) == ("NCCL_PROTO", "simple")
    if is_simple and _has_plugin_before(PLUGIN_CHOOSES_PROVIDER, subject):
        return None
    advice = advice_on(variable.name)
    if advice is None or value in advice.harmless or (advice.with_efa_only and not subject.has_efa):
        return None
    if subject.facts and subject.facts.plugin_environment.get(variable.name) == value:
        return None
    return advice.harm


def _device_rdma_harm(value: str, subject: JobSubject) -> str | None:
    """What it does where libfabric does not abort; whether it does is another rule's."""
    facts = subject.facts
    if facts is None:
        return None
    if not facts.has_efa:
        return f"does nothing on {_type_in_words(subject)}, which has no EFA" if value else None
    if facts.gpudirect_rdma and facts.efa_rdma_read and value.lower() in ("0", "false", "no", "off"):
        return "copies every message through host memory"
    return None


def _fork_harm(value: str, subject: JobSubject) -> str | None:
    if not subject.has_efa or not value:
        return None
    if value.lower() in SWITCHED_ON:
        return "is set by the plugin already"
    return (
        "takes back the fork safety that the plugin asks for: where the kernel needs it, libfabric ends a "
        "rank whose DataLoader forks workers"
    )


def _has_plugin_before(version: Version, subject: JobSubject) -> bool:
    """Whether the image's plugin is known to be older."""
    plugin = efa_plugin_version(job_image_software(subject.job, subject.facts))
    return plugin is not None and plugin < version


def _names_the_plugin(value: str) -> bool:
    return "ofi" in value.lower() or "nccl-net" in value.lower()


def _type_in_words(subject: JobSubject) -> str:
    return subject.job.resources.instance_type


def _plugin_finding(
    mode: FailureMode,
    variable: GivenVariable,
    harm: str,
    severity: Severity | None = None,
    remedy: str | None = None,
) -> Finding:
    return mode.at(
        variable.path,
        f"{variable.name}={variable.value} {harm}",
        remedy=remedy,
        severity=severity,
    )


# Obsolete variables, and debugging variables in a normal run.


@finds(Stage.SPEC, nccl.OBSOLETE_ENVIRONMENT)
def no_obsolete_environment(subject: JobSubject) -> Iterator[Finding]:
    """Variables that no longer do anything, or do something else than their author believed."""
    for variable in subject.variables():
        harm = why_obsolete(variable.name, variable.value, torch_version(subject.job))
        if harm:
            yield nccl.OBSOLETE_ENVIRONMENT.at(
                variable.path,
                f"{variable.name}={variable.value}: {harm}",
            )


@finds(Stage.SPEC, nccl.DEBUGGING_ENVIRONMENT)
def no_debugging_in_a_normal_run(subject: JobSubject) -> Iterator[Finding]:
    """What makes a run slow for as long as it stays; `profile: debug` asks for it openly."""
    if subject.job.profile == "debug":
        return
    for variable in subject.variables():
        harm = debugging_cost(variable.name, variable.value)
        if harm:
            yield nccl.DEBUGGING_ENVIRONMENT.at(
                variable.path,
                f"{variable.name}={variable.value} in a normal run {harm}",
                severity=Severity.INFO if is_only_verbose(variable.name, variable.value) else None,
            )
