"""What an update would do to a cluster, on a terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from launcher.cluster.changes import FieldChange
from launcher.cluster.update_effects import Policy
from launcher.provisioning.model import Fate, ResourceChange, StackChange, StackFate

if TYPE_CHECKING:
    from launcher.session.clusters.plan import ClusterPlan

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
        console.print(_fields(plan.fields))
    elif plan.fields is not None:
        console.print("The cluster file is the one that was deployed.")
    changed = [each for each in plan.stacks if each.fate is not StackFate.UNCHANGED]
    for stack in changed:
        console.print()
        _show_stack(console, stack)
    if plan.deployed and not changed:
        console.print("The stacks are as they are wanted.")
    console.print()
    for note in (*plan.notes, *_about_jobs(plan)):
        console.print(Text(note, "yellow"), soft_wrap=True)
    _show_end(console, plan)


def _fields(fields: Iterable[FieldChange]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("FIELD", "DEPLOYED", "WANTED", "WHAT IT DOES"):
        table.add_column(column, overflow="fold")
    for each in fields:
        does = Text(each.policy.value, _POLICY_STYLES[each.policy])
        if each.effect.reason:
            does.append(f": {each.effect.reason}", "default")
        table.add_row(each.field, _value(each.before), _value(each.after), does)
    return table


def _value(value: Any) -> Text:
    if value is None:
        return Text("-", "dim")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text(text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}...")


def _show_stack(console: Console, stack: StackChange) -> None:
    console.print(Text.assemble((stack.name, "bold"), ": ", _STACK_WORDS[stack.fate]))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in _lines(stack):
        grid.add_row(Text(f"  {label}", _FATE_STYLES.get(Fate(label), "")), Text(text))
    for text in _in_the_way(stack):
        grid.add_row(Text("  fails", "bold red"), Text(text))
    console.print(grid)


_STACK_WORDS = {
    StackFate.NEW: "new",
    StackFate.UPDATED: "updated",
    StackFate.DELETED: "deleted, as nothing is left in it",
    StackFate.ORPHANED: "no longer in the app: nothing updates or deletes it any more",
}


def _lines(stack: StackChange) -> Iterator[tuple[str, str]]:
    """What becomes of the resources: one line each for what goes, and numbers for the rest."""
    for fate in (Fate.REPLACED, Fate.DELETED, Fate.KEPT):
        for each in stack.resources:
            if each.fate is fate and (each.holds_data or fate is Fate.REPLACED):
                yield fate.value, _about(each)
    for fate in (Fate.ADDED, Fate.CHANGED, Fate.DELETED, Fate.KEPT):
        rest = [each for each in stack.resources if each.fate is fate]
        if fate in (Fate.DELETED, Fate.KEPT):
            rest = [each for each in rest if not each.holds_data]
        if rest:
            yield fate.value, _counted(rest)


def _about(change: ResourceChange) -> str:
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


def _counted(changes: Iterable[ResourceChange]) -> str:
    numbers = Counter(_type(each) for each in changes)
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in numbers.items())


def _type(change: ResourceChange) -> str:
    return change.type.removeprefix("AWS::").replace("::", " ")


def _in_the_way(stack: StackChange) -> Iterator[str]:
    for export in stack.blocked:
        what = "goes" if export.removed else "changes"
        yield f"the export {export.name} {what}, but {' and '.join(export.importers)} would still use it"
    yield from stack.collisions


def _about_jobs(plan: ClusterPlan) -> Iterator[str]:
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
