"""`inputs`: the channels by which a job is given its data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from launcher.jobs.values import Part, S3Uri

RESERVED_CHANNEL = "code"
"""The channel in which the launcher ships the user's source and the boot."""


class Input(Part):
    """One input channel: from S3, or from the cluster's Lustre file system."""

    s3_uri: S3Uri | None = Field(None, description="s3://bucket/prefix")
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"
    mode: Literal["File", "FastFile", "Pipe"] = "File"
    lustre: str | None = Field(None, pattern=r"^/", description="Path below the file system's mount.")
    access: Literal["ro", "rw"] = "ro"

    @model_validator(mode="after")
    def _one_source(self) -> Input:
        if (self.s3_uri is None) == (self.lustre is None):
            raise ValueError("give exactly one of s3_uri and lustre")
        return self


def _input(value: Any) -> Any:
    return {"s3_uri": value} if isinstance(value, str) else value


ChannelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-_]{1,64}$")]
"""As SageMaker takes it (API reference, Channel)."""

Channel = Annotated[Input, BeforeValidator(_input, json_schema_input_type=S3Uri | Input)]
"""An S3 URI alone, or a mapping."""
