"""What the end of a cluster takes, keeps and leaves, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from launcher.aws.bucket_contents import BucketContents
from launcher.aws.stacks import DeployedStack, StackResource
from launcher.cli.cluster_show_view import costs_json, costs_table, plain_table, short_id
from launcher.text.sizes import size_in_words

if TYPE_CHECKING:
    from launcher.session.clusters.destroy import Aftermath
    from launcher.session.clusters.survey import Survey

_ATTACHED = ("Policy", "Ingress", "Egress", "Association")
"""Ends of the types that only say something about another resource, which is told itself."""


def as_table(survey: Survey) -> Group:
    """What goes, what is kept, what the buckets hold, and what is no longer paid for."""
    head = Text.assemble((survey.name, "bold"), f"  {survey.region}")
    if not survey.stacks:
        return Group(head, Text("there is no stack of it (any more)", "dim"))
    parts: list[RenderableType] = [head, Text(), _going(survey.stacks)]
    parts += [Text(each, "bold red") for each in _data_that_goes(survey)]
    if survey.contents:
        parts += [Text(), _buckets(list(survey.contents.values()))]
    if kept := told(survey.kept):
        parts += [Text(), _kept(kept)]
    if survey.frees:
        parts += [Text(), Text("no longer paid for:"), costs_table(survey.frees)]
    if survey.keeps:
        parts += [Text(), Text("still paid for:"), costs_table(survey.keeps)]
    return Group(*parts)


def tell_aftermath(screen: Console, survey: Survey, aftermath: Aftermath) -> None:
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
    from launcher.session.clusters.destroy import Aftermath

    if aftermath == Aftermath():
        screen.print(Text(f"{survey.name} is gone; nothing is left of it"))


def told(resources: Sequence[StackResource]) -> tuple[StackResource, ...]:
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
        "kept": [{"type": each.type, "id": each.physical_id} for each in told(survey.kept)],
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


def _going(stacks: Sequence[DeployedStack]) -> Table:
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
    from launcher.session.clusters.survey import FILE_SYSTEM

    systems = [each for stack in survey.stacks for each in stack.of_type(FILE_SYSTEM) if not each.kept]
    return [f"the file system {each.physical_id} goes, with everything on it" for each in systems]


def _buckets(contents: Sequence[BucketContents]) -> Table:
    table = plain_table("BUCKET THAT GOES", "OBJECTS", "OLDER VERSIONS", "MARKERS", "UPLOADS", "SIZE", long=0)
    for column in table.columns[1:]:
        column.justify = "right"
    for each in contents:
        counts = (each.objects, each.older_versions, each.delete_markers, each.uploads)
        table.add_row(each.bucket, *(f"{count:,}" for count in counts), size_in_words(each.size))
    return table


def _kept(resources: Sequence[StackResource]) -> Table:
    table = plain_table("IS KEPT", "", long=1)
    for each in resources:
        table.add_row(each.type.removeprefix("AWS::"), short_id(each.physical_id))
    return table
