"""The storage stack: what becomes of the data when it is deployed, changed and destroyed."""

from __future__ import annotations

import pytest

from tests.stacks.synthesis import Synthesized, dev_spec, synthesize

N = "NewerNoncurrentVersions"
HOLDING_DATA = {"AWS::S3::Bucket", "AWS::FSx::FileSystem", "AWS::KMS::Key"}


@pytest.mark.parametrize("policy", ["DeletionPolicy", "UpdateReplacePolicy"])
def test_retained_data_outlive_their_stack(large: Synthesized, policy: str) -> None:
    resources = large.template("storage")["Resources"].values()
    kept = [each for each in resources if each["Type"] in HOLDING_DATA]

    assert {each["Type"] for each in kept} == HOLDING_DATA
    assert {each[policy] for each in kept} == {"Retain"}


@pytest.mark.parametrize("policy", ["DeletionPolicy", "UpdateReplacePolicy"])
@pytest.mark.parametrize(
    "type_",
    [
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::S3::BucketPolicy",
    ],
)
def test_retained_data_stay_in_reach(large: Synthesized, type_: str, policy: str) -> None:
    found = large.resources("storage", type_).values()

    assert {each.get(policy) for each in found} == {"Retain"}


def test_links_of_a_retained_file_system_stay_but_make_room_for_others() -> None:
    links = [{"path": "/data", "s3_uri": "s3://corpus"}]
    lustre = {"deployment": "SCRATCH_2", "capacity_gib": 1200, "associations": links}
    storage = synthesize(dev_spec(lustre=lustre, removal_policy="retain"))
    (link,) = storage.resources("storage", "AWS::FSx::DataRepositoryAssociation").values()

    assert (link["DeletionPolicy"], link["UpdateReplacePolicy"]) == ("Retain", "Delete")


def test_nothing_of_a_cluster_to_destroy_is_retained(dev: Synthesized) -> None:
    for part in dev.parts:
        resources = dev.template(part)["Resources"].values()
        assert not [each for each in resources if each.get("DeletionPolicy") == "Retain"]


def test_stack_with_retained_data_cannot_be_deleted_by_mistake(large: Synthesized) -> None:
    assert large.stacks.storage.termination_protection is True
    assert not large.stacks.access.termination_protection


def test_data_of_the_dev_cluster_go_with_their_stack(dev: Synthesized) -> None:
    resources = dev.template("storage")["Resources"].values()

    assert {each["DeletionPolicy"] for each in resources if each["Type"] in HOLDING_DATA} == {"Delete"}
    assert not dev.stacks.storage.termination_protection


def test_file_system_and_buckets_have_the_key_of_the_cluster(large: Synthesized) -> None:
    (key,) = large.resources("storage", "AWS::KMS::Key")
    (file_system,) = large.resources("storage", "AWS::FSx::FileSystem").values()
    keys = [
        rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
        for bucket in large.resources("storage", "AWS::S3::Bucket").values()
        for rule in bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    ]

    assert file_system["Properties"]["KmsKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    # The fourth is the bucket of the access logs, into which S3 delivers only without a key.
    assert (keys.count({"Fn::GetAtt": [key, "Arn"]}), keys.count(None)) == (3, 1)


def test_existing_buckets_are_left_as_they_are() -> None:
    names = {"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"}
    storage = synthesize(dev_spec(buckets=names))

    assert not storage.resources("storage", "AWS::S3::Bucket")
    assert not storage.resources("storage", "AWS::S3::BucketPolicy")


def test_old_checkpoints_are_bounded_by_their_number() -> None:
    storage = synthesize(dev_spec(buckets={"checkpoint_versions": 3}))
    bounds = {
        name: [
            (
                rule["NoncurrentVersionExpiration"]["NoncurrentDays"],
                rule["NoncurrentVersionExpiration"].get(N),
            )
            for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]
            if "NoncurrentVersionExpiration" in rule
        ]
        for name, bucket in storage.resources("storage", "AWS::S3::Bucket").items()
    }

    (checkpoints,) = [bound for name, bound in bounds.items() if "Checkpoints" in name]
    assert checkpoints == [(14, None), (1, 3)]
    assert all((1, 3) not in bound for name, bound in bounds.items() if "Checkpoints" not in name)


def test_only_the_missing_buckets_are_created() -> None:
    storage = synthesize(dev_spec(buckets={"checkpoints": "our-checkpoints"}))

    assert len(storage.resources("storage", "AWS::S3::Bucket")) == 3  # code, output and the access logs


def test_stack_of_data_stands_after_the_network_only(large: Synthesized) -> None:
    assert [stack.stack_name for stack in large.stacks.storage.dependencies] == ["slipway-p5-large-network"]
