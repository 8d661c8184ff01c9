"""All tables of facts: found by what they are, each with whatever it can be compared with."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from launcher.facts import Provenance, provenance_of
from tools.facts import instances, made_from_packages, quoted_tables, versions
from tools.facts.comparison import Comparison
from tools.generate.generated import ROOT

LAUNCHER: Final = ROOT / "launcher"

DERIVED: Final = frozenset(
    {
        "launcher/diagnosis/signatures/table.json",
        "launcher/failure_modes/catalogue.json",
        "launcher/failure_modes/coverage.json",
        "launcher/program/libraries.json",
    }
)
"""Data files made of our own code and tables, and of failure modes, whose sources have days of their own."""

COMPARED: Final[dict[str, Callable[[], Iterator[Comparison]]]] = {
    "launcher/account/quota_codes.json": quoted_tables.quota_codes,
    "launcher/cluster/instances.json": instances.comparisons,
    "launcher/cluster/names.py": made_from_packages.regions,
    "launcher/planning/api_model.json": made_from_packages.api_model,
    "launcher/planning/ec2_prices.json": quoted_tables.ec2_prices,
    "launcher/planning/image_releases.json": quoted_tables.image_contents,
    "launcher/planning/images.json": lambda: chain(
        made_from_packages.images(), quoted_tables.image_releases()
    ),
    "launcher/planning/strategies/catalogue.py": versions.torchrun_in_tuning_jobs,
    "launcher/planning/strategies/toolkit.py": lambda: chain(
        versions.data_parallel(), versions.training_compiler()
    ),
    "launcher/rules/job/image_packages.json": quoted_tables.image_packages,
    "launcher/provisioning/create_only.json": made_from_packages.create_only,
}
"""The rest is of pages that only people can read: there age is all that can be told."""


@dataclass(frozen=True, slots=True)
class Table:
    """A data file, or a module with a table in it, by its path from the root."""

    path: str
    provenance: Provenance

    def comparisons(self) -> Iterator[Comparison]:
        """Against every source that can be had offline; none where there is none."""
        yield from COMPARED.get(self.path, lambda: iter(()))()


def tables() -> Iterator[Table]:
    """Every table of the launcher, in the order of the paths."""
    for path in sorted(LAUNCHER.rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".json" and name not in DERIVED:
            yield Table(name, provenance_of(json.loads(path.read_text("utf-8"))))
        elif path.suffix == ".py":
            for constant in re.findall(r"^(\w*PROVENANCE): ", path.read_text("utf-8"), re.MULTILINE):
                yield Table(name, _in_code(path, constant))


def _in_code(path: Path, constant: str) -> Provenance:
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    provenance = getattr(module, constant)
    assert isinstance(provenance, Provenance), path
    return provenance
