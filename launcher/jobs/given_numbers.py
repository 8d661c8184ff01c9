"""The whole numbers that a job gives its script, by hyperparameter or argument, and what some of them are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.failure_modes.model import Path

WORKER_NAMES = (
    "dataloader_num_workers",
    "num_workers",
    "workers",
    "n_workers",
    "nworkers",
    "data_workers",
    "loader_workers",
    "dataloader_workers",
    "num_data_workers",
    "train_num_workers",
)
"""The names by which training scripts take the workers of each process's DataLoader."""

BATCH_NAMES = (
    "per_device_train_batch_size",
    "per_gpu_train_batch_size",
    "train_micro_batch_size_per_gpu",
    "micro_batch_size",
    "train_batch_size",
    "batch_size",
)
"""By which names training scripts take their batch, the one of a single process first: transformers'
TrainingArguments (and its form before version 3), DeepSpeed's configuration, Megatron-LM's arguments ("batch
size per model instance"), the examples of diffusers ("per device"), torchvision's references ("images per
GPU") and pytorch/examples' imagenet ("of all GPUs on the current node"). Whether of a process or of a host,
what a GPU holds shrinks with it. Under other names nobody knows what a number is."""

_MOST_DIGITS = 10


@dataclass(frozen=True, slots=True)
class GivenNumber:
    """A number, the name that the script gets it by, without dashes before it, and its field of the job."""

    name: str
    value: int
    path: Path

    @property
    def plain_name(self) -> str:
        """The name as argparse keeps it, in lower case: names differ in dashes and underscores."""
        return self.name.replace("-", "_").lower()


def given_numbers(hyperparameters: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[GivenNumber]:
    """All of them, hyperparameters first; arguments are `--name N` or `--name=N`."""
    for name, value in hyperparameters.items():
        yield from _number(name, _unquoted(value), ("hyperparameters", name))
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if equals:
            yield from _number(name, value, ("code", "arguments", index))
        elif argument.startswith("-") and index + 1 < len(arguments):
            yield from _number(name, arguments[index + 1], ("code", "arguments", index))


def _number(name: str, value: Any, path: Path) -> Iterator[GivenNumber]:
    text = str(value).strip()
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        yield GivenNumber(name.lstrip("-"), int(text), path)


def _unquoted(value: Any) -> Any:
    """The SageMaker SDK writes hyperparameters as JSON: a text in quotes."""
    if not isinstance(value, str) or not value.startswith('"'):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
