"""A finished request under another name: who its job is, and what is changed before it is sent.

A training job's name is its identity, its prefix and its idempotency key; it is unique to a launch. A job
that goes on where an earlier one ended sends that one's request under another name, with checkpoints of its
own. No job file is needed for any of this: a launch does it, and whoever goes on with a run.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from launcher.cluster.names import CLUSTER_TAG, MAX_NAME_LENGTH
from launcher.jobs.script_inputs import CHECKPOINT_URI_VARIABLE
from launcher.planning.request_view import MANAGED_VARIABLE, Request, RequestView
from launcher.source.packaging import BOOT_NAME

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


def without_cluster_tag(request: dict[str, Any]) -> dict[str, Any]:
    """The request as it would be without the cluster's tag: what the user asked for."""
    kept = [tag for tag in request.get("Tags", ()) if tag["Key"] != CLUSTER_TAG]
    rest = {key: value for key, value in request.items() if key != "Tags"}
    return {**rest, "Tags": kept} if kept else rest


# What only the hosts of one job know, by which their boots tell each other from strangers.


HOST_TOKEN_VARIABLE = "SLIPWAY_HOST_TOKEN"
"""The environment variable that holds it (`slipway/host_assembly.py`)."""

_MOST_VARIABLES = 48
"""Of a tuning job (SageMaker API reference, HyperParameterTrainingJobDefinition); of others, more."""


def make_host_token(secret: bytes, job_name: str) -> str:
    """The token of a job: nobody guesses it who lacks the secret of who launches, and a request that is sent
    again has the same, so that AWS takes it for the same."""
    return hmac.new(secret, job_name.encode(), hashlib.sha256).hexdigest()[:32]


def with_host_token(request: Mapping[str, Any], name: str, secret: bytes) -> Mapping[str, Any]:
    """The request with a token where several boots need one: the last that happens before it is sent.

    It is no part of the plan, which is the same for every launch of a job, and which is shown and kept.
    """
    view = RequestView(request)
    boots = bool(view.entrypoint) and view.entrypoint[-1].endswith(f"/{BOOT_NAME}")
    if not boots or (view.hosts or 1) < 2 or len(view.environment) >= _MOST_VARIABLES:
        return request
    new = deepcopy(dict(request))
    training = new.get("TrainingJobDefinition", new)
    token = make_host_token(secret, name)
    training["Environment"] = {**view.environment, HOST_TOKEN_VARIABLE: token}
    return new


def without_host_token(request: Request) -> Request:
    """The request as it was planned; it stays as it is where it has no token."""
    if HOST_TOKEN_VARIABLE not in RequestView(request).environment:
        return request
    new = deepcopy(request)
    del new.get("TrainingJobDefinition", new)["Environment"][HOST_TOKEN_VARIABLE]
    return new


# The request of a job that goes on where an earlier one ended: the earlier request, rewritten.


RESUMED_FROM_TAG = "slipway:resumed-from"
"""The tag with the name of the job that a resumed one goes on from."""

MANAGED_TAG = "slipway:managed"
"""The tag of the attempts of managed runs."""

_RESOURCE_ANSWERS = ("SelectedInstanceType", "SelectedInstanceCount")
"""What a description says of a job's hosts and no request may (SageMaker API reference, ResourceConfig)."""

_UNIQUE_PART = re.compile(r"-[0-9a-hjkmnp-tv-z]{17}$")
_TIMESTAMP = re.compile(r"-(\d{4}(-\d{2}){5}-\d{3}|\d{14}|\d{6}-\d{4})$")
"""How names end that the SageMaker SDK makes (sagemaker.core.common_utils, name_from_base; sagemaker.train.
utils, _get_unique_name)."""


def base_of_name(name: str) -> str:
    """The base of a job's name: without the unique part of the launcher, or the time that the SageMaker SDK
    puts there."""
    without = _UNIQUE_PART.sub("", name)
    return without if without != name else _TIMESTAMP.sub("", name)


def make_resumed_name(earlier: str, unique: str) -> str:
    """The new job's name: the earlier one's base, with another unique part."""
    base = _UNIQUE_PART.sub("", earlier)[:MAX_NAME_LENGTH].rstrip("-")
    return make_job_name(base, unique)


_SECTIONS = (
    "AlgorithmSpecification",
    "StoppingCondition",
    "ResourceConfig",
    "CheckpointConfig",
    "Environment",
    "HyperParameters",
)


def is_resumable(request: Request) -> bool:
    """Whether what `build_resumed_request` changes, and what is read of a running job, is as the API has it
    where it is there."""
    tags = request.get("Tags", [])
    sections = [request.get(name, {}) for name in _SECTIONS]
    if not all(isinstance(section, dict) for section in sections):
        return False
    arguments = sections[0].get("ContainerArguments") or []
    return (
        all(isinstance(value, str) for section in sections[3:] for value in section.values())
        and isinstance(sections[1].get("MaxRuntimeInSeconds", 1), int)
        and isinstance(arguments, list)
        and all(isinstance(word, str) for word in arguments)
        and isinstance(tags, list)
        and all(isinstance(tag, dict) and isinstance(tag.get("Key"), str) for tag in tags)
    )


def build_resumed_request(request: Request, earlier: str, name: str) -> Request:
    """The same request under a new name, with a checkpoint prefix of its own and a tag that tells its origin.

    Everything else stays, the code's prefix too: the new job runs what the earlier one ran.
    """
    new = deepcopy(without_host_token(request))
    new["TrainingJobName"] = name
    for told in _RESOURCE_ANSWERS:
        new.get("ResourceConfig", {}).pop(told, None)
    _replace_prefixes(new, lambda uri: _move_prefix(uri, earlier, name))
    # It is no attempt of a managed run, unless whoever starts it says so.
    if MANAGED_VARIABLE in new.get("Environment", {}):
        del new["Environment"][MANAGED_VARIABLE]
    kept = [
        tag
        for tag in new.get("Tags", ())
        if tag["Key"] not in (RESUMED_FROM_TAG, MANAGED_TAG) and not tag["Key"].startswith("aws:")
    ]
    new["Tags"] = [*kept, {"Key": RESUMED_FROM_TAG, "Value": earlier}]
    return new


def move_checkpoints(request: Request, prefix: str) -> Request:
    """The request with its checkpoints below another S3 URI, whoever moves them there."""
    new = deepcopy(request)
    _replace_prefixes(new, lambda _: prefix)
    return new


def _replace_prefixes(request: Request, replaced: Callable[[str], str]) -> None:
    for section, key in (("CheckpointConfig", "S3Uri"), ("Environment", CHECKPOINT_URI_VARIABLE)):
        if key in request.get(section, {}):
            request[section][key] = replaced(request[section][key])


def _move_prefix(uri: str, earlier: str, name: str) -> str:
    """A prefix beside the earlier job's; below the same parent where it ends in the job's name."""
    prefix = uri.rstrip("/")
    return f"{prefix.removesuffix(f'/{earlier}')}/{name}"
