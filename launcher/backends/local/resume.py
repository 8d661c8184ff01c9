"""A local job again: its code as it was packed, its inputs, and a copy of its checkpoints."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from launcher.backends.interface import BackendError
from launcher.backends.local.hosts import hosts_of
from launcher.documents.files import open_regular
from launcher.jobs.inputs import RESERVED_CHANNEL
from launcher.planning.request_parts import ENTRY_POINT_OPTION, REQUIREMENTS_OPTION
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import Request, SourcePackage, TrainingPlan
from launcher.source.packaging import SOURCE_NAME
from launcher.source.scratch import scratch_folder
from launcher.source.tree import SourceTree, read_source


@contextmanager
def resumed_plan(folder: Path, request: Request) -> Iterator[tuple[TrainingPlan, dict[str, Path]]]:
    """The plan of a request that goes on from an earlier job's, and the folders of its channels.

    `folder` is the earlier job's. Its code is unpacked for as long as the context lasts. Raises BackendError
    where that is gone.
    """
    data = hosts_of(folder, 1)[0].root / "input" / "data"
    with scratch_folder("resume-") as scratch:
        _unpack(data / RESERVED_CHANNEL / SOURCE_NAME, scratch)
        view = RequestView(request)
        plan = TrainingPlan(
            job={
                "name": str(view.name),
                "checkpoint": {"resume_from": folder.name},
                "distribution": {"processes_per_host": view.processes_per_host},
            },
            region=None,
            request=request,
            package=SourcePackage(_source(scratch, view.boot_options), ""),
            findings=(),
        )
        inputs = {
            channel.name: channel.resolve()
            for channel in data.iterdir()
            if channel.name != RESERVED_CHANNEL and channel.is_dir()
        }
        yield plan, inputs


def _source(folder: Path, options: Mapping[str, str]) -> SourceTree:
    """The code as the boot is told to start it."""
    return read_source(
        folder, options.get(ENTRY_POINT_OPTION, ""), requirements=options.get(REQUIREMENTS_OPTION)
    )


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with open_regular(archive) as file, tarfile.open(fileobj=file) as packed:
            packed.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise BackendError(
            f"the code of the earlier job cannot be read from {archive}: {error}.",
            "Launch its job file again, with --set checkpoint.resume_from=NAME.",
        ) from error
