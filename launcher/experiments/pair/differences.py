"""What two runs differ in, and what of it makes their comparison mean less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNSET = "unset"
"""What is shown of a field that one side does not have."""

_TELL_NOTHING = (
    "name",
    "tags",
    "output",
    "limits",
    "checkpoint",
    "metrics",
    "ignore",
    "role_arn",
    "bucket",
    "request",
)
"""Fields that change where a run is kept, how long it may last and what is said of it, not how it learns; and
what follows from the others."""

_ONE_BY_ONE = ("hyperparameters", "environment", "inputs")
"""Sections each of whose fields is a thing of its own; all that differs in another section is one thing."""

_DATA = ("inputs", "data")
_BATCHES = ("batch_size", "batch-size", "per_device_train_batch_size")
_ACCUMULATED = ("gradient_accumulation_steps", "gradient-accumulation-steps")


@dataclass(frozen=True, slots=True)
class RunDifference:
    """A field, with its dotted name, that two runs have with different values, as they are shown."""

    field: str
    first: str
    second: str

    @property
    def thing(self) -> str:
        """What it is a part of: `resources`, or `hyperparameters.lr`."""
        section = self.field.partition(".")[0]
        return self.field if section in _ONE_BY_ONE else section


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[RunDifference]:
    """The fields of two nested mappings that differ, in the order of their names."""
    a, b = dict(_flat(first, "")), dict(_flat(second, ""))
    return [
        RunDifference(name, a.get(name, UNSET), b.get(name, UNSET))
        for name in sorted({*a, *b})
        if a.get(name, UNSET) != b.get(name, UNSET)
    ]


def cautions(found: Sequence[RunDifference], batches: tuple[int | None, int | None]) -> list[str]:
    """Whole sentences on what makes a comparison of two runs with these differences mean less.

    `batches` are the samples in a step of all processes of each, where they are known.
    """
    telling = [each for each in found if each.field.partition(".")[0] not in _TELL_NOTHING]
    things = list(dict.fromkeys(each.thing for each in telling))
    said = []
    if not things:
        said.append("Nothing differs that could matter: what differs between the runs is chance.")
    if len(things) > 1:
        said.append(
            f"{len(things)} things differ ({', '.join(things)}): what differs between the runs cannot be "
            "put down to one of them."
        )
    if any("seed" in each.field.rpartition(".")[2].lower() for each in telling):
        said.append("The seeds differ: part of what differs between the runs is chance.")
    if any(each.field.partition(".")[0] in _DATA for each in telling):
        said.append("The data differ: their losses need not be alike even where the runs learn alike.")
    first, second = batches
    if first is not None and second is not None and first != second:
        said.append(
            f"A step is {first} samples in A and {second} in B: the losses are compared after as many "
            "samples, and the learning rate that suits one may not suit the other."
        )
    return said


def samples_per_step(
    batch: int | None, hyperparameters: Mapping[str, Any], world_size: int | None
) -> int | None:
    """The samples that all processes of a run take in a step; None where that cannot be known.

    `batch` is that of one process where the job file has it. Else it is a hyperparameter that scripts mostly
    call so, times the steps whose gradients are accumulated.
    """
    size = batch or _number(hyperparameters, _BATCHES)
    if size is None or world_size is None:
        return None
    return size * world_size * (_number(hyperparameters, _ACCUMULATED) or 1)


def _number(hyperparameters: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        # The service's hyperparameters are texts, of some strategies in quotes.
        text = str(hyperparameters.get(name, "")).strip('"')
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
            return int(text)
    return None


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, ", ".join(map(str, value)) or "none"
    elif value is not None:
        yield name, str(value)
