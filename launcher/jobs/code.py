"""`code` and `framework`: what a job runs, and in which container."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from launcher.documents.validation import refusal
from launcher.jobs.values import Part, ScalarText
from launcher.text.uris import BUCKET_NAME

_ARCHIVE_ON_S3 = re.compile(rf"s3://{BUCKET_NAME}/.+\.(tar\.gz|tgz)")


class Code(Part):
    """The training code: a folder or archive, the script in it, and what the script is given."""

    source_dir: str = Field(
        ".",
        description="Folder of the code, or a .tar.gz of it, relative to the job file; or s3://bucket/KEY.tar.gz.",
    )
    entry_point: str = Field(description="The script to run, relative to source_dir.", min_length=1)
    arguments: list[ScalarText] = Field([], description="Arguments for the script.")

    @field_validator("source_dir")
    @classmethod
    def _on_s3_is_an_archive(cls, value: str) -> str:
        if value.startswith("s3://") and not _ARCHIVE_ON_S3.fullmatch(value):
            raise refusal(
                f"{value} is not an archive on S3",
                remedy="Write it as s3://bucket/source.tar.gz, or give a folder beside the job file.",
            )
        return value


class Framework(Part):
    """An AWS deep learning container, by framework."""

    name: Literal["pytorch", "tensorflow"] = Field("pytorch", description="The framework.")
    version: ScalarText = Field(description="The framework's version, such as 2.8.0 or 2.8.")
    python: str | None = Field(None, pattern=r"^py\d{2,3}$", description="Such as py312.")
