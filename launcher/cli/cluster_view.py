"""A cluster on the terminal and as JSON: what an update does to it, how it is, and what its end takes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from launcher.aws.buckets import BucketContents
from launcher.aws.stacks import DeployedStack, StackResource
from launcher.cluster.updates import FieldChange, Policy
from launcher.provisioning.rest_costs import CostLine, not_priced, total
from launcher.provisioning.updates import Fate, ResourceChange, StackChange, StackFate
from launcher.session.show_cluster import Presence, ShownCluster, StackHealth, health
from launcher.text.values import size_in_words

if TYPE_CHECKING:
    from launcher.session.destroy_cluster import Aftermath, Survey
    from launcher.session.plan_update import ClusterPlan

_POLICY_STYLES = {
    Policy.IN_PLACE: "green",
    Policy.IDLE: "yellow",
    Policy.REPLACES: "yellow",
    Policy.ANOTHER_CLUSTER: "yellow",
    Policy.UNKNOWN: "yellow",
    Policy.REPLACES_DATA: "bold red",
    Policy.FAILS: "bold red",
}
_FATE_STYLES = {Fate.REPLACED: "yellow", Fate.DELETED: "red", Fate.KEPT: "cyan"}
_LONGEST_VALUE = 48
_NAMED_JOBS = 5


def show_plan(console: Console, plan: ClusterPlan) -> None:
    """Print the plan: what of the file changed, what becomes of each stack, and what to do."""
    console.print(Text(f"Cluster {plan.spec.name} in {plan.spec.region}", "bold"))
    if plan.is_first:
        console.print("Nothing of it is deployed yet.")
    if plan.fields:
        console.print()
        console.print(_field_table(plan.fields))
    elif plan.fields is not None:
        console.print("The cluster file is the one that was deployed.")
    changed = [each for each in plan.stacks if each.fate is not StackFate.UNCHANGED]
    for stack in changed:
        console.print()
        _show_stack(console, stack)
    if plan.deployed and not changed:
        console.print("The stacks are as they are wanted.")
    console.print()
    for note in (*plan.notes, *_job_notes(plan)):
        console.print(Text(note, "yellow"), soft_wrap=True)
    _show_end(console, plan)


def _field_table(fields: Iterable[FieldChange]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("FIELD", "DEPLOYED", "WANTED", "WHAT IT DOES"):
        table.add_column(column, overflow="fold")
    for each in fields:
        does = Text(each.policy.value, _POLICY_STYLES[each.policy])
        if each.effect.reason:
            does.append(f": {each.effect.reason}", "default")
        table.add_row(each.field, _value_text(each.before), _value_text(each.after), does)
    return table


def _value_text(value: Any) -> Text:
    if value is None:
        return Text("-", "dim")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text(text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}...")


def _show_stack(console: Console, stack: StackChange) -> None:
    console.print(Text.assemble((stack.name, "bold"), ": ", _STACK_WORDS[stack.fate]))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in _stack_lines(stack):
        grid.add_row(Text(f"  {label}", _FATE_STYLES.get(Fate(label), "")), Text(text))
    for text in _obstacle_lines(stack):
        grid.add_row(Text("  fails", "bold red"), Text(text))
    console.print(grid)


_STACK_WORDS = {
    StackFate.NEW: "new",
    StackFate.UPDATED: "updated",
    StackFate.DELETED: "deleted, as nothing is left in it",
    StackFate.ORPHANED: "no longer in the app: nothing updates or deletes it any more",
}


def _stack_lines(stack: StackChange) -> Iterator[tuple[str, str]]:
    """What becomes of the resources: one line each for what goes, and numbers for the rest."""
    for fate in (Fate.REPLACED, Fate.DELETED, Fate.KEPT):
        for each in stack.resources:
            if each.fate is fate and (each.holds_data or fate is Fate.REPLACED):
                yield fate.value, _describe_change(each)
    for fate in (Fate.ADDED, Fate.CHANGED, Fate.DELETED, Fate.KEPT):
        rest = [each for each in stack.resources if each.fate is fate]
        if fate in (Fate.DELETED, Fate.KEPT):
            rest = [each for each in rest if not each.holds_data]
        if rest:
            yield fate.value, _count_changes(rest)


def _describe_change(change: ResourceChange) -> str:
    text = f"{change.place} ({_type(change)})"
    if change.properties:
        text += f" for {', '.join(change.properties)}"
    if change.holds_data and change.fate is Fate.REPLACED:
        old = "stays" if change.old_stays else "is deleted"
        text += f"; an empty one takes its place, the old one {old}"
    elif change.fate is Fate.DELETED:
        text += ", with what is in it"
    elif change.fate is Fate.KEPT:
        text += ", stays in the account"
    return text


def _count_changes(changes: Iterable[ResourceChange]) -> str:
    numbers = Counter(_type(each) for each in changes)
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in numbers.items())


def _type(change: ResourceChange) -> str:
    return change.type.removeprefix("AWS::").replace("::", " ")


def _obstacle_lines(stack: StackChange) -> Iterator[str]:
    for export in stack.blocked:
        what = "goes" if export.removed else "changes"
        yield f"the export {export.name} {what}, but {' and '.join(export.importers)} would still use it"
    yield from stack.collisions


def _job_notes(plan: ClusterPlan) -> Iterator[str]:
    if plan.jobs:
        names = [each.name for each in plan.jobs[:_NAMED_JOBS]]
        more = f" and {len(plan.jobs) - len(names)} more" if len(plan.jobs) > len(names) else ""
        yield f"Jobs of the cluster have not ended, and would be hit: {', '.join(names)}{more}."
    elif plan.jobs is not None:
        yield "No job of the cluster runs or waits."


def _show_end(console: Console, plan: ClusterPlan) -> None:
    if plan.obstacles:
        console.print(Text("Not to be deployed like this:", "bold red"))
        for each in plan.obstacles:
            console.print(Text(f"- {each}"), soft_wrap=True)
        if any(_is_for_replacing(each) for each in plan.obstacles) and not plan.replace_data:
            again = f"launch cluster plan {plan.chosen} --replace-data"
            console.print(
                f"→ Undo it in the cluster file; or save the data, then see: {again}", soft_wrap=True
            )
        else:
            console.print("→ Undo it in the cluster file, or do it in steps.")
        return
    for stack in plan.stacks:
        if stack.fate is StackFate.ORPHANED:
            delete = f"aws cloudformation delete-stack --region {plan.spec.region} --stack-name {stack.name}"
            console.print(f"Afterwards take {stack.name} away: {delete}", soft_wrap=True)
    if plan.changes_something:
        console.print(f"→ {plan.command}", soft_wrap=True)
    else:
        console.print("There is nothing to deploy.")


def _is_for_replacing(obstacle: str) -> bool:
    return "replaces data" in obstacle or "data are lost" in obstacle


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


def cluster_table(cluster: ShownCluster) -> Group:
    """All that there is to tell of a cluster, from its stacks to its costs."""
    head = Text.assemble((cluster.name, "bold"), f"  {cluster.region}, account {cluster.account}")
    parts: list[RenderableType] = [head, Text(), _stack_table(cluster), Text(), _thing_table(cluster), Text()]
    parts += [Text(f"missing: {each}", "bold red") for each in cluster.missing]
    for each in cluster.unverified:
        parts.append(Text(f"not seen: {each.what}: {each.reason} ({each.permission})", "yellow"))
    return Group(*parts, costs_table(cluster.costs), *_not_in_the_cost(cluster))


def _not_in_the_cost(cluster: ShownCluster) -> Iterator[Text]:
    """What costs money at rest, but was there before the cluster and stays when it goes."""
    for each in cluster.things:
        if each.adopted and each.kind in ("file system", "key"):
            yield Text(f"not in it: the {each.kind} {short_id(each.id)}, which existed before", "dim")


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


def _stack_table(cluster: ShownCluster) -> Table:
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
        for each in _failure_lines(stack):
            table.add_row("", Text(each, "red"), "", "", "")
    return table


def _failure_lines(stack: DeployedStack) -> list[str]:
    """What CloudFormation says against a stack, and against each resource of it that failed."""
    own = [stack.reason] if stack.reason and health(stack) is not StackHealth.WELL else []
    failed = [each for each in stack.resources if each.status.endswith("_FAILED")]
    return [*own, *(f"{each.logical_id}: {each.reason or each.status}" for each in failed)]


def _thing_table(cluster: ShownCluster) -> Table:
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
        "failures": _failure_lines(stack),
    }


_ATTACHED = ("Policy", "Ingress", "Egress", "Association")
"""Ends of the types that only say something about another resource, which is told itself."""


def destruction_table(survey: Survey) -> Group:
    """What goes, what is kept, what the buckets hold, and what is no longer paid for."""
    head = Text.assemble((survey.name, "bold"), f"  {survey.region}")
    if not survey.stacks:
        return Group(head, Text("there is no stack of it (any more)", "dim"))
    parts: list[RenderableType] = [head, Text(), _going_stacks_table(survey.stacks)]
    parts += [Text(each, "bold red") for each in _data_that_goes(survey)]
    if survey.contents:
        parts += [Text(), _bucket_table(list(survey.contents.values()))]
    if kept := visible_resources(survey.kept):
        parts += [Text(), _kept_resources_table(kept)]
    if survey.frees:
        parts += [Text(), Text("no longer paid for:"), costs_table(survey.frees)]
    if survey.keeps:
        parts += [Text(), Text("still paid for:"), costs_table(survey.keeps)]
    return Group(*parts)


def show_aftermath(screen: Console, survey: Survey, aftermath: Aftermath) -> None:
    """What there still is, and how a file system that was kept is taken back."""
    if aftermath.unseen is not None:
        screen.print(Text(f"what is left over could not be looked for: {aftermath.unseen}", "yellow"))
    for title, arns in (("kept on purpose", aftermath.kept), ("left over", aftermath.left_over)):
        if arns:
            screen.print(Text(f"{title}:"))
            for each in arns:
                screen.print(Text(f"  {each}"), soft_wrap=True)
    if survey.kept_lustre is not None:
        screen.print(Text("to use the file system again, in the cluster file:"))
        for line in survey.kept_lustre.lines:
            screen.print(Text(f"  {line}"), soft_wrap=True)
        if survey.kept_lustre.vpc_id:
            end = "without `availability_zones`; its VPC has no way out any more, and jobs need one"
            screen.print(Text(end), soft_wrap=True)
    from launcher.session.destroy_cluster import Aftermath

    if aftermath == Aftermath():
        screen.print(Text(f"{survey.name} is gone; nothing is left of it"))


def visible_resources(resources: Sequence[StackResource]) -> tuple[StackResource, ...]:
    """Those that a person knows as things, without the policies and rules that belong to them."""
    return tuple(each for each in resources if not each.type.endswith(_ATTACHED) and not _is_a_call(each))


def _is_a_call(resource: StackResource) -> bool:
    """Whether it is a function's call, which makes nothing that stays by itself."""
    return resource.type.startswith("Custom::")


def destroyed_json(survey: Survey, aftermath: Aftermath | None, obstacle: str | None) -> dict[str, Any]:
    """The same as one JSON document; `aftermath` is null where nothing was done."""
    return {
        "name": survey.name,
        "region": survey.region,
        "stacks": [{"name": each.name, "protected": each.is_protected} for each in survey.stacks],
        "buckets": [
            {
                "name": each.bucket,
                "objects": each.objects,
                "older_versions": each.older_versions,
                "delete_markers": each.delete_markers,
                "uploads": each.uploads,
                "bytes": each.size,
            }
            for each in survey.contents.values()
        ],
        "kept": [{"type": each.type, "id": each.physical_id} for each in visible_resources(survey.kept)],
        "jobs": [{"name": each.name, "place": each.place} for each in survey.jobs],
        "frees": costs_json(survey.frees),
        "keeps": costs_json(survey.keeps),
        "take_back": survey.kept_lustre.sections if survey.kept_lustre else None,
        "obstacle": obstacle,
        "aftermath": None
        if aftermath is None
        else {
            "kept": list(aftermath.kept),
            "left_over": list(aftermath.left_over),
            "unseen": aftermath.unseen,
        },
    }


def _going_stacks_table(stacks: Sequence[DeployedStack]) -> Table:
    table = plain_table("GOES", "STATE", "RESOURCES", "KEPT", "")
    for column in table.columns[2:4]:
        column.justify = "right"
    for stack in stacks:
        there = [each for each in stack.resources if each.is_there]
        kept = sum(each.kept for each in there)
        table.add_row(
            stack.name,
            stack.status,
            str(len(there) - kept),
            str(kept or ""),
            "protected: the protection is taken away" if stack.is_protected else "",
        )
    return table


def _data_that_goes(survey: Survey) -> list[str]:
    from launcher.session.destroy_cluster import FILE_SYSTEM

    systems = [each for stack in survey.stacks for each in stack.of_type(FILE_SYSTEM) if not each.kept]
    nodes = [each for stack in survey.stacks for each in stack.of_type("AWS::SageMaker::Cluster")]
    return [
        *(f"the file system {each.physical_id} goes, with everything on it" for each in systems),
        # Slurm is on the nodes: nothing of AWS tells which jobs it has.
        *(
            f"{short_id(each.physical_id)} goes, with what Slurm runs there: look with squeue"
            for each in nodes
        ),
    ]


def _bucket_table(contents: Sequence[BucketContents]) -> Table:
    table = plain_table("BUCKET THAT GOES", "OBJECTS", "OLDER VERSIONS", "MARKERS", "UPLOADS", "SIZE", long=0)
    for column in table.columns[1:]:
        column.justify = "right"
    for each in contents:
        counts = (each.objects, each.older_versions, each.delete_markers, each.uploads)
        table.add_row(each.bucket, *(f"{count:,}" for count in counts), size_in_words(each.size))
    return table


def _kept_resources_table(resources: Sequence[StackResource]) -> Table:
    table = plain_table("IS KEPT", "", long=1)
    for each in resources:
        table.add_row(each.type.removeprefix("AWS::"), short_id(each.physical_id))
    return table
