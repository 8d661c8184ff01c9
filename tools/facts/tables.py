"""All tables of facts: found by what they are, each with whatever it can be compared with."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from launcher.facts.provenance import Provenance, provenance_of
from tools.facts import images, instances, made_from_packages, prices, quota_codes, regions, versions
from tools.facts.comparison import Comparison
from tools.generate.generated import ROOT

LAUNCHER: Final = ROOT / "launcher"

DERIVED: Final = frozenset({"launcher/failure_modes/coverage.json"})
"""Data files that hold no fact of others: collected from our own code."""

COMPARED: Final[dict[str, Callable[[], Iterator[Comparison]]]] = {
    "launcher/account/quota_codes.json": quota_codes.comparisons,
    "launcher/cluster/instances.json": instances.comparisons,
    "launcher/cluster/regions.py": regions.comparisons,
    "launcher/planning/api_model.json": made_from_packages.api_model,
    "launcher/planning/ec2_prices.json": prices.comparisons,
    "launcher/planning/image_releases.json": images.software,
    "launcher/planning/images.json": lambda: chain(made_from_packages.images(), images.releases()),
    "launcher/planning/strategies/in_tuning_job.py": versions.torchrun_in_tuning_jobs,
    "launcher/planning/strategies/smddp.py": versions.data_parallel,
    "launcher/planning/strategies/torch_xla.py": versions.training_compiler,
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
        elif path.suffix == ".py" and "\nPROVENANCE: " in path.read_text("utf-8"):
            yield Table(name, _in_code(path))


def _in_code(path: Path) -> Provenance:
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    provenance = module.PROVENANCE
    assert isinstance(provenance, Provenance), path
    return provenance
