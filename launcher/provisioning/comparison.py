"""The templates that are deployed against those that are wanted: what CloudFormation would do.

Stacks are gone through in the order of deployment, so that a replaced resource replaces, over the exports,
what depends on it in the stacks after it, and so that an export counts as in use as long as a stack that
imports it has not been updated yet.

Source: CloudFormation user guide, using-cfn-updating-stacks-update-behaviors and
using-cfn-stack-exports; template reference, UpdateReplacePolicy and DeletionPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from launcher.cluster.templates import (
    Resource,
    Template,
    as_answered,
    exports,
    is_kept,
    is_kept_when_replaced,
    outputs,
    place,
    references,
    resources,
    without_names_of_outputs,
)
from launcher.provisioning.collisions import collisions
from launcher.provisioning.create_only import create_only, values_at
from launcher.provisioning.model import BlockedExport, Fate, ResourceChange, StackChange, StackFate

_DATA: Final = frozenset({"AWS::FSx::FileSystem", "AWS::S3::Bucket", "AWS::Logs::LogGroup"})
_KEY: Final = "AWS::KMS::Key"
_COMPARED: Final = ("DeletionPolicy", "UpdateReplacePolicy")


def compare(deployed: Mapping[str, Template], wanted: Mapping[str, Template]) -> tuple[StackChange, ...]:
    """What an update does to each stack, in the order of deployment; orphaned stacks come last.

    Both are by the names of the stacks; `wanted` is in the order of deployment.
    """
    update = _Update(deployed, dict(deployed))
    done = [update.deploy(name, as_answered(template)) for name, template in wanted.items()]
    orphans = (StackChange(name, StackFate.ORPHANED) for name in deployed if name not in wanted)
    return (*done, *orphans)


@dataclass(slots=True)
class _Update:
    """The templates as they stood, as they stand while one stack after the other is updated, and what has
    changed so far."""

    deployed: Mapping[str, Template]
    live: dict[str, Template]
    changed_exports: set[str] = field(default_factory=set)
    changed_outputs: set[tuple[str, str]] = field(default_factory=set)

    def deploy(self, name: str, new: Template) -> StackChange:
        old = self.live.get(name)
        if old is None:
            if not resources(new):
                return StackChange(name, StackFate.UNCHANGED)
            self.live[name] = new
            added = tuple(_gone_or_new(new, each, Fate.ADDED) for each in resources(new))
            return StackChange(name, StackFate.NEW, added)
        changes = self._resources(old, new)
        replaced = {each.logical_id for each in changes if each.fate is Fate.REPLACED}
        blocked = self._exports(name, old, new, replaced)
        taken = collisions(old, new, {each.logical_id: each.fate for each in changes})
        if resources(new):
            self.live[name] = new
            fate = StackFate.UPDATED if changes or blocked else StackFate.UNCHANGED
        else:
            del self.live[name]
            fate = StackFate.DELETED
        return StackChange(name, fate, changes, blocked, taken)

    def _resources(self, old: Template, new: Template) -> tuple[ResourceChange, ...]:
        before, after = resources(old), resources(new)
        both = [each for each in after if each in before]
        forced: dict[str, tuple[str, ...]] = {}
        while True:
            # Each turn may replace what refers to that which the last one replaced.
            more = {
                each: why
                for each in both
                if each not in forced and (why := self._forced(before[each], after[each], forced.keys()))
            }
            if not more:
                break
            forced |= more
        changes = []
        for each in both:
            if each in forced:
                changes.append(_replaced(old, new, each, forced[each]))
            elif differing := self._differing(before[each], after[each], forced.keys()):
                held = _holds_data(old, each)
                where = place(each, after[each])
                type_ = str(after[each]["Type"])
                changes.append(ResourceChange(each, type_, where, Fate.CHANGED, differing, held))
        changes += [_gone_or_new(new, each, Fate.ADDED) for each in after if each not in before]
        for each in before:
            if each not in after:
                fate = Fate.KEPT if is_kept(before[each]) else Fate.DELETED
                changes.append(_gone_or_new(old, each, fate))
        return tuple(changes)

    def _forced(self, old: Resource, new: Resource, replaced: Any) -> tuple[str, ...]:
        """The properties that make CloudFormation replace a resource."""
        if old["Type"] != new["Type"]:
            return ("Type",)
        before, after = old.get("Properties") or {}, new.get("Properties") or {}
        found = []
        for path in create_only(new["Type"]) or ():
            values = values_at(after, path)
            if values_at(before, path) != values or self._stale(values, replaced):
                found.append(path)
        return tuple(found)

    def _differing(self, old: Resource, new: Resource, replaced: Any) -> tuple[str, ...]:
        """The properties that differ, or that refer to what is replaced."""
        before, after = old.get("Properties") or {}, new.get("Properties") or {}
        # An output under another name that holds the same as before is no change.
        held_before = without_names_of_outputs(before, self.deployed)
        held_after = without_names_of_outputs(after, self.live)
        names = [
            name
            for name in {**before, **after}
            if held_before.get(name) != held_after.get(name) or self._stale(after.get(name), replaced)
        ]
        return (*names, *(name for name in _COMPARED if old.get(name) != new.get(name)))

    def _stale(self, value: Any, replaced: Any) -> bool:
        """Whether a value refers to something that is another one after the update."""
        found = references(value)
        return bool(
            found.resources & set(replaced)
            or found.exports & self.changed_exports
            or found.outputs & self.changed_outputs
        )

    def _exports(
        self, name: str, old: Template, new: Template, replaced: set[str]
    ) -> tuple[BlockedExport, ...]:
        """The exports that go or change while others import them; notes those that change."""
        before, after = exports(old), exports(new)
        gone = before.keys() - after.keys() if resources(new) else before.keys()
        changed = {
            each
            for each in before.keys() & after.keys()
            if before[each] != after[each] or self._stale(after[each], replaced)
        }
        old_outputs, new_outputs = outputs(old), outputs(new)
        self.changed_outputs |= {
            (name, each)
            for each, value in new_outputs.items()
            if old_outputs.get(each, value) != value or self._stale(value, replaced)
        }
        blocked = []
        for each in before:
            importers = self._importers(each, name)
            if importers and (each in gone or each in changed):
                blocked.append(BlockedExport(each, each in gone, importers))
        self.changed_exports |= changed
        return tuple(blocked)

    def _importers(self, export: str, exporter: str) -> tuple[str, ...]:
        return tuple(
            name
            for name, template in self.live.items()
            if name != exporter and export in references(template).exports
        )


def _replaced(old: Template, new: Template, logical_id: str, why: tuple[str, ...]) -> ResourceChange:
    before, after = resources(old)[logical_id], resources(new)[logical_id]
    # CloudFormation does not document which of the two templates decides: both must keep it.
    stays = is_kept_when_replaced(before) and is_kept_when_replaced(after)
    where = place(logical_id, after)
    held = _holds_data(old, logical_id)
    return ResourceChange(logical_id, str(before["Type"]), where, Fate.REPLACED, why, held, stays)


def _gone_or_new(template: Template, logical_id: str, fate: Fate) -> ResourceChange:
    resource = resources(template)[logical_id]
    held = _holds_data(template, logical_id)
    return ResourceChange(logical_id, str(resource["Type"]), place(logical_id, resource), fate, (), held)


def _holds_data(template: Template, logical_id: str) -> bool:
    """Whether a resource has data in it, or is the key without which other resources' data cannot be read."""
    type_ = resources(template)[logical_id]["Type"]
    if type_ != _KEY:
        return type_ in _DATA
    encrypted = [each.get("Properties") for each in resources(template).values() if each["Type"] in _DATA]
    return logical_id in references([encrypted, list(exports(template).values())]).resources
