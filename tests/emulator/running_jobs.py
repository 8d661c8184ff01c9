"""SageMaker's Search over training jobs that have not ended; moto ends every job at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto.core.responses import ActionResult
from moto.sagemaker.responses import SageMakerResponse

PAGE = 2


@contextmanager
def emulated_search(jobs: list[dict[str, Any]]) -> Iterator[None]:
    """Within this, Search finds these training jobs, each as DescribeTrainingJob has them.

    A page holds two. Use inside `mock_aws`.
    """

    def search(response: SageMakerResponse) -> ActionResult:
        asked = json.loads(response.body)
        filters = asked["SearchExpression"]["Filters"]
        wanted = {each["Value"] for each in filters if each["Name"] == "TrainingJobStatus"}
        found = [{"TrainingJob": job} for job in jobs if job.get("TrainingJobStatus", "InProgress") in wanted]
        start = int(asked.get("NextToken") or 0)
        page: dict[str, Any] = {"Results": found[start : start + PAGE]}
        if start + PAGE < len(found):
            page["NextToken"] = str(start + PAGE)
        return ActionResult(page)

    with mock.patch.object(SageMakerResponse, "search", search):
        yield
