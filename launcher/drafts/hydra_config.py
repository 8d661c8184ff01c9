"""The configuration that Hydra composes: a file, and those that its list of defaults names.

Source: Hydra 1.3's documentation, "The Defaults List" and "Packages".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.documents import AsWritten, DocumentError, is_null, parse_document
from launcher.frozen import frozen
from launcher.program.index import file_of
from launcher.program.program import Program
from launcher.program.values import Constant

_MOST_FILES = 100
"""Of one configuration; large ones that are published name some dozens."""

_DEEPEST = 8
_PACKAGE = re.compile(r"#\s*@package\s+([\w.]+)")
_AS_WRITTEN = tuple(("*",) * depth for depth in range(1, _DEEPEST + 1))
"""Numbers stay as they are written: `1e-3` is one, for Hydra as in YAML 1.2."""

_SELF, _GLOBAL, _HERE, _MISSING = "_self_", "_global_", "_here_", "???"
_GROUP, _NAME = "_group_", "_name_"

ReadConfig = Callable[[str], str | None]
"""The text of a file by its name below the configuration's folder, without ending; None where none is."""


@frozen
class HydraConfig:
    """What a configuration says without a job: `values` by their dotted names, and `choices`, the file of
    each group (`model: small`). `required` are the names that it has no value for; `is_whole` says
    that nothing of it was left out."""

    values: Mapping[str, Any]
    choices: Mapping[str, Any]
    required: tuple[str, ...]
    is_whole: bool = True


def find_hydra_config(program: Program) -> tuple[Path, str] | None:
    """The folder of the configuration that Hydra reads, and its name there; None where that is not known."""
    for call, _ in program.calls("hydra.main"):
        given = {each.arg: program.value(each.value) for each in call.keywords}
        folder, name = given.get("config_path", Constant(".")), given.get("config_name")
        if isinstance(folder, Constant) and isinstance(name, Constant):
            return file_of(call).path.parent / str(folder.value or "."), _without_ending(name.value)
    return None


def compose_config(name: str, read: ReadConfig) -> HydraConfig | None:
    """The configuration of a name; None where there is no such file, or it is no YAML.

    What depends on more than the lists of defaults is left out: a choice by another value, a package that is
    relative to another one, and what differs between Hydra's versions.
    """
    made = _Composition(read)
    values = made.values_of(name, "", _DEEPEST)
    if values is None:
        return None
    composed = {**made.choices, **values}
    known = {key: value for key, value in composed.items() if not made.is_doubtful(key)}
    return HydraConfig(
        {key: value for key, value in known.items() if key not in made.choices and value != _MISSING},
        {key: value for key, value in known.items() if key in made.choices and value != _MISSING},
        tuple(key for key, value in known.items() if value == _MISSING),
        made.is_whole and len(known) == len(composed),
    )


def _without_ending(name: Any) -> str:
    return str(name).removesuffix(".yaml").removesuffix(".yml")


_UNDERSCORED = re.compile(r"[-+]?\d+(_\d+)+")


def _as_read(value: Any) -> Any:
    """A value as Hydra reads it, for which `55_000` is a number as well."""
    if isinstance(value, str) and _UNDERSCORED.fullmatch(value):
        return AsWritten(value.replace("_", ""))
    return None if is_null(value) else value


def _joined(mark: str, *parts: str) -> str:
    return mark.join(each for each in parts if each)


@dataclass(slots=True)
class _Composition:
    """A configuration that is being put together."""

    read: ReadConfig
    choices: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    """The group of the file that has set a value."""
    overridden: set[str] = field(default_factory=set)
    ambiguous: set[str] = field(default_factory=set)
    files: int = 0
    is_whole: bool = True

    def is_doubtful(self, key: str) -> bool:
        """Whether something that is not followed here may change a value, or the choice of a group."""
        return key in self.ambiguous or not self.overridden.isdisjoint({key, self.groups.get(key, "")})

    def values_of(
        self, name: str, package: str, depth: int, *, is_given: bool = False
    ) -> dict[str, Any] | None:
        """The values of a file and of what it names, below a package; None where it cannot be read.

        What the file says itself of its package does not hold where the list that names it has given one.
        """
        self.files += 1
        text = self.read(name) if depth and self.files <= _MOST_FILES else None
        if text is None:
            return None
        try:
            data = parse_document(text, name, _AS_WRITTEN).data if text.strip() else {}
        except DocumentError:
            return None
        said = _PACKAGE.match(text.lstrip())
        if said is not None and not is_given:
            package = _package_said(said[1], name)
        entries, group = data.pop("defaults", None), name.rpartition("/")[0]
        listed = entries if isinstance(entries, list) else []
        own, found = dict(_flat(data, package)), dict[str, Any]()
        self.groups |= dict.fromkeys(own, group)
        for entry in listed:
            found |= own if entry == _SELF else self._values_of_entry(entry, group, package, depth)
        if _SELF not in listed:
            # Which of both holds has changed between Hydra's versions.
            self.ambiguous |= own.keys() & found.keys()
            found |= own
        return found

    def _values_of_entry(self, entry: Any, group: str, package: str, depth: int) -> dict[str, Any]:
        """The values of what an entry names: `model/small`, or `optional model@net: small`."""
        if isinstance(entry, str):
            return self._values_of_file(*_place_and_package(entry), group, package, depth)
        if not isinstance(entry, dict) or len(entry) != 1:
            return {}
        [(key, chosen)] = entry.items()
        *kinds, place = str(key).split()
        folder, below = _place_and_package(place)
        if folder.lstrip("/").startswith("hydra"):
            return {}
        if "override" in kinds:
            self.overridden.add(folder.lstrip("/"))
            return {}
        if not group:
            self.choices[place] = None if is_null(chosen) else chosen
        found: dict[str, Any] = {}
        for each in chosen if isinstance(chosen, list) else [chosen]:
            if is_null(each):
                continue
            if "${" in str(each) or each == _MISSING:
                self.is_whole = False
                continue
            found |= self._values_of_file(f"{folder}/{each}", below, group, package, depth)
        return found

    def _values_of_file(
        self, place: str, below: str | None, group: str, package: str, depth: int
    ) -> dict[str, Any]:
        if below is None and group and place.startswith("/"):
            self.is_whole = False
            return {}
        is_given = below is not None
        if below is None:
            below = place.strip("/").rpartition("/")[0].replace("/", ".")
        # `_here_` is the package of the file whose list it stands in.
        inside = below.removeprefix(_HERE).lstrip(".") if below.partition(".")[0] == _HERE else below
        inner = "" if below == _GLOBAL else _joined(".", package, inside)
        whole = place[1:] if place.startswith("/") else _joined("/", group, place)
        found = self.values_of(_without_ending(whole), inner, depth - 1, is_given=is_given)
        self.is_whole &= found is not None
        return found or {}


def _package_said(said: str, name: str) -> str:
    """The package that the first line of a file gives it, with Hydra's words for the file's own place."""
    group, _, own = name.rpartition("/")
    words = {_GLOBAL: "", _GROUP: group.replace("/", "."), _NAME: own}
    return _joined(".", *(words.get(each, each) for each in said.split(".")))


def _place_and_package(text: str) -> tuple[str, str | None]:
    """`group@package` in its parts; None for the package is that of the group's name."""
    place, given, package = text.partition("@")
    return place, package if given else None


def _flat(value: Mapping[str, Any], package: str) -> Iterator[tuple[str, Any]]:
    """The single values and lists of a configuration by their dotted names, without Hydra's own."""
    for key, item in value.items():
        name = _joined(".", package, str(key))
        if name == "hydra" or name.startswith("hydra."):
            continue
        if isinstance(item, dict):
            yield from _flat(item, name)
        elif isinstance(item, list):
            if not any(isinstance(each, dict | list) for each in item):
                yield name, [*map(_as_read, item)]
        else:
            yield name, _as_read(item)
