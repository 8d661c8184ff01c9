"""What a job and its launcher may do: every call that they make, and calls that they must not make."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.cluster.files import load_cluster_file
from launcher.cluster.specification import ClusterSpec
from tests.emulator.iam_policy import Context, allows, flat
from tests.stacks.synthesis import ROOT, Synthesized, dev_spec, synthesize

ACCOUNT, REGION = "111122223333", "us-west-2"
KEY, ROLE, QUEUE, SUBNET, GROUP = (
    f"arn:aws:our:{what}" for what in ("key", "role", "queue", "subnet", "group")
)
FILE_SYSTEM = f"arn:aws:fsx:{REGION}:{ACCOUNT}:file-system/fs-1"
SUBNET_ID, GROUP_ID = "subnet-of-ours", "sg-of-ours"
CODE, CHECKPOINTS, OUTPUT, DATA = (
    f"arn:aws:s3:::{name}" for name in ("our-code", "our-checkpoints", "our-output", "our-data")
)
LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
STREAM = f"{LOGS}:log-stream:llama-1/algo-1"
INTERFACE = f"arn:aws:ec2:{REGION}:{ACCOUNT}:network-interface/eni-1"
IMAGE = f"arn:aws:ecr:{REGION}:763104351884:repository/pytorch-training"
JOB = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/llama-1"
TUNING_JOB = JOB.replace("training-job", "hyper-parameter-tuning-job")
PLAN = JOB.replace("training-job/llama-1", "training-plan/ours")
CAPACITY = JOB.replace("training-job/llama-1", "reserved-capacity/1a2b")
SERVICE_JOB = f"arn:aws:batch:{REGION}:{ACCOUNT}:service-job/1234"
MANIFEST = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/slipway/clusters/p5-large"
ADMINISTRATOR, TEAM = (f"arn:aws:iam::{ACCOUNT}:role/{name}" for name in ("Administrator", "teams/research"))

BY_VOLUMES = {"kms:GrantIsForAWSResource": "true"}
TO_SAGEMAKER = {"iam:PassedToService": "sagemaker.amazonaws.com"}
IN_OUR_SUBNET = {"ec2:Subnet": SUBNET}
WHERE_NOTHING_LIES = {"s3:if-none-match": "*", "s3:ObjectCreationOperation": "true"}
IN_ANY_CASE = {"s3:ObjectCreationOperation": "true"}
A_PART = {"s3:ObjectCreationOperation": "false"}
IN_OUR_NAMESPACE = {"cloudwatch:namespace": "/aws/sagemaker/TrainingJobs"}

OUR_TAG = {"aws:RequestTag/slipway:cluster": "p5-large"}
OF_OURS, OF_OTHERS = ({"aws:ResourceTag/slipway:cluster": name} for name in ("p5-large", "production"))
IN_OUR_NETWORK = {"sagemaker:VpcSubnets": [SUBNET_ID, SUBNET_ID], "sagemaker:VpcSecurityGroupIds": [GROUP_ID]}
A_JOB_OF_OURS = {**OUR_TAG, **IN_OUR_NETWORK}
OF_PRODUCTION = {"aws:RequestTag/slipway:cluster": "production"}
WHILE_IT_IS_CREATED = {**OUR_TAG, "sagemaker:TaggingAction": "CreateTrainingJob"}

Call = tuple[str, str, Context]


def calls(resource: str, *actions: str, context: Context | None = None) -> list[Call]:
    return [(action, resource, context or {}) for action in actions]


def without(key: str, context: Context) -> Context:
    return {name: value for name, value in context.items() if name != key}


JOB_CALLS = [
    *calls(CODE, "s3:ListBucket", "s3:GetBucketLocation"),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:GetObject"),
    *calls(DATA, "s3:ListBucket"),
    *calls(f"{DATA}/corpus/0001", "s3:GetObject"),
    *calls(
        f"{CHECKPOINTS}/llama-1/1",
        "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload",
    ),
    *calls(f"{OUTPUT}/llama-1/model.tar.gz", "s3:PutObject"),
    *calls(KEY, "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"),
    *calls(KEY, "kms:CreateGrant", context=BY_VOLUMES),
    *calls("*", "ecr:GetAuthorizationToken"),
    *calls(IMAGE, "ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"),
    *calls(LOGS, "logs:CreateLogGroup"),
    *calls(STREAM, "logs:CreateLogStream", "logs:PutLogEvents"),
    *calls(f"{LOGS}:log-stream:", "logs:DescribeLogStreams"),
    *calls("*", "cloudwatch:PutMetricData", context=IN_OUR_NAMESPACE),
    *calls(SUBNET, "ec2:CreateNetworkInterface"),
    *calls(GROUP, "ec2:CreateNetworkInterface"),
    *calls(INTERFACE, "ec2:CreateNetworkInterface"),
    *calls(
        INTERFACE,
        "ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
        context=IN_OUR_SUBNET,
    ),
    *calls(
        "*",
        "ec2:DescribeNetworkInterfaces", "ec2:DescribeVpcs", "ec2:DescribeDhcpOptions",
        "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "fsx:DescribeFileSystems",
    ),
]  # fmt: skip

FORBIDDEN_TO_JOBS = [
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:PutObject", "s3:DeleteObject"),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:PutObject", context=WHERE_NOTHING_LIES),
    *calls(f"{OUTPUT}/llama-1/model.tar.gz", "s3:DeleteObject"),
    *calls(f"{DATA}/corpus/0001", "s3:PutObject", "s3:DeleteObject"),
    *calls("arn:aws:s3:::someone-elses/secret", "s3:GetObject"),
    *calls("arn:aws:s3:::our-code-of-others/x", "s3:GetObject"),
    *calls(CHECKPOINTS, "s3:DeleteBucket", "s3:PutBucketPolicy"),
    *calls(f"{CHECKPOINTS}/llama-1/1", "s3:DeleteObjectVersion"),
    *calls("*", "s3:ListAllMyBuckets", "ec2:RunInstances"),
    *calls(KEY, "kms:CreateGrant", "kms:ScheduleKeyDeletion"),
    *calls(f"arn:aws:kms:{REGION}:{ACCOUNT}:key/other", "kms:Decrypt"),
    *calls(IMAGE, "ecr:PutImage"),
    *calls(LOGS, "logs:DeleteLogGroup"),
    *calls(STREAM.replace("sagemaker/TrainingJobs", "lambda/other"), "logs:PutLogEvents"),
    *calls("*", "cloudwatch:PutMetricData"),
    *calls("*", "cloudwatch:PutMetricData", context={"cloudwatch:namespace": "AWS/Billing"}),
    *calls(f"{SUBNET}-of-others", "ec2:CreateNetworkInterface"),
    *calls(
        INTERFACE,
        "ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
        context={"ec2:Subnet": "subnet-of-others"},
    ),
    *calls("*", "ec2:DeleteNetworkInterface", "ec2:DeleteNetworkInterfacePermission"),
    *calls(GROUP, "ec2:AuthorizeSecurityGroupIngress"),
    *calls(FILE_SYSTEM, "fsx:DeleteFileSystem"),
    *calls(ROLE, "iam:PassRole", context=TO_SAGEMAKER),
    *calls(ROLE, "sts:AssumeRole"),
    *calls(JOB, "sagemaker:CreateTrainingJob"),
    *calls(MANIFEST, "ssm:GetParameter"),
]  # fmt: skip

LAUNCHER_CALLS = [
    *calls("*", "sts:GetCallerIdentity", "sagemaker:ListTrainingJobs"),
    *calls(MANIFEST, "ssm:GetParameter"),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:PutObject", context=WHERE_NOTHING_LIES),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:PutObject", context=A_PART),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:GetObject", "s3:AbortMultipartUpload"),
    *calls(CHECKPOINTS, "s3:ListBucket"),
    *calls(DATA, "s3:ListBucket"),
    *calls(f"{CHECKPOINTS}/llama-1/1", "s3:GetObject", "s3:PutObject"),
    *calls(f"{OUTPUT}/llama-1/output.tar.gz", "s3:GetObject"),
    *calls(KEY, "kms:GenerateDataKey", "kms:Decrypt"),
    *calls(KEY, "kms:CreateGrant", context=BY_VOLUMES),
    *calls(JOB, "sagemaker:CreateTrainingJob", context=A_JOB_OF_OURS),
    *calls(PLAN, "sagemaker:CreateTrainingJob", context=A_JOB_OF_OURS),
    *calls(CAPACITY, "sagemaker:CreateTrainingJob", context=A_JOB_OF_OURS),
    *calls(JOB, "sagemaker:AddTags", context=WHILE_IT_IS_CREATED),
    *calls(JOB, "sagemaker:DescribeTrainingJob", "sagemaker:ListTags"),
    *calls(
        JOB,
        "sagemaker:DescribeTrainingJob", "sagemaker:ListTags", "sagemaker:StopTrainingJob",
        "sagemaker:UpdateTrainingJob",
        context=OF_OURS,
    ),
    *calls(TUNING_JOB, "sagemaker:CreateHyperParameterTuningJob", context=A_JOB_OF_OURS),
    *calls(
        TUNING_JOB,
        "sagemaker:AddTags",
        context={**OUR_TAG, "sagemaker:TaggingAction": "CreateHyperParameterTuningJob"},
    ),
    *calls(
        TUNING_JOB,
        "sagemaker:DescribeHyperParameterTuningJob", "sagemaker:StopHyperParameterTuningJob",
        context=OF_OURS,
    ),
    *calls(ROLE, "iam:PassRole", context=TO_SAGEMAKER),
    *calls(ROLE, "iam:GetRole", "iam:SimulatePrincipalPolicy"),
    *calls(TEAM, "iam:GetRole", "iam:SimulatePrincipalPolicy"),
    *calls(CODE, "s3:GetEncryptionConfiguration"),
    *calls(
        "*",
        "fsx:DescribeDataRepositoryAssociations", "fsx:DescribeFileSystems", "ec2:DescribeNetworkInterfaces",
    ),
    *calls(STREAM, "logs:GetLogEvents"),
    *calls(f"{LOGS}:log-stream:", "logs:DescribeLogStreams"),
    *calls(
        "*",
        "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "ec2:DescribeRouteTables",
        "ec2:DescribeVpcEndpoints", "ec2:DescribeNetworkAcls", "ec2:DescribeInstanceTypeOfferings",
        "sagemaker:Search", "servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota",
        "servicequotas:ListAWSDefaultServiceQuotas",
    ),
    *calls(DATA, "s3:GetEncryptionConfiguration"),
    *calls(IMAGE, "ecr:BatchGetImage", "ecr:DescribeImages"),
    *calls(QUEUE, "batch:SubmitServiceJob", context=OUR_TAG),
    *calls("*", "batch:ListServiceJobs", "batch:DescribeServiceJob"),
    *calls(SERVICE_JOB, "batch:SubmitServiceJob", "batch:TagResource", context=OUR_TAG),
    *calls(SERVICE_JOB, "batch:TerminateServiceJob", context=OF_OURS),
]  # fmt: skip

FORBIDDEN_TO_LAUNCHERS = [
    *calls(ROLE, "iam:PassRole", "iam:PutRolePolicy"),
    *calls(ROLE, "iam:PassRole", context={"iam:PassedToService": "ec2.amazonaws.com"}),
    *calls(ADMINISTRATOR, "iam:PassRole", "iam:SimulatePrincipalPolicy", context=TO_SAGEMAKER),
    *calls(ADMINISTRATOR, "iam:GetRole"),
    *calls(TEAM, "iam:PassRole", "iam:PutRolePolicy", "sts:AssumeRole", context=TO_SAGEMAKER),
    *calls(ROLE, "iam:GetRolePolicy", "iam:ListRolePolicies"),
    *calls(CODE, "s3:GetBucketPolicy", "s3:PutBucketPolicy"),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:PutObject", context=IN_ANY_CASE),
    *calls(f"{CODE}/code/1a2b/source.tar.gz", "s3:DeleteObject", "s3:DeleteObjectVersion"),
    *calls(f"{CODE}/elsewhere", "s3:PutObject", context=WHERE_NOTHING_LIES),
    *calls(MANIFEST, "ssm:PutParameter"),
    *calls(MANIFEST.replace("p5-large", "dev"), "ssm:GetParameter"),
    *calls(f"{CHECKPOINTS}/llama-1/1", "s3:DeleteObject"),
    *calls(f"{DATA}/corpus/0001", "s3:GetObject"),
    *calls(f"{OUTPUT}/llama-1/model.tar.gz", "s3:PutObject"),
    *calls(KEY, "kms:CreateGrant"),
    *calls("*", "sagemaker:CreateNotebookInstance", "ec2:RunInstances"),
    *calls(JOB.replace(ACCOUNT, "999999999999"), "sagemaker:CreateTrainingJob", context=A_JOB_OF_OURS),
    *calls(
        JOB,
        "sagemaker:DescribeTrainingJob",
        "sagemaker:ListTags",
        "sagemaker:StopTrainingJob",
        "sagemaker:UpdateTrainingJob",
        context=OF_OTHERS,
    ),
    *calls(JOB, "sagemaker:StopTrainingJob", "sagemaker:UpdateTrainingJob"),
    *calls(TUNING_JOB, "sagemaker:StopHyperParameterTuningJob"),
    *calls(JOB, "sagemaker:AddTags", context=OUR_TAG),
    *calls(JOB, "sagemaker:AddTags", context={**WHILE_IT_IS_CREATED, **OF_PRODUCTION}),
    *calls(SERVICE_JOB, "batch:TagResource", context={**OUR_TAG, **OF_OTHERS}),
    *calls(SERVICE_JOB, "batch:TerminateServiceJob"),
    *calls(SERVICE_JOB, "batch:TerminateServiceJob", context=OF_OTHERS),
    *calls(QUEUE, "batch:SubmitServiceJob"),
    *calls(FILE_SYSTEM, "fsx:DeleteFileSystem"),
    *calls(STREAM, "logs:DeleteLogStream"),
    *calls(QUEUE, "batch:DeleteJobQueue"),
    *calls(f"{QUEUE}-of-others", "batch:SubmitServiceJob", context=OUR_TAG),
]


@pytest.fixture(scope="module")
def access() -> Synthesized:
    spec = load_cluster_file(ROOT / "clusters" / "p5-large.yaml").model_dump()
    names = {"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"}
    given = {"buckets": names, "data_buckets": ["our-data"], "launchers": [TEAM]}
    return synthesize(ClusterSpec.model_validate({**spec, **given}))


@pytest.fixture(scope="module")
def of_the_job(access: Synthesized) -> dict[str, Any]:
    (role,) = access.resources("access", "AWS::IAM::Role").values()
    (policy,) = role["Properties"]["Policies"]
    return resolved(access, policy["PolicyDocument"])


@pytest.fixture(scope="module")
def of_the_launcher(access: Synthesized) -> dict[str, Any]:
    return of_launchers(access, "LauncherPolicy")


@pytest.mark.parametrize(("action", "resource", "context"), JOB_CALLS)
def test_job_may(of_the_job: dict[str, Any], action: str, resource: str, context: Context) -> None:
    assert allows(of_the_job, action, resource, context)


@pytest.mark.parametrize(("action", "resource", "context"), FORBIDDEN_TO_JOBS)
def test_job_may_not(of_the_job: dict[str, Any], action: str, resource: str, context: Context) -> None:
    assert not allows(of_the_job, action, resource, context)


@pytest.mark.parametrize(("action", "resource", "context"), LAUNCHER_CALLS)
def test_launcher_may(of_the_launcher: dict[str, Any], action: str, resource: str, context: Context) -> None:
    assert allows(of_the_launcher, action, resource, context)


@pytest.mark.parametrize(("action", "resource", "context"), FORBIDDEN_TO_LAUNCHERS)
def test_launcher_may_not(
    of_the_launcher: dict[str, Any], action: str, resource: str, context: Context
) -> None:
    assert not allows(of_the_launcher, action, resource, context)


@pytest.mark.parametrize("action", ["CreateTrainingJob", "CreateHyperParameterTuningJob"])
@pytest.mark.parametrize(
    "context",
    [
        pytest.param(OUR_TAG, id="no network at all"),
        pytest.param(without("sagemaker:VpcSubnets", A_JOB_OF_OURS), id="no subnets"),
        pytest.param(without("sagemaker:VpcSecurityGroupIds", A_JOB_OF_OURS), id="no groups"),
        pytest.param({**A_JOB_OF_OURS, "sagemaker:VpcSubnets": []}, id="an empty list of subnets"),
        pytest.param(
            {**A_JOB_OF_OURS, "sagemaker:VpcSubnets": [SUBNET_ID, "subnet-of-others"]}, id="another subnet"
        ),
        pytest.param(
            {**A_JOB_OF_OURS, "sagemaker:VpcSecurityGroupIds": [GROUP_ID, "sg-of-others"]}, id="another group"
        ),
        pytest.param(IN_OUR_NETWORK, id="no tag"),
        pytest.param({**A_JOB_OF_OURS, **OF_PRODUCTION}, id="another cluster's tag"),
    ],
)
def test_the_network_of_the_cluster_cannot_be_left(
    of_the_launcher: dict[str, Any], action: str, context: Context
) -> None:
    for job in (JOB, TUNING_JOB, PLAN, CAPACITY):
        assert not allows(of_the_launcher, f"sagemaker:{action}", job, context)


def test_no_action_is_a_wildcard(of_the_job: dict[str, Any], of_the_launcher: dict[str, Any]) -> None:
    for document in (of_the_job, of_the_launcher):
        assert not [each for each in document["Statement"] if "*" in str(each["Action"])]


def test_nothing_is_said_of_what_the_cluster_does_not_have() -> None:
    text = str(synthesize(dev_spec(lustre=None)).template("access"))

    assert not [what for what in ("kms:", "batch:", "fsx:", "ReadData", "LookAtOnesRole") if what in text]


def of_launchers(access: Synthesized, policy: str) -> dict[str, Any]:
    """The statements of a policy and of those that hold what did not fit into it."""
    documents = [
        resolved(access, each["Properties"]["PolicyDocument"])
        for name, each in access.resources("access", "AWS::IAM::ManagedPolicy").items()
        if name.startswith(policy)
    ]
    return {"Statement": [statement for each in documents for statement in each["Statement"]]}


def resolved(access: Synthesized, document: Any) -> Any:
    """The document with the ARNs of the cluster's own resources replaced by the short ones above."""
    names = {"AWS::Partition": "aws", "AWS::AccountId": ACCOUNT}
    (role,) = access.resources("access", "AWS::IAM::Role")
    names[f"{role}.Arn"] = ROLE
    for part, arn in (("storage", KEY), ("queue", QUEUE)):
        (read,) = [
            name
            for name, output in access.template(part)["Outputs"].items()
            if "Export" not in output and output["Value"].get("Fn::GetAtt", [""])[-1].endswith("Arn")
        ]
        names[read] = arn
    return shortened(flat(document, names))


def shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shortened(each) for each in value]
    for part, text in (
        ("subnet/<", SUBNET), ("security-group/<", GROUP),
        ("TrainingSubnet", SUBNET_ID), ("trainingSubnet", SUBNET_ID), ("WeakEfa", GROUP_ID),
    ):  # fmt: skip
        if part in value:
            return text
    return value
