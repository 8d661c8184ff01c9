"""A new job from an earlier one's request, which goes on from that one's newest checkpoint."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from launcher.backends.interface import BackendError, OnProgress
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.layout import hosts_of
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.jobs.specification import RESERVED_CHANNEL
from launcher.planning.naming import unique_part
from launcher.planning.request_view import RequestView
from launcher.planning.resumption import resumed_name, resumed_request
from launcher.planning.training_plan import Request, SourcePackage, TrainingPlan
from launcher.source.packaging import SOURCE_NAME
from launcher.source.tree import read_source


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a resumed job will be: the earlier job's name and the request for the new one."""

    earlier: str
    request: Request

    @property
    def name(self) -> str:
        """The new job's name."""
        return str(RequestView(self.request).name)


def plan_resumption(backend: LocalBackend | SageMakerBackend, earlier: str) -> Resumption:
    """The request of a job that goes on from an earlier one's checkpoints. Sends nothing.

    Raises UnknownJob where there is no such job, BackendError where it is a tuning job.
    """
    request = backend.request_of(earlier)
    return Resumption(earlier, resumed_request(request, earlier, resumed_name(earlier, unique_part())))


def resume_on_sagemaker(
    backend: SageMakerBackend, resumption: Resumption, on_progress: OnProgress | None = None
) -> str:
    """Copy the newest complete checkpoint, then create the job; returns its name.

    Raises BackendError where the earlier job still runs or has no checkpoint, AwsRefusal where AWS refuses.
    """
    return backend.resume(resumption.earlier, resumption.request, on_progress)


@contextmanager
def local_resumption(home: Path, resumption: Resumption) -> Iterator[tuple[TrainingPlan, dict[str, Path]]]:
    """The plan and the channels' folders to run the resumed job with on this machine.

    The code is what the earlier job ran, unpacked for as long as the context lasts. Raises BackendError
    where that is gone.
    """
    host = hosts_of(home.absolute() / resumption.earlier, 1)[0]
    data = host.root / "input" / "data"
    with tempfile.TemporaryDirectory(prefix="slipway-resume-") as scratch:
        _unpack(data / RESERVED_CHANNEL / SOURCE_NAME, Path(scratch))
        request = RequestView(resumption.request)
        plan = TrainingPlan(
            job={
                "name": resumption.name,
                "checkpoint": {"resume_from": resumption.earlier},
                "distribution": {"processes_per_host": request.processes_per_host},
            },
            region=None,
            request=resumption.request,
            package=SourcePackage(
                read_source(Path(scratch), request.boot_options.get("--entry-point", "")), ""
            ),
            findings=(),
        )
        inputs = {
            channel.name: channel.resolve()
            for channel in data.iterdir()
            if channel.name != RESERVED_CHANNEL and channel.is_dir()
        }
        yield plan, inputs


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise BackendError(
            f"the code of the earlier job cannot be read from {archive}: {error}.",
            "Launch its job file again, with --set checkpoint.resume_from=NAME.",
        ) from error
