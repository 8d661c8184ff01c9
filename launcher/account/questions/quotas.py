"""The quotas' part of the live stage: the limits of the type's hosts, and how many are in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from launcher.account.facts import Fact
from launcher.account.questions.asking import Answers, Question
from launcher.account.questions.wanted import Wanted
from launcher.account.quotas import (
    Quota,
    ServiceQuota,
    Use,
    fetch_applied_quota,
    fetch_default_quota,
    find_default_quotas,
    hosts_in_use,
    known_code,
    quota_name,
)
from launcher.account.running_jobs import RunningJob, fetch_running_jobs
from launcher.account.unverified import Unverified
from launcher.aws.clients import Clients

_LIST = "quota list"
"""The key of the one question that looks for quotas by their names."""


@dataclass(frozen=True, slots=True)
class QuotaQuestions:
    """What is asked about quotas and running jobs, and what comes of it.

    A quota whose code is known takes one call, for its applied value, and one at the same time for its
    default, as an account may have the default only. The others are looked for in the list of all
    defaults, together and once; the applied value then takes a call more.
    """

    clients: Clients
    wanted: Wanted

    def questions(self, answers: Answers) -> dict[str, Question]:
        """All that can be asked, with the answers so far."""
        asked = {
            "running jobs": Question(
                "the running training jobs",
                "sagemaker:Search",
                lambda: fetch_running_jobs(self._client("sagemaker")),
            )
        }
        names = {use: quota_name(self.wanted.instance_type, use) for use in self._uses()}
        for use, name in names.items():
            code = known_code(name)
            if code is not None:
                asked |= self._by_code(use, name, code)
            if code is None or self._misnamed(use, name, answers):
                asked |= self._by_name(use, name, tuple(names.values()), answers)
        return asked

    def running_jobs(self, answers: Answers) -> Fact[tuple[RunningJob, ...]] | None:
        """The running jobs other than this one."""
        found = answers.get("running jobs")
        if found is None or isinstance(found, Unverified):
            return found
        return tuple(each for each in found if each.name != self.wanted.job_name)

    def quota(self, answers: Answers) -> Fact[Quota | None] | None:
        """The quota of the type's hosts; None where there is none, or the job has a plan's capacity."""
        return self._quota("spot training job" if self.wanted.spot else "training job", answers)

    def warm_pool_quota(self, answers: Answers) -> Fact[Quota | None] | None:
        """The quota of hosts that are kept; None where the job keeps none."""
        return self._quota("training warm pool", answers)

    def _uses(self) -> tuple[Use, ...]:
        if not self.wanted.instance_type or self.wanted.training_plan:
            return ()
        first: Use = "spot training job" if self.wanted.spot else "training job"
        return (first, "training warm pool") if self.wanted.warm_pool else (first,)

    def _quota(self, use: Use, answers: Answers) -> Fact[Quota | None] | None:
        if use not in self._uses():
            return None
        name = quota_name(self.wanted.instance_type, use)
        by_name = known_code(name) is None or self._misnamed(use, name, answers)
        found = _listed(use, name, answers) if by_name else _applied_or_default(use, answers)
        if found is None or isinstance(found, Unverified):
            return found
        jobs = self.running_jobs(answers)
        if jobs is None or isinstance(jobs, Unverified):
            # Too low a limit is certain all the same; one that would do is not known to.
            return Quota(found.name, found.code, found.limit, 0) if self._too_low(found) else jobs
        return Quota(found.name, found.code, found.limit, hosts_in_use(jobs, self.wanted.instance_type, use))

    def _too_low(self, quota: ServiceQuota) -> bool:
        return quota.limit < self.wanted.instance_count

    def _by_code(self, use: Use, name: str, code: str) -> dict[str, Question]:
        what = f"the quota {name}"
        return {
            f"{use} applied": Question(
                what,
                "servicequotas:GetServiceQuota",
                lambda: fetch_applied_quota(self._client("service-quotas"), code),
            ),
            f"{use} default": Question(
                what,
                "servicequotas:GetAWSDefaultServiceQuota",
                lambda: fetch_default_quota(self._client("service-quotas"), code),
            ),
        }

    def _by_name(self, use: Use, name: str, names: tuple[str, ...], answers: Answers) -> dict[str, Question]:
        """The list, which is searched for all names of the job, and what only its answer tells to ask."""
        asked = {
            _LIST: Question(
                f"the quota {name}",
                "servicequotas:ListAWSDefaultServiceQuotas",
                lambda: find_default_quotas(self._client("service-quotas"), names),
            )
        }
        listed = answers.get(_LIST)
        if isinstance(listed, dict) and name in listed:
            asked[f"{use} by name applied"] = Question(
                f"the quota {name}",
                "servicequotas:GetServiceQuota",
                lambda: fetch_applied_quota(self._client("service-quotas"), listed[name].code),
            )
        return asked

    @staticmethod
    def _misnamed(use: Use, name: str, answers: Answers) -> bool:
        """Whether the known code leads to another quota, or to none."""
        keys = (f"{use} applied", f"{use} default")
        if not all(key in answers for key in keys):
            return False
        found = [answers[key] for key in keys]
        if any(isinstance(each, ServiceQuota) for each in found):
            return any(isinstance(each, ServiceQuota) and each.name != name for each in found)
        return all(each is None for each in found)

    def _client(self, service: str) -> Any:
        return self.clients(service, self.wanted.region)


def _applied_or_default(key: str, answers: Answers) -> Fact[ServiceQuota | None]:
    """What applies to the account; its default where it has no value of its own."""
    applied: Fact[ServiceQuota | None] = answers.get(f"{key} applied")
    if applied is not None:
        return applied
    default: Fact[ServiceQuota | None] = answers.get(f"{key} default")
    return default


def _listed(use: Use, name: str, answers: Answers) -> Fact[ServiceQuota | None]:
    """The quota that was found by its name: what applies to the account, else its default."""
    listed: Fact[dict[str, ServiceQuota]] = answers[_LIST]
    if isinstance(listed, Unverified):
        return listed
    applied: Fact[ServiceQuota | None] = answers.get(f"{use} by name applied")
    return listed.get(name) if applied is None else applied
