"""Files of a cluster on this machine: its cluster file, and the templates that `cdk synth` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from launcher.cluster.specification import ClusterSpec
from launcher.documents import DocumentError, read_document, validate_document
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Location
from launcher.failure_modes.model import Path as FieldPath
from launcher.frozen import frozen

CLUSTERS = Path("clusters")
"""Where the cluster files are, below the folder that the CDK is called in."""

_AS_WRITTEN = (("account",), ("tags", "*"))
"""Account numbers and tags are text: `cost-centre: 0070` needs no quotes."""


class ClusterFileError(Exception):
    """A cluster file that cannot be used; `problems` has one text for each thing wrong with it."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_cluster_file(path: Path) -> ClusterSpec:
    """Read and validate a cluster file.

    Raises:
        ClusterFileError: the file cannot be read, is not YAML or does not fit the schema; all
            problems of the schema are reported at once, with line, column and code.
    """
    try:
        document = read_document(path, _AS_WRITTEN)
    except OSError as error:
        raise ClusterFileError(f"{path}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        code = job_file.UNREADABLE.code
        raise ClusterFileError(f"{error.location}: {code} {error.message}") from error
    spec, findings = validate_document(ClusterSpec, document)
    if spec is None:
        raise ClusterFileError(*_findings_in_words(found.located(document.location) for found in findings))
    return spec


def _findings_in_words(findings: Iterable[Finding]) -> Iterator[str]:
    """Each finding with its remedy; a remedy that several share, such as a table, is told once."""
    remedies: set[str] = set()
    for found in findings:
        remedy = "See above for what is possible." if found.remedy in remedies else found.remedy
        remedies.add(found.remedy)
        yield f"{found.location}: {found.code} {found.message}. {remedy}"


def cluster_file(chosen: str, folder: Path) -> Path:
    """The file that is meant: a name is that of a file in the folder; a slash or `.yaml` makes a path."""
    return Path(chosen) if _is_path(chosen) else folder / f"{chosen}.yaml"


def load_cluster(chosen: str, folder: Path) -> ClusterSpec:
    """The cluster that `-c cluster=` or a command chose: see `cluster_file`.

    Raises:
        ClusterFileError: there is no such cluster, or its file is not valid; the message lists the
            clusters that there are.
    """
    try:
        path = cluster_file(chosen, folder)
        if _is_path(chosen):
            return load_cluster_file(path)
        if not path.is_file():
            raise ClusterFileError(f"there is no cluster {chosen!r}: {path} does not exist")
        spec = load_cluster_file(path)
        if spec.name != chosen:
            # Else two files could deploy over each other's stacks.
            raise ClusterFileError(f"{path}: name: {spec.name!r} must be {chosen!r}, as the file is called")
        return spec
    except ClusterFileError as error:
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
        raise ClusterFileError(*error.problems, f"known clusters: {known} (in {folder})") from error


def region_in_file(name: str, folder: Path = CLUSTERS) -> str | None:
    """The region of the cluster of this name, by its file; None where there is no valid one."""
    try:
        return load_cluster(name, folder).region
    except ClusterFileError:
        return None


def field_location(file: Path, path: FieldPath) -> Location:
    """Where a field stands in a valid cluster file, or the nearest part around it that does."""
    return read_document(file, ()).location(*path)


def _is_path(chosen: str) -> bool:
    return "/" in chosen or chosen.endswith((".yaml", ".yml"))


def read_templates(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The stacks of a cloud assembly with their templates, in the order of deployment.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not JSON.
        KeyError: the manifest is not one of a cloud assembly.
    """
    artifacts = json.loads((folder / "manifest.json").read_text("utf-8"))["artifacts"]
    stacks = {name: each for name, each in artifacts.items() if each["type"] == "aws:cloudformation:stack"}
    for name in _in_order(stacks):
        path = folder / stacks[name]["properties"]["templateFile"]
        yield name, json.loads(path.read_text("utf-8"))


def _in_order(stacks: dict[str, Any]) -> list[str]:
    placed: list[str] = []

    def place(name: str) -> None:
        for needed in stacks[name].get("dependencies", ()):
            if needed in stacks and needed not in placed:
                place(needed)
        if name not in placed:
            placed.append(name)

    for name in stacks:
        place(name)
    return placed


Template = Mapping[str, Any]
"""A template as the JSON that the CDK writes, or GetTemplate answers."""

Resource = Mapping[str, Any]

_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[A-Za-z0-9.]+)?\}")
"""A reference inside of Fn::Sub; `${!Literal}` is none, nor is `${AWS::Region}`."""


_KEEPING = frozenset({"Retain", "RetainExceptOnCreate"})
"""Of DeletionPolicy and UpdateReplacePolicy (CloudFormation user guide, aws-attribute-deletionpolicy)."""


@frozen
class Reference:
    """One reference to a resource of the template, to an export, or to an output of another stack.

    `stack` is that of an output, which a weak reference (Fn::GetStackOutput) reads; else it is empty. `under`
    is the property that the reference stands under.
    """

    kind: Literal["resource", "export", "output"]
    name: str
    under: str
    stack: str = ""


@frozen
class References:
    """What a value refers to: resources of its template, exports, and outputs as (stack, output)."""

    resources: frozenset[str]
    exports: frozenset[str]
    outputs: frozenset[tuple[str, str]]


def resources(template: Template) -> Mapping[str, Resource]:
    """The resources by their logical ids."""
    found: Mapping[str, Resource] = template.get("Resources") or {}
    return found


def exports(template: Template) -> dict[str, Any]:
    """The values that other stacks import, by the names of the exports."""
    outputs = template.get("Outputs") or {}
    return {
        _text(output["Export"]["Name"]): output.get("Value")
        for output in outputs.values()
        if "Export" in output
    }


def outputs(template: Template) -> dict[str, Any]:
    """The values of all outputs, by their logical ids."""
    return {name: output.get("Value") for name, output in (template.get("Outputs") or {}).items()}


def references(value: Any) -> References:
    """Everything that a value refers to, however deep."""
    found = list(each_reference(value))
    return References(
        frozenset(each.name for each in found if each.kind == "resource"),
        frozenset(each.name for each in found if each.kind == "export"),
        frozenset((each.stack, each.name) for each in found if each.kind == "output"),
    )


def without_names_of_outputs(value: Any, templates: Mapping[str, Template]) -> Any:
    """A value in which each weak reference has what the output holds, not what the output is called.

    `templates` are those of the stacks that are read, by name; what stands in none stays as it is.
    """
    if isinstance(value, list):
        return [without_names_of_outputs(each, templates) for each in value]
    if not isinstance(value, Mapping):
        return value
    inner = value.get("Fn::GetStackOutput")
    if isinstance(inner, Mapping):
        stack = _stack_name(inner.get("StackName"))
        held = outputs(templates.get(stack) or {})
        name = _text(inner.get("OutputName"))
        return {"Fn::GetStackOutput": [stack, held[name]]} if name in held else value
    return {key: without_names_of_outputs(each, templates) for key, each in value.items()}


def each_reference(value: Any, under: str = "") -> Iterator[Reference]:
    """Every reference in a value, in the order in which they stand, however deep."""
    if isinstance(value, list):
        for each in value:
            yield from each_reference(each, under)
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if key == "Ref" and isinstance(inner, str):
            yield Reference("resource", inner, under)
        elif key == "Fn::GetAtt":
            name = inner.partition(".")[0] if isinstance(inner, str) else str(inner[0])
            yield Reference("resource", name, under)
        elif key == "Fn::ImportValue":
            yield Reference("export", _text(inner), under)
        elif key == "Fn::GetStackOutput" and isinstance(inner, Mapping):
            stack = _stack_name(inner.get("StackName"))
            yield Reference("output", _text(inner.get("OutputName")), under, stack)
        else:
            if key == "Fn::Sub":
                text = inner[0] if isinstance(inner, list) else inner
                for name in _SUBSTITUTION.findall(str(text)):
                    yield Reference("resource", name, under)
            yield from each_reference(inner, under if key.startswith("Fn::") else key)


def is_kept(resource: Resource) -> bool:
    """Whether a resource stays in the account when its stack, or the stack's part with it, is deleted."""
    return resource.get("DeletionPolicy") in _KEEPING


def is_kept_when_replaced(resource: Resource) -> bool:
    """Whether a resource stays in the account when another one takes its place."""
    return resource.get("UpdateReplacePolicy") in _KEEPING


def place(logical_id: str, resource: Resource) -> str:
    """Where a resource stands in the app, as the CDK writes it into the template; else its logical id."""
    path = str(resource.get("Metadata", {}).get("aws:cdk:path", logical_id))
    parts = path.split("/")[1:] if "/" in path else [path]
    return "/".join(part for part in parts if part not in ("Resource", "Default")) or logical_id


def as_answered(value: Any) -> Any:
    """A value as GetTemplate would answer it: CloudFormation keeps no character beyond ASCII, but a `?`."""
    if isinstance(value, str):
        return value if value.isascii() else re.sub(r"[^\x00-\x7f]", "?", value)
    if isinstance(value, Mapping):
        return {as_answered(key): as_answered(each) for key, each in value.items()}
    return [as_answered(each) for each in value] if isinstance(value, list) else value


def _stack_name(value: Any) -> str:
    """The name in a stack's name or ARN (`arn:...:stack/NAME/...`)."""
    text = _text(value)
    return text.split("/")[1] if text.startswith("arn:") and "/" in text else text


def _text(value: Any) -> str:
    """A name; one that is made of references has its JSON for a name."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
