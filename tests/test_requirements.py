"""The lock of the set-up: it holds what requirements.txt and pyproject.toml ask for, each by its hashes."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64 linux", "arm64 darwin")


def entries(file: str) -> list[tuple[Requirement, list[str]]]:
    """The requirements of a file, each with its hashes."""
    lines = (ROOT / file).read_text("utf-8").replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            text, *hashes = line.split("--hash=")
            found.append((Requirement(text), [each.strip() for each in hashes]))
    return found


def asked_for() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [
        *(requirement for requirement, _ in entries("requirements.txt")),
        *map(Requirement, wheel_requirements(project)),
    ]


def wheel_requirements(project: dict[str, Any]) -> list[str]:
    """What the wheel needs, also with all its extras."""
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(each for extra in extras for each in extra)]


def environment(python: str, machine: str) -> dict[str, str]:
    processor, system = machine.split()
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": system,
        "platform_system": system.capitalize(),
        "platform_machine": processor,
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def locked(python: str, machine: str) -> dict[str, Version]:
    here = environment(python, machine)
    return {
        canonicalize_name(requirement.name): Version(next(iter(requirement.specifier)).version)
        for requirement, _ in entries("requirements.lock")
        if requirement.marker is None or requirement.marker.evaluate(here)
    }


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_whatever_is_asked_for_is_locked_within_its_range(python: str, machine: str) -> None:
    versions = locked(python, machine)
    wrong = {
        str(asked): versions.get(canonicalize_name(asked.name))
        for asked in asked_for()
        if not asked.specifier.contains(versions.get(canonicalize_name(asked.name), "0"))
    }
    assert wrong == {}, "not in requirements.lock, or at another version: make lock"


def test_every_version_is_the_only_one_and_has_hashes() -> None:
    for file in ("requirements.lock", "requirements-cpu.lock"):
        for requirement, hashes in entries(file):
            assert [each.operator for each in requirement.specifier] == ["=="], requirement
            assert hashes, requirement
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement


@pytest.mark.parametrize("python", PYTHONS)
def test_the_build_without_cuda_is_of_the_locked_torch(python: str) -> None:
    [(without_cuda, _)] = entries("requirements-cpu.lock")
    version = Version(next(iter(without_cuda.specifier)).version)
    assert version.public == str(locked(python, MACHINES[0])["torch"])
    assert version.local == "cpu"


def test_what_this_wheel_needs_is_all_that_it_is_tested_with() -> None:
    """The two files ask for the same of a library that both name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tested = {requirement.name: requirement.specifier for requirement, _ in entries("requirements.txt")}
    others = project["optional-dependencies"].pop("cdk")
    for each in map(Requirement, wheel_requirements(project)):
        assert each.specifier == tested[each.name]
    # Other people's apps have a CDK of their own: theirs may be older than the one that is tested, and newer.
    for each in map(Requirement, others):
        assert each.specifier.contains(installed(each.name))
