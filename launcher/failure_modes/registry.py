"""The whole catalogue, which code finds which of its failure modes, and at which stages each is caught.

What people write stands in the TOML files beside this module; `tools/generate/failure_modes.py` makes one
file of them, which is read faster: every mode by its code, in the order in which they are documented.

A function marked with `finds` is registered when its module is imported; `registered` imports every module
that finds something. What came of it stands in `coverage.json`, which `launch explain` reads.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from launcher.failure_modes.model import FailureMode, Figure, Notice, Retry, Severity, Source, Stage, Symptom
from launcher.frozen import frozen

_CONTENT: dict[str, Any] = json.loads(Path(__file__).with_name("catalogue.json").read_text("utf-8"))


def _mode(content: dict[str, Any]) -> FailureMode:
    return FailureMode(
        code=content["code"],
        title=content["title"],
        cause=content["cause"],
        remedy=content["remedy"],
        sources=tuple(_SOURCES[key] for key in content["sources"]),
        severity=Severity(content["severity"]),
        retry=Retry(content.get("retry", Retry.NEVER)),
        symptom=Symptom(content["symptom"]) if "symptom" in content else None,
        notices=tuple(_NOTICES[key] for key in content.get("notices", ())),
        figures=tuple(
            Figure(each["number"], each["what"], _SOURCES[each["source"]] if "source" in each else None)
            for each in content.get("figures", ())
        ),
        stages=tuple(map(Stage, content["stages"])),
    )


_SOURCES = {
    key: Source(each["title"], date.fromisoformat(each["as_of"]), each.get("commit"))
    for key, each in _CONTENT["sources"].items()
}
_NOTICES = {
    key: Notice(
        each["text"], date.fromisoformat(each["since"]) if "since" in each else None, _SOURCES[each["source"]]
    )
    for key, each in _CONTENT["notices"].items()
}
_MODES = {(each["family"], each["name"]): _mode(each) for each in _CONTENT["modes"]}

CATALOGUE: Final[Mapping[str, FailureMode]] = MappingProxyType({mode.code: mode for mode in _MODES.values()})
"""Every failure mode, keyed by its code."""

ATTRIBUTES: Final[Mapping[str, SimpleNamespace]] = MappingProxyType(
    {
        "sources": SimpleNamespace(**_SOURCES),
        "notices": SimpleNamespace(**_NOTICES),
        **{
            family: SimpleNamespace(**{name: mode for (of, name), mode in _MODES.items() if of == family})
            for family in _CONTENT["headings"]
        },
    }
)
"""What `launcher.failure_modes` has by name: sources, notices, and the families with their modes by name."""

FAMILIES: Final[Mapping[str, tuple[FailureMode, ...]]] = MappingProxyType(
    {
        heading: tuple(mode for (of, _), mode in _MODES.items() if _CONTENT["headings"][of] == heading)
        for heading in dict.fromkeys(_CONTENT["headings"].values())
    }
)
"""The modes under the headings of the documentation, each in the order of its codes."""

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


@frozen
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
