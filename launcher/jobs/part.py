"""What all parts of the job file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of the job file: unknown fields are errors, nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)
