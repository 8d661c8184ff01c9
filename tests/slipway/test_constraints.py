"""What the package must keep to, to run in every image."""

from __future__ import annotations

import ast
import importlib.util
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from slipway.failure import BootError
from slipway.rendezvous import Rendezvous, check_port

SPECIFICATION = importlib.util.find_spec("slipway")
assert SPECIFICATION is not None and SPECIFICATION.submodule_search_locations
FOLDER = Path(SPECIFICATION.submodule_search_locations[0])
FILES = sorted(FOLDER.rglob("*.py"))
MAY_USE = {"checkpoints": {"torch"}, "gate": {"torch"}}
"""What the files of a folder may import besides, where they use it and not at their top."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_syntax_is_that_of_python_3_8(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert future or len(tree.body) == 1, "annotations such as `int | None` need the future import"


MAY_USE = {
    **{folder: {"torch"} for folder in ("agreement", "batches", "checkpoints", "gate", "health")},
    "uploads": {"boto3", "botocore", "s3transfer"},
}
"""What the files of a folder may import besides, where they use it and not at their top."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_the_standard_library_is_imported(file: Path) -> None:
    tree = ast.parse(file.read_text())
    standard = {*sys.stdlib_module_names, "slipway"}
    assert imported(node for node in ast.walk(tree)) <= standard | MAY_USE.get(file.parent.name, set())
    assert imported(tree.body) <= standard


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


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
