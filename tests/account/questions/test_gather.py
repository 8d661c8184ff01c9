"""All facts of the live stage: what a healthy account gives, and what each fault leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from launcher.account.facts import AccountFacts, Permissions, Prefix, Unverified
from launcher.account.questions.gather import gather
from launcher.failure_modes.model import Unreachable, UnusableSession
from launcher.planning.request_view import RequestView
from launcher.session.account_checks import wanted_facts
from tests.emulator.account import (
    BUCKETS,
    INSTANCE_TYPE,
    REGION,
    EmulatedAccount,
    allow,
    create_role,
    emulated_account,
)
from tests.emulator.faults import ODD, PAGE_500, THROTTLED, Fault
from tests.emulator.faulty_clients import FaultyClients

LOOKED_INTO = ("s3://team-data/train", "s3://team-checkpoints/digits-20261121")
REFUSED = Fault("refused", 403, "AccessDenied", "not you")
QUOTA = f"{INSTANCE_TYPE} for training job usage"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAccount]:
    # Throttled calls are tried again after a pause, which no test should wait for.
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    with emulated_account() as made:
        yield made


def facts_of(account: EmulatedAccount, clients: Any = None, **changes: Any) -> AccountFacts:
    return gather(clients or FaultyClients(), wanted_facts(RequestView(account.request(**changes)), REGION))


def unverified(facts: AccountFacts) -> dict[str, Unverified]:
    """The open facts by field, with the key of those that are one of several."""
    found: dict[str, Unverified] = {}
    for name in AccountFacts.__slots__:
        value = getattr(facts, name)
        several = value.items() if isinstance(value, dict) else [("", value)]
        found |= {f"{name} {key}".strip(): each for key, each in several if isinstance(each, Unverified)}
    return found


def test_a_healthy_account_leaves_nothing_open(account: EmulatedAccount) -> None:
    assert unverified(facts_of(account)) == {}


def test_the_network_is_that_of_the_subnets(account: EmulatedAccount) -> None:
    other = account.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    account.client("ec2").create_vpc_endpoint(VpcId=other, ServiceName=f"com.amazonaws.{REGION}.s3")

    facts = facts_of(account)

    assert [each.id for each in facts.subnets or ()] == [account.ids["subnet"]]
    assert [each.id for each in facts.groups or ()] == [account.ids["group"]]
    assert {each.vpc_id for each in (*facts.route_tables, *facts.endpoints)} == {account.ids["vpc"]}
    assert [each.main for each in facts.route_tables] == [False, True]
    assert [each.id for each in facts.endpoint_groups or ()] == [account.ids["endpoint_group"]]
    assert [each.subnet_ids for each in facts.acls or ()] == [(account.ids["subnet"],)]
    assert facts.offered_in
    assert f"{REGION}a" in facts.offered_in


def test_the_file_system_comes_with_its_groups_zone_and_links(account: EmulatedAccount) -> None:
    id_ = account.ids["file_system"]
    account.associations[id_] = [
        {
            "AssociationId": "dra-0",
            "FileSystemPath": "/corpus",
            "Lifecycle": "MISCONFIGURED",
            "FailureDetails": {"Message": "Amazon FSx is unable to access the S3 bucket"},
        }
    ]
    account.lifecycles[id_] = "MISCONFIGURED"

    facts = facts_of(account)

    assert facts.file_system.lifecycle == "MISCONFIGURED"
    assert facts.file_system.availability_zone == f"{REGION}a"
    assert facts.file_system.security_group_ids == (account.ids["file_system_group"],)
    assert [each.id for each in facts.file_system_groups] == [account.ids["file_system_group"]]
    assert [(each.path, each.lifecycle, each.failure) for each in facts.associations] == [
        ("/corpus", "MISCONFIGURED", "Amazon FSx is unable to access the S3 bucket")
    ]


def test_a_file_system_in_another_subnet_is_followed_there(account: EmulatedAccount) -> None:
    ec2 = account.client("ec2")
    made = ec2.create_subnet(VpcId=account.ids["vpc"], CidrBlock="10.0.8.0/24", AvailabilityZone=f"{REGION}b")
    elsewhere = made["Subnet"]["SubnetId"]

    facts = facts_of(account, VpcConfig={"Subnets": [elsewhere], "SecurityGroupIds": [account.ids["group"]]})

    assert facts.subnets[0].id == elsewhere
    assert facts.file_system.availability_zone == f"{REGION}a"
    assert facts.file_system.security_group_ids == (account.ids["file_system_group"],)
    assert [each.id for each in facts.file_system_groups] == [account.ids["file_system_group"]]


def test_groups_beyond_the_first_answer_are_asked_for_by_id(
    account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an account with more groups, or interfaces, than one answer holds."""
    monkeypatch.setattr("launcher.account.questions.ask_network.fetch_some_security_groups", lambda _: ())
    monkeypatch.setattr("launcher.account.questions.ask_storage.fetch_some_interfaces", lambda *_: ())

    facts = facts_of(account)

    assert [each.id for each in facts.endpoint_groups] == [account.ids["endpoint_group"]]
    assert [each.id for each in facts.file_system_groups] == [account.ids["file_system_group"]]


def test_buckets_and_prefixes_are_looked_into_but_not_the_code(account: EmulatedAccount) -> None:
    facts = facts_of(account)

    assert set(facts.buckets) == {"team-code", "team-data", "team-checkpoints", "team-output"}
    assert all(bucket.region == REGION for bucket in facts.buckets.values())
    data, checkpoints = LOOKED_INTO
    assert facts.prefixes == {data: Prefix(data, 3, 12), checkpoints: Prefix(checkpoints, 0)}


def test_what_does_not_exist_is_none_and_not_open(account: EmulatedAccount) -> None:
    request = {
        "RoleArn": account.role_arn + "-2",
        "OutputDataConfig": {"S3OutputPath": "s3://nowhere-at-all/"},
        "AlgorithmSpecification": {"TrainingImage": account.image + "-2"},
    }
    account.client("fsx").delete_file_system(FileSystemId=account.ids["file_system"])

    facts = facts_of(account, **request)

    assert unverified(facts) == {}
    gone = (facts.role, facts.permissions, facts.buckets["nowhere-at-all"], facts.file_system)
    assert gone == (None,) * 4
    assert not facts.image.exists


def test_a_job_outside_of_a_vpc_asks_nothing_about_networks(account: EmulatedAccount) -> None:
    clients = FaultyClients()
    channels = [each for each in account.request()["InputDataConfig"] if each["ChannelName"] != "corpus"]

    facts = facts_of(account, clients, VpcConfig=None, InputDataConfig=channels)

    assert (facts.subnets, facts.groups, facts.endpoints, facts.file_system) == (None, None, None, None)
    asked = {call for call in clients.calls if call.startswith("ec2.")}
    assert asked == {"ec2.DescribeInstanceTypeOfferings"}


def test_hosts_of_other_jobs_count_against_the_quota(account: EmulatedAccount) -> None:
    for number, status in enumerate(["InProgress", "InProgress", "Stopping", "Completed"]):
        account.running_jobs.append(job(f"other-{number}", TrainingJobStatus=status))
    account.running_jobs.append(job("spot", EnableManagedSpotTraining=True))
    account.running_jobs.append(job("digits-20261121"))

    facts = facts_of(account)

    assert (facts.quota.limit, facts.quota.in_use) == (8.0, 9)
    assert [each.name for each in facts.running_jobs] == ["other-0", "other-1", "other-2", "spot"]
    assert facts.running_jobs[0].checkpoints == "s3://team-checkpoints/other-0"
    # The default counts where no quota is applied.
    del account.quotas[QUOTA]
    assert facts_of(account).quota.limit == 0.0


UNKNOWN = {"InstanceType": "ml.p9.48xlarge", "InstanceCount": 2, "KeepAlivePeriodInSeconds": 600}


def test_quotas_of_unknown_codes_are_looked_for_by_name_in_one_list(account: EmulatedAccount) -> None:
    assert facts_of(account, ResourceConfig=UNKNOWN).quota is None, "it is in no list"
    account.quotas["ml.p9.48xlarge for training job usage"] = 5.0
    account.default_quotas["ml.p9.48xlarge for training warm pool usage"] = 1.0
    account.default_quotas |= {f"ml.p9.{size}xlarge for endpoint usage": 3.0 for size in range(10)}
    clients = FaultyClients()

    facts = facts_of(account, clients, ResourceConfig=UNKNOWN)

    assert (facts.quota.limit, facts.warm_pool_quota.limit) == (5.0, 1.0)
    listing = "service-quotas.ListAWSDefaultServiceQuotas"
    assert clients.calls.count(listing) == 2, "the list is read no further than to the last of the names"
    assert clients.calls.count("service-quotas.GetServiceQuota") == 2


@pytest.mark.parametrize("call", ["ListAWSDefaultServiceQuotas", "GetServiceQuota"])
def test_quota_that_may_not_be_looked_for_is_open(account: EmulatedAccount, call: str) -> None:
    account.quotas["ml.p9.48xlarge for training job usage"] = 5.0

    refusing = FaultyClients(**{f"service-quotas.{call}": REFUSED})
    assert facts_of(account, refusing, ResourceConfig=UNKNOWN).quota.permission == f"servicequotas:{call}"


def test_code_that_leads_to_another_quota_is_not_believed(
    account: EmulatedAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.quotas["ml.g5.xlarge for training job usage"] = 99.0
    wrong = "L-B6D80D9C"
    monkeypatch.setattr("launcher.account.questions.ask_capacity.known_code", lambda name: wrong)

    assert facts_of(account).quota.limit == 8.0


def test_role_without_a_permission_is_told_what_it_lacks(account: EmulatedAccount) -> None:
    allow(account, "training", "s3:GetObject", "s3:ListBucket", "ecr:*", "logs:*", "cloudwatch:*", "ec2:*")

    permissions = facts_of(account).permissions

    assert {action for action, _ in permissions.denied} == {"s3:PutObject", "fsx:DescribeFileSystems"}
    assert ("s3:PutObject", "arn:aws:s3:::team-output/*") in permissions.denied


def test_key_may_let_the_role_in_by_its_own_policy(account: EmulatedAccount) -> None:
    allow(account, "training", "s3:*", "ecr:*", "logs:*", "cloudwatch:*", "ec2:*", "fsx:*")
    key = f"arn:aws:kms:{REGION}:123456789012:key/1"

    facts = facts_of(account, OutputDataConfig={"S3OutputPath": "s3://team-output/", "KmsKeyId": key})

    assert facts.permissions.denied == ()
    assert facts.permissions.undecided == (("kms:Decrypt", key), ("kms:GenerateDataKey", key))


def test_caller_who_may_not_pass_the_role_is_told(account: EmulatedAccount) -> None:
    allow(account, "team", "sagemaker:CreateTrainingJob")

    assert facts_of(account).caller == Permissions(
        "arn:aws:iam::123456789012:role/team", (("iam:PassRole", account.role_arn),)
    )


def test_role_of_the_caller_is_found_under_its_path(account: EmulatedAccount) -> None:
    """As the roles of IAM Identity Center are."""
    arn = create_role(account, "sso", {"AWS": "arn:aws:iam::123456789012:root"}, "/aws-reserved/sso/")
    account.caller = "arn:aws:sts::123456789012:assumed-role/sso/alice"
    allow(account, "sso", "iam:PassRole")

    caller = facts_of(account).caller

    assert caller.principal == arn
    assert [action for action, _ in caller.denied] == ["sagemaker:CreateTrainingJob"]


@pytest.mark.parametrize(
    ("arn", "found"),
    [
        ("arn:aws:iam::123456789012:root", Permissions("arn:aws:iam::123456789012:root", ())),
        ("arn:aws:sts::123456789012:federated-user/alice", "iam:SimulatePrincipalPolicy"),
    ],
)
def test_caller_without_policies_of_its_own(account: EmulatedAccount, arn: str, found: Any) -> None:
    caller = gather(FaultyClients(), wanted_facts(RequestView(account.request()), REGION), caller=arn).caller

    assert (caller.permission if isinstance(caller, Unverified) else caller) == found


REFUSALS = {
    "ec2.DescribeSubnets": "subnets",
    "ec2.DescribeSecurityGroups": "groups endpoint_groups file_system_groups",
    "ec2.DescribeRouteTables": "route_tables",
    "ec2.DescribeVpcEndpoints": "endpoints endpoint_groups",
    "ec2.DescribeNetworkAcls": "acls",
    "ec2.DescribeNetworkInterfaces": "file_system_groups",
    "ec2.DescribeInstanceTypeOfferings": "offered_in",
    "fsx.DescribeFileSystems": "file_system file_system_groups",
    "fsx.DescribeDataRepositoryAssociations": "associations",
    "iam.GetRole": "role",
    "iam.SimulatePrincipalPolicy": "permissions caller",
    "sts.GetCallerIdentity": "caller",
    "ecr.BatchGetImage": "image",
    "service-quotas.GetServiceQuota": "quota",
    "sagemaker.Search": "running_jobs quota",
    "s3.HeadBucket": "buckets",
    "s3.ListObjectsV2": "prefixes",
    "s3.GetBucketEncryption": "encryption",
}
"""The facts that a refused call leaves open."""
PERMISSIONS = {
    "s3.HeadBucket": "s3:ListBucket",
    "s3.ListObjectsV2": "s3:ListBucket",
    "s3.GetBucketEncryption": "s3:GetEncryptionConfiguration",
}
"""Those that are not called as the call is."""
SEVERAL = {"buckets": BUCKETS, "encryption": BUCKETS, "prefixes": LOOKED_INTO}


@pytest.mark.few_cases(every=6)
@pytest.mark.parametrize("call", REFUSALS)
def test_refused_call_leaves_its_facts_open_and_no_others(account: EmulatedAccount, call: str) -> None:
    found = unverified(facts_of(account, FaultyClients(**{call: REFUSED})))

    fields = {f"{name} {key}".strip() for name in REFUSALS[call].split() for key in SEVERAL.get(name, ("",))}
    assert set(found) == fields
    permission = PERMISSIONS.get(call) or call.replace(".", ":").replace("service-quotas", "servicequotas")
    assert {each.permission for each in found.values()} == {permission}
    assert all("AWS refused to" in each.reason for each in found.values())


def test_denial_that_is_certain_outweighs_a_simulation_that_was_not_had(account: EmulatedAccount) -> None:
    allow(account, "training", "s3:GetObject")
    clients = FaultyClients()
    refused = clients.rule("iam.SimulatePrincipalPolicy", REFUSED)

    assert facts_of(account, clients).permissions.denied
    assert refused.calls > 1


def test_limit_that_is_too_low_is_certain_without_the_running_jobs(account: EmulatedAccount) -> None:
    account.quotas[QUOTA] = 1.0

    assert facts_of(account, FaultyClients(sagemaker__Search=REFUSED)).quota.limit == 1.0


def test_throttled_call_is_tried_again_before_it_is_given_up(account: EmulatedAccount) -> None:
    clients = FaultyClients(ecr__BatchGetImage=THROTTLED)

    image = facts_of(account, clients).image

    assert "ThrottlingException" in image.reason
    assert clients.calls.count("ecr.BatchGetImage") == 3


NOWHERE = EndpointConnectionError(endpoint_url="https://nowhere.invalid")
ONE_REFUSAL = [
    *((Fault("bad credentials", 403, code), UnusableSession, code)
      for code in ("ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId")),
    (NOWHERE, Unreachable, "cannot be reached"),
    (NoCredentialsError(), UnusableSession, "no AWS credentials"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "refusal", "said"), ONE_REFUSAL)
def test_what_every_call_meets_is_one_refusal_and_not_forty(
    account: EmulatedAccount, fault: Any, refusal: type[Exception], said: str
) -> None:
    with pytest.raises(refusal, match=said):
        facts_of(account, FaultyClients(all=fault))


def test_progress_ends_with_every_question_answered(account: EmulatedAccount) -> None:
    reports: list[tuple[int, int, str]] = []

    gather(
        FaultyClients(),
        wanted_facts(RequestView(account.request()), REGION),
        on_answer=lambda *each: reports.append(each),
    )

    assert reports[0][0] == 0
    assert reports[0][2] == "who you are"
    assert reports[-1][0] == reports[-1][1]
    assert reports[-1][2] == ""


def job(name: str, **changes: Any) -> dict[str, Any]:
    """A running job of three hosts, as Search describes it."""
    return {
        "TrainingJobName": name,
        "TrainingJobStatus": "InProgress",
        "ResourceConfig": {"InstanceType": INSTANCE_TYPE, "InstanceCount": 3},
        "CheckpointConfig": {"S3Uri": f"s3://team-checkpoints/{name}"},
        **changes,
    }


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("fault", ODD, ids=lambda fault: fault.name)
def test_odd_answers_leave_facts_open_and_are_no_verdict(account: EmulatedAccount, fault: Fault) -> None:
    facts = facts_of(account, FaultyClients(s3__ListObjectsV2=fault, ecr__BatchGetImage=fault))

    assert {name.partition(" ")[0] for name in unverified(facts)} == {"image", "prefixes"}


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("fault", [*ODD, PAGE_500], ids=lambda fault: fault.name)
def test_a_portal_in_place_of_all_of_aws_is_a_network_without_aws(
    account: EmulatedAccount, fault: Fault
) -> None:
    with pytest.raises(Unreachable, match="not AWS"):
        facts_of(account, FaultyClients(all=fault))
