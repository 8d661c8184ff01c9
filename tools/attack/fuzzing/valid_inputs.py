"""The valid inputs that the cases of the fuzzing are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import yaml

from launcher.cluster.manifest import Cluster
from tests.logs.cases import log_cases
from tools import ROOT


@cache
def valid_jobs() -> list[dict[str, Any]]:
    """Valid jobs: the example, those of the golden requests, and those with every other field."""
    example = yaml.safe_load((ROOT / "examples" / "ddp" / "job.yaml").read_text())
    golden = [json.loads(file.read_text()) for file in sorted((ROOT / "tests" / "golden").glob("*.json"))]
    others = list(yaml.safe_load_all((ROOT / "tools" / "attack" / "fuzzing" / "jobs.yaml").read_text()))
    jobs = [example, *others, *(each["job"] for each in golden)]
    return [{**job, "code": {**job["code"], "source_dir": "src"}} for job in jobs]


@cache
def valid_requests() -> list[dict[str, Any]]:
    """The golden requests, under the name of the local job."""
    golden = [json.loads(file.read_text()) for file in sorted((ROOT / "tests" / "golden").glob("*.json"))]
    return [{**each["request"], "TrainingJobName": "digits-0unique"} for each in golden]


@cache
def required_members() -> frozenset[str]:
    """Every member that the API's model requires somewhere in the request of a training job."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    return frozenset(_required_in(model.operation_model("CreateTrainingJob").input_shape, set()))


def _required_in(shape: Any, seen: set[str]) -> Iterator[str]:
    if shape.name in seen:
        return
    seen.add(shape.name)
    if shape.type_name == "structure":
        yield from shape.required_members
        for member in shape.members.values():
            yield from _required_in(member, seen)
    elif shape.type_name == "list":
        yield from _required_in(shape.member, seen)


@cache
def valid_clusters() -> list[dict[str, Any]]:
    """The cluster files that are shipped."""
    return [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "clusters").glob("*.yaml"))]


@cache
def valid_manifest() -> dict[str, Any]:
    """A manifest as the stacks write it, with all its parts."""
    text = yaml.safe_load((ROOT / "tools" / "attack" / "fuzzing" / "manifest.yaml").read_text())
    Cluster.model_validate(text)
    return dict(text)


def valid_status(job: Path) -> dict[str, Any]:
    """What a local run that failed has noted of itself."""
    return {
        "name": "digits-0unique",
        "folder": str(job),
        "launcher": {"pid": 2**22 + 1, "started": 1.0},
        "hosts": 1,
        "state": "Failed",
        "phase": "Failed",
        "failure_reason": "AlgorithmError: planted, exit code: 1",
        "started": 1_790_000_000.0,
        "ended": 1_790_000_100.0,
    }


@cache
def real_lines() -> list[str]:
    """Every line of the modelled logs that the diagnosis is tested with."""
    texts = [case.text for case in log_cases() if case.modelled]
    return [line for text in texts for line in text.splitlines() if line.strip()]
