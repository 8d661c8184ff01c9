"""What docs/contributing/aws-guides.md says of limits and published runs is what the launcher goes by."""

from __future__ import annotations

import re

from launcher.cluster.instances import instance_facts
from launcher.experiments.fabric_proof import in_percent, limit_of, published_runs
from launcher.text.values import memory_in_words
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "contributing" / "aws-guides.md").read_text("utf-8")
GPUS = 8


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first line begins so."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    table = lines[2 : next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def efa_of(name: str) -> int:
    facts = instance_facts(f"ml.{name}")
    assert facts is not None
    return facts.efa_gbps


def test_the_limits_of_the_page_are_those_of_the_types_and_none_is_as_high_as_what_is_demanded() -> None:
    found = rows("| type | EFA of a host |")
    assert len(found) == 4
    for names, efa, two, more, demanded, share, _ in found:
        for name in names.split(", "):
            gbps = efa_of(name)
            limit = limit_of(gbps, 2, 2 * GPUS)
            assert efa == f"{gbps:,} Gbit/s = {gbps / 8:g} GB/s"
            assert two == f"{limit:g} GB/s"
            assert more == f"{limit_of(gbps, 3, 3 * GPUS):g} GB/s"
            wanted = float(demanded.split()[0])
            assert wanted > limit
            assert share == f"{100 * wanted / limit:.0f} %"


def test_the_published_runs_of_the_page_are_those_of_the_table() -> None:
    found = rows("| hosts | at |")
    told = [
        [
            f"{run.hosts} × {run.instance_type.removeprefix('ml.')}",
            memory_in_words(run.bytes).replace(".0", ""),
            f"{run.busbw:g} GB/s",
            f"{100 * run.share_of(efa_of(run.instance_type.removeprefix('ml.'))):.0f} %",
            run.date,
        ]
        for run in published_runs()
    ]
    assert [[*row[:4], row[5]] for row in found] == told
    assert {run.source for run in published_runs()} == set(re.findall(r"\]\((https://[^)]+)\)", PAGE))
    assert in_percent(min(run.share_of(efa_of(run.instance_type[3:])) for run in published_runs())) == "58 %"
