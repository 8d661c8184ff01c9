"""Containers that reach nobody, and hosts that encrypt their traffic: NET001, NET002 and SPEC004."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import isolation, job_file
from launcher.failure_modes.model import Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, isolation.ISOLATED_BUT_CALLS_OUT)
def isolated_containers_call_nobody(subject: JobSubject) -> Iterator[Finding]:
    """What the job file asks for, and a container without a network cannot do."""
    if not subject.job.network.isolation or subject.here:
        return
    for path, message, remedy in _calls(subject):
        yield isolation.ISOLATED_BUT_CALLS_OUT.at(path, message, remedy=remedy)
    wanted = subject.source.requirements
    named = [*wanted.packages, *wanted.fetched] if wanted else []
    if wanted is not None and named and not (wanted.no_index and not wanted.fetched):
        yield isolation.ISOLATED_BUT_CALLS_OUT.at(
            ("code", "requirements"),
            f"what the image lacks of {wanted.file} is fetched from an index, which isolated containers do "
            "not reach: the job would end before its script starts, on billed hosts",
            remedy="Pack wheels, or give them as a channel, and write --no-index and --find-links into the "
            "file; or use an image that has them.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC)
def encryption_has_its_price(subject: JobSubject) -> Iterator[Finding]:
    """A warning with several hosts; with one there is no traffic to encrypt."""
    if not subject.job.network.encryption or subject.here:
        return
    hosts, instance_type = subject.job.resources.instance_count, subject.job.resources.instance_type
    if hosts == 1:
        yield isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC.at(
            ("network", "encryption"),
            "one host sends nothing to others, so there is nothing to encrypt",
            remedy="Leave `network.encryption` out, or keep it for when there are several hosts.",
            severity=Severity.INFO,
        )
        return
    efa = (
        f"; {instance_type} has EFA, and AWS does not say whether its traffic is encrypted"
        if subject.has_efa
        else ""
    )
    yield isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC.at(
        ("network", "encryption"),
        f"{hosts} hosts encrypt all that they send each other: AWS says that distributed training can take "
        f"longer and cost more{efa}",
    )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def encryption_is_within_a_network(subject: JobSubject) -> Iterator[Finding]:
    """CreateTrainingJob takes EnableInterContainerTrafficEncryption with a VpcConfig alone.

    Source: its answer in the SageMaker SDK's tests (2.257.6, test_encryption_flag_in_non_vpc_mode_invalid).
    """
    view = subject.plan.view
    if subject.job.network.encryption and not subject.here and view is not None and not view.subnet_ids:
        yield job_file.BREAKS_API_MODEL.at(
            ("network", "encryption"),
            "`network.encryption: true` without subnets: the API encrypts what hosts send each other only in "
            "a VPC, and would refuse the job",
            remedy="Name a cluster, or give `network.subnets` and `network.security_group_ids`; or leave "
            "`network.encryption` out.",
        )


def _calls(subject: JobSubject) -> Iterator[tuple[Path, str, str | None]]:
    """Each call that is certain to be made, where it is asked for, and what to do instead of the default."""
    job = subject.job
    if not subject.plan.with_boot:
        kind = "a tuning job" if job.tuning else f"a job of the strategy {job.distribution.strategy.value}"
        yield (
            ("network", "isolation"),
            f"{kind} starts through the toolkit of the image, which fetches the code from S3 inside the "
            "container: isolated, it would end before the script starts",
            None,
        )
    if job.secrets:
        yield (
            ("secrets",),
            "the values are fetched from Secrets Manager inside the container: isolated, the job would end "
            "before its script starts",
            "Remove `secrets`, or `network.isolation`.",
        )
    if job.checkpoint is not None and job.checkpoint.sync == "slipway":
        yield (
            ("checkpoint", "sync"),
            "checkpoints would be copied to S3 from inside the container, which it cannot reach when "
            "isolated: they would be lost with the hosts",
            "Let SageMaker move them: `sync: sagemaker`.",
        )
    if job.debug.remote:
        yield (
            ("debug", "remote"),
            "no shell gets into an isolated container (AWS, train-remote-debugging)",
            "Remove `debug.remote`, or `network.isolation`.",
        )
    if job.mlflow is not None:
        yield (
            ("mlflow",),
            "an isolated script does not reach MLflow, and nothing would be logged there",
            "Remove `mlflow`, or `network.isolation`.",
        )
