"""Every number in a text that a user reads has a source beside it, or says why it needs none."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher import failure_modes
from launcher.failure_modes.model import FailureMode, Figure
from launcher.failure_modes.registry import CATALOGUE
from tests.failure_modes.numbers import figures_in

ROOT = Path(__file__).parents[2]
PATTERNS_AND_EXAMPLES = {"diagnosis"}
"""Rooms whose strings are mostly what programs print; the catalogue's texts have a test of their own."""

MODULES = sorted(
    path
    for path in (ROOT / "launcher").rglob("*.py")
    if path.relative_to(ROOT / "launcher").parts[0] not in PATTERNS_AND_EXAMPLES | {"failure_modes"}
)


FIGURES = [(mode, figure) for mode in CATALOGUE.values() for figure in mode.figures]


def texts(mode: FailureMode) -> list[str]:
    return [mode.title, mode.cause, mode.remedy]


def test_every_figure_of_a_mode_is_listed_and_every_listed_one_is_in_its_texts() -> None:
    differ = {}
    for mode in CATALOGUE.values():
        written = {number for text in texts(mode) for number in figures_in(text)}
        if different := written ^ {figure.number for figure in mode.figures}:
            differ[mode.code] = different
    assert differ == {}


def test_a_figure_is_of_a_source_that_its_mode_cites() -> None:
    assert [figure for mode, figure in FIGURES if figure.source not in (None, *mode.sources)] == []


def test_a_figure_without_a_source_says_what_it_is_instead() -> None:
    reasons = ("a sum", "example", "of our own", "by definition", "by its name")
    unsaid = [figure for _, figure in FIGURES if not any(reason in figure.what for reason in reasons)]
    assert [figure for figure in unsaid if figure.source is None] == []


def test_a_notice_has_no_figure_beside_its_date() -> None:
    for mode in CATALOGUE.values():
        for notice in mode.notices:
            text = notice.text.replace(str(notice.since), "")
            assert list(figures_in(text)) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "launcher")))
def test_every_figure_in_a_message_is_of_a_source_in_its_module(path: Path) -> None:
    """Of the modes that the module finds, of a `Setting` with its source, or of the module's own FIGURES."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    figures = getattr(importlib.import_module(name), "FIGURES", ())
    own = {figure.number for figure in figures if isinstance(figure, Figure)}
    assert unsourced(ast.parse(path.read_text("utf-8"))) - own == set()


def unsourced(tree: ast.Module) -> set[str]:
    """The figures in a module's strings, docstrings aside, for which nothing in it names a source."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    calls = [*settings_in(tree), *own_figures(tree)]
    with_source = {id(part) for call in calls for part in ast.walk(call)}
    sourced = {figure.number for code in codes_found_in(tree) for figure in CATALOGUE[code].figures}
    sourced |= {ast.literal_eval(call.args[0]) for call in own_figures(tree)}
    return {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if id(node) not in documentation | with_source
        for number in figures_in(node.value)
    } - sourced


def settings_in(tree: ast.Module) -> Iterator[ast.Call]:
    """The settings of a job's environment: each names its source as its fourth argument."""
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Setting"
        if named and (len(node.args) >= 4 or any(word.arg == "source" for word in node.keywords)):
            yield node


def codes_found_in(tree: ast.Module) -> Iterator[str]:
    """The modes that a module reports, as `family.MODE`."""
    families = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "launcher.failure_modes"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in families:
            mode = getattr(getattr(failure_modes, node.value.id), node.attr, None)
            if isinstance(mode, FailureMode):
                yield mode.code


def own_figures(tree: ast.Module) -> Iterator[ast.Call]:
    """What a module says of its own figures: each has its number as the first argument."""
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Figure"
        if named and isinstance(node.args[0], ast.Constant):
            yield node


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("AWS keeps 5 addresses, and 251 are left.", ["5", "251"]),
        ("since torch 2.2, 30 minutes before", ["2.2", "30"]),
        ("beyond 10,000 nodes, TCP 1018-1023 and 40%", ["10,000", "1018-1023", "40%"]),
        ("GPUs of p4d.24xlarge with X=3 in a /24", []),
        ("`timeout=300` and 'Selected 2 providers'", []),
        ("rank 0, version 2 of it, exit code 137, error 4126, exit -9 or 137", []),
        ("refused (401, 403), too many (429)", []),
        ("error, 119 of them", ["119"]),
        ("Adam's 12 bytes of a parameter's states", ["12"]),
    ],
)
def test_figures_are_told_from_codes_and_names(text: str, figures: list[str]) -> None:
    assert list(figures_in(text)) == figures


FINDS_A_MODE = "from launcher.failure_modes import network\nnetwork.TOO_FEW_ADDRESSES"


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("def rule():\n    'Up to 7 hosts.'\n    return 'more than 7 hosts'", {"7"}),
        ("def rule(n):\n    return f'{n} hosts of at most 7 hosts'", {"7"}),
        ("FIGURES = (Figure('7', 'hosts', SOURCE),)\nMESSAGE = 'more than 7 hosts'", set()),
        ("Setting('A', '1', 'keeps 7 of them', 'a page')", set()),
        ("Setting('A', '1', 'keeps 7 of them')", {"7"}),
        (
            f"{FINDS_A_MODE}.at((), 'keeps 5 of them')",
            set(),
        ),
        (
            f"{FINDS_A_MODE}.at((), 'keeps 6 of them')",
            {"6"},
        ),
    ],
)
def test_a_number_without_a_source_is_found_in_a_module(module: str, found: set[str]) -> None:
    assert unsourced(ast.parse(module)) == found
