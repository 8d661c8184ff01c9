"""`code` and `framework`: what a job runs, and in which container."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from launcher.documents.validation import refusal
from launcher.jobs.values import Part, ScalarText
from launcher.text.uris import BUCKET_NAME

_ARCHIVE_ON_S3 = re.compile(rf"s3://{BUCKET_NAME}/.+\.(tar\.gz|tgz)")

ArgumentStyle = Literal["spaced", "equals", "hydra", "none"]

_NAME = "[A-Za-z_][A-Za-z0-9_]*"

DEFAULT_REQUIREMENTS = "requirements.txt"
"""What is installed where the job file does not say otherwise; the images' toolkit knows only this name."""

NO_REQUIREMENTS = "none"
"""What `code.requirements` says where nothing is to be installed."""


class Code(Part):
    """The training code: a folder or archive, what of it is started, and what that is given."""

    source_dir: str = Field(
        ".",
        description="Folder of the code, or a .tar.gz of it, relative to the job file; or s3://bucket/KEY.tar.gz.",
    )
    entry_point: str | None = Field(
        None, description="The script to run, relative to source_dir; .sh with strategy none.", min_length=1
    )
    module: str | None = Field(
        None,
        pattern=rf"^{_NAME}(\.{_NAME})*$",
        description="Instead of entry_point: what `python -m` runs, such as package.train.",
    )
    arguments: list[ScalarText] = Field([], description="Arguments for the script.")
    argument_style: ArgumentStyle = Field(
        "spaced",
        description="How hyperparameters are passed: --lr 0.1, --lr=0.1, lr=0.1, or only in SM_HPS.",
    )
    requirements: str | None = Field(
        None,
        min_length=1,
        description="Which file's packages are installed with pip before the script starts, relative to "
        "source_dir: `requirements.txt` where it is there, unless another is named. `none` installs nothing.",
    )

    @property
    def program(self) -> str:
        """What is started, in words: the script's path, or `-m` and the module."""
        return self.entry_point or f"-m {self.module}"

    @property
    def requirements_file(self) -> str | None:
        """The file to install, where it is there; None where nothing is to be installed."""
        if self.requirements == NO_REQUIREMENTS:
            return None
        return self.requirements or DEFAULT_REQUIREMENTS

    @model_validator(mode="after")
    def _one_program(self) -> Code:
        if self.entry_point is not None and self.module is not None:
            raise refusal(
                f"both entry_point ({self.entry_point}) and module ({self.module}) are given, and only one "
                "program is started",
                remedy="Keep `entry_point` for a script, or `module` for what `python -m` runs.",
                below=("module",),
            )
        if self.entry_point is None and self.module is None:
            raise refusal(
                "neither entry_point nor module is given: nothing would be started",
                remedy="Name a script of the source directory as `entry_point: train.py`, or a module as "
                "`module: package.train`.",
            )
        return self

    @field_validator("source_dir")
    @classmethod
    def _on_s3_is_an_archive(cls, value: str) -> str:
        if value.startswith("s3://") and not _ARCHIVE_ON_S3.fullmatch(value):
            raise refusal(
                f"{value} is not an archive on S3",
                remedy="Write it as s3://bucket/source.tar.gz, or give a folder beside the job file.",
            )
        return value


LATEST = "latest"
"""In place of a version: the newest patched one that runs the job (launcher.planning.version_choice)."""


class Framework(Part):
    """An AWS deep learning container, by framework."""

    name: Literal["pytorch", "tensorflow"] = Field("pytorch", description="The framework.")
    version: ScalarText = Field(
        LATEST, description="Such as 2.8.0 or 2.8; latest: the newest patched one that runs the job."
    )
    python: str | None = Field(None, pattern=r"^py\d{1,3}$", description="Such as py312.")
