"""`ladder`: what the script is told on the rungs of `launch ladder`, where its parser does not show it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from launcher.documents.document import AsWritten, is_null
from launcher.jobs.values import Part, ScalarText, scalar_text

Told = dict[str, str] | list[ScalarText]
"""Hyperparameters by name, or words that are put behind `code.arguments`."""


def _told(value: Any) -> Any:
    """Words as texts, and each hyperparameter as the text that the file has."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or not value:
        raise ValueError("write hyperparameters, such as {max_steps: 5}, or a list of arguments")
    for name, item in value.items():
        if is_null(item):
            raise ValueError(f"{name} has no value")
    return {name: item if isinstance(item, AsWritten) else scalar_text(item) for name, item in value.items()}


class Ladder(Part):
    """What the script is told so that a rung is short, and so that it needs no data."""

    few_steps: Annotated[Told | None, BeforeValidator(_told)] = Field(
        None,
        description="Hyperparameters such as {max_steps: 5}, or a list of arguments, for a few steps.",
    )
    synthetic: Annotated[Told | None, BeforeValidator(_told)] = Field(
        None,
        description="The same for synthetic data: {synthetic: true}, or [--synthetic].",
    )
