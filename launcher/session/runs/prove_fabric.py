"""A proof of the network between hosts: the job that measures it, and what came of that.

The job is an ordinary one: its script calls the program of `slipway/fabric/`, which every job's package
brings, and it is planned, judged, submitted and followed as all others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from launcher.backends.interface import Backend, JobStatus
from launcher.cluster.instances import InstanceFacts, find_hint, instance_facts, nearest_instance_types
from launcher.cluster.manifest import is_path
from launcher.experiments.fabric_proof import (
    ENOUGH,
    BadRecord,
    FabricRecord,
    ProofVerdict,
    judge_fabric,
    limit_of,
    record_in,
)
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.jobs.specification import JobSpec
from launcher.rules.job.subject import RunPlace
from launcher.session.prepare_plan import JobSource, fields_as_written, read_job
from launcher.session.runs.diagnose_job import read_batches

SCRIPT_NAME = "prove_fabric.py"
JOB_NAME = "proof.yaml"

SCRIPT = '''\
"""What `launch proof` runs: all-reduces between the hosts, in pairs too, and reads and writes of storage."""

from slipway.fabric.measure import main

if __name__ == "__main__":
    main()
'''
"""The whole script of a proof: all that it does is in the package that every job brings."""

_OF_ANOTHER_JOB = (
    "cluster", "framework", "image", "role_arn", "region", "resources", "environment", "network",
    "output", "backend", "slurm", "tags", "ignore",
)  # fmt: skip
"""What a proof takes over of a job file that it is made for: where that job runs, and with what."""

_NO_PART_OF_A_PROOF = ("keep_alive", "instance_types", "instance_choice")
"""What of `resources` is about the job that comes after: a proof measures the hosts that it has, once."""

_CPU_TYPE = "ml.m5.xlarge"
_LUSTRE_CHANNEL = "lustre"
_SHARES_NVLINK = "ml.p6e-"
"""The hosts of an UltraServer reach each other over NVLink (Amazon EC2 P6e page), which no limit of EFA
bounds."""

_OPTIONS = {
    "resources.instance_type": "--type",
    "resources.instance_count": "--hosts",
    "distribution.processes_per_host": "--processes",
}
"""What the limit follows from, and the option that says it."""

MAX_RUNTIME = "30m"
"""Minutes are what it takes; this is what a network costs at most that hardly moves."""


@frozen
class ProofRequest:
    """What is asked of a proof; None is what follows from the type, the place or the job file.

    `place` is SAGEMAKER where nothing else is asked for; a job file can say that it is Slurm. `job` is a job
    file whose hosts and settings are taken, `changes` what `--set` says of the proof's own job. `gbps` is
    what the interfaces of a host send, in Gbit/s, `at_least` the share of the limit that is enough. `up_to`
    and `storage` are bytes: of the largest all-reduce, and of what each host writes and reads. With `pairs`
    the hosts are measured in pairs whatever comes of all together. `lustre` is a path on the cluster's file
    system.
    """

    place: RunPlace
    job: JobSource | None = None
    cluster: str | None = None
    instance_type: str | None = None
    hosts: int | None = None
    processes: int | None = None
    gbps: float | None = None
    at_least: float = ENOUGH
    up_to: int | None = None
    pairs: bool = False
    lustre: str | None = None
    storage: int | None = None
    changes: Sequence[str] = ()
    allow_env: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.hosts is not None and self.hosts < 2:
            raise Refusal(
                f"--hosts {self.hosts} leaves no network between hosts to measure.", "Give several."
            )
        for option, number in (
            ("--processes", self.processes),
            ("--up-to", self.up_to),
            ("--gbps", self.gbps),
        ):
            if number is not None and number <= 0:
                raise Refusal(f"{option} {number:g} leaves nothing to measure.", "Give more than 0.")
        if not 0 < self.at_least <= 1:
            raise Refusal(
                f"--at-least {self.at_least:g} is no share of the limit.", "Give one above 0, up to 1."
            )
        for change in self.changes:
            instead = _OPTIONS.get(change.partition("=")[0].strip())
            if instead is not None:
                raise Refusal(
                    f"--set {change} would change the hosts behind the limit that they are held against.",
                    f"Use {instead}.",
                )


def write_proof(wanted: ProofRequest, folder: Path) -> JobSource:
    """Write the script of a proof into a folder, and make its job.

    Raises Refusal for a type that is not known or has no network that this can measure, and for a job file
    that cannot be read or has errors.
    """
    (folder / SCRIPT_NAME).write_text(SCRIPT, encoding="utf-8")
    text = yaml.safe_dump(proof_job(wanted, folder), sort_keys=False, allow_unicode=True)
    # What is said of its fields names it as a file that anybody could write.
    return JobSource(Path(JOB_NAME), overrides=wanted.changes, allow_env=wanted.allow_env, text=text)


def proof_job(wanted: ProofRequest, folder: Path) -> dict[str, Any]:
    """The job of a proof whose script lies in a folder, as the data of its file. Raises as `write_proof`."""
    fields, spec = ({}, None) if wanted.job is None else _of_job_file(wanted.job)
    if wanted.place is RunPlace.SLURM:
        fields["backend"] = "slurm"
    elif wanted.place is RunPlace.SAGEMAKER and fields.get("backend") == "slurm":
        wanted = replace(wanted, place=RunPlace.SLURM)
    resources: dict[str, Any] = fields.pop("resources", {})
    here = wanted.place is RunPlace.LOCAL
    instance_type = wanted.instance_type or (spec.resources.instance_type if spec else None)
    if instance_type is None and here:
        instance_type = _CPU_TYPE
    if instance_type is None:
        raise Refusal(
            "which hosts are to be measured is not said.",
            "Give their type, as --type ml.p5.48xlarge, or a job file that has it.",
        )
    facts = _facts_of(instance_type)
    hosts = wanted.hosts or max(2, spec.resources.instance_count if spec else 2)
    processes = wanted.processes or (1 if here else facts.processes_per_host)
    cluster = _cluster(wanted, fields.pop("cluster", None))
    # Who is cut off from AWS's services uploads nothing by itself.
    cut_off = spec is not None and spec.network is not None and spec.network.isolation
    has_store = here or (wanted.place is RunPlace.SAGEMAKER and cluster is not None and not cut_off)
    words = list(_arguments(wanted, facts, hosts, processes, has_store=has_store))
    job = {
        "name": "proof",
        "code": {
            "source_dir": str(folder),
            "entry_point": SCRIPT_NAME,
            "requirements": "none",
            "arguments": words,
        },
        **({} if "image" in fields else {"framework": {"name": "pytorch"}}),
        **fields,
        "resources": {**resources, "instance_type": instance_type, "instance_count": hosts},
        "distribution": {"strategy": "torchrun", "processes_per_host": processes},
        "limits": {"max_runtime": MAX_RUNTIME},
    }
    if cluster is not None:
        job["cluster"] = cluster
    if has_store:
        job["checkpoint"] = {"sync": "slipway"}
    if wanted.lustre is not None:
        job["inputs"] = {_LUSTRE_CHANNEL: {"lustre": wanted.lustre, "access": "rw"}}
    return job


def _cluster(wanted: ProofRequest, of_job: object) -> str | None:
    """The cluster's name, or the path of its manifest from wherever the proof's own job lies."""
    cluster = wanted.cluster or of_job
    if cluster in (None, "none"):
        return None
    if not is_path(str(cluster)):
        return str(cluster)
    beside = Path() if wanted.cluster or wanted.job is None else wanted.job.file.parent
    return str((beside / str(cluster)).absolute())


def _of_job_file(source: JobSource) -> tuple[dict[str, Any], JobSpec]:
    """What a proof takes over of a job file, with `${NAME}` as it stands, and the job that the file means."""
    loaded = read_job(source)
    if loaded.spec is None:
        raise Refusal(
            f"{source.file} has errors, so that it does not say which hosts are to be measured.",
            f"See `launch check {source.file}`.",
        )
    written = fields_as_written(source)
    fields = {name: written[name] for name in _OF_ANOTHER_JOB if written.get(name) is not None}
    resources = fields.get("resources", {}).items()
    fields["resources"] = {name: value for name, value in resources if name not in _NO_PART_OF_A_PROOF}
    return fields, loaded.spec


def _facts_of(instance_type: str) -> InstanceFacts:
    facts = instance_facts(instance_type)
    if facts is None:
        near = nearest_instance_types(instance_type)
        raise Refusal(
            f"{instance_type} is no instance type of SageMaker.",
            f"Did you mean {' or '.join(near)}?" if near else find_hint(instance_type).strip(),
        )
    if facts.accelerators and not facts.has_gpus:
        raise Refusal(
            f"{instance_type} has {facts.accelerator}, and a proof reduces by NCCL or gloo, which do not run "
            "there.",
            "AWS's nccom-test measures such hosts.",
        )
    return facts


def rate_of(facts: InstanceFacts) -> float | None:
    """What the interfaces of a host send, in Gbit/s; None where EFA is not what bounds a proof.

    That is so without EFA, without GPUs (gloo does not use EFA), and where hosts are joined by NVLink.
    """
    if not facts.has_gpus or facts.instance_type.startswith(_SHARES_NVLINK):
        return None
    return float(facts.efa_gbps) or None


def _arguments(
    wanted: ProofRequest, facts: InstanceFacts, hosts: int, processes: int, *, has_store: bool
) -> Iterator[str]:
    """The words for the program of `slipway/fabric/measure.py`."""
    here = wanted.place is RunPlace.LOCAL
    # Here the hosts are processes on one machine, whatever their type.
    rate = wanted.gbps or (None if here else rate_of(facts))
    yield f"--instance-type={facts.instance_type}"
    yield f"--at-least={wanted.at_least:g}"
    if rate is not None:
        yield f"--gbps={rate:g}"
        if not wanted.pairs:
            yield f"--pairs-below={wanted.at_least * limit_of(rate, hosts, hosts * processes):.6g}"
    if wanted.pairs:
        yield "--pairs-below=inf"
    if wanted.up_to is not None:
        yield f"--up-to={wanted.up_to}"
    storage = wanted.storage if wanted.storage is not None else (64 if here else 1024) * 1024 * 1024
    yield f"--storage-bytes={storage}"
    if wanted.place is RunPlace.SLURM:
        yield "--folder=shared folder=${SM_CHECKPOINT_DIR}"
    if has_store:
        yield "--checkpoints"
    if wanted.lustre is not None:
        yield f"--folder=Lustre=${{SM_CHANNEL_{_LUSTRE_CHANNEL.upper()}}}"


def read_record(backend: Backend, name: str) -> FabricRecord:
    """What a proof's job has measured, from its lines.

    Raises Refusal where its lines hold no record, or a broken one.
    """
    try:
        for lines in read_batches(backend, name):
            for line in lines:
                record = record_in(line.text)
                if record is not None:
                    return record
    except BadRecord as error:
        raise Refusal(f"{name}: {error}.", f"`launch logs {name}` shows what it printed.") from error
    raise Refusal(
        f"{name} has ended without a record of what it measured.",
        f"`launch logs {name}` shows what it printed.",
    )


def judge_proof(backend: Backend, status: JobStatus) -> ProofVerdict:
    """What a proof's job that has completed says. Raises as `read_record`."""
    return judge_fabric(read_record(backend, status.name), status.nodes)
