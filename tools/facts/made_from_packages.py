"""Tables that were made from packages, against what the installed packages say today: those that a script
writes, and the regions of launcher/cluster/names.py, of which cfn-lint has CloudFormation's registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from launcher.cluster.names import WITHOUT_BUDGETS, WITHOUT_FSX, WITHOUT_HYPERPOD
from launcher.facts import provenance_of
from tools.facts.comparison import Comparison, Figure, compare, memberships
from tools.generate import api_model as generate_api_model
from tools.generate import create_only as generate_create_only
from tools.generate import image_table

_HEAD = ("as_of", "shelf_life_days", "source", "packages")


def api_model() -> Iterator[Comparison]:
    """launcher/planning/api_model.json against botocore's service model."""
    yield _anew(generate_api_model.TABLE, generate_api_model.generated)


def create_only() -> Iterator[Comparison]:
    """launcher/provisioning/create_only.json against cfn-lint's schemas and the CDK's specification."""
    yield _anew(generate_create_only.TABLE, generate_create_only.generated)


def images() -> Iterator[Comparison]:
    """launcher/planning/images.json against the SageMaker SDK's data files."""
    yield _anew(image_table.TABLE, image_table.generated)


def regions() -> Iterator[Comparison]:
    """Where budgets, file systems and HyperPod clusters cannot be made."""
    lacking = {
        "AWS::Budgets::Budget": WITHOUT_BUDGETS,
        "AWS::FSx::FileSystem": WITHOUT_FSX,
        "AWS::SageMaker::Cluster": WITHOUT_HYPERPOD,
    }
    figures = (
        figure
        for type_, ours in lacking.items()
        for figure in memberships(f"regions without {type_}", ours, _without(type_))
    )
    yield compare(f"cfn-lint {version('cfn-lint')}", figures, independent=False)


def _without(type_: str) -> Iterator[str]:
    for region in REGIONS:
        try:
            PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, type_)
        except ResourceNotFoundError:
            yield region


def _anew(table: Path, generated: Callable[[], Mapping[Path, str]]) -> Comparison:
    """A table against what its script would write now, value by value."""
    theirs = json.loads(generated()[table])
    source = provenance_of(theirs).source
    return compare(source, _figures(json.loads(table.read_text("utf-8")), theirs), independent=False)


def _figures(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Figure]:
    flat_ours, flat_theirs = dict(_values(ours)), dict(_values(theirs))
    for path in dict.fromkeys([*flat_theirs, *flat_ours]):
        yield path, flat_ours.get(path), flat_theirs.get(path)


def _values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with the names that lead to it; lists are values. The head is no fact."""
    if isinstance(value, dict):
        for name, each in value.items():
            if path or name not in _HEAD:
                yield from _values(each, f"{path} / {name}".removeprefix(" / "))
    else:
        yield path, value
