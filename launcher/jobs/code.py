"""`code` and `framework`: what a job runs, and in which container."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from launcher.jobs.values import Part, ScalarText

DEFAULT_REQUIREMENTS = "requirements.txt"
"""What is installed where the job file does not say otherwise; the images' toolkit knows only this name."""

NO_REQUIREMENTS = "none"
"""What `code.requirements` says where nothing is to be installed."""


class Code(Part):
    """The training code: a folder beside the job file, the script in it, and what the script is given."""

    source_dir: str = Field(".", description="Folder of the code, relative to the job file.")
    entry_point: str = Field(description="The script to run, relative to source_dir.", min_length=1)
    arguments: list[ScalarText] = Field([], description="Arguments for the script.")
    requirements: str | None = Field(
        None,
        min_length=1,
        description="Which file's packages are installed with pip before the script starts, relative to "
        "source_dir: `requirements.txt` where it is there, unless another is named. `none` installs nothing.",
    )

    @property
    def requirements_file(self) -> str | None:
        """The file to install, where it is there; None where nothing is to be installed."""
        if self.requirements == NO_REQUIREMENTS:
            return None
        return self.requirements or DEFAULT_REQUIREMENTS


class Framework(Part):
    """An AWS deep learning container, by framework."""

    name: Literal["pytorch"] = Field("pytorch", description="The framework.")
    version: ScalarText = Field(description="The framework's version, such as 2.8.0 or 2.8.")
    python: str | None = Field(None, pattern=r"^py\d{2,3}$", description="Such as py312.")
