"""Who may do what with a cluster: its role and policies, new or adopted, secrets, and shells into jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from constructs.permissions import INLINE_POLICIES_SIZE, MANAGED_POLICY_SIZE

from launcher.cluster.files import load_cluster_file
from launcher.cluster.names import SHELL_ACTIONS
from launcher.cluster.specification import MOST_SECRETS, ClusterSpec
from launcher.cluster.updates import deployed_cluster_file
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


EXISTING_ROLE = "arn:aws:iam::111122223333:role/ml/training"
BOUNDARY = "arn:aws:iam::111122223333:policy/Boundary"
EXISTING_KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
NAMES = {"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"}
IN_QUEUE = JOB.replace("llama-1", "AWSBatchresearch-llama-1a2b")


def actions_with(template: dict[str, Any], kind: str, key: str) -> set[str]:
    """The actions that policies of a kind allow on a key."""
    found: set[str] = set()
    for resource in template["Resources"].values():
        properties = resource["Properties"]
        documents = [
            properties.get("PolicyDocument"),
            *(each["PolicyDocument"] for each in properties.get("Policies", ())),
        ]
        for document in documents if resource["Type"] == kind else ():
            for statement in document["Statement"] if document else ():
                if key in statement["Resource"]:
                    actions = statement["Action"]
                    found |= {actions} if isinstance(actions, str) else set(actions)
    return found


@pytest.fixture(scope="module")
def on_a_role() -> Synthesized:
    return synthesize(dev_spec(role={"existing": EXISTING_ROLE}, observability={}))


def test_no_role_is_created_where_there_is_one(on_a_role: Synthesized) -> None:
    assert on_a_role.resources("access", "AWS::IAM::Role") == {}


def test_the_manifest_and_the_launchers_policy_name_the_existing_role(on_a_role: Synthesized) -> None:
    assert EXISTING_ROLE in str(on_a_role.template("manifest"))
    policy = of_launchers_of(on_a_role)

    assert allows(policy, "iam:PassRole", EXISTING_ROLE, {"iam:PassedToService": "sagemaker.amazonaws.com"})


def test_the_jobs_of_an_existing_role_are_watched(on_a_role: Synthesized) -> None:
    rules = on_a_role.resources("observability", "AWS::Events::Rule").values()

    assert [rule for rule in rules if EXISTING_ROLE in str(rule["Properties"]["EventPattern"])]


def test_a_boundary_is_on_every_role_also_on_those_of_the_cdk() -> None:
    cluster = synthesize(dev_spec(role={"permissions_boundary": BOUNDARY}))
    roles = {
        f"{part} {name}": role["Properties"].get("PermissionsBoundary")
        for part in cluster.parts
        for name, role in cluster.resources(part, "AWS::IAM::Role").items()
    }

    assert set(roles.values()) == {BOUNDARY}
    assert any("CustomVpcRestrictDefaultSG" in name for name in roles)


def test_without_a_boundary_no_role_has_one(dev: Synthesized) -> None:
    assert "PermissionsBoundary" not in str([dev.template(part) for part in dev.parts])


def test_jobs_read_with_the_keys_of_data_buckets() -> None:
    template = synthesize(dev_spec(data_buckets=["corpus"], data_keys=[EXISTING_KEY])).template("access")

    assert actions_with(template, "AWS::IAM::Role", EXISTING_KEY) == {"kms:Decrypt"}
    assert actions_with(template, "AWS::IAM::ManagedPolicy", EXISTING_KEY) == set()


def test_jobs_and_launchers_write_with_the_keys_of_existing_buckets() -> None:
    template = synthesize(dev_spec(buckets=NAMES, data_keys=[EXISTING_KEY])).template("access")

    for kind in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"):
        assert actions_with(template, kind, EXISTING_KEY) == {"kms:Decrypt", "kms:GenerateDataKey"}


@pytest.fixture(scope="module")
def of_the_team() -> dict[str, Any]:
    spec = load_cluster_file(ROOT / "clusters" / "p5-large.yaml").model_dump()
    teams = {"research": {"launchers": [EXISTING_ROLE]}, "speech": {}}
    return of_launchers(
        synthesize(ClusterSpec.model_validate({**spec, "buckets": NAMES, "teams": teams})), "TeamResearch"
    )


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("sagemaker:CreateTrainingJob", JOB, A_JOB_OF_OURS),
        ("sagemaker:CreateHyperParameterTuningJob", TUNING_JOB, A_JOB_OF_OURS),
        ("sagemaker:AddTags", JOB, WHILE_IT_IS_CREATED),
        ("sagemaker:StopTrainingJob", JOB, OF_OURS),
        ("sagemaker:UpdateTrainingJob", JOB, OF_OURS),
        ("sagemaker:DescribeTrainingJob", JOB, OF_OURS),
        ("s3:GetObject", f"{OUTPUT}/llama-1/model.tar.gz", {}),
        ("s3:GetObject", f"{CHECKPOINTS}/llama-1/1", {}),
        ("s3:PutObject", f"{CHECKPOINTS}/llama-1/1", {}),
        ("logs:GetLogEvents", f"{LOGS}:log-stream:llama-1/algo-1", {}),
    ],
)
def test_a_team_may_do_with_its_own_jobs_only(
    of_the_team: dict[str, Any], action: str, resource: str, context: Context
) -> None:
    assert allows(of_the_team, action, resource.replace("llama-1", "research-llama-1"), context)
    for others in ("llama-1", "speech-llama-1", "researcher-1", "a-research-1"):
        assert not allows(of_the_team, action, resource.replace("llama-1", others), context)


def test_a_team_may_follow_what_the_queue_makes_of_its_jobs(of_the_team: dict[str, Any]) -> None:
    assert allows(of_the_team, "sagemaker:DescribeTrainingJob", IN_QUEUE, OF_OURS)
    assert allows(
        of_the_team, "logs:GetLogEvents", f"{LOGS}:log-stream:AWSBatchresearch-llama-1a2b/algo-1", {}
    )
    assert not allows(of_the_team, "sagemaker:StopTrainingJob", IN_QUEUE, OF_OURS)
    assert not allows(
        of_the_team, "sagemaker:DescribeTrainingJob", IN_QUEUE.replace("research", "speech"), OF_OURS
    )


def test_code_is_shared_by_the_teams_and_written_once(of_the_team: dict[str, Any]) -> None:
    source = f"{CODE}/code/1a2b/source.tar.gz"

    assert allows(of_the_team, "s3:GetObject", source, {})
    assert allows(of_the_team, "s3:PutObject", source, WHERE_NOTHING_LIES)
    assert not allows(of_the_team, "s3:PutObject", source, {"s3:ObjectCreationOperation": "true"})


def test_a_team_asks_iam_about_its_own_roles(of_the_team: dict[str, Any]) -> None:
    assert allows(of_the_team, "iam:SimulatePrincipalPolicy", EXISTING_ROLE, {})


def test_each_team_has_an_output_with_its_policies() -> None:
    outputs = synthesize(dev_spec(teams={"research": {}, "speech-2": {}})).template("access")["Outputs"]

    assert {"LauncherPolicyArn", "TeamResearchPolicyArn", "TeamSpeech2PolicyArn"} <= set(outputs)


def of_launchers_of(cluster: Synthesized) -> dict[str, Any]:
    (policy,) = cluster.resources("access", "AWS::IAM::ManagedPolicy").values()
    document: dict[str, Any] = policy["Properties"]["PolicyDocument"]
    return {"Statement": [each for each in document["Statement"] if each["Resource"] == EXISTING_ROLE]}


SECRETS = "arn:aws:secretsmanager:us-west-2:111122223333:secret:"
ELSEWHERE = "arn:aws:secretsmanager:eu-west-1:444455556666:secret:team/wandb-AbCdEf"
THROUGH_SECRETS = {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"}
PSEUDO_PARAMETERS = {"AWS::Partition": "aws", "AWS::AccountId": "111122223333", "AWS::Region": "us-west-2"}


@pytest.fixture(scope="module")
def cluster() -> Synthesized:
    isolated = load_cluster_file(ROOT / "clusters" / "isolated.yaml").model_dump()
    secrets = {"secrets": ["team/hf", ELSEWHERE], "secret_keys": [EXISTING_KEY]}
    return synthesize(ClusterSpec.model_validate({**isolated, **secrets}))


def of_the_jobs(cluster: Synthesized) -> dict[str, Any]:
    (role,) = cluster.resources("access", "AWS::IAM::Role").values()
    statements = role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    return {"Statement": flat(statements, PSEUDO_PARAMETERS)}


@pytest.mark.parametrize(
    ("secret", "may"),
    [
        (f"{SECRETS}team/hf-AbCdEf", True),
        (f"{SECRETS}team/hf-other-AbCdEf", False),
        (f"{SECRETS}team/hf-AbCdEfg", False),
        (f"{SECRETS}other/team/hf-AbCdEf", False),
        (f"{SECRETS.replace('1111', '9999')}team/hf-AbCdEf", False),
        (ELSEWHERE, True),
        (ELSEWHERE.replace("AbCdEf", "XXXXXX"), False),
    ],
)
def test_the_role_reads_the_named_secrets_and_no_others(cluster: Synthesized, secret: str, may: bool) -> None:
    jobs = of_the_jobs(cluster)

    assert allows(jobs, "secretsmanager:GetSecretValue", secret, {}) is may
    assert not allows(jobs, "secretsmanager:PutSecretValue", secret, {})


def test_their_keys_decrypt_for_secrets_manager_alone(cluster: Synthesized) -> None:
    jobs = of_the_jobs(cluster)

    assert allows(jobs, "kms:Decrypt", EXISTING_KEY, THROUGH_SECRETS)
    assert not allows(jobs, "kms:Decrypt", EXISTING_KEY, {"kms:ViaService": "s3.us-west-2.amazonaws.com"})
    assert not allows(jobs, "kms:Decrypt", EXISTING_KEY, {})


def test_an_isolated_network_leads_to_them_where_there_are_any(
    cluster: Synthesized, isolated: Synthesized
) -> None:
    def leads(to: Synthesized) -> bool:
        return "secretsmanager" in str(to.resources("network", "AWS::EC2::VPCEndpoint"))

    assert leads(cluster)
    assert not leads(isolated)


def test_the_longest_names_fit_into_the_policies() -> None:
    names = [f"{number:02}{'n' * 510}" for number in range(MOST_SECRETS)]
    cluster = synthesize(dev_spec(secrets=names))
    (role,) = cluster.resources("access", "AWS::IAM::Role").values()
    managed = [
        each["Properties"]["PolicyDocument"]
        for name, each in cluster.resources("access", "AWS::IAM::ManagedPolicy").items()
        if name.startswith("TrainingRole")
    ]
    sizes = [len(json.dumps(flat(each, PSEUDO_PARAMETERS), separators=(",", ":"))) for each in managed]
    inline = json.dumps(flat(role["Properties"]["Policies"][0]["PolicyDocument"], PSEUDO_PARAMETERS))

    assert len(inline.replace(" ", "")) <= INLINE_POLICIES_SIZE
    assert max(sizes) <= MANAGED_POLICY_SIZE
    assert 1 <= len(sizes) <= 2


@pytest.fixture(scope="module")
def debuggable() -> Synthesized:
    file = load_cluster_file(ROOT / "clusters" / "isolated.yaml").model_dump()
    return synthesize(ClusterSpec.model_validate({**file, "remote_debug": True}))


def job_policy_of(cluster: Synthesized) -> dict[str, Any]:
    (role,) = cluster.resources("access", "AWS::IAM::Role").values()
    names = {"AWS::Partition": "aws", "AWS::AccountId": "111122223333", "AWS::Region": "us-west-2"}
    return {"Statement": flat(role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"], names)}


@pytest.mark.parametrize("action", SHELL_ACTIONS)
def test_the_role_may_only_where_the_cluster_file_says_so(
    action: str, debuggable: Synthesized, isolated: Synthesized
) -> None:
    assert allows(job_policy_of(debuggable), action, "*", {})
    assert not allows(job_policy_of(isolated), action, "*", {})


def test_the_network_leads_there_only_where_the_cluster_file_says_so(
    debuggable: Synthesized, isolated: Synthesized
) -> None:
    def leads(cluster: Synthesized) -> bool:
        return "ssmmessages" in str(cluster.resources("network", "AWS::EC2::VPCEndpoint"))

    assert leads(debuggable)
    assert not leads(isolated)


def test_it_is_kept_with_the_deployment_only_where_it_is_on(
    debuggable: Synthesized, isolated: Synthesized
) -> None:
    assert (deployed_cluster_file(debuggable.template("manifest")) or {})["remote_debug"] is True
    assert "remote_debug" not in (deployed_cluster_file(isolated.template("manifest")) or {})
