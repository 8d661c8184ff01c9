"""A change of every field of the cluster file, from `field_changes.yaml`, which says how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

File = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """Two cluster files, each as what differs from `BASE`; `in_other_words` is told of in the table."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    kind: str = "changed"
    in_other_words: bool = False


def _changes(row: Mapping[str, Any]) -> Iterator[Change]:
    in_other_words = row.get("in_other_words", False)
    if "without" in row:
        yield Change(row["without"], row["with"], "added", in_other_words)
        yield Change(row["with"], row["without"], "removed", in_other_words)
    else:
        yield Change(row["before"], row["after"], row.get("kind", "changed"), in_other_words)


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

BASE: File = _TABLE["base"]

CHANGES: Mapping[str, tuple[Change, ...]] = {
    field: tuple(change for row in rows for change in _changes(row))
    for field, rows in _TABLE["changes"].items()
}
