"""What a job asks of Slurm, held against the partitions and nodes that there are.

Slurm refuses little of this: most such jobs wait in the queue for ever, with a reason that nobody looks at
(squeue(1), JOB REASON CODES: PartitionTimeLimit, ReqNodeNotAvail, BadConstraints).
"""

from __future__ import annotations

from collections.abc import Iterator

from launcher.account.slurm_nodes import SlurmCluster, SlurmNode, SlurmPartition
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity
from launcher.frozen import frozen
from launcher.jobs.job_sections import Slurm
from launcher.text.values import duration_in_words, nearest


@frozen
class AskedNodes:
    """What a job asks for: its section, how many hosts, how many GPUs of each, and for how many seconds;
    `sees_shared` says whether this machine, or its login node, sees the shared folder and may write to it."""

    section: Slurm
    hosts: int
    gpus: int
    seconds: int
    sees_shared: bool


def check_nodes(asked: AskedNodes, cluster: SlurmCluster) -> list[Finding]:
    """All that keeps the job from starting on this cluster, or makes it wait for long."""
    partition = cluster.partition(asked.section.partition)
    found = [*_shared_folder(asked), *_excluded_nodes(asked, cluster)]
    if partition is None:
        return [*found, *_missing_partition(asked, cluster)]
    return [*found, *_partition_limits(asked, partition), *_fitting_nodes(asked, partition, cluster)]


def _shared_folder(asked: AskedNodes) -> Iterator[Finding]:
    if not asked.sees_shared:
        here = asked.section.host or "this machine"
        yield job_file.INVALID_VALUE.at(
            ("slurm", "shared"),
            f"{asked.section.shared} is not there on {here}, or cannot be written to: the run's code and "
            "logs could not be exchanged with the nodes",
            remedy=f"Give a folder of your own on a file system that {here} and all nodes mount.",
        )


def _missing_partition(asked: AskedNodes, cluster: SlurmCluster) -> Iterator[Finding]:
    names = [each.name for each in cluster.partitions]
    given = asked.section.partition
    if given is None:
        yield job_file.INVALID_VALUE.at(
            ("slurm",),
            "the cluster has no default partition, and the job names none: sbatch would refuse it",
            remedy=f"Add `partition`; there are {', '.join(names) or 'none'}.",
        )
        return
    near = nearest(given, names)
    meant = f"; did you mean {near[0]}?" if near else ""
    yield job_file.INVALID_VALUE.at(
        ("slurm", "partition"),
        f"the cluster has no partition {given}{meant}: sbatch would refuse the job",
        remedy=f"Give one of {', '.join(names) or 'none'}.",
    )


def _excluded_nodes(asked: AskedNodes, cluster: SlurmCluster) -> Iterator[Finding]:
    names = {each.name for each in cluster.nodes}
    for index, given in enumerate(asked.section.exclude):
        # A list of several (gpu-[1-3]) is Slurm's to read.
        if "[" not in given and given not in names:
            near = nearest(given, sorted(names))
            meant = f"; did you mean {near[0]}?" if near else ""
            yield job_file.INVALID_VALUE.at(
                ("slurm", "exclude", index),
                f"the cluster has no node {given}{meant}: sbatch would refuse the job",
                remedy="Correct the name, or remove it; `sinfo -N` lists the nodes.",
            )


def _partition_limits(asked: AskedNodes, partition: SlurmPartition) -> Iterator[Finding]:
    if partition.state != "UP":
        yield job_file.INVALID_VALUE.at(
            ("slurm",),
            f"the partition {partition.name} is {partition.state}: the job would wait until it is UP",
            remedy="Take another partition, or ask whoever runs the cluster.",
            severity=Severity.WARNING,
        )
    if partition.max_seconds is not None and asked.seconds > partition.max_seconds:
        limit = duration_in_words(partition.max_seconds)
        yield job_file.INVALID_VALUE.at(
            ("limits", "max_runtime"),
            f"the job asks for {duration_in_words(asked.seconds)}, and the partition {partition.name} gives "
            f"a job {limit} at most: it would wait for ever (PartitionTimeLimit)",
            remedy=f"Set limits.max_runtime to {partition.max_seconds // 60}m or less, and go on from the "
            "last checkpoint with `launch resume`.",
        )
    if partition.max_nodes is not None and asked.hosts > partition.max_nodes:
        yield job_file.INVALID_VALUE.at(
            ("resources", "instance_count"),
            f"the job asks for {asked.hosts} hosts, and the partition {partition.name} gives a job "
            f"{partition.max_nodes} at most: it would wait for ever (PartitionNodeLimit)",
            remedy="Ask for fewer hosts, or take another partition.",
        )


def _fitting_nodes(asked: AskedNodes, partition: SlurmPartition, cluster: SlurmCluster) -> Iterator[Finding]:
    """Whether enough nodes of the partition have what each host is asked for."""
    section, within = asked.section, set(partition.nodes) - set(asked.section.exclude)
    nodes = [each for each in cluster.nodes if each.name in within]
    most_gpus = max((each.gpus for each in nodes), default=0)
    if asked.gpus > most_gpus:
        field = ("slurm", "gpus") if section.gpus is not None else ("resources", "instance_type")
        yield job_file.INVALID_VALUE.at(
            field,
            f"the job asks for {asked.gpus} GPUs of each host, and no node of {partition.name} has more than "
            f"{most_gpus} (Gres): sbatch would refuse it",
            remedy="Set `slurm.gpus` to what the nodes have, and distribution.processes_per_host with it.",
        )
        return
    fitting = [each for each in nodes if _fits(each, asked)]
    if len(fitting) < asked.hosts:
        yield job_file.INVALID_VALUE.at(
            ("resources", "instance_count"),
            f"the job asks for {asked.hosts} hosts{_each(asked)}, and {len(fitting)} nodes of "
            f"{partition.name} are such: it would be refused, or wait for ever",
            remedy="Ask for fewer hosts or for less of each; `scontrol show node` tells what they have.",
        )
        return
    up = [each for each in fitting if each.takes_jobs]
    if len(up) < asked.hosts:
        states = ", ".join(f"{each.name} {each.state}" for each in fitting if not each.takes_jobs)
        yield job_file.INVALID_VALUE.at(
            ("resources", "instance_count"),
            f"{len(up)} of the {len(fitting)} nodes that could take the job's {asked.hosts} hosts take jobs "
            f"now ({states[:300]}): it would wait for others",
            remedy="Ask whoever runs the cluster when they come back, or ask for fewer hosts.",
            severity=Severity.WARNING,
        )
    if not asked.gpus and fitting and all(each.gpus for each in fitting):
        yield job_file.INVALID_VALUE.at(
            ("slurm",),
            f"the nodes of {partition.name} have GPUs, and the job asks for none: its processes would see "
            "none",
            remedy="Set `slurm.gpus`, or a resources.instance_type that has GPUs.",
            severity=Severity.WARNING,
        )


def _fits(node: SlurmNode, asked: AskedNodes) -> bool:
    section = asked.section
    # What is more than a name (`a&b`) is Slurm's to judge.
    has_feature = (
        section.constraint is None
        or not section.constraint.replace("-", "").replace("_", "").replace(".", "").isalnum()
        or section.constraint in node.features
    )
    return (
        node.gpus >= asked.gpus
        and (section.cpus is None or node.cpus >= section.cpus)
        and (section.memory is None or node.memory_mb * 2**20 >= section.memory)
        and has_feature
    )


def _each(asked: AskedNodes) -> str:
    """What is asked of each host, in words."""
    section = asked.section
    parts = [
        f"{asked.gpus} GPUs" if asked.gpus else "",
        f"{section.cpus} CPUs" if section.cpus else "",
        f"{section.memory // 10**9} GB of memory" if section.memory else "",
        f"the feature {section.constraint}" if section.constraint else "",
    ]
    named = [each for each in parts if each]
    return f" with {' and '.join(named)} each" if named else ""
