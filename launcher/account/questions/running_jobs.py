"""How the training jobs of a region that have not ended are asked for."""

from __future__ import annotations

from typing import Any

from launcher.account.running_jobs import RunningJob, parse_running_job
from launcher.aws.errors import aws_errors

_NOT_ENDED = ("InProgress", "Stopping")
_PAGE = 100
"""The most that SageMaker's Search answers at once."""


def fetch_running_jobs(sagemaker: Any) -> tuple[RunningJob, ...]:
    """All training jobs of the region that have not ended, the newest first, a hundred to a call.

    SageMaker's Search tells prefix and hosts of each at once; ListTrainingJobs knows neither, and would
    need a call for every job. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("look for running training jobs (sagemaker:Search)"):
        pages = sagemaker.get_paginator("search").paginate(
            Resource="TrainingJob",
            SearchExpression={
                "Operator": "Or",
                "Filters": [
                    {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": status}
                    for status in _NOT_ENDED
                ],
            },
            SortBy="CreationTime",
            SortOrder="Descending",
            PaginationConfig={"PageSize": _PAGE},
        )
        return tuple(
            parse_running_job(each["TrainingJob"])
            for page in pages
            for each in page["Results"]
            if "TrainingJob" in each
        )
