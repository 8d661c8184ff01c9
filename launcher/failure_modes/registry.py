"""Who finds what: each function or table that meets a failure mode says so where it is defined.

The stages that the catalogue claims are collected from these registrations, so that none can be
claimed without code behind it. The registry stands on the ground floor because every room that finds
something registers with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from launcher.failure_modes.model import FailureMode, Stage

P = ParamSpec("P")
R = TypeVar("R")

ROOMS = (
    "launcher.documents",
    "launcher.jobs",
    "launcher.program",
    "launcher.rules",
    "launcher.planning",
    "launcher.diagnosis",
    "launcher.experiments",
)
"""The packages whose modules register what they find."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One finder: its stage, the modes it finds, its dotted name, and the function where it is one."""

    stage: Stage
    modes: tuple[FailureMode, ...]
    name: str
    function: Callable[..., Any] | None = None


REGISTRY: list[Registration] = []
"""The registrations of the modules imported so far; `registered` gives all of them."""


def finds(stage: Stage, *modes: FailureMode) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function as the one that finds these modes at this stage; the function stays as it is.

    Raises ValueError without modes.
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        register(stage, modes, f"{function.__module__}.{function.__qualname__}", function)
        return function

    return mark


def register(
    stage: Stage,
    modes: Iterable[FailureMode],
    name: str,
    function: Callable[..., Any] | None = None,
) -> None:
    """Record that `name` finds these modes at this stage: for tables of data, which cannot be decorated.

    Raises ValueError without modes.
    """
    found = tuple(modes)
    if not found:
        raise ValueError(f"{name} registers no failure mode; name at least one")
    REGISTRY.append(Registration(stage, found, name, function))


def registered() -> list[Registration]:
    """All registrations, after importing every module of the rooms that find something."""
    for room in ROOMS:
        _import_all(room)
    return list(REGISTRY)


def _import_all(package_name: str) -> None:
    """Import the modules of a package by their files: folders without `__init__.py` count as well."""
    package = importlib.import_module(package_name)
    for folder in map(Path, getattr(package, "__path__", ())):  # a room of one module has none
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            if parts[-1] != "__main__":
                importlib.import_module(".".join((package_name, *parts)).removesuffix(".__init__"))
