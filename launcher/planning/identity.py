"""What makes two plans the same launch: their content, and the run that they belong to.

A plan's name is unique to a launch and stands in its prefixes. What is the same for every launch of one
request is its fingerprint; the name that a run gives to a request follows from the run's id and that
fingerprint, so that it is the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.planning.naming import UNIQUE_LENGTH, job_name, part_of
from launcher.planning.tags import without_cluster_tag

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan


def fingerprint(plan: TrainingPlan) -> str:
    """A digest that is the same for every plan of the same request, whatever its unique name; in hex.

    Nothing of the request can be read from it. The cluster's tag is left out: it says nothing that the
    cluster's places do not, and launchers before it knew the same request without it.
    """
    request = None if plan.request is None else without_cluster_tag(plan.request)
    content = json.dumps([plan.operation, plan.region, request], sort_keys=True)
    return hashlib.sha256(content.replace(str(plan.name), "JOB").encode()).hexdigest()


def renamed(plan: TrainingPlan, name: str) -> TrainingPlan:
    """The same plan under another unique name, which also stands in its prefixes."""
    if plan.name == name:
        return plan
    text = json.dumps(plan.request).replace(str(plan.name), name)
    return replace(plan, request=json.loads(text))


def named_by_run(plan: TrainingPlan, run_id: str, queue: str = "") -> TrainingPlan:
    """The plan under the name that its run gives it: the same for the same run, request and queue.

    `queue` is the ARN of the queue through which it goes. A plan without a request stays as it is.
    """
    if plan.request is None:
        return plan
    base = str(plan.name)[: -UNIQUE_LENGTH - 1]
    content = json.dumps([run_id, queue, fingerprint(plan)])
    return renamed(plan, job_name(base, part_of(hashlib.sha256(content.encode()).digest())))
