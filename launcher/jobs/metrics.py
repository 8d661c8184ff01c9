"""`metrics`: what is read from the log of a job, by regular expressions."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints


def _with_one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(
            f"{pattern!r} has {groups or 'no'} groups; write one, ( ), around the number, and (?: ) "
            "for any other"
        )
    return pattern


MetricRegex = Annotated[
    str, StringConstraints(strip_whitespace=False, min_length=1), AfterValidator(_with_one_group)
]
"""A regular expression whose one group captures the number, searched in every line of the log.

Source: SageMaker developer guide, automatic-model-tuning-define-metrics-variables.
"""

MetricName = Annotated[str, Field(min_length=1, max_length=255)]
"""MetricName of the SageMaker API model."""
