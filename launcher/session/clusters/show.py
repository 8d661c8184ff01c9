"""What there is of a cluster: its stacks, what they made, and what it costs at rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.account.questions.asking import Answers, OnAnswer, Question, Service, ask_all
from launcher.account.unverified import Unverified
from launcher.aws.clients import Clients
from launcher.aws.cluster_manifest import fetch_manifest
from launcher.aws.stacks import DeployedStack, fetch_stack
from launcher.cluster.manifest import Cluster
from launcher.cluster.stack_names import ALWAYS_THERE, PARTS, stack_name
from launcher.failure_modes.refusal import AwsRefusal, Refusal
from launcher.provisioning.picture import graph_of
from launcher.provisioning.rest_costs import CostLine, rest_costs
from launcher.session.clusters.things import Presence, Thing, looked_at, named_things, questions_about

_BOUND_SECONDS = 20.0
"""For one stack, which takes three calls and more pages."""

_FAILED_STATES = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_IN_PROGRESS"})
"""A stack whose creation failed; after a failed update it is as before (UPDATE_ROLLBACK_COMPLETE)."""


class StackHealth(StrEnum):
    """How a stack is, by its state."""

    WELL = "well"
    ROLLED_BACK = "rolled back"
    CHANGING = "changing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """A cluster as the account has it; `stacks` by part, in the order of deployment.

    `unverified` is what could not be asked; a part of it is not in `stacks`, nor among the missing.
    """

    name: str
    region: str
    stacks: dict[str, DeployedStack]
    manifest: Cluster | None
    things: tuple[Thing, ...]
    costs: tuple[CostLine, ...]
    unverified: tuple[Unverified, ...]
    missing: tuple[str, ...]

    @property
    def account(self) -> str:
        """The id of its account."""
        return next(iter(self.stacks.values())).account

    @property
    def is_well(self) -> bool:
        """Whether everything that could be looked at is there, and nothing of it failed."""
        bad = [each for each in self.things if each.presence in (Presence.MISSING, Presence.FAILED)]
        failed = [each for each in self.stacks.values() if health(each) is StackHealth.FAILED]
        return not (bad or failed or self.missing)


def show_cluster(
    name: str, clients: Clients, region: str, *, on_answer: OnAnswer | None = None
) -> ShownCluster:
    """Look at a cluster: everything at once, and what follows from the stacks as soon as they are known.

    Raises Refusal where the region has no stack of it, AwsRefusal where AWS refuses to tell of any, or
    cannot be reached.
    """
    stacks = {part: stack_question(name, part, region) for part in PARTS}
    manifest = Service("ssm", region).question("the manifest", "ssm:GetParameter", _fetch_manifest, name)

    def found(answers: Answers) -> dict[str, DeployedStack]:
        seen = {part: answers.of(question) for part, question in stacks.items()}
        return {part: each for part, each in seen.items() if isinstance(each, DeployedStack)}

    def questions(answers: Answers) -> list[Question[Any]]:
        first: list[Question[Any]] = [*stacks.values(), manifest]
        if any(question not in answers for question in first):
            return first
        things = named_things(_known(answers.of(manifest)), found(answers).values())
        return [*first, *questions_about(things, region)]

    answers = ask_all(clients, questions, bound=_BOUND_SECONDS, on_answer=on_answer)
    unverified = tuple(each for each in answers.found.values() if isinstance(each, Unverified))
    deployed = found(answers)
    if not deployed:
        raise _nothing(name, region, unverified)
    known = _known(answers.of(manifest))
    made = frozenset(each.physical_id for stack in deployed.values() for each in stack.resources)
    things = looked_at(named_things(known, deployed.values()), region, answers, made)
    return ShownCluster(
        name,
        region,
        deployed,
        known,
        things,
        rest_costs([stack.template for stack in deployed.values()], region),
        unverified,
        tuple(_missing(stacks, manifest, answers)),
    )


def stack_question(name: str, part: str, region: str) -> Question[DeployedStack | None]:
    """The question for the stack that holds a part of a cluster."""
    stack = stack_name(name, part)
    permission = "cloudformation:DescribeStacks, GetTemplate and ListStackResources"
    return Service("cloudformation", region).question(f"the stack {stack}", permission, fetch_stack, stack)


def picture_of(cluster: ShownCluster) -> str:
    """The picture of what is deployed, as a graph in Graphviz' language."""
    return graph_of({stack.name: stack.template for stack in cluster.stacks.values()})


def health(stack: DeployedStack) -> StackHealth:
    """How a stack is."""
    if stack.status in _FAILED_STATES or stack.status.endswith("_FAILED"):
        return StackHealth.FAILED
    if stack.status.endswith("_IN_PROGRESS"):
        return StackHealth.CHANGING
    return StackHealth.ROLLED_BACK if "ROLLBACK" in stack.status else StackHealth.WELL


def _fetch_manifest(ssm: Any, name: str) -> Cluster | None:
    try:
        return fetch_manifest(ssm, name)
    except AwsRefusal:
        raise
    except Refusal:
        return None


def _known(manifest: Cluster | Unverified | None) -> Cluster | None:
    return manifest if isinstance(manifest, Cluster) else None


def _missing(
    stacks: dict[str, Question[DeployedStack | None]], manifest: Question[Cluster | None], answers: Answers
) -> Iterator[str]:
    for part, question in stacks.items():
        if part in ALWAYS_THERE and answers.of(question) is None:
            yield f"the {part} stack"
    if answers.of(manifest) is None:
        yield "the manifest"


def _nothing(name: str, region: str, unverified: tuple[Unverified, ...]) -> Refusal:
    if unverified:
        return AwsRefusal(
            f"whether a cluster {name} is deployed in {region} could not be seen: {unverified[0].reason}",
            f"Ask for {unverified[0].permission}.",
        )
    return Refusal(
        f"no cluster named {name} is deployed in {region}: there is no stack "
        f"{stack_name(name, PARTS[0])}, nor one of its others.",
        f"Correct the name, set AWS_REGION, or deploy it: `npx cdk deploy --all -c cluster={name}`.",
    )
