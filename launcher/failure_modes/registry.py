"""Which code finds which failure mode, and at which stages each is caught.

A function marked with `finds` is registered when its module is imported; `registered` imports every module
that finds something. What came of it stands in `coverage.json`, which `launch explain` reads.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

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


IN_WORDS: Final[Mapping[Stage, str]] = MappingProxyType(
    {
        Stage.PROVISION: "prevented by what `cdk deploy` provisions",
        Stage.SPEC: "found in the job file and its plan, offline",
        Stage.SCRIPT: "found in the training script, by its syntax tree",
        Stage.LIVE: "found by a live check against AWS before submission",
        Stage.LOG: "diagnosed from logs and status",
        Stage.RUNTIME: "handled or reported inside the container",
    }
)
"""What it means for a failure mode to be caught at a stage, as `launch explain` prints it."""


def stages_covered(code: str) -> tuple[Stage, ...]:
    """The stages at which a failure mode is caught, in the order of a job's life; none if unknown."""
    stages = _covered().get(code, {})
    return tuple(stage for stage in Stage if stage in stages)


def blind_examples(code: str) -> Mapping[Stage, BlindExamples]:
    """How many of the examples by who did not know the rules are judged right, by stage."""
    counts = _covered().get(code, {})
    return {stage: BlindExamples(*counts[stage]) for stage in Stage if counts.get(stage)}


class BlindExamples(NamedTuple):
    """The examples of a stage that are judged right, and all of them."""

    right: int
    all: int

    def __str__(self) -> str:
        """Such as `7 of 8 blind examples`."""
        return f"{self.right} of {self.all} blind examples"


@cache
def _covered() -> Mapping[str, Mapping[str, list[int]]]:
    text = Path(__file__).with_name("coverage.json").read_text("utf-8")
    covered: Mapping[str, Mapping[str, list[int]]] = json.loads(text)
    return covered
