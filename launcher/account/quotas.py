"""SageMaker's quotas of training hosts, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from launcher.account.running_jobs import RunningJob
from launcher.aws.errors import aws_errors

SERVICE = "sagemaker"

Use = Literal["training job", "spot training job", "training warm pool"]


@dataclass(frozen=True, slots=True)
class Quota:
    """How many hosts of a type the account may use in training jobs at the same time.

    `name` is the quota's in Service Quotas, `code` its code there; `in_use` counts the hosts of running
    training jobs of the region.
    """

    name: str
    code: str
    limit: float
    in_use: int


@dataclass(frozen=True, slots=True)
class ServiceQuota:
    """A quota as Service Quotas knows it."""

    name: str
    code: str
    limit: float


def quota_name(instance_type: str, use: Use) -> str:
    """The name under which Service Quotas knows how many hosts of a type a use may have."""
    return f"{instance_type} for {use} usage"


def known_code(name: str) -> str | None:
    """The code of a quota that comes with the launcher, None for others.

    Codes are the same in all accounts and regions. A quota that was fetched by its code tells its name,
    so a wrong code is noticed.
    """
    return _codes().get(name)


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


def hosts_in_use(jobs: Iterable[RunningJob], instance_type: str, use: Use) -> int:
    """The hosts of these jobs that count against a quota."""
    return sum(job.hosts for job in jobs if job.instance_type == instance_type and _counts(job, use))


def parse_quota(described: Mapping[str, Any]) -> ServiceQuota:
    """A quota from what Service Quotas describes of it."""
    return ServiceQuota(described["QuotaName"], described["QuotaCode"], float(described["Value"]))


def _counts(job: RunningJob, use: Use) -> bool:
    """Whether a job's hosts count against the quota of a use."""
    if use == "training warm pool":
        return job.keeps_hosts
    return job.spot == (use == "spot training job")


@cache
def _codes() -> dict[str, str]:
    """Code by name; the file groups the codes by use, then by instance type."""
    text = (files("launcher.account") / "quota_codes.json").read_text(encoding="utf-8")
    return {
        f"{instance_type} for {use} usage": code
        for use, codes in json.loads(text)["codes"].items()
        for instance_type, code in codes.items()
    }
