"""The identities' part of the live stage: the role, who launches, and what IAM must let both do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from launcher.account.facts import (
    Check,
    Decision,
    Fact,
    Permissions,
    Role,
    Unverified,
    parse_evaluation,
    parse_role,
    permissions_of,
    principal_of,
)
from launcher.account.questions.ask import Answers, Question, Service, Wanted
from launcher.aws.errors import aws_errors
from launcher.aws.session import Caller, fetch_caller
from launcher.cluster.names import SAGEMAKER_PRINCIPAL, SHELL_ACTIONS, TRAINING_LOGS, host_name, is_arn
from launcher.text.values import parse_image_uri, split_uri

_SIMULATE = "iam:SimulatePrincipalPolicy"
_WHAT_YOU_MAY = "what you may do"

Simulation = Question[tuple[Decision, ...]]


class IdentityQuestions:
    """What is asked about the role and the caller, and what comes of it.

    `known_caller` is the caller's ARN, where it is known before; else STS is asked.
    """

    def __init__(self, wanted: Wanted, known_caller: str | None = None) -> None:
        self._role_arn = wanted.role_arn
        self._known_caller = known_caller
        self._caller_checks = caller_checks(wanted)
        self._iam = Service("iam", wanted.region)
        self._identity: Question[Caller] = Service("sts", wanted.region).question(
            "who you are", "sts:GetCallerIdentity", fetch_caller
        )
        self._role: Question[Role | None] = self._iam.question(
            "the role", "iam:GetRole", fetch_role, wanted.role_arn
        )
        self._role_may = self._simulations("what the role may do", wanted.role_arn, role_checks(wanted))

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        first = [] if self._known_caller is not None else [self._identity]
        return [*first, self._role, *self._role_may, *self._about_caller(answers)]

    def role(self, answers: Answers) -> Fact[Role | None]:
        """The role, None where there is none."""
        return answers.get(self._role)

    def permissions(self, answers: Answers) -> Fact[Permissions] | None:
        """What the role lacks; None where there is no role."""
        if answers.get(self._role) is None:
            return None
        return _put_together(self._role_arn, self._role_may, answers)

    def caller(self, answers: Answers) -> Fact[Permissions] | None:
        """What the caller lacks; nothing for the account's root user, whom no policy binds."""
        arn = self._caller_arn(answers)
        if arn is None or isinstance(arn, Unverified):
            return arn
        if arn.endswith(":root"):
            return Permissions(arn, ())
        principal = principal_of(arn)
        if principal is None:
            reason = f"IAM cannot simulate {arn}, which is neither a user nor a role."
            return Unverified(_WHAT_YOU_MAY, _SIMULATE, reason)
        exact = self._with_path(principal, answers) or principal
        return _put_together(exact, self._caller_may(exact), answers)

    def _about_caller(self, answers: Answers) -> list[Question[Any]]:
        """The simulations for the caller, under the ARN that a session tells or the one with its path."""
        arn = self._caller_arn(answers)
        principal = None if arn is None or isinstance(arn, Unverified) else principal_of(arn)
        if principal is None:
            return []
        if ":role/" not in principal:
            return [*self._caller_may(principal)]
        # Most roles have no path: rather guess that than wait for it.
        exact = self._with_path(principal, answers) or principal
        return [self._caller_role(principal), *self._caller_may(exact)]

    def _caller_arn(self, answers: Answers) -> Fact[str] | None:
        if self._known_caller is not None:
            return self._known_caller
        identity = answers.get(self._identity)
        return identity.arn if isinstance(identity, Caller) else identity

    def _with_path(self, principal: str, answers: Answers) -> str | None:
        """The ARN of the caller's role as IAM has it; None where it is not known."""
        role = answers.get(self._caller_role(principal))
        return role.arn if isinstance(role, Role) else None

    def _caller_role(self, principal: str) -> Question[Role | None]:
        return self._iam.question("the path of your role", "iam:GetRole", fetch_role, principal)

    def _caller_may(self, principal: str) -> tuple[Simulation, ...]:
        return self._simulations(_WHAT_YOU_MAY, principal, self._caller_checks)

    def _simulations(self, what: str, principal: str, checks: Iterable[Check]) -> tuple[Simulation, ...]:
        return tuple(self._iam.question(what, _SIMULATE, simulate, principal, check) for check in checks)


def fetch_role(iam: Any, name_or_arn: str) -> Role | None:
    """The role; None if there is no such role.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    name = name_or_arn.rpartition("/")[2]
    with aws_errors(f"look up the role {name} (iam:GetRole)"):
        try:
            return parse_role(iam.get_role(RoleName=name)["Role"])
        except iam.exceptions.NoSuchEntityException:
            return None


def simulate(iam: Any, principal: str, check: Check) -> tuple[Decision, ...]:
    """IAM's decisions on one check, for a user or role.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"simulate the permissions of {principal} (iam:SimulatePrincipalPolicy)"):
        pages = iam.get_paginator("simulate_principal_policy").paginate(
            PolicySourceArn=principal,
            ActionNames=list(check.actions),
            ResourceArns=list(check.resources),
            ContextEntries=[
                {
                    "ContextKeyName": name,
                    "ContextKeyValues": list(values),
                    "ContextKeyType": "string" if len(values) == 1 else "stringList",
                }
                for name, values in check.context.items()
            ],
        )
        return tuple(
            decision
            for page in pages
            for each in page["EvaluationResults"]
            for decision in parse_evaluation(each, resource_may_allow=check.resource_may_allow)
        )


def _put_together(principal: str, simulations: Iterable[Simulation], answers: Answers) -> Fact[Permissions]:
    """One fact from many simulations: what is denied is certain, whatever the others would have said."""
    found = [answers.get(each) for each in simulations]
    decisions = [
        decision
        for answer in found
        if answer is not None and not isinstance(answer, Unverified)
        for decision in answer
    ]
    permissions = permissions_of(principal, decisions)
    unverified = next((each for each in found if isinstance(each, Unverified)), None)
    return permissions if permissions.denied or unverified is None else unverified


_APPENDED = "AbCdEf"
_DESCRIBED = ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")


def role_checks(wanted: Wanted) -> tuple[Check, ...]:
    """What the execution role needs for this job, in as many simulations as there are kinds of resources.

    Source: SageMaker developer guide, sagemaker-roles (CreateTrainingJob API: execution role
    permissions, and those for a VPC and for KMS keys).
    """
    return (
        _without_resources(wanted),
        *_objects(wanted),
        *_image(wanted),
        Check(
            ("logs:CreateLogStream", "logs:PutLogEvents"),
            (_arn(wanted, "logs", f"log-group:{TRAINING_LOGS}:log-stream:{wanted.job_name}/{host_name(1)}"),),
        ),
        *_interfaces(wanted),
        *_file_system(wanted),
        *_keys(wanted),
        *_secrets(wanted),
    )


def caller_checks(wanted: Wanted) -> tuple[Check, ...]:
    """What who launches the job needs: pass the role to SageMaker, and create the job.

    Source: Service authorization reference, Amazon SageMaker (CreateTrainingJob and its condition keys).
    """
    context = {
        "sagemaker:InstanceTypes": (wanted.instance_type, *wanted.other_types),
        "sagemaker:VpcSubnets": wanted.subnet_ids,
        "sagemaker:VpcSecurityGroupIds": wanted.group_ids,
        "aws:TagKeys": tuple(wanted.tags),
        **{f"aws:RequestTag/{key}": (value,) for key, value in wanted.tags.items()},
    }
    return (
        Check(("iam:PassRole",), (wanted.role_arn,), {"iam:PassedToService": (SAGEMAKER_PRINCIPAL,)}),
        Check(
            ("sagemaker:CreateTrainingJob",),
            (_arn(wanted, "sagemaker", f"training-job/{wanted.job_name}"),),
            {name: values for name, values in context.items() if values and values[0]},
        ),
    )


def _without_resources(wanted: Wanted) -> Check:
    """The actions that know no resources, all in one simulation."""
    actions = ["cloudwatch:PutMetricData"]
    if wanted.image and parse_image_uri(wanted.image):
        actions.append("ecr:GetAuthorizationToken")
    if wanted.subnet_ids:
        actions += [f"ec2:Describe{what}" for what in _DESCRIBED]
    if wanted.shell:
        actions += SHELL_ACTIONS
    return Check(tuple(actions), ("*",), {"cloudwatch:namespace": (TRAINING_LOGS,)})


def _objects(wanted: Wanted) -> Iterator[Check]:
    """Each bucket is listed with a prefix of its own, which policies may name."""
    listed: dict[str, str] = {}
    for uri in (*wanted.reads, *wanted.writes):
        bucket, key = split_uri(uri)
        listed.setdefault(bucket, key)
    for bucket, key in listed.items():
        yield Check(("s3:ListBucket",), (_bucket(wanted, bucket),), {"s3:prefix": (key,)} if key else {})
    if wanted.reads:
        yield Check(("s3:GetObject",), _below(wanted, wanted.reads))
    if wanted.writes:
        yield Check(("s3:PutObject",), _below(wanted, wanted.writes))


def _image(wanted: Wanted) -> Iterator[Check]:
    image = parse_image_uri(wanted.image) if wanted.image else None
    if image is None:
        return
    repository = f"arn:{wanted.partition}:ecr:{image.region}:{image.account}:repository/{image.repository}"
    yield Check(
        ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"), (repository,)
    )


def _interfaces(wanted: Wanted) -> Iterator[Check]:
    if not wanted.subnet_ids:
        return
    interface = _arn(wanted, "ec2", "network-interface/*")
    subnets = tuple(_arn(wanted, "ec2", f"subnet/{each}") for each in wanted.subnet_ids)
    groups = tuple(_arn(wanted, "ec2", f"security-group/{each}") for each in wanted.group_ids)
    yield Check(("ec2:CreateNetworkInterface",), (interface, *subnets, *groups))
    yield Check(
        ("ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface"),
        (interface,),
        {"ec2:Subnet": subnets[:1], "ec2:AuthorizedService": (SAGEMAKER_PRINCIPAL,)},
    )


def _file_system(wanted: Wanted) -> Iterator[Check]:
    if wanted.file_system_id:
        file_system = _arn(wanted, "fsx", f"file-system/{wanted.file_system_id}")
        yield Check(("fsx:DescribeFileSystems",), (file_system,))


def _keys(wanted: Wanted) -> Iterator[Check]:
    """A key that is named by an alias has no ARN to ask about; keys have policies of their own."""
    outputs = _key_arns(wanted, wanted.output_keys)
    volumes = _key_arns(wanted, wanted.volume_keys)
    if outputs:
        yield Check(("kms:Decrypt", "kms:GenerateDataKey"), outputs, resource_may_allow=True)
    if volumes:
        yield Check(
            ("kms:CreateGrant",), volumes, {"kms:GrantIsForAWSResource": ("true",)}, resource_may_allow=True
        )


def _secrets(wanted: Wanted) -> Iterator[Check]:
    """Secrets have policies of their own. What the service appends to a name in the ARN is made up here."""
    if wanted.secrets:
        arns = (
            each if is_arn(each) else _arn(wanted, "secretsmanager", f"secret:{each}-{_APPENDED}")
            for each in wanted.secrets
        )
        yield Check(("secretsmanager:GetSecretValue",), tuple(arns), resource_may_allow=True)


def _key_arns(wanted: Wanted, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        key if key.startswith("arn:") else _arn(wanted, "kms", f"key/{key}")
        for key in keys
        if "alias/" not in key
    )


def _below(wanted: Wanted, uris: Iterable[str]) -> tuple[str, ...]:
    """All objects of these places; one that is an object itself is held to be a folder, which is alike."""
    return tuple(dict.fromkeys(f"{_bucket(wanted, uri.removeprefix('s3://').rstrip('/'))}/*" for uri in uris))


def _bucket(wanted: Wanted, path: str) -> str:
    return f"arn:{wanted.partition}:s3:::{path}"


def _arn(wanted: Wanted, service: str, resource: str) -> str:
    return f"arn:{wanted.partition}:{service}:{wanted.region}:{wanted.account}:{resource}"
