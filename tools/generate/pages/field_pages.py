"""Write docs/reference/job-file.md, docs/job.schema.json and docs/reference/cluster-file.md from the models.

What a field means is written once, in launcher/jobs/ and launcher/cluster/; everything else comes from
tools/generate/pages/. Below stands how a JSON schema reads as Markdown: a table for each part, with its
fields, their values, defaults and meanings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.cli.interaction import as_json
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import POLICIES
from launcher.jobs.specification import job_schema
from tools.generate.generated import ROOT, filled_in, table_of

CLUSTER_PAGE = ROOT / "docs" / "reference" / "cluster-file.md"
JOB_PAGE = ROOT / "docs" / "reference" / "job-file.md"
JOB_SCHEMA = ROOT / "docs" / "job.schema.json"

Schema = Mapping[str, Any]

_SCALARS = {"string", "integer", "number", "boolean"}


def generated() -> dict[Path, str]:
    """What each generated file should hold now."""
    # The page's headings have no mark for the items of a list, and NAME for those of a mapping.
    policies = {path.replace("[]", "").replace("{}", ".NAME"): row.words for path, row in POLICIES.items()}
    schema = job_schema()
    job, cluster = fields_of(schema), fields_of(ClusterSpec.model_json_schema(), policies)
    return {
        JOB_PAGE: filled_in(JOB_PAGE, __name__, "launcher/jobs/", {"fields": job}),
        JOB_SCHEMA: as_json(schema) + "\n",
        CLUSTER_PAGE: filled_in(CLUSTER_PAGE, __name__, "launcher/cluster/", {"fields": cluster}),
    }


def fields_of(schema: Schema, when_changed: Mapping[str, str] | None = None) -> str:
    """The fields at the top, then those of each part where it first appears, below a heading of its own.

    With `when_changed`, by dotted paths as the headings have them, there is a column of that name.
    """
    parts = [_table(schema, schema["$defs"], (), when_changed)]
    for path, part in _parts(schema, schema["$defs"]):
        parts += [f"## {'.'.join(path)}\n", f"{part['description']}\n"]
        parts.append(_table(part, schema["$defs"], path, when_changed))
    return "\n".join(parts)


def _parts(schema: Schema, parts: Schema) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Every part of the file that has fields of its own, by where it stands, in the file's order."""
    for name, field in schema["properties"].items():
        part, many = _part(field, parts)
        if part is not None:
            path = (name, "NAME") if many else (name,)
            yield path, part
            for below, inner in _parts(part, parts):
                yield (*path, *below), inner


def _part(field: Schema, parts: Schema) -> tuple[Schema | None, bool]:
    """The part that a field or each item of a list holds, if any, and whether it holds many by name."""
    for option in _options(field):
        if "$ref" in option:
            found = parts[option["$ref"].rpartition("/")[2]]
            if "properties" in found:
                return found, False
        values = _values(option)
        if values is not None:
            return _part(values, parts)[0], True
        in_list, many = _part(option["items"], parts) if "items" in option else (None, False)
        if in_list is not None:
            return in_list, many
    return None, False


def _table(
    schema: Schema, parts: Schema, path: tuple[str, ...], when_changed: Mapping[str, str] | None
) -> str:
    required = schema.get("required", ())
    head = ["field", "value", "default", "meaning", *(["when changed"] if when_changed is not None else [])]
    rows = []
    for name, field in schema["properties"].items():
        row = [f"`{name}`", _type(field, parts, (*path, name)), _default(name, field, required)]
        row.append(_cell(field.get("description", _described(field, parts))))
        if when_changed is not None:
            row.append(_cell(when_changed.get(".".join((*path, name)), "as its fields")))
        rows.append(row)
    return table_of(head, rows)


def _described(field: Schema, parts: Schema) -> str:
    part, _ = _part(field, parts)
    return str(part["description"]) if part else ""


def _type(field: Schema, parts: Schema, path: tuple[str, ...]) -> str:
    options = [option for option in _options(field) if option.get("type") != "null"]
    if {option.get("type") for option in options} >= _SCALARS:
        return "any single value"
    words = [_words(option, parts, path) for option in options]
    return " or ".join(dict.fromkeys(word for word in words if word))


def _values(option: Schema) -> Schema | None:
    """What the values of a mapping are, where its names are free."""
    patterns = option.get("patternProperties")
    values = next(iter(patterns.values())) if patterns else option.get("additionalProperties")
    return values if isinstance(values, dict) else None


def _words(option: Schema, parts: Schema, path: tuple[str, ...]) -> str:
    if "$ref" in option:
        part = parts[option["$ref"].rpartition("/")[2]]
        if "enum" in part:
            return _words(part, parts, path)
        return f"[{'.'.join(path)}](#{''.join(path).lower()})"
    if "enum" in option:
        return ", ".join(f"`{value}`" for value in option["enum"])
    if "const" in option:
        return f"`{option['const']}`"
    if option.get("type") == "array":
        items = _type(option.get("items", {}), parts, path)
        return f"list of {items}" if items else "list"
    if option.get("type") == "object":
        values = _values(option)
        words = _type(values, parts, (*path, "NAME")) if values is not None else ""
        return f"mapping of names to {words}" if words else "mapping"
    return _scalar(option)


def _scalar(option: Schema) -> str:
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    text = words.get(option.get("type", ""), "")
    low = option.get("minimum", option.get("exclusiveMinimum"))
    high = option.get("maximum", option.get("exclusiveMaximum"))
    if low is not None and high is not None:
        text += f", {low} to {high}"
    elif low not in (None, 0):
        text += f", at least {low}"
    return text


def _default(name: str, field: Schema, required: Any) -> str:
    if name in required:
        return "**required**"
    value = field.get("default")
    if value in (None, [], {}) or isinstance(value, dict):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _options(field: Schema) -> list[Schema]:
    """What a field may be; choices within choices count as one list."""
    if "anyOf" not in field:
        return [field]
    return [option for each in field["anyOf"] for option in _options(each)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
