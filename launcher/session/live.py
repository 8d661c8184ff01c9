"""The live stage of a launch: gather what the account holds, judge it, wait for Lustre, add rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.account.file_system import FileSystem, parse_file_system
from launcher.account.questions.asking import BOUND_SECONDS, OnAnswer
from launcher.account.questions.file_system import describe_file_system
from launcher.account.questions.gathering import gather
from launcher.account.questions.security_group_repair import authorize
from launcher.aws.bounded import bounded
from launcher.aws.clients import BRISK, Clients
from launcher.aws.errors import UnusableSession
from launcher.cluster.instances import instance_facts
from launcher.failure_modes.model import Location, accept
from launcher.failure_modes.refusal import AwsRefusal, Refusal
from launcher.jobs.load import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.live.check import check_account
from launcher.rules.live.lustre import TRANSIENT
from launcher.rules.live.missing_rules import MissingRule, missing_rules
from launcher.rules.live.subject import LiveSubject
from launcher.session.wanted import wanted_of

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
    subject = look(plan, loaded, clients, on_answer=on_answer)
    return plan if subject is None else judged(plan, subject, loaded, ignore)


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
    file_system_id = wanted_of(plan.view, plan.region).file_system_id
    if file_system_id is not None:
        fsx = clients("fsx", plan.region, BRISK)
        wait_for_file_system(lambda: _seen(fsx, file_system_id), on_wait=on_wait)
    return check_live(plan, loaded, clients, ignore=ignore, on_answer=on_answer)


def look(
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
    wanted = wanted_of(plan.view, plan.region, plan.bucket_owners)
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


def judged(
    plan: TrainingPlan, subject: LiveSubject, loaded: LoadedJob, ignore: Sequence[str] = ()
) -> TrainingPlan:
    """The plan with the findings of the live rules, each with its place in the job file.

    Those of accepted codes are marked.
    """
    job = _job_of(subject)
    locate = _locator(loaded, job)
    found = accept((finding.located(locate) for finding in check_account(subject)), [*job.ignore, *ignore])
    return replace(plan, findings=(*plan.findings, *map(loaded.substitutions.finding, found)))


def repairs(subject: LiveSubject, ignore: Sequence[str] = ()) -> dict[str, list[MissingRule]]:
    """The rules to add, by security group; none for findings that are accepted."""
    accepted = {*_job_of(subject).ignore, *ignore}
    by_group: dict[str, list[MissingRule]] = {}
    for rule in missing_rules(subject):
        if rule.code not in accepted:
            by_group.setdefault(rule.group_id, []).append(rule)
    return by_group


def repair(rules: Sequence[MissingRule], region: str, clients: Clients) -> list[tuple[MissingRule, bool]]:
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
