"""What the people who launch jobs may do with objects on S3: look, write code once, copy checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from constructs.permissions import Permission
from constructs.policy_sizes import in_chunks

from launcher.cluster.manifest import CODE_FOLDER


def object_permissions(code: str, checkpoints: str, output: str, *, team: str | None) -> list[Permission]:
    """The part of the launcher's policy that is about objects.

    `code`, `checkpoints` and `output` are the ARNs of the cluster's buckets. A team gets at what lies below
    the names of its own jobs. Nobody who launches may replace or delete code: others' jobs run it with the
    cluster's role. Source: Amazon S3 user guide, conditional-writes-enforce.
    """
    objects = "*" if team is None else f"{team}-*"
    objects_of_code = [f"{code}/{CODE_FOLDER}/*"]
    return [
        Permission(
            "LookIntoBuckets",
            ["s3:ListBucket", "s3:GetBucketLocation", "s3:GetEncryptionConfiguration"],
            [code, checkpoints, output],
            "Inputs and checkpoints are looked for before a job is submitted.",
        ),
        Permission(
            "CompareCode",
            ["s3:GetObject", "s3:AbortMultipartUpload"],
            objects_of_code,
            "Code goes under a key that its content decides; what lies there already is compared.",
        ),
        Permission(
            "UploadCode",
            ["s3:PutObject"],
            objects_of_code,
            "Code is created where none lies, and never replaced.",
            {"Null": {"s3:if-none-match": "false"}},
        ),
        Permission(
            "UploadPartsOfCode",
            ["s3:PutObject"],
            objects_of_code,
            "To start an upload in parts, and to send one, creates no object and takes no condition.",
            {"Bool": {"s3:ObjectCreationOperation": "false"}},
        ),
        Permission(
            "ReadResults",
            ["s3:GetObject"],
            [f"{checkpoints}/{objects}", f"{output}/{objects}"],
            "A job that resumes or is diagnosed is known by its name only.",
        ),
        Permission(
            "CopyCheckpoints",
            ["s3:PutObject", "s3:AbortMultipartUpload"],
            [f"{checkpoints}/{objects}"],
            "A job that resumes gets the newest checkpoint under its own key.",
        ),
    ]


def data_permissions(data: Sequence[str]) -> list[Permission]:
    """The part about further buckets that jobs read, by their ARNs: as many as fit into each statement."""
    return [
        Permission(
            f"LookIntoData{number}",
            ["s3:ListBucket", "s3:GetBucketLocation", "s3:GetEncryptionConfiguration"],
            list(buckets),
            "Inputs are looked for before a job is submitted.",
        )
        for number, buckets in in_chunks(data)
    ]
