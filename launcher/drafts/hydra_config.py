"""What of the configuration that Hydra composes a draft of a job begins with: its single values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.documents import AsWritten, DocumentError, is_null, parse_document
from launcher.frozen import frozen
from launcher.program.index import file_of
from launcher.program.program import Program
from launcher.program.surroundings.hydra_configurations import MISSING, ConfigFile, outline, package_said
from launcher.program.values import Constant

_DEEPEST = 8
_AS_WRITTEN = tuple(("*",) * depth for depth in range(1, _DEEPEST + 1))
"""Numbers stay as they are written: `1e-3` is one, for Hydra as in YAML 1.2."""

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

    What differs between Hydra's versions is left out, and what is in files that are not there.
    """

    def read_file(inner: str) -> ConfigFile | None:
        text = read(inner)
        try:
            data = parse_document(text, inner, _AS_WRITTEN).data if text and text.strip() else {}
        except DocumentError:
            return None
        return None if text is None else ConfigFile(_as_read(data), package_said(text.splitlines()))

    made = outline(name, read_file)
    if made is None:
        return None
    choices = made.choices
    composed = {**choices, **dict(_flat(made.values, ""))}
    known = {key: value for key, value in composed.items() if value is not made.unknown}
    return HydraConfig(
        {key: value for key, value in known.items() if key not in choices and value != MISSING},
        {key: value for key, value in known.items() if key in choices and value != MISSING},
        tuple(key for key, value in known.items() if value == MISSING),
        made.is_whole and len(known) == len(composed),
    )


def _without_ending(name: Any) -> str:
    return str(name).removesuffix(".yaml").removesuffix(".yml")


_UNDERSCORED = re.compile(r"[-+]?\d+(_\d+)+")


def _as_read(value: Any) -> Any:
    """Values as Hydra reads them, for which `55_000` is a number as well."""
    if isinstance(value, dict):
        return {key: _as_read(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(_as_read, value)]
    if isinstance(value, str) and _UNDERSCORED.fullmatch(value):
        return AsWritten(value.replace("_", ""))
    return None if is_null(value) else value


def _flat(value: Mapping[str, Any], package: str) -> Iterator[tuple[str, Any]]:
    """The single values and lists of a configuration by their dotted names, without Hydra's own."""
    for key, item in value.items():
        name = f"{package}.{key}" if package else str(key)
        if name == "hydra" or name.startswith("hydra."):
            continue
        if isinstance(item, dict):
            yield from _flat(item, name)
        elif not isinstance(item, list) or not any(isinstance(each, dict | list) for each in item):
            yield name, item
