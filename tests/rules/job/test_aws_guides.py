"""What docs/contributing/aws-guides.md says of a setting is what the plan and the rules do with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.session.prepare_plan import source_of

PAGE = Path(__file__).parents[3] / "docs" / "contributing" / "aws-guides.md"
SETS, SILENT = "sets it", "no finding"


def rows() -> list[tuple[str, str, str, str, str]]:
    """Name, value, instance type, PyTorch version and what Slipway does, for each row of both tables."""
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not cells[0].startswith("`") or "=" not in cells[0]:
            continue
        name, _, value = cells[0].strip("`").partition("=")
        instance_type, _, version = (cells[1] if len(cells) == 5 else "p5.48xlarge, 2.13.0").partition(", ")
        found.append((name, value, f"ml.{instance_type}", version, cells[-1]))
    return found


ROWS = rows()


def test_both_tables_are_read() -> None:
    assert len(ROWS) > 80
    assert {row[-1].split(" (")[0] for row in ROWS} == {
        SETS, SILENT, "NCCL001", "NCCL002", "NCCL003", "EFA005", "EFA007"
    }  # fmt: skip


def test_no_setting_is_judged_in_two_ways_where_the_tables_meet() -> None:
    assert len({row[:4] for row in ROWS}) == len(set(ROWS))


@pytest.mark.parametrize(
    ("name", "value", "instance_type", "version", "does"),
    list(dict.fromkeys(ROWS)),
    ids=lambda cell: str(cell),
)
def test_the_page_says_what_is_done(
    judge, write_job: Callable[..., Path], name: str, value: str, instance_type: str, version: str, does: str
) -> None:
    job = {
        "framework": {"version": version},
        "resources": {"instance_type": instance_type, "instance_count": 2},
    }
    about_it = [
        f"{finding.code} ({finding.severity.value})"
        for finding in judge(environment={name: value}, **job)
        if finding.subject == f"environment.{name}"
    ]
    if does in (SETS, SILENT):
        assert about_it == []
        loaded = load_job(write_job(**job))
        source = source_of(loaded.spec, loaded.file.parent)
        plan = plan_job(
            loaded.spec, None, unique="0", source=source, session_region="us-west-2", today=date(2026, 11, 22)
        )
        assert (plan.request["Environment"].get(name) == value) is (does == SETS)
    else:
        assert re.fullmatch(r"[A-Z]+\d{3} \((info|warning|error)\)", does)
        assert about_it == [does]
