"""The container brings no catalogue along: what it says of failure modes agrees with the catalogue."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slipway
from launcher.failure_modes.catalogue import CATALOGUE
from slipway.evidence import Evidence
from slipway.failure import REPORTS


def codes_written() -> set[str]:
    """The codes of failure modes that stand as strings in the container's code, the list itself left out."""
    written: set[str] = set()
    for file in Path(str(slipway.__file__)).parent.rglob("*.py"):
        for statement in ast.parse(file.read_text("utf-8")).body:
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "REPORTS":
                continue
            written |= {node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)} & set(
                CATALOGUE
            )
    return written


def test_the_container_announces_every_code_that_it_writes_and_no_other() -> None:
    assert codes_written() == set(REPORTS)


@pytest.mark.parametrize("code", REPORTS)
def test_a_report_weighs_on_a_host_what_it_weighs_in_the_catalogue(code: str) -> None:
    assert Evidence(code, "", None, "").weight == CATALOGUE[code].weakness
