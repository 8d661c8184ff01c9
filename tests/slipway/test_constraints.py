"""What the package must keep to, to run in every image."""

from __future__ import annotations

import ast
import importlib.util
import socket
import sys
from pathlib import Path

import pytest

from slipway.failure import BootError
from slipway.rendezvous import Rendezvous, check_port

SPECIFICATION = importlib.util.find_spec("slipway")
assert SPECIFICATION is not None and SPECIFICATION.submodule_search_locations
FOLDER = Path(SPECIFICATION.submodule_search_locations[0])
FILES = sorted(FOLDER.rglob("*.py"))
IN_FUNCTIONS = {"gate/reduction.py": {"torch"}}
"""What images have and a file may import inside of its functions, where it is used."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_syntax_is_that_of_python_3_8(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert future or len(tree.body) == 1, "annotations such as `int | None` need the future import"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_the_standard_library_is_imported_but_where_it_is_used(file: Path) -> None:
    tree = ast.parse(file.read_text())
    own = {*sys.stdlib_module_names, "slipway"}
    assert imported(tree) <= own | IN_FUNCTIONS.get(file.relative_to(FOLDER).as_posix(), set())
    assert imported(*(node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))) <= own


def imported(*trees: ast.AST) -> set[str]:
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(BootError, match=rf"^NCCL009 .*algo-1:{port}.*MASTER_PORT"):
            check_port(Rendezvous("algo-1", port), "algo-1")


def test_a_free_port_is_fine() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    check_port(Rendezvous("127.0.0.1", port), "algo-1")
