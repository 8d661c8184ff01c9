"""Who may do what with a cluster: its role and policies, new or adopted, secrets, and shells into jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from constructs.permissions import INLINE_POLICIES_SIZE, MANAGED_POLICY_SIZE

from launcher.cluster.names import SHELL_ACTIONS
from launcher.cluster.specification import MOST_SECRET_CHARACTERS, MOST_SECRETS
from launcher.cluster.updates import deployed_cluster_file
from tests.emulator.iam_policy import Context, allows, flat
from tests.stacks.synthesis import ROOT, Synthesized, changed_spec, dev_spec, synthesize

ACCOUNT, REGION = "111122223333", "us-west-2"
KEY, ROLE, QUEUE, SUBNET, GROUP = (
    f"arn:aws:our:{what}" for what in ("key", "role", "queue", "subnet", "group")
)
TOPIC, TOPIC_KEY, EVENTS, SCHEDULES, SCHEDULE_ROLE, ITS_LOG = (
    f"arn:aws:our:{what}" for what in ("topic", "topic-key", "events", "schedules", "schedule-role", "log")
)
SUBNET_ID, GROUP_ID = "subnet-of-ours", "sg-of-ours"
NAMES = {"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"}
CODE, CHECKPOINTS, OUTPUT = (f"arn:aws:s3:::{name}" for name in NAMES.values())
LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
JOB = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/llama-1"
TUNING_JOB = JOB.replace("training-job", "hyper-parameter-tuning-job")
PLAN = JOB.replace("training-job/llama-1", "training-plan/ours")
CAPACITY = JOB.replace("training-job/llama-1", "reserved-capacity/1a2b")
TEAM = f"arn:aws:iam::{ACCOUNT}:role/teams/research"

CALLS = yaml.safe_load((ROOT / "tests/stacks/allowed_calls.yaml").read_text("utf-8"))
WHERE_NOTHING_LIES, IN_OUR_NETWORK, A_JOB_OF_OURS, OUR_TAG, OF_OURS, OF_PRODUCTION, WHILE_IT_IS_CREATED = (
    CALLS["contexts"][name]
    for name in (
        "where nothing lies", "in our network", "a job of ours", "our tag", "of ours", "of production",
        "while it is created",
    )
)  # fmt: skip


def without(key: str, context: Context) -> Context:
    return {name: value for name, value in context.items() if name != key}


@pytest.fixture(scope="module")
def access() -> Synthesized:
    return synthesize(changed_spec("p5-large", buckets=NAMES, data_buckets=["our-data"], launchers=[TEAM]))


@pytest.fixture(scope="module")
def of_the_job(access: Synthesized) -> dict[str, Any]:
    (role,) = access.resources("access", "AWS::IAM::Role").values()
    (policy,) = role["Properties"]["Policies"]
    return resolved(access, policy["PolicyDocument"])


@pytest.fixture(scope="module")
def of_the_launcher(access: Synthesized) -> dict[str, Any]:
    return of_launchers(access, "LauncherPolicy")


@pytest.fixture(scope="module")
def of_the_controller(access: Synthesized) -> dict[str, Any]:
    roles = access.resources("managed", "AWS::IAM::Role")
    (role,) = [each for name, each in roles.items() if name.startswith("RunsRole")]
    (policy,) = role["Properties"]["Policies"]
    return resolved(access, policy["PolicyDocument"])


@pytest.mark.parametrize("who", ["jobs", "launchers", "the controller"])
@pytest.mark.parametrize("may", [True, False])
def test_what_is_called_is_allowed_and_no_more(
    of_the_job: dict[str, Any],
    of_the_launcher: dict[str, Any],
    of_the_controller: dict[str, Any],
    who: str,
    may: bool,
) -> None:
    policy = {"jobs": of_the_job, "launchers": of_the_launcher, "the controller": of_the_controller}[who]
    wrong = [
        (action, call)
        for call in CALLS[f"{who} may" if may else f"{who} may not"]
        for action in call["actions"]
        if allows(policy, action, call["resource"], call.get("context", {})) is not may
    ]
    assert wrong == []


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
    of_the_launcher: dict[str, Any], of_the_controller: dict[str, Any], action: str, context: Context
) -> None:
    for job in (JOB, TUNING_JOB, PLAN, CAPACITY):
        assert not allows(of_the_launcher, f"sagemaker:{action}", job, context)
        assert not allows(of_the_controller, f"sagemaker:{action}", job, context)


def test_no_action_is_a_wildcard(
    of_the_job: dict[str, Any], of_the_launcher: dict[str, Any], of_the_controller: dict[str, Any]
) -> None:
    for document in (of_the_job, of_the_launcher, of_the_controller):
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
        ("<WeakTrainingRole", ROLE), ("<WeakJobsTopic", TOPIC), ("<WeakJobsKey", TOPIC_KEY),
        ("<RunsEvents", EVENTS), ("<RunsScheduleRole", SCHEDULE_ROLE), ("<RunsLog", ITS_LOG),
        ("-Schedules-", f"{SCHEDULES}/*"),
    ):  # fmt: skip
        if part in value:
            return text
    return value


EXISTING_ROLE = "arn:aws:iam::111122223333:role/ml/training"
BOUNDARY = "arn:aws:iam::111122223333:policy/Boundary"
EXISTING_KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
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
    teams = {"research": {"launchers": [EXISTING_ROLE]}, "speech": {}}
    return of_launchers(synthesize(changed_spec("p5-large", buckets=NAMES, teams=teams)), "TeamResearch")


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
        ("s3:GetObject", f"{CODE}/runs/llama-1/run.json", {}),
        ("s3:PutObject", f"{CODE}/runs/llama-1/run.json", {}),
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


SECRETS = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:"
ELSEWHERE = "arn:aws:secretsmanager:eu-west-1:444455556666:secret:team/wandb-AbCdEf"
THROUGH_SECRETS = {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"}
PSEUDO_PARAMETERS = {"AWS::Partition": "aws", "AWS::AccountId": ACCOUNT, "AWS::Region": REGION}


@pytest.fixture(scope="module")
def cluster() -> Synthesized:
    return synthesize(changed_spec("isolated", secrets=["team/hf", ELSEWHERE], secret_keys=[EXISTING_KEY]))


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


def test_the_longest_names_fit_into_the_policies() -> None:
    longest = MOST_SECRET_CHARACTERS // MOST_SECRETS
    names = [f"{number:02}".ljust(longest, "n") for number in range(MOST_SECRETS)]
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
    assert max(sizes, default=0) <= MANAGED_POLICY_SIZE
    assert len(sizes) <= 1


@pytest.fixture(scope="module")
def debuggable() -> Synthesized:
    return synthesize(changed_spec("isolated", remote_debug=True))


@pytest.mark.parametrize("action", SHELL_ACTIONS)
def test_the_role_may_only_where_the_cluster_file_says_so(
    action: str, debuggable: Synthesized, isolated: Synthesized
) -> None:
    assert allows(of_the_jobs(debuggable), action, "*", {})
    assert not allows(of_the_jobs(isolated), action, "*", {})


def test_an_isolated_network_leads_to_secrets_and_shells_where_the_cluster_has_some(
    cluster: Synthesized, debuggable: Synthesized, isolated: Synthesized
) -> None:
    services = [
        str(each.resources("network", "AWS::EC2::VPCEndpoint")) for each in (cluster, debuggable, isolated)
    ]

    assert ["secretsmanager" in each for each in services] == [True, False, False]
    assert ["ssmmessages" in each for each in services] == [False, True, False]


def test_it_is_kept_with_the_deployment_only_where_it_is_on(
    debuggable: Synthesized, isolated: Synthesized
) -> None:
    assert (deployed_cluster_file(debuggable.template("manifest")) or {})["remote_debug"] is True
    assert "remote_debug" not in (deployed_cluster_file(isolated.template("manifest")) or {})
