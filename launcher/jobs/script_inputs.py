"""What a job's script finds in its container: folders below /opt/ml, variables of the launcher's, and the
numbers that the job gives it.

SageMaker makes and reads the folders. Of the numbers, given by hyperparameter or argument, some are known by
their names: workers, and the size of a batch.

Source: SageMaker developer guide, your-algorithms-training-algo and docker-container-environmental-variables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from launcher.failure_modes.model import Path
from launcher.frozen import frozen

CONTAINER_ROOT: Final = "/opt/ml"
"""The folder that SageMaker mounts into every training container; all others are in it."""

CODE_FOLDER: Final = f"{CONTAINER_ROOT}/code"
"""Where the user's source is unpacked."""

OUTPUT_DATA: Final = f"{CONTAINER_ROOT}/output/data"
"""What the service keeps, as output.tar.gz, also of a job that failed."""

DEFAULT_CHECKPOINT_PATH: Final = f"{CONTAINER_ROOT}/checkpoints"
"""CheckpointConfig.LocalPath where the request has none (SageMaker API)."""

RESERVED_CHANNEL: Final = "code"
"""The channel in which the launcher ships the user's source and the boot."""

CHECKPOINT_CHANNEL: Final = "checkpoints"
"""The channel that mounts `checkpoint.lustre`; a user's own may be called so only without it."""

CHECKPOINT_URI_VARIABLE: Final = "SLIPWAY_CHECKPOINT_URI"
"""The environment variable with the S3 prefix to which checkpoints go that the service does not move."""

CHECKPOINT_DIR_VARIABLE: Final = "SLIPWAY_CHECKPOINT_DIR"
"""The environment variable with the folder in which the script finds and saves checkpoints."""

SECRETS_VARIABLE: Final = "SLIPWAY_SECRETS"
"""The environment variable that tells the boot which secrets to fetch (`slipway/job_secrets.py`): JSON, from
the name of each variable to the name or the ARN of its secret."""


def channel_folder(channel: str) -> str:
    """Where the data of a channel are downloaded or mounted (SageMaker API, Channel)."""
    return f"{CONTAINER_ROOT}/input/data/{channel}"


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
    "num_loader_workers",
    "num_dataloader_workers",
    "dl_workers",
    "num_workers_per_gpu",
    "workers_per_gpu",
    "workers_per_rank",
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
_NOTHING: Mapping[str, str] = {}


@frozen
class GivenNumber:
    """A number, the name that the script gets it by, without dashes before it, and its field of the job."""

    name: str
    value: int
    path: Path

    @property
    def plain_name(self) -> str:
        """The name as argparse keeps it, in lower case: names differ in dashes and underscores.

        Of a dotted one, as Hydra and jsonargparse take it, its last part.
        """
        return self.name.replace("-", "_").lower().rpartition(".")[2]


def find_given_numbers(
    hyperparameters: Mapping[str, Any], arguments: Sequence[str], environment: Mapping[str, str] = _NOTHING
) -> Iterator[GivenNumber]:
    """All of them, hyperparameters first; arguments are `--name N` or `--name=N`."""
    for name, value in environment.items():
        yield from _whole_number(name, value, ("environment", name))
    for name, value in hyperparameters.items():
        yield from _whole_number(name, _without_quotes(value), ("hyperparameters", name))
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if equals:
            yield from _whole_number(name, value, ("code", "arguments", index))
        elif argument.startswith("-") and index + 1 < len(arguments):
            yield from _whole_number(name, arguments[index + 1], ("code", "arguments", index))


def _whole_number(name: str, value: Any, path: Path) -> Iterator[GivenNumber]:
    text = str(value).strip()
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        yield GivenNumber(name.lstrip("-"), int(text), path)


def _without_quotes(value: Any) -> Any:
    """The SageMaker SDK writes hyperparameters as JSON: a text in quotes."""
    if not isinstance(value, str) or not value.startswith('"'):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
