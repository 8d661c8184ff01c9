"""The stacks of a cluster with their templates, as CloudFormation has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.errors import aws_errors
from launcher.failure_modes.refusal import Refusal

_NOT_THERE = frozenset({"DELETE_COMPLETE", "REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE"})
"""States without a deployed template: gone, only planned, or never come up; the CDK deletes the last."""


@dataclass(frozen=True, slots=True)
class StackTemplate:
    """A stack that is there: its name, its state and the template that it was deployed with."""

    name: str
    status: str
    template: Mapping[str, Any]

    @property
    def is_busy(self) -> bool:
        """Whether something is being done to it at the moment."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def is_stuck(self) -> bool:
        """Whether it must be helped before it can be updated (CloudFormation user guide, troubleshooting)."""
        return self.status in ("UPDATE_ROLLBACK_FAILED", "DELETE_FAILED", "ROLLBACK_FAILED")


def fetch_stack_templates(cloudformation: Any, cluster: str) -> tuple[StackTemplate, ...]:
    """The stacks `slipway-NAME-PART` of a cluster, by name.

    Raises AwsRefusal where AWS refuses or cannot be reached, Refusal where a template is not JSON.
    """
    # The parts have no hyphen: the stacks of a cluster called dev-two are none of dev's.
    ours = re.compile(rf"slipway-{re.escape(cluster)}-[a-z]+")
    with aws_errors("look for the cluster's stacks (cloudformation:ListStacks)"):
        pages = cloudformation.get_paginator("list_stacks").paginate()
        found = {
            each["StackName"]: str(each["StackStatus"])
            for page in pages
            for each in page["StackSummaries"]
            if ours.fullmatch(each["StackName"]) and each["StackStatus"] not in _NOT_THERE
        }
    return tuple(
        StackTemplate(name, status, _template(cloudformation, name)) for name, status in sorted(found.items())
    )


def _template(cloudformation: Any, name: str) -> Mapping[str, Any]:
    with aws_errors(f"read the template of the stack {name} (cloudformation:GetTemplate)"):
        body = cloudformation.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
    try:
        template = json.loads(body) if isinstance(body, str) else body
    except ValueError:
        template = None
    if not isinstance(template, Mapping):
        raise Refusal(
            f"the template of the stack {name} is not JSON, so it was not deployed by this app.",
            "Use another `name` in the cluster file, or take that stack away.",
        )
    return template
