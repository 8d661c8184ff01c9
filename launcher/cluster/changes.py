"""What differs between the cluster file that was deployed and the one that is wanted, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from launcher.cluster.specification import ClusterSpec
from launcher.cluster.update_effects import Decided, Effect, FieldPolicy, File, Policy, Values
from launcher.cluster.update_policy import POLICIES
from launcher.failure_modes.model import Path, dotted

Kind = Literal["changed", "added", "removed"]

CLUSTER_FILE_METADATA = "slipway:cluster-file"
"""Where the manifest's parameter has the cluster file that was deployed, as JSON, in its metadata.

Not in the metadata of the template itself: CloudFormation updates those only together with a resource, so
that they would tell of an earlier file (CloudFormation user guide, metadata-section-structure).
"""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs: where it stands, what it was and is to be, and what the change does.

    A list with more or fewer items, and a section that comes or goes, is one change with all of it.
    """

    path: Path
    kind: Kind
    before: Any
    after: Any
    effect: Effect

    @property
    def field(self) -> str:
        """The field as messages name it, such as `vpc.existing.subnets.0.id`."""
        return str(dotted(self.path))

    @property
    def policy(self) -> Policy:
        """What the change does."""
        return self.effect.policy

    def obstacle(self, *, replace_data: bool) -> str | None:
        """Why the change is not to be deployed, in a sentence; None where it may be.

        `replace_data` says that data may be deleted, or left behind. What AWS refuses stays refused.
        """
        if self.policy is Policy.FAILS:
            return f"`{self.field}`: AWS refuses the change: {self.effect.reason}."
        if self.policy is Policy.REPLACES_DATA and not replace_data:
            return f"`{self.field}` replaces data: {self.effect.reason}."
        return None

    def to_json(self) -> dict[str, Any]:
        """The change in the shape that `--output json` prints."""
        return {
            "field": self.field,
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "policy": self.policy.name.lower().replace("_", "-"),
            "reason": self.effect.reason,
        }


_LATER = ("secrets", "secret_keys", "remote_debug")
"""The fields that earlier versions do not know."""


def cluster_file_data(spec: ClusterSpec) -> dict[str, Any]:
    """A cluster file as plain JSON data, with all defaults."""
    return spec.model_dump(mode="json")


def kept_cluster_file(spec: ClusterSpec) -> dict[str, Any]:
    """What is kept of a cluster file with a deployment: all of it, but for `_LATER` where there are none.

    Versions that do not know the fields read the others then, and templates stay as they were.
    """
    kept = cluster_file_data(spec)
    return {name: value for name, value in kept.items() if value or name not in _LATER}


def deployed_cluster_file(template: Mapping[str, Any]) -> dict[str, Any] | None:
    """The cluster file in the template of a deployed manifest stack; None where an earlier version made it.

    Raises ValueError where what stands there is not the JSON of a mapping.
    """
    for resource in template.get("Resources", {}).values():
        text = resource.get("Metadata", {}).get(CLUSTER_FILE_METADATA)
        if text is not None:
            found = json.loads(text) if isinstance(text, str) else text
            if not isinstance(found, dict):
                raise ValueError(f"{CLUSTER_FILE_METADATA} holds no mapping")
            return found
    return None


def changes(deployed: ClusterSpec | File, wanted: ClusterSpec) -> list[FieldChange]:
    """What differs between the file that was deployed and the one that is wanted, in the file's order.

    A field that the deployed file does not have, because an earlier version wrote it, has its default.
    """
    before = cluster_file_data(deployed) if isinstance(deployed, ClusterSpec) else dict(deployed)
    after = cluster_file_data(wanted)
    return list(_in_section(ClusterSpec, before, after, (), "", (before, after)))


def fields_of(model: type[BaseModel] = ClusterSpec, prefix: str = "") -> Iterator[str]:
    """Every field of the model that can change by itself, as `POLICIES` writes its path."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        part, mark = _part(info.annotation)
        if part is None or mark or (not info.is_required() and info.default is None):
            yield path
        if part is not None:
            yield from fields_of(part, f"{path}{mark}.")


def _in_section(
    model: type[BaseModel],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    path: Path,
    prefix: str,
    files: tuple[File, File],
) -> Iterator[FieldChange]:
    for name, info in model.model_fields.items():
        old = before[name] if name in before else _default(info)
        new = after[name]
        part, mark = _part(info.annotation)
        yield from _in_field((*path, name), f"{prefix}{name}", old, new, part, mark, files)
    for name in before.keys() - model.model_fields.keys():
        unknown = Effect(Policy.UNKNOWN, "this version of Slipway does not know the field")
        yield FieldChange((*path, name), "removed", before[name], None, unknown)


def _in_field(
    path: Path,
    row: str,
    old: Any,
    new: Any,
    part: type[BaseModel] | None,
    mark: str,
    files: tuple[File, File],
) -> Iterator[FieldChange]:
    if old == new:
        return
    # A file system of the cluster's own and one that is there already have no field in common.
    exchanged = row == "lustre" and _exists(old) is not _exists(new)
    if part is None or not _comparable(old, new) or exchanged:
        yield _change(path, POLICIES[row], old, new, files)
    elif mark == "[]":
        if len(old) != len(new):
            yield _change(path, POLICIES[row], old, new, files)
        # The resources of a list are numbered: the first of the old ones becomes the first of the new ones.
        for position, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _in_section(part, one, other, (*path, position), f"{row}[].", files)
    elif mark == "{}":
        for name in {**old, **new}:
            if name in old and name in new:
                yield from _in_section(part, old[name], new[name], (*path, name), f"{row}{{}}.", files)
            else:
                yield _change((*path, name), POLICIES[row], old.get(name), new.get(name), files)
    else:
        yield from _in_section(part, old, new, path, f"{row}.", files)


def _exists(lustre: Any) -> bool:
    """Whether the section `lustre` names a file system that is there already."""
    return lustre is not None and lustre.get("existing") is not None


def _comparable(old: Any, new: Any) -> bool:
    return old is not None and new is not None and type(old) is type(new)


def _change(path: Path, row: FieldPolicy, old: Any, new: Any, files: tuple[File, File]) -> FieldChange:
    kind: Kind = "changed"
    if old in (None, [], {}) or (_lists(old, new) and len(old) < len(new)):
        kind = "added"
    elif new in (None, [], {}) or (_lists(old, new) and len(old) > len(new)):
        kind = "removed"
    effect = {"added": row.added, "removed": row.removed}.get(kind) or row.changed
    if isinstance(effect, Decided):
        effect = effect.effect(Values(old, new, *files))
    return FieldChange(path, kind, old, new, effect)


def _lists(old: Any, new: Any) -> bool:
    return isinstance(old, list) and isinstance(new, list)


def _default(info: Any) -> Any:
    """A field's default as the file's data would have it."""
    value = info.get_default(call_default_factory=True)
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _part(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside of a field's annotation, and how a path marks that there are many: `[]` or `{}`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    mark = {list: "[]", dict: "{}"}.get(get_origin(annotation), "")
    for inner in reversed(get_args(annotation)):
        part, within = _part(inner)
        if part is not None:
            return part, mark or within
    return None, ""
