"""Write launcher/planning/api_model.json: the shapes of the requests that the launcher sends.

botocore's service model takes a quarter of a second to load and validates types, required keys and
minima only; this table holds what the service checks besides: maxima, patterns, enums. Run after an
upgrade of `boto3`:  python -m tools.generate api_model [--check]
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import botocore.session

from tools.generate.generated import ROOT, dated, in_rows

TABLE = ROOT / "launcher" / "planning" / "api_model.json"
OPERATIONS = ("CreateTrainingJob", "CreateHyperParameterTuningJob")
CONSTRAINTS = ("min", "max", "pattern", "enum")


def generated() -> dict[Path, str]:
    """What the table's file should hold now."""
    source = f"botocore {version('botocore')}"
    model = dated(TABLE, source, api_model(*OPERATIONS), shelf_life_days=90, packages=["botocore"])
    return {TABLE: in_rows(model, "shapes")}


def api_model(*operations: str) -> dict[str, Any]:
    """Per operation the name of its input shape, and every shape that it reaches."""
    service = botocore.session.get_session().get_service_model("sagemaker")
    shapes: dict[str, dict[str, Any]] = {}
    inputs = {}
    for operation in operations:
        shape = service.operation_model(operation).input_shape
        inputs[operation] = shape.name
        _collect(shape, shapes)
    return {"operations": inputs, "shapes": shapes}


def _collect(shape: Any, shapes: dict[str, dict[str, Any]]) -> None:
    if shape.name in shapes:
        return
    row: dict[str, Any] = {"type": shape.type_name}
    row |= {name: shape.metadata[name] for name in CONSTRAINTS if name in shape.metadata}
    shapes[shape.name] = row
    if shape.type_name == "structure":
        row["members"] = {name: member.name for name, member in shape.members.items()}
        row["required"] = list(shape.required_members)
        inner = list(shape.members.values())
    elif shape.type_name == "list":
        row["member"] = shape.member.name
        inner = [shape.member]
    elif shape.type_name == "map":
        row |= {"key": shape.key.name, "value": shape.value.name}
        inner = [shape.key, shape.value]
    else:
        inner = []
    for each in inner:
        _collect(each, shapes)
