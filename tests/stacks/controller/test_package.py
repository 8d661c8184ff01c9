"""The function's package: whole, the same again, and ready to be imported where nothing can be written."""

from __future__ import annotations

import json
import marshal
import subprocess
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from launcher.cluster.names import digest_of
from stacks import controller_package as module
from stacks.controller_package import ControllerPackage, controller_package
from tests.stacks.synthesis import ROOT, Synthesized

MAGIC_FLAGS_AND_HASH = 16
"""Bytes before the code of a file of bytecode (PEP 552)."""


@pytest.fixture(scope="module")
def package() -> ControllerPackage:
    return controller_package()


def code_of(package: ControllerPackage, name: str) -> tuple[bytes, CodeType]:
    """The flags of a module's bytecode, and the code."""
    source = package.folder / name
    compiled = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
    content = compiled.read_bytes()
    return content[4:8], marshal.loads(content[MAGIC_FLAGS_AND_HASH:])


def test_the_launcher_and_three_libraries_are_in_it_and_nothing_compiled_for_one_processor(
    package: ControllerPackage,
) -> None:
    packages = {each.name for each in package.folder.iterdir()}
    assert packages == {"launcher", "jinja2", "markupsafe", "platformdirs"}
    suffixes = {each.suffix for each in package.folder.rglob("*") if each.is_file()}
    assert not suffixes & {".so", ".pyi", ".c", ".typed"}
    assert {".py", ".json", ".toml", ".j2", ".css", ".js"} <= suffixes


def test_every_data_file_of_the_launcher_is_in_it(package: ControllerPackage) -> None:
    data = [
        each for each in (ROOT / "launcher").rglob("*") if each.suffix in (".json", ".toml", ".j2", ".js")
    ]

    assert data
    assert [each for each in data if not (package.folder / each.relative_to(ROOT)).exists()] == []


def test_the_digest_is_that_of_the_sources_whatever_was_compiled(
    package: ControllerPackage, tmp_path: Path
) -> None:
    assert package.digest == digest_of(package.folder)

    (tmp_path / "a.py").write_text("a = 1\n")
    before = digest_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"anything")
    assert digest_of(tmp_path) == before
    (tmp_path / "a.py").write_text("a = 2\n")
    assert digest_of(tmp_path) != before


def test_a_digest_tells_names_from_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, files in ((one, {"a": "bc", "d": ""}), (other, {"ab": "c", "d": ""})):
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)

    assert digest_of(one) != digest_of(other)


def test_bytecode_is_taken_without_asking_for_times_and_names_files_as_lambda_has_them(
    package: ControllerPackage,
) -> None:
    flags, code = code_of(package, "launcher/cluster/manifest.py")

    # Bit 0: checked by a hash and not by a time; bit 1, that it is compared, is not set (PEP 552).
    assert int.from_bytes(flags, "little") == 1
    assert code.co_filename == "/var/task/launcher/cluster/manifest.py"


def test_every_module_has_its_bytecode(package: ControllerPackage) -> None:
    without = [
        str(each)
        for each in package.folder.rglob("*.py")
        if not (each.parent / "__pycache__" / f"{each.stem}.{sys.implementation.cache_tag}.pyc").exists()
    ]
    assert without == []


def test_it_is_imported_without_the_installation_that_it_came_from(package: ControllerPackage) -> None:
    program = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path = [str(folder), *(entry for entry in sys.path if "site-packages" not in entry)]
import jinja2, markupsafe, platformdirs
from launcher.cluster.names import digest_of
rendered = jinja2.Template("{{ a }}").render(a=1)
print(json.dumps([rendered, digest_of(folder), jinja2.__file__, markupsafe.__file__, platformdirs.__file__]))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(package.folder)],
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    rendered, digest, *files = json.loads(done.stdout)
    assert (rendered, digest) == ("1", package.digest)
    assert all(Path(file).is_relative_to(package.folder) for file in files)


def test_the_function_runs_the_python_that_packaged_it_and_knows_its_digest(
    large: Synthesized, package: ControllerPackage
) -> None:
    (function,) = functions(large)

    assert function["Runtime"] == f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert function["Environment"]["Variables"]["SLIPWAY_DIGEST"] == package.digest


def test_a_python_that_lambda_does_not_have_gets_the_newest_of_lambdas_and_no_bytecode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_NEWEST", (3, 12))
    monkeypatch.setattr(module, "_OLDEST", (3, 12))
    monkeypatch.setattr(module._kept, "name", str(tmp_path))
    package = controller_package.__wrapped__()

    assert package.runtime.name == "python3.12"
    assert not list(tmp_path.rglob("*.pyc"))
    assert package.digest == controller_package().digest
    assert package.asset_hash != controller_package().asset_hash


def functions(cluster: Synthesized) -> list[dict[str, Any]]:
    return [each["Properties"] for each in cluster.resources("managed", "AWS::Lambda::Function").values()]
