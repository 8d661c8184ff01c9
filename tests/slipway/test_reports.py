"""The container brings no catalogue along: what it says of failure modes agrees with the catalogue."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import slipway
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Stage
from slipway.failure import REPORTS
from slipway.signatures.judging import CASCADE
from slipway.signatures.table import table

ONLY_THE_SERVICE_SAYS = {"CKPT004", "FSX005"}
"""Planned for the container by other means: the lines of their signatures are printed outside of it."""


@cache
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


@cache
def codes_read_from_outputs() -> set[str]:
    """Those by which an output can be judged."""
    rows = {row.code for row in table().rows if row.role <= CASCADE}
    return rows | {context.code for context in table().contexts}


def test_the_container_announces_every_code_that_it_writes() -> None:
    assert codes_written() <= set(REPORTS)


def test_it_announces_what_it_reads_from_outputs_where_that_is_planned() -> None:
    planned = {code for code in codes_read_from_outputs() if Stage.RUNTIME in CATALOGUE[code].stages}
    assert planned - ONLY_THE_SERVICE_SAYS <= set(REPORTS)


@pytest.mark.parametrize("code", REPORTS)
def test_it_announces_nothing_that_it_cannot_say(code: str) -> None:
    assert code in codes_written() | codes_read_from_outputs()
    assert Stage.RUNTIME in CATALOGUE[code].stages
