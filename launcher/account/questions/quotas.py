"""The quotas' part of the live stage: the limits of the type's hosts, and how many are in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.account.facts import Fact
from launcher.account.questions.asking import Answers, Question, Service
from launcher.account.questions.running_jobs import fetch_running_jobs
from launcher.account.questions.wanted import Wanted
from launcher.account.quotas import (
    Quota,
    ServiceQuota,
    Use,
    hosts_in_use,
    known_code,
    parse_quota,
    quota_name,
)
from launcher.account.running_jobs import RunningJob
from launcher.account.unverified import Unverified
from launcher.aws.errors import aws_errors

SERVICE = "sagemaker"


class QuotaQuestions:
    """What is asked about quotas and running jobs, and what comes of it.

    A quota whose code is known takes one call, for its applied value, and one at the same time for its
    default, as an account may have the default only. The others are looked for in the list of all
    defaults, together and once; the applied value then takes a call more.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._quotas = Service("service-quotas", wanted.region)
        self._names = {use: quota_name(wanted.instance_type, use) for use in _uses(wanted)}
        self._running: Question[tuple[RunningJob, ...]] = Service("sagemaker", wanted.region).question(
            "the running training jobs", "sagemaker:Search", fetch_running_jobs
        )

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        asked: list[Question[Any]] = [self._running]
        for name in self._names.values():
            code = known_code(name)
            if code is not None:
                asked += [self._applied(name, code), self._default(name, code)]
            if code is None or self._misnamed(name, code, answers):
                asked.append(self._list())
                listed = answers.of(self._list())
                if isinstance(listed, dict) and name in listed:
                    asked.append(self._applied(name, listed[name].code))
        return asked

    def running_jobs(self, answers: Answers) -> Fact[tuple[RunningJob, ...]] | None:
        """The running jobs other than this one."""
        found = answers.of(self._running)
        if found is None or isinstance(found, Unverified):
            return found
        return tuple(each for each in found if each.name != self._wanted.job_name)

    def quota(self, answers: Answers) -> Fact[Quota | None] | None:
        """The quota of the type's hosts; None where there is none, or the job has a plan's capacity."""
        return self._quota("spot training job" if self._wanted.spot else "training job", answers)

    def warm_pool_quota(self, answers: Answers) -> Fact[Quota | None] | None:
        """The quota of hosts that are kept; None where the job keeps none."""
        return self._quota("training warm pool", answers)

    def _quota(self, use: Use, answers: Answers) -> Fact[Quota | None] | None:
        if use not in self._names:
            return None
        found = self._service_quota(self._names[use], answers)
        if found is None or isinstance(found, Unverified):
            return found
        jobs = self.running_jobs(answers)
        if jobs is None or isinstance(jobs, Unverified):
            # Too low a limit is certain all the same; one that would do is not known to.
            too_low = found.limit < self._wanted.instance_count
            return Quota(found.name, found.code, found.limit, 0) if too_low else jobs
        return Quota(found.name, found.code, found.limit, hosts_in_use(jobs, self._wanted.instance_type, use))

    def _service_quota(self, name: str, answers: Answers) -> Fact[ServiceQuota | None]:
        """What applies to the account; the default where it has no value of its own."""
        code = known_code(name)
        if code is not None and not self._misnamed(name, code, answers):
            return answers.of(self._applied(name, code)) or answers.of(self._default(name, code))
        listed = answers.of(self._list())
        if listed is None or isinstance(listed, Unverified):
            return listed
        if name not in listed:
            return None
        return answers.of(self._applied(name, listed[name].code)) or listed[name]

    def _misnamed(self, name: str, code: str, answers: Answers) -> bool:
        """Whether the known code leads to another quota, or to none."""
        questions = (self._applied(name, code), self._default(name, code))
        if not all(question in answers for question in questions):
            return False
        found = [answers.of(question) for question in questions]
        if any(isinstance(each, ServiceQuota) for each in found):
            return any(isinstance(each, ServiceQuota) and each.name != name for each in found)
        return all(each is None for each in found)

    def _applied(self, name: str, code: str) -> Question[ServiceQuota | None]:
        return self._quotas.question(
            f"the quota {name}", "servicequotas:GetServiceQuota", fetch_applied_quota, code
        )

    def _default(self, name: str, code: str) -> Question[ServiceQuota | None]:
        return self._quotas.question(
            f"the quota {name}", "servicequotas:GetAWSDefaultServiceQuota", fetch_default_quota, code
        )

    def _list(self) -> Question[dict[str, ServiceQuota]]:
        """The one question that looks for quotas by their names, for all names of the job."""
        names = tuple(self._names.values())
        unknown = [name for name in names if known_code(name) is None]
        return self._quotas.question(
            f"the quota {unknown[-1] if unknown else names[0]}",
            "servicequotas:ListAWSDefaultServiceQuotas",
            find_default_quotas,
            names,
        )


def fetch_applied_quota(quotas: Any, code: str) -> ServiceQuota | None:
    """The quota that applies to the account; None where it has only the default.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look up the quota {code} (servicequotas:GetServiceQuota)"):
        try:
            answer = quotas.get_service_quota(ServiceCode=SERVICE, QuotaCode=code)
        except quotas.exceptions.NoSuchResourceException:
            return None
    return parse_quota(answer["Quota"])


def fetch_default_quota(quotas: Any, code: str) -> ServiceQuota | None:
    """What AWS gives to every account; None where there is no such quota in the region.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look up the default of quota {code} (servicequotas:GetAWSDefaultServiceQuota)"):
        try:
            answer = quotas.get_aws_default_service_quota(ServiceCode=SERVICE, QuotaCode=code)
        except quotas.exceptions.NoSuchResourceException:
            return None
    return parse_quota(answer["Quota"])


def find_default_quotas(quotas: Any, names: Iterable[str]) -> dict[str, ServiceQuota]:
    """What AWS gives to every account of the quotas of these names, for those whose code is not known.

    SageMaker has more than 1500 quotas, Service Quotas lists at most a hundred to a page, and a page says
    where the next begins: sixteen calls, one after the other. They end where all names were found, and
    nothing else tells a quota by its name. The defaults are listed, as they are those that list every
    quota: what applies to the account is then one call, by the code. Raises AwsRefusal where AWS refuses
    or cannot be reached.
    """
    found: dict[str, ServiceQuota] = {}
    missing = set(names)
    with aws_errors("look for quotas by their names (servicequotas:ListAWSDefaultServiceQuotas)"):
        pages = quotas.get_paginator("list_aws_default_service_quotas").paginate(
            ServiceCode=SERVICE, PaginationConfig={"PageSize": 100}
        )
        for page in pages:
            here = (parse_quota(each) for each in page["Quotas"] if each["QuotaName"] in missing)
            found |= {quota.name: quota for quota in here}
            if missing == set(found):
                break
    return found


def _uses(wanted: Wanted) -> tuple[Use, ...]:
    """The uses whose quotas bind the job; a training plan's capacity is bound by none."""
    if not wanted.instance_type or wanted.training_plan:
        return ()
    first: Use = "spot training job" if wanted.spot else "training job"
    return (first, "training warm pool") if wanted.warm_pool else (first,)
