"""The hosts' part of the live stage: their image, where their type is to be had, and how many the account may
use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.account.facts import (
    Fact,
    Image,
    Quota,
    RunningJob,
    ServiceQuota,
    Unverified,
    Use,
    hosts_in_use,
    known_code,
    parse_image,
    parse_quota,
    parse_running_job,
    quota_name,
)
from launcher.account.questions.ask import Answers, Question, Service, Wanted
from launcher.aws.errors import aws_errors
from launcher.text.values import ImageReference, parse_image_uri

_ACCEPTED = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)


class InstanceQuestions:
    """What is asked about a job's image and instance type, and what comes of it."""

    def __init__(self, wanted: Wanted) -> None:
        image = parse_image_uri(wanted.image) if wanted.image else None
        self._image: Question[Image] | None = None
        if image is not None:
            # Asked in the registry's own region, so that it is found also where the job's is another.
            ecr = Service("ecr", image.region)
            self._image = ecr.question(f"the image {image.uri}", "ecr:BatchGetImage", fetch_image, image)
        self._zones: Question[frozenset[str]] | None = None
        if wanted.instance_type:
            self._zones = Service("ec2", wanted.region).question(
                f"where {wanted.instance_type} is offered",
                "ec2:DescribeInstanceTypeOfferings",
                fetch_offering_zones,
                wanted.instance_type,
            )

    def questions(self) -> list[Question[Any]]:
        """All that is asked; nothing waits for an answer."""
        return [question for question in (self._image, self._zones) if question is not None]

    def image(self, answers: Answers) -> Fact[Image] | None:
        """The image, None where it is not in ECR."""
        return None if self._image is None else answers.get(self._image)

    def offered_in(self, answers: Answers) -> Fact[frozenset[str]] | None:
        """The availability zones that offer the type; None where the job names no type."""
        return None if self._zones is None else answers.get(self._zones)


def fetch_image(ecr: Any, reference: ImageReference) -> Image:
    """Whether the registry has the image.

    Asked for with the call that a pull begins with: whoever may pull may make it, also from the
    registries of AWS's own images, whose policies need not allow to describe them. Raises AwsRefusal
    where AWS refuses or cannot be reached.
    """
    parts = {"imageTag": reference.tag, "imageDigest": reference.digest}
    with aws_errors(f"look for the image {reference.uri} (ecr:BatchGetImage)"):
        try:
            answer = ecr.batch_get_image(
                registryId=reference.account,
                repositoryName=reference.repository,
                imageIds=[{name: value for name, value in parts.items() if value}],
                acceptedMediaTypes=list(_ACCEPTED),
            )
        except ecr.exceptions.RepositoryNotFoundException:
            return Image(reference.uri, False, reference.region)
    return parse_image(reference, answer)


def fetch_offering_zones(ec2: Any, instance_type: str) -> frozenset[str]:
    """The zones that offer a SageMaker instance type; empty where EC2 offers it nowhere in the region.

    SageMaker's types are EC2's with `ml.` before them. Raises AwsRefusal where AWS refuses or cannot be
    reached.
    """
    with aws_errors(f"look where {instance_type} is offered (ec2:DescribeInstanceTypeOfferings)"):
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [instance_type.removeprefix("ml.")]}],
        )
        return frozenset(each["Location"] for page in pages for each in page["InstanceTypeOfferings"])


SERVICE = "sagemaker"


class ServiceQuotaQuestions:
    """What is asked about quotas of SageMaker in a region, by their names, and what comes of it.

    A quota whose code is known takes one call, for its applied value, and one at the same time for its
    default, as an account may have the default only. The others are looked for in the list of all
    defaults, together and once; the applied value then takes a call more.
    """

    def __init__(self, region: str, names: Iterable[str]) -> None:
        self._quotas = Service("service-quotas", region)
        self._names = tuple(names)

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        asked: list[Question[Any]] = []
        for name in self._names:
            code = known_code(name)
            if code is not None:
                asked += [self._applied(name, code), self._default(name, code)]
            if code is None or self._misnamed(name, code, answers):
                asked.append(self._list())
                listed = answers.get(self._list())
                if isinstance(listed, dict) and name in listed:
                    asked.append(self._applied(name, listed[name].code))
        return asked

    def quota(self, name: str, answers: Answers) -> Fact[ServiceQuota | None]:
        """What applies to the account; the default where it has no value of its own."""
        code = known_code(name)
        if code is not None and not self._misnamed(name, code, answers):
            return answers.get(self._applied(name, code)) or answers.get(self._default(name, code))
        listed = answers.get(self._list())
        if listed is None or isinstance(listed, Unverified):
            return listed
        if name not in listed:
            return None
        return answers.get(self._applied(name, listed[name].code)) or listed[name]

    def _misnamed(self, name: str, code: str, answers: Answers) -> bool:
        """Whether the known code leads to another quota, or to none."""
        questions = (self._applied(name, code), self._default(name, code))
        if not all(question in answers for question in questions):
            return False
        found = [answers.get(question) for question in questions]
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
        """The one question that looks for quotas by their names, for all of them."""
        unknown = [name for name in self._names if known_code(name) is None]
        return self._quotas.question(
            f"the quota {unknown[-1] if unknown else self._names[0]}",
            "servicequotas:ListAWSDefaultServiceQuotas",
            find_default_quotas,
            self._names,
        )


class QuotaQuestions:
    """What is asked about a job's quotas and the running jobs, and what comes of it."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._names = {use: quota_name(wanted.instance_type, use) for use in _uses(wanted)}
        self._quotas = ServiceQuotaQuestions(wanted.region, self._names.values())
        self._running: Question[tuple[RunningJob, ...]] = Service("sagemaker", wanted.region).question(
            "the running training jobs", "sagemaker:Search", fetch_running_jobs
        )

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        return [self._running, *self._quotas.questions(answers)]

    def running_jobs(self, answers: Answers) -> Fact[tuple[RunningJob, ...]] | None:
        """The running jobs other than this one."""
        found = answers.get(self._running)
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
        found = self._quotas.quota(self._names[use], answers)
        if found is None or isinstance(found, Unverified):
            return found
        jobs = self.running_jobs(answers)
        if jobs is None or isinstance(jobs, Unverified):
            # Too low a limit is certain all the same; one that would do is not known to.
            too_low = found.limit < self._wanted.instance_count
            return Quota(found.name, found.code, found.limit, 0) if too_low else jobs
        return Quota(found.name, found.code, found.limit, hosts_in_use(jobs, self._wanted.instance_type, use))


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


_NOT_ENDED = ("InProgress", "Stopping")
_PAGE = 100
"""The most that SageMaker's Search answers at once."""


def fetch_running_jobs(sagemaker: Any) -> tuple[RunningJob, ...]:
    """All training jobs of the region that have not ended, the newest first, a hundred to a call.

    SageMaker's Search tells prefix and hosts of each at once; ListTrainingJobs knows neither, and would
    need a call for every job. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("look for running training jobs (sagemaker:Search)"):
        pages = sagemaker.get_paginator("search").paginate(
            Resource="TrainingJob",
            SearchExpression={
                "Operator": "Or",
                "Filters": [
                    {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": status}
                    for status in _NOT_ENDED
                ],
            },
            SortBy="CreationTime",
            SortOrder="Descending",
            PaginationConfig={"PageSize": _PAGE},
        )
        return tuple(
            parse_running_job(each["TrainingJob"])
            for page in pages
            for each in page["Results"]
            if "TrainingJob" in each
        )
