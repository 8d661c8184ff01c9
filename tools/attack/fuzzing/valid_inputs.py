"""The valid inputs that the cases of the fuzzing are made of."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from launcher.cluster.manifest import Cluster
from tests.logs.cases import log_cases
from tools import ROOT
from tools.generate.api_model import api_model


@cache
def valid_jobs() -> list[dict[str, Any]]:
    """Valid jobs: the example, those of the golden requests, and those with every other field."""
    example = yaml.safe_load((ROOT / "examples" / "ddp" / "job.yaml").read_text())
    others = yaml.safe_load_all(Path(__file__).with_name("jobs.yaml").read_text())
    jobs = [example, *others, *(each["job"] for each in _golden())]
    return [{**job, "code": {**job["code"], "source_dir": "src"}} for job in jobs]


@cache
def valid_requests() -> list[dict[str, Any]]:
    """The golden requests, under the name of the local job."""
    return [{**each["request"], "TrainingJobName": "digits-0unique"} for each in _golden()]


def _golden() -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((ROOT / "tests" / "golden").glob("*.json"))]


@cache
def required_members() -> frozenset[str]:
    """Every member that the API's model requires somewhere in the request of a training job."""
    shapes = api_model("CreateTrainingJob")["shapes"]
    return frozenset(name for shape in shapes.values() for name in shape.get("required", ()))


@cache
def valid_clusters() -> list[dict[str, Any]]:
    """The cluster files that are shipped."""
    return [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "clusters").glob("*.yaml"))]


@cache
def valid_manifest() -> dict[str, Any]:
    """A manifest as the stacks write it, with all its parts."""
    text = yaml.safe_load(Path(__file__).with_name("manifest.yaml").read_text())
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
