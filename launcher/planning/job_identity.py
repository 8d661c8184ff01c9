"""Who a job is: its unique name, its tags, and what makes two plans the same launch.

A training job's name is its identity, its prefix and its idempotency key; it is unique to a launch. What is
the same for every launch of one request is its fingerprint; the name that a run gives to a request follows
from the run's id and that fingerprint, so that it is the same on every machine. The tags are the user's, and
the cluster's own, by which policies know whose job it is. A job that goes on where an earlier one ended sends
that one's request under another name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from launcher.cluster.manifest import CLUSTER_TAG, Cluster
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.job_sections import CHECKPOINT_URI_VARIABLE
from launcher.jobs.specification import MAX_NAME_LENGTH, JobSpec
from launcher.planning.training_plan import Request

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_LENGTH = 10
_RANDOM_LENGTH = 7

UNIQUE_LENGTH = _TIME_LENGTH + _RANDOM_LENGTH
"""Characters of a unique part."""

MAX_TUNING_JOB_NAME_LENGTH = 32
"""CreateHyperParameterTuningJob, HyperParameterTuningJobName (botocore service model)."""


def make_unique_part() -> str:
    """17 characters: the time in milliseconds, then 35 random bits, in Crockford's base 32.

    Parts sort by time, hold only lower-case letters and digits, and two of the same millisecond
    collide once in 34 billion.
    """
    milliseconds = time.time_ns() // 1_000_000
    # Of forty random bits _base32 takes the lowest 35. The module `secrets` would bring three others along.
    random = int.from_bytes(os.urandom(5))
    return _base32(milliseconds, _TIME_LENGTH) + _base32(random, _RANDOM_LENGTH)


def digest_part(digest: bytes) -> str:
    """The unique part that stands for a digest of at least 11 bytes: the same for the same digest.

    85 of its bits; two of a million parts are alike once in 77 trillion.
    """
    return _base32(int.from_bytes(digest), UNIQUE_LENGTH)


def make_job_name(base: str, unique: str) -> str:
    """The training job's name: the user's base and the unique part.

    A base of `MAX_NAME_LENGTH` makes the 63 characters that CreateTrainingJob takes (botocore service
    model, TrainingJobName).
    """
    return f"{base}-{unique}"


def _base32(number: int, length: int) -> str:
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(length)))


def job_tags(job: JobSpec, cluster_name: str | None) -> list[dict[str, str]]:
    """The tags of the request, in the API's words; the cluster's last, and none without a cluster."""
    own = {} if cluster_name is None else {CLUSTER_TAG: cluster_name}
    return [{"Key": key, "Value": value} for key, value in {**job.tags, **own}.items()]


def without_cluster_tag(request: dict[str, Any]) -> dict[str, Any]:
    """The request as it would be without the cluster's tag: what the user asked for."""
    kept = [tag for tag in request.get("Tags", ()) if tag["Key"] != CLUSTER_TAG]
    rest = {key: value for key, value in request.items() if key != "Tags"}
    return {**rest, "Tags": kept} if kept else rest


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_cluster_tag(job: JobSpec, cluster: Cluster | None) -> Iterator[Finding]:
    """A tag of the user's that says of another cluster, or of none, what only the cluster's own may say.

    Nothing is found while the manifest of the job's cluster was not read.
    """
    given = job.tags.get(CLUSTER_TAG)
    if given is None or (cluster is None and job.cluster is not None):
        return
    if cluster is None:
        problem, remedy = "the job has no cluster", "Remove the tag, or name the `cluster`."
    elif given != cluster.name:
        problem, remedy = f"the job is on the cluster {cluster.name!r}", "Remove it: each job gets the tag."
    else:
        return
    yield job_file.INVALID_VALUE.at(
        ("tags", CLUSTER_TAG),
        f"the tag {CLUSTER_TAG} says {given!r}, but {problem}; policies go by this tag",
        remedy=remedy,
    )


def fingerprint(plan: TrainingPlan) -> str:
    """A digest that is the same for every plan of the same request, whatever its unique name; in hex.

    Nothing of the request can be read from it. The cluster's tag is left out: it says nothing that the
    cluster's places do not, and launchers before it knew the same request without it.
    """
    request = None if plan.request is None else without_cluster_tag(plan.request)
    content = json.dumps([plan.operation, plan.region, request], sort_keys=True)
    return hashlib.sha256(content.replace(str(plan.name), "JOB").encode()).hexdigest()


def rename_plan(plan: TrainingPlan, name: str) -> TrainingPlan:
    """The same plan under another unique name, which also stands in its prefixes."""
    if plan.name == name:
        return plan
    text = json.dumps(plan.request).replace(str(plan.name), name)
    return replace(plan, request=json.loads(text))


def name_plan_by_run(plan: TrainingPlan, run_id: str, queue: str = "") -> TrainingPlan:
    """The plan under the name that its run gives it: the same for the same run, request and queue.

    `queue` is the ARN of the queue through which it goes. A plan without a request stays as it is.
    """
    if plan.request is None:
        return plan
    base = str(plan.name)[: -UNIQUE_LENGTH - 1]
    content = json.dumps([run_id, queue, fingerprint(plan)])
    return rename_plan(plan, make_job_name(base, digest_part(hashlib.sha256(content.encode()).digest())))


# The request of a job that goes on where an earlier one ended: the earlier request, rewritten.


RESUMED_FROM_TAG = "slipway:resumed-from"
"""The tag with the name of the job that a resumed one goes on from."""

_RESOURCE_ANSWERS = ("SelectedInstanceType", "SelectedInstanceCount")
"""What a description says of a job's hosts and no request may (SageMaker API reference, ResourceConfig)."""

_UNIQUE_PART = re.compile(r"-[0-9a-hjkmnp-tv-z]{17}$")


def make_resumed_name(earlier: str, unique: str) -> str:
    """The new job's name: the earlier one's base, with another unique part."""
    base = _UNIQUE_PART.sub("", earlier)[:MAX_NAME_LENGTH].rstrip("-")
    return make_job_name(base, unique)


def is_resumable(request: Request) -> bool:
    """Whether what `resumed_request` changes is, where it is there, as the API has it."""
    tags = request.get("Tags", [])
    sections = [request.get(name, {}) for name in ("ResourceConfig", "CheckpointConfig", "Environment")]
    return (
        all(isinstance(section, dict) for section in sections)
        and all(isinstance(value, str) for section in sections[1:] for value in section.values())
        and isinstance(tags, list)
        and all(isinstance(tag, dict) and isinstance(tag.get("Key"), str) for tag in tags)
    )


def build_resumed_request(request: Request, earlier: str, name: str) -> Request:
    """The same request under a new name, with a checkpoint prefix of its own and a tag that tells its origin.

    Everything else stays, the code's prefix too: the new job runs what the earlier one ran.
    """
    new = deepcopy(request)
    new["TrainingJobName"] = name
    for told in _RESOURCE_ANSWERS:
        new.get("ResourceConfig", {}).pop(told, None)
    if "S3Uri" in new.get("CheckpointConfig", {}):
        new["CheckpointConfig"]["S3Uri"] = _move_prefix(new["CheckpointConfig"]["S3Uri"], earlier, name)
    environment = new.get("Environment", {})
    if CHECKPOINT_URI_VARIABLE in environment:
        environment[CHECKPOINT_URI_VARIABLE] = _move_prefix(
            environment[CHECKPOINT_URI_VARIABLE], earlier, name
        )
    kept = [
        tag
        for tag in new.get("Tags", ())
        if tag["Key"] != RESUMED_FROM_TAG and not tag["Key"].startswith("aws:")
    ]
    new["Tags"] = [*kept, {"Key": RESUMED_FROM_TAG, "Value": earlier}]
    return new


def _move_prefix(uri: str, earlier: str, name: str) -> str:
    """A prefix beside the earlier job's; below the same parent where it ends in the job's name."""
    prefix = uri.rstrip("/")
    return f"{prefix.removesuffix(f'/{earlier}')}/{name}"
