"""`checkpoint`: where checkpoints go, and who moves them there."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from launcher.documents.validation import refusal
from launcher.jobs.container_paths import DEFAULT_CHECKPOINT_PATH, channel_folder
from launcher.jobs.values import Part, S3Uri

CHECKPOINT_URI_VARIABLE = "SLIPWAY_CHECKPOINT_URI"
"""The environment variable with the S3 prefix to which checkpoints go that the service does not move."""

CHECKPOINT_DIR_VARIABLE = "SLIPWAY_CHECKPOINT_DIR"
"""The environment variable with the folder in which the script finds and saves checkpoints."""

CHECKPOINT_CHANNEL = "checkpoints"
"""The channel that mounts `checkpoint.lustre`; a user's own may be called so only without it."""


class Checkpoint(Part):
    """Where checkpoints go, in S3 or on Lustre; a part unique to the job is always appended."""

    s3_uri: S3Uri | None = Field(None, description="Default: the cluster's checkpoint bucket.")
    local_path: str = Field(DEFAULT_CHECKPOINT_PATH, pattern=r"^/", description="Where the script writes.")
    lustre: str | None = Field(
        None,
        pattern=r"^/",
        description="On the cluster's file system instead; "
        f"{CHECKPOINT_DIR_VARIABLE} is the job's directory.",
    )
    sync: Literal["sagemaker", "slipway"] = Field(
        "sagemaker",
        description="Who copies checkpoints to S3; slipway: the boot, while the job runs and at its end.",
    )
    resume_from: str | None = Field(None, description="A job's name or an S3 URI.")

    @model_validator(mode="after")
    def _one_place(self) -> Checkpoint:
        if self.lustre is None:
            return self
        if self.s3_uri is not None:
            raise ValueError("give one of s3_uri and lustre, not both")
        if self.sync == "slipway":
            raise refusal(
                "with `lustre` there is nothing to move: the script writes to the file system itself, which "
                "keeps what it gets",
                remedy="Remove `sync`, or give `s3_uri` instead of `lustre`.",
                below=("sync",),
            )
        if self.local_path != DEFAULT_CHECKPOINT_PATH:
            raise refusal(
                f"with `lustre` checkpoints are not at {self.local_path}: SageMaker mounts the file system "
                f"below {channel_folder(CHECKPOINT_CHANNEL)} and nowhere else",
                remedy="Remove `local_path`, and let the script read the place from "
                f"{CHECKPOINT_DIR_VARIABLE}.",
                below=("local_path",),
            )
        if self.resume_from is not None:
            raise refusal(
                "with `lustre` nothing can be copied before the job starts: the file system is mounted by "
                "jobs alone, and this one would start from the beginning",
                remedy="Mount the earlier job's directory and let the script load from it: `inputs: "
                f"{{earlier: {{lustre: {self.lustre.rstrip('/')}/NAME-OF-THE-JOB}}}}`.",
                below=("resume_from",),
            )
        return self
