"""The request of a job that goes on where an earlier one ended: the earlier request, rewritten."""

from __future__ import annotations

import re
from copy import deepcopy

from launcher.jobs.checkpoint import CHECKPOINT_URI_VARIABLE
from launcher.jobs.specification import MAX_NAME_LENGTH
from launcher.planning.naming import job_name
from launcher.planning.training_plan import Request

RESUMED_FROM_TAG = "slipway:resumed-from"
"""The tag with the name of the job that a resumed one goes on from."""

_TOLD_OF_RESOURCES = ("SelectedInstanceType", "SelectedInstanceCount")
"""What a description says of a job's hosts and no request may (SageMaker API reference, ResourceConfig)."""

_UNIQUE_PART = re.compile(r"-[0-9a-hjkmnp-tv-z]{17}$")


def resumed_name(earlier: str, unique: str) -> str:
    """The new job's name: the earlier one's base, with another unique part."""
    base = _UNIQUE_PART.sub("", earlier)[:MAX_NAME_LENGTH].rstrip("-")
    return job_name(base, unique)


def is_resumable(request: Request) -> bool:
    """Whether what `resumed_request` changes is as the API has it where it is there: a file may be spoilt."""
    tags = request.get("Tags", [])
    sections = [request.get(name, {}) for name in ("ResourceConfig", "CheckpointConfig", "Environment")]
    return (
        all(isinstance(section, dict) for section in sections)
        and all(isinstance(value, str) for section in sections[1:] for value in section.values())
        and isinstance(tags, list)
        and all(isinstance(tag, dict) and isinstance(tag.get("Key"), str) for tag in tags)
    )


def resumed_request(request: Request, earlier: str, name: str) -> Request:
    """The same request under a new name, with a checkpoint prefix of its own and a tag that tells its origin.

    Everything else stays, the code's prefix too: the new job runs what the earlier one ran.
    """
    new = deepcopy(request)
    new["TrainingJobName"] = name
    for told in _TOLD_OF_RESOURCES:
        new.get("ResourceConfig", {}).pop(told, None)
    if "S3Uri" in new.get("CheckpointConfig", {}):
        new["CheckpointConfig"]["S3Uri"] = _moved(new["CheckpointConfig"]["S3Uri"], earlier, name)
    environment = new.get("Environment", {})
    if CHECKPOINT_URI_VARIABLE in environment:
        environment[CHECKPOINT_URI_VARIABLE] = _moved(environment[CHECKPOINT_URI_VARIABLE], earlier, name)
    kept = [
        tag
        for tag in new.get("Tags", ())
        if tag["Key"] != RESUMED_FROM_TAG and not tag["Key"].startswith("aws:")
    ]
    new["Tags"] = [*kept, {"Key": RESUMED_FROM_TAG, "Value": earlier}]
    return new


def _moved(uri: str, earlier: str, name: str) -> str:
    """A prefix beside the earlier job's; below the same parent where it ends in the job's name."""
    prefix = uri.rstrip("/")
    return f"{prefix.removesuffix(f'/{earlier}')}/{name}"
