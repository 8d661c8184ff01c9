"""The live stage: what the account holds is gathered and judged, Lustre waited for, missing rules added.

After a failure the diagnosis is held against the account: what may lie behind it is looked at at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from launcher.account.facts import FileSystem, parse_file_system
from launcher.account.questions.ask import BOUND_SECONDS, OnAnswer, Wanted
from launcher.account.questions.ask_network import authorize
from launcher.account.questions.ask_storage import describe_file_system
from launcher.account.questions.gather import gather, gather_network
from launcher.aws.bounded_calls import bounded
from launcher.aws.clients import BRISK, Clients
from launcher.backends.interface import JobStatus
from launcher.cluster.instances import instance_facts
from launcher.diagnosis.model import AccountCheck, CheckOutcome, Diagnosis
from launcher.failure_modes.model import AwsRefusal, Location, Refusal, Retry, UnusableSession, accept
from launcher.jobs.load_job import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.live.check import (
    OF_NETWORK,
    MissingRule,
    check_account,
    checked,
    missing_rules,
    suspects_of,
)
from launcher.rules.live.storage_rules import TRANSIENT
from launcher.rules.live.subject import LiveSubject
from launcher.session.runs.diagnose_job import Check

FILE_SYSTEM_WAIT_SECONDS = 45 * 60.0
"""A file system takes 5 to 15 minutes to create, large ones longer."""

FILE_SYSTEM_POLL_SECONDS = 15.0

OnWait = Callable[[FileSystem, float], None]
"""Called with the file system as it was last seen, and the seconds waited so far."""


def check_live(
    plan: TrainingPlan,
    loaded: LoadedJob,
    clients: Clients,
    *,
    ignore: Sequence[str] = (),
    on_answer: OnAnswer | None = None,
) -> TrainingPlan:
    """The plan with what the account says against it among its findings.

    A plan without a request comes back as it is: there is nothing to look for. `ignore` holds codes
    accepted besides the file's. Raises Refusal where the plan holds placeholders, AwsRefusal without
    usable credentials or where AWS cannot be reached at all.
    """
    subject = gather_subject(plan, loaded, clients, on_answer=on_answer)
    return plan if subject is None else judge_subject(plan, subject, loaded, ignore)


def check_before_submission(
    plan: TrainingPlan,
    loaded: LoadedJob,
    clients: Clients,
    *,
    ignore: Sequence[str] = (),
    on_answer: OnAnswer | None = None,
    on_wait: OnWait | None = None,
) -> TrainingPlan:
    """`check_live` for a launch: a file system that is being created is waited for before it.

    A plan that is refused already, or holds placeholders, comes back as it is: the submission says so.
    """
    if plan.refused or plan.placeholders or plan.view is None or plan.region is None:
        return plan
    file_system_id = wanted_facts(plan.view, plan.region).file_system_id
    if file_system_id is not None:
        fsx = clients("fsx", plan.region, BRISK)
        wait_for_file_system(lambda: _seen(fsx, file_system_id), on_wait=on_wait)
    return check_live(plan, loaded, clients, ignore=ignore, on_answer=on_answer)


def gather_subject(
    plan: TrainingPlan,
    loaded: LoadedJob,
    clients: Clients,
    *,
    on_answer: OnAnswer | None = None,
) -> LiveSubject | None:
    """What the live rules judge, gathered from the account; None where the plan has no request.

    Raises as `check_live`.
    """
    if plan.view is None or plan.region is None or loaded.spec is None:
        return None
    if plan.placeholders:
        missing = ", ".join(plan.placeholders)
        raise Refusal(
            f"the plan still holds placeholders for: {missing}; nothing in an account answers to them.",
            "Give them in the job file, or name a provisioned `cluster`.",
        )
    wanted = wanted_facts(plan.view, plan.region, plan.bucket_owners)
    # Bad credentials end it here; and with the caller known, nothing asked below waits for anything else.
    region = plan.region
    caller = bounded(
        BOUND_SECONDS, "look up who you are (sts:GetCallerIdentity)", lambda: clients.caller(region)
    ).arn
    return LiveSubject(
        job=loaded.spec,
        request=plan.view,
        facts=instance_facts(wanted.instance_type),
        account=gather(clients, wanted, caller=caller, on_answer=on_answer),
    )


def judge_subject(
    plan: TrainingPlan, subject: LiveSubject, loaded: LoadedJob, ignore: Sequence[str] = ()
) -> TrainingPlan:
    """The plan with the findings of the live rules, each with its place in the job file.

    Those of accepted codes are marked.
    """
    job = _job_of(subject)
    locate = _locator(loaded, job)
    found = accept((finding.located(locate) for finding in check_account(subject)), [*job.ignore, *ignore])
    return replace(plan, findings=(*plan.findings, *map(loaded.substitutions.finding, found)))


def rules_to_add(subject: LiveSubject, ignore: Sequence[str] = ()) -> dict[str, list[MissingRule]]:
    """The rules to add, by security group; none for findings that are accepted."""
    accepted = {*_job_of(subject).ignore, *ignore}
    by_group: dict[str, list[MissingRule]] = {}
    for rule in missing_rules(subject):
        if rule.code not in accepted:
            by_group.setdefault(rule.group_id, []).append(rule)
    return by_group


def add_rules(rules: Sequence[MissingRule], region: str, clients: Clients) -> list[tuple[MissingRule, bool]]:
    """Add the rules; each with whether it was added (else it was there already).

    Raises AwsRefusal where AWS refuses; what was added before stays.
    """
    ec2 = clients("ec2", region, BRISK)
    return [(missing, authorize(ec2, missing.group_id, missing.rule)) for missing in rules]


def wait_for_file_system(
    look_at_it: Callable[[], FileSystem | None],
    *,
    on_wait: OnWait | None = None,
    bound: float = FILE_SYSTEM_WAIT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> FileSystem | None:
    """Wait while the file system is being created, at most `bound` seconds; return what was seen last.

    Every other state ends the wait at once, also those that do not serve (FAILED, MISCONFIGURED,
    MISCONFIGURED_UNAVAILABLE, DELETING): the live rules judge them. None where it is not to be seen.
    """
    began = clock()
    while True:
        seen = look_at_it()
        waited = clock() - began
        if seen is None or seen.lifecycle not in TRANSIENT or waited >= bound:
            return seen
        if on_wait is not None:
            on_wait(seen, waited)
        pause(min(FILE_SYSTEM_POLL_SECONDS, bound - waited))


def _seen(fsx: object, file_system_id: str) -> FileSystem | None:
    """FSx's own word, without zone and groups; None where it does not tell, which the rules then say."""
    try:
        described = describe_file_system(fsx, file_system_id)
    except UnusableSession:
        raise
    except AwsRefusal:
        return None
    return None if described is None else parse_file_system(described)


def _job_of(subject: LiveSubject) -> JobSpec:
    if subject.job is None:
        raise ValueError("only a job that is to be launched is judged by its file")
    return subject.job


def _locator(loaded: LoadedJob, job: JobSpec) -> Callable[..., Location | None]:
    """Where a field stands in the file; what the file leaves to the cluster stands where it is named."""

    def locate(*path: str) -> Location | None:
        if path[0] in job.model_fields_set:
            return loaded.location(*path)
        return loaded.location("cluster") if "cluster" in job.model_fields_set else None

    return locate


# A diagnosis held against the account: what may lie behind it is looked at at once.


def account_check(clients: Clients) -> Check:
    """What asks the account about a diagnosis, with the clients of a command."""

    def check(diagnosis: Diagnosis, status: JobStatus) -> Diagnosis:
        codes = suspects_of(diagnosis, status.hosts)
        if not codes or status.request is None or status.request.region is None:
            return diagnosis
        return _with_checks(diagnosis, _checks(clients, status.request, status.request.region, codes))

    return check


def _checks(
    clients: Clients, request: RequestView, region: str, codes: Sequence[str]
) -> tuple[AccountCheck, ...]:
    """What the account shows of the codes; where it cannot be asked at all, that and why."""
    wanted = wanted_facts(request, region)
    try:
        asked = gather_network if OF_NETWORK.issuperset(codes) else gather
        account = asked(clients, wanted)
    except AwsRefusal as refusal:
        said = f"the account could not be asked: {refusal.message}"
        return tuple(AccountCheck(code, CheckOutcome.NOT_VERIFIED, said, refusal.remedy) for code in codes)
    facts = instance_facts(wanted.instance_type)
    return checked(LiveSubject(job=None, request=request, facts=facts, account=account), codes)


def _with_checks(diagnosis: Diagnosis, checks: tuple[AccountCheck, ...]) -> Diagnosis:
    """The diagnosis with the checks. What is wrong in the account stays so on other hosts and later."""
    wrong = any(each.outcome is CheckOutcome.WRONG for each in checks)
    return replace(diagnosis, checked=checks, retry=Retry.NEVER if wrong else diagnosis.retry)


# From a request to what must be looked at in the account before it is sent.


def wanted_facts(request: RequestView, region: str, bucket_owners: Mapping[str, str] | None = None) -> Wanted:
    """What a request names, in the region where it would be sent, and the accounts of the cluster's buckets.

    Nothing is named twice, and everything in the order of the request. Raises KeyError for a request
    without a role.
    """
    places = request.checkpoints
    prefixes = (places.moved_by_service, places.moved_by_script)
    checkpoints = [each for each in prefixes if each is not None and each.startswith("s3://")]
    inputs = [channel.uri for channel in request.s3_inputs]
    return Wanted(
        region=region,
        job_name=str(request.name),
        role_arn=request.role_arn,
        instance_type=request.instance_type or "",
        instance_count=request.hosts or 0,
        spot=request.is_spot,
        warm_pool=request.keep_alive_seconds > 0,
        training_plan=request.training_plan is not None,
        image=request.image,
        subnet_ids=_unique(request.subnet_ids),
        group_ids=_unique(request.security_group_ids),
        file_system_id=next((mount.file_system_id for mount in request.mounts), None),
        reads=_unique([*inputs, request.code_uri, request.code_archive, *checkpoints]),
        writes=_unique([*checkpoints, request.output_uri]),
        looked_into=_unique([*inputs, *checkpoints]),
        output_keys=_unique([request.output_key]),
        volume_keys=_unique([request.volume_key]),
        bucket_owners=bucket_owners or {},
        tags=request.tags,
        secrets=_unique(request.secrets.values()),
        other_types=request.instance_types[1:],
        shell=request.options.lets_a_shell_in,
    )


def _unique(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
