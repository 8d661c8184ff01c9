"""`${SM_MODEL_DIR}` and the like in a job file: folders of the container, by the names that scripts know.

They are the job's, not the launcher's: where the boot starts the script they stay in the request as they
are, and the boot (`slipway/references.py`) puts in what its container has, on AWS or on this machine. The
images' toolkit does not, so that the plan puts in the paths that SageMaker documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.checkpoint import CHECKPOINT_DIR_VARIABLE
from launcher.jobs.container_paths import (
    CODE_FOLDER,
    CONTAINER_ROOT,
    DEFAULT_CHECKPOINT_PATH,
    OUTPUT_DATA,
    channel_folder,
)
from launcher.jobs.specification import JobSpec
from launcher.text.nearest import nearest

FIELDS: Final = (("environment",), ("hyperparameters",), ("code", "arguments"))
"""The fields whose texts reach the script."""

_NAME = rf"SM_[A-Za-z0-9_.-]+|{CHECKPOINT_DIR_VARIABLE}"
_REFERENCE = re.compile(rf"(?P<escape>\$?)\$\{{(?P<name>{_NAME})\}}")
_LITERAL = re.compile(rf"\$\{{(?:{_NAME})\}}")


def is_folder_name(name: str) -> bool:
    """Whether a name has the form of those that scripts are told folders by."""
    return re.fullmatch(_NAME, name) is not None


def reaches_the_script(path: Path) -> bool:
    """Whether a text of the job file, by the path to it, may name folders."""
    return any(path[: len(field)] == field for field in FIELDS)


def literally(text: str) -> str:
    """The text so that nothing in it is taken for a folder: `$${SM_X}` for `${SM_X}`."""
    return _LITERAL.sub(lambda match: f"${match[0]}", text)


def folders_of(job: JobSpec, checkpoints: str = DEFAULT_CHECKPOINT_PATH) -> dict[str, str]:
    """The folders of the job's container by the names of their variables, as SageMaker documents them.

    `checkpoints` is where the script writes its own.
    """
    channels = {name: channel_folder(name) for name in job.inputs}
    return {
        "SM_MODEL_DIR": f"{CONTAINER_ROOT}/model",
        "SM_INPUT_DIR": f"{CONTAINER_ROOT}/input",
        "SM_INPUT_DATA_DIR": f"{CONTAINER_ROOT}/input/data",
        "SM_INPUT_CONFIG_DIR": f"{CONTAINER_ROOT}/input/config",
        "SM_OUTPUT_DIR": f"{CONTAINER_ROOT}/output",
        "SM_OUTPUT_DATA_DIR": OUTPUT_DATA,
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{CONTAINER_ROOT}/output/intermediate",
        "SM_MODULE_DIR": CODE_FOLDER,
        "SM_SOURCE_DIR": CODE_FOLDER,
        "SM_CHECKPOINT_DIR": checkpoints,
        CHECKPOINT_DIR_VARIABLE: checkpoints,
        **{f"SM_CHANNEL_{name.replace('-', '_').upper()}": folder for name, folder in channels.items()},
        **{f"SM_CHANNEL_{name.upper()}": folder for name, folder in channels.items()},
    }


def with_folders(value: Any, folders: Mapping[str, str]) -> Any:
    """The value with the folders in place of their names, in all its texts; unknown names stay.

    `$${SM_X}` becomes a literal `${SM_X}`. A text without any stays what it is, with its type.
    """
    if isinstance(value, dict):
        return {key: with_folders(item, folders) for key, item in value.items()}
    if isinstance(value, list):
        return [with_folders(item, folders) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def folder_of(match: re.Match[str]) -> str:
        return match[0][1:] if match["escape"] else folders.get(match["name"], match[0])

    return _REFERENCE.sub(folder_of, value)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def unknown_folders(job: JobSpec) -> Iterator[Finding]:
    """Names that stand for no folder of the job's container, such as a channel that it does not have."""
    known = folders_of(job)
    fields: dict[Path, Any] = {
        ("environment",): job.environment,
        ("hyperparameters",): job.hyperparameters,
        ("code", "arguments"): job.code.arguments,
    }
    for path, value in ((path, text) for field in fields for path, text in _texts(fields[field], field)):
        for match in _REFERENCE.finditer(value):
            if match["escape"] or match["name"] in known:
                continue
            near = nearest(match["name"], known)
            listed = f"There are: {', '.join(sorted(known))}."
            yield job_file.INVALID_VALUE.at(
                path,
                f"${{{match['name']}}} is no folder of this job's container, and would stop the script there",
                remedy=(f"Did you mean ${{{near[0]}}}? " if near else "")
                + f"{listed} A channel has one where it is in `inputs`; $${{ is a literal ${{.",
            )


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _texts(item, (*path, key))
    if isinstance(value, str) and "${" in value:
        yield path, value
