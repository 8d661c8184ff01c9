"""A cluster on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from launcher.provisioning.rest_costs import CostLine, not_priced, total
from launcher.session.clusters.show import ShownCluster, StackHealth, health
from launcher.session.clusters.things import Presence

if TYPE_CHECKING:
    from launcher.aws.stacks import DeployedStack

_HEALTH_STYLES = {
    StackHealth.WELL: "green",
    StackHealth.ROLLED_BACK: "yellow",
    StackHealth.CHANGING: "yellow",
    StackHealth.FAILED: "bold red",
}
_PRESENCE_STYLES = {
    Presence.THERE: "green",
    Presence.CHANGING: "yellow",
    Presence.FAILED: "bold red",
    Presence.MISSING: "bold red",
    Presence.UNVERIFIED: "yellow",
}


def as_table(cluster: ShownCluster) -> Group:
    """All that there is to tell of a cluster, from its stacks to its costs."""
    head = Text.assemble((cluster.name, "bold"), f"  {cluster.region}, account {cluster.account}")
    parts: list[RenderableType] = [head, Text(), _stacks(cluster), Text(), _things(cluster), Text()]
    parts += [Text(f"missing: {each}", "bold red") for each in cluster.missing]
    for each in cluster.unverified:
        parts.append(Text(f"not seen: {each.what}: {each.reason} ({each.permission})", "yellow"))
    return Group(*parts, costs_table(cluster.costs))


def costs_table(costs: Sequence[CostLine]) -> Table:
    """What costs money at rest, line by line, and together."""
    table = plain_table("AT REST", "", "USD A MONTH", "")
    table.columns[2].justify = "right"
    for line in costs:
        amount = f"{line.usd_a_month:,.2f}" if line.usd_a_month is not None else "not known"
        table.add_row(line.what, f"{line.quantity:,}", amount, Text(line.reservation, "yellow"))
    unknown = not_priced(costs)
    more = f"and {len(unknown)} of unknown price" if unknown else ""
    table.add_row("together", "", Text(f"{total(costs):,.2f}", "bold"), Text(more, "yellow"))
    return table


def plain_table(*headers: str, long: int | None = None) -> Table:
    """A table without lines, as the launcher shows lists; only the column at `long` may fold."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for position, each in enumerate(headers):
        table.add_column(each, no_wrap=position != long, overflow="fold")
    return table


def shown_json(cluster: ShownCluster) -> dict[str, Any]:
    """The same as one JSON document; what is not known is null."""
    return {
        "name": cluster.name,
        "region": cluster.region,
        "account": cluster.account,
        "well": cluster.is_well,
        "missing": list(cluster.missing),
        "stacks": [_stack_json(stack) for stack in cluster.stacks.values()],
        "things": [
            {
                "kind": each.kind,
                "purpose": each.purpose,
                "id": each.id,
                "state": each.presence.value,
                "detail": each.detail,
                "adopted": each.adopted,
            }
            for each in cluster.things
        ],
        "manifest": cluster.manifest.model_dump() if cluster.manifest else None,
        "cost": costs_json(cluster.costs),
        "unverified": [
            {"what": each.what, "permission": each.permission, "reason": each.reason}
            for each in cluster.unverified
        ],
    }


def costs_json(costs: Sequence[CostLine]) -> dict[str, Any]:
    """The cost at rest; what has no known price is null and in no sum."""
    return {
        "usd_a_month": round(total(costs), 2),
        "complete": not not_priced(costs),
        "lines": [
            {
                "what": line.what,
                "quantity": line.quantity,
                "usd_a_month": None if line.usd_a_month is None else round(line.usd_a_month, 2),
                "verified": line.price is not None and line.price.verified,
                "price_region": line.price.region if line.price else None,
            }
            for line in costs
        ],
    }


def _stacks(cluster: ShownCluster) -> Table:
    table = plain_table("STACK", "STATE", "LAST CHANGED", "RESOURCES", "")
    table.columns[3].justify = "right"
    for stack in cluster.stacks.values():
        changed = (stack.updated or stack.created).astimezone()
        there = sum(each.is_there for each in stack.resources)
        table.add_row(
            stack.name,
            Text(stack.status, _HEALTH_STYLES[health(stack)]),
            f"{changed:%Y-%m-%d %H:%M}",
            str(there),
            "protected from deletion" if stack.is_protected else "",
        )
        for each in _failures(stack):
            table.add_row("", Text(each, "red"), "", "", "")
    return table


def _failures(stack: DeployedStack) -> list[str]:
    """What CloudFormation says against a stack, and against each resource of it that failed."""
    own = [stack.reason] if stack.reason and health(stack) is not StackHealth.WELL else []
    failed = [each for each in stack.resources if each.status.endswith("_FAILED")]
    return [*own, *(f"{each.logical_id}: {each.reason or each.status}" for each in failed)]


def _things(cluster: ShownCluster) -> Table:
    table = plain_table("WHAT", "FOR", "ID", "STATE", "", long=2)
    for each in cluster.things:
        detail = f"{each.detail} (existed before)".strip() if each.adopted else each.detail
        state = Text(each.presence.value, _PRESENCE_STYLES[each.presence])
        table.add_row(each.kind, each.purpose, short_id(each.id), state, detail)
    return table


def short_id(id_: str) -> str:
    """An ARN without partition, service, region and account, which a cluster shares; other ids whole."""
    return id_.split(":", 5)[-1] if id_.startswith("arn:") else id_


def _stack_json(stack: DeployedStack) -> dict[str, Any]:
    return {
        "name": stack.name,
        "state": stack.status,
        "health": health(stack).value,
        "changed": (stack.updated or stack.created).isoformat(),
        "resources": sum(each.is_there for each in stack.resources),
        "protected": stack.is_protected,
        "failures": _failures(stack),
    }
