"""Jobs and what is planned of them: the groups of `cases/*.yaml`.

A group has a sentence for its name and a list of `cases`, each a pair: what differs from `JOB`, and what is
seen of the plan (`see`). Both are mappings with dotted paths for keys; null is for what is not there. What a
group has in `job` and `plan` holds for all its cases, and each case is tried with each start of `each`.

In a job, `as` names one of `cases/jobs.yaml` to begin with, or several, and `manifest` what differs from the
cluster's own. Of a plan, `errors` are codes, or codes with their fields; the texts of `says` stand in what
errors say, those of `lacks` do not, and those of `tells` stand in the other findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from launcher.planning.job_cost import cost_in_words
from launcher.planning.training_plan import TrainingPlan
from tests.case_files import look_up, put
from tests.planning.comparison import DAY, plan_of, what_the_api_refuses

CASES = Path(__file__).with_name("cases")
STARTS: dict[str, dict[str, Any]] = yaml.safe_load((CASES / "jobs.yaml").read_text("utf-8"))
JOB: dict[str, Any] = {
    "name": "digits",
    "code": {"entry_point": "train.py"},
    "framework": {"version": "2.8.0"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "torchrun"},
}
REGISTRY = "763104351884.dkr.ecr.us-west-2.amazonaws.com"
SHORT = {
    "strategy": "distribution.strategy",
    "options": "distribution.options",
    "processes": "distribution.processes_per_host",
    "type": "resources.instance_type",
    "hosts": "resources.instance_count",
    "version": "framework.version",
    "aws_image": "image",
}


@dataclass(frozen=True)
class Group:
    """Cases of one sentence."""

    name: str
    cases: tuple[tuple[dict[str, Any], dict[str, Any]], ...]


def read_groups() -> Iterator[Group]:
    """The groups of all files."""
    for file in sorted(CASES.glob("*.yaml")):
        for name, group in yaml.safe_load(file.read_text("utf-8")).items():
            if file.name == "jobs.yaml":
                continue
            assert set(group) <= {"job", "plan", "each", "cases"}, f"{file.name}: {name}: {sorted(group)}"
            each = [{"as": one} if isinstance(one, str) else one for one in group.get("each", [{}])]
            cases = tuple(
                ({**group.get("job", {}), **start, **changes}, {**group.get("plan", {}), **expected})
                for changes, expected in group["cases"]
                for start in each
            )
            yield Group(f"{file.stem}: {name}", cases)


def make_plan(
    changes: Mapping[str, Any], manifest: dict[str, Any] | None = None, unique: str = "0unique"
) -> TrainingPlan:
    """The plan of a job that differs from `JOB` in these, on a cluster where `changes` has a `manifest`."""
    start = changes.get("as", [])
    for name in [start] if isinstance(start, str) else start:
        changes = {**STARTS[name], **changes}
    cluster = put(manifest or {}, changes["manifest"]) if "manifest" in changes else None
    named = {path: value for path, value in changes.items() if path not in ("as", "manifest", "day")}
    if "aws_image" in named:
        named["aws_image"] = f"{REGISTRY}/{named['aws_image']}"
    job = put(JOB, {_in_full(path): value for path, value in named.items()})
    return plan_of(job, unique, cluster, today=date.fromisoformat(changes.get("day", DAY.isoformat())))


def _in_full(path: str) -> str:
    first, dot, rest = path.partition(".")
    return SHORT.get(first, first) + dot + rest


def complaints(plan: TrainingPlan, expected: Mapping[str, Any]) -> Iterator[str]:
    """What the plan says otherwise, and what the API would refuse of a request without a finding about it."""
    seen = see(plan)
    said, told = (
        " ".join(f"{each} {each.remedy}" for each in plan.findings if each.blocks is blocks)
        for blocks in (True, False)
    )
    if plan.request is not None and "SPEC004" not in said:
        yield from filter(None, [what_the_api_refuses(plan)])
    for path, value in expected.items():
        if path in ("says", "lacks", "tells"):
            where = told if path == "tells" else said
            texts = [value] if isinstance(value, str) else value
            yield from (f"{path} {text!r}: {where}" for text in texts if (text in where) is (path == "lacks"))
        elif path == "errors":
            if len(value) != len(seen[path]) or not all(map(_is_named, seen[path], value)):
                yield f"the errors are {seen[path]}, not {value}"
        elif path.partition(".")[0] not in seen:
            yield f"of {path} is nothing to be seen"
        elif (found := look_up(seen, path)) != value:
            yield f"{path} is {found!r}, not {value!r}"


def _is_named(error: str, wanted: str) -> bool:
    return error == wanted or error.startswith(f"{wanted} ")


def see(plan: TrainingPlan) -> dict[str, Any]:
    """What cases may say of a plan."""
    seen: dict[str, Any] = {
        "errors": [f"{found.code} {found.subject}" for found in plan.findings if found.blocks],
        "others": [f"{found.severity.value} {found.code}" for found in plan.findings if not found.blocks],
        "plan": plan,
        "job": plan.job,
        "request": plan.request,
        "debugger": plan.debugger.on,
        "settings": {setting.name: setting.value for setting in plan.settings},
        "placeholders": list(plan.placeholders),
        "version": plan.version_choice and f"{plan.version_choice.version}: {plan.version_choice.reason}",
    }
    if plan.view is not None:
        view = plan.view
        seen |= {
            "training": view.training,
            "image": str(view.image).rpartition("/")[2],
            "environment": view.environment,
            "variables": sorted(view.environment),
            "hyperparameters": view.hyperparameters,
            "boot": view.boot_options,
            "arguments": list(view.arguments),
            "tags": view.tags,
            "cost": cost_in_words(view, plan.region),
        }
    return seen
