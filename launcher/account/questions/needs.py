"""What a job's role, and who launches the job, must be allowed to do: the checks for IAM's simulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from launcher.account.images import parse_image_uri
from launcher.account.permissions import Check
from launcher.account.questions.wanted import Wanted
from launcher.cluster.sagemaker_names import (
    SAGEMAKER_PRINCIPAL,
    SHELL_ACTIONS,
    TRAINING_LOGS,
    host_name,
)
from launcher.cluster.secret_ids import is_arn
from launcher.text.uris import split_uri

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
