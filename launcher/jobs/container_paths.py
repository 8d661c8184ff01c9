"""Where a training container has what: the folders below /opt/ml that SageMaker makes and reads.

Source: SageMaker developer guide, your-algorithms-training-algo and docker-container-environmental-variables.
"""

from __future__ import annotations

from typing import Final

CONTAINER_ROOT: Final = "/opt/ml"
"""The folder that SageMaker mounts into every training container; all others are in it."""

CODE_FOLDER: Final = f"{CONTAINER_ROOT}/code"
"""Where the user's source is unpacked."""

OUTPUT_DATA: Final = f"{CONTAINER_ROOT}/output/data"
"""What the service keeps, as output.tar.gz, also of a job that failed."""

DEFAULT_CHECKPOINT_PATH: Final = f"{CONTAINER_ROOT}/checkpoints"
"""CheckpointConfig.LocalPath where the request has none (SageMaker API)."""


def channel_folder(channel: str) -> str:
    """Where the data of a channel are downloaded or mounted (SageMaker API, Channel)."""
    return f"{CONTAINER_ROOT}/input/data/{channel}"
