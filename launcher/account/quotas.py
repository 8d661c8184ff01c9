"""SageMaker's quotas of training hosts, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from launcher.account.running_jobs import RunningJob
from launcher.facts.data_file import read_data_file

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

    Codes are the same in all accounts and regions. A quota that was fetched by its code has its name,
    so a wrong code is noticed.
    """
    return _codes().get(name)


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
    return {
        f"{instance_type} for {use} usage": code
        for use, codes in read_data_file(__file__, "quota_codes.json")["codes"].items()
        for instance_type, code in codes.items()
    }
