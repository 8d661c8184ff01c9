"""A new job from an earlier one's request, which goes on from that one's newest checkpoint."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.backends.interface import BackendError, OnProgress
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.layout import CODE_CHANNEL, hosts_of
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.planning.naming import job_name, unique_part
from launcher.planning.training_plan import Request, SourcePackage, TrainingPlan
from launcher.source.packaging import SOURCE_NAME

RESUMED_FROM_TAG = "slipway:resumed-from"

_CHECKPOINT_VARIABLE = "SLIPWAY_CHECKPOINT_URI"
_UNIQUE_PART = re.compile(r"-[0-9a-hjkmnp-tv-z]{17}$")
_LONGEST_BASE = 45
"""Of the name, so that the unique part fits into 63 characters."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a resumed job will be: the earlier job's name and the request for the new one."""

    earlier: str
    request: Request

    @property
    def name(self) -> str:
        """The new job's name."""
        return str(self.request["TrainingJobName"])


def plan_resumption(backend: LocalBackend | SageMakerBackend, earlier: str) -> Resumption:
    """The request of a job that goes on from an earlier one's checkpoints. Sends nothing.

    Raises UnknownJob where there is no such job, BackendError where it is a tuning job.
    """
    request = backend.request_of(earlier)
    return Resumption(earlier, resumed_request(request, earlier, _new_name(earlier)))


def resumed_request(request: Request, earlier: str, name: str) -> Request:
    """The same request under a new name, with a checkpoint prefix of its own and a tag that tells its origin.

    Everything else stays, the code's prefix too: the new job runs what the earlier one ran.
    """
    new = deepcopy(request)
    new["TrainingJobName"] = name
    if "S3Uri" in new.get("CheckpointConfig", {}):
        new["CheckpointConfig"]["S3Uri"] = _moved(new["CheckpointConfig"]["S3Uri"], earlier, name)
    environment = new.get("Environment", {})
    if _CHECKPOINT_VARIABLE in environment:
        environment[_CHECKPOINT_VARIABLE] = _moved(environment[_CHECKPOINT_VARIABLE], earlier, name)
    kept = [
        tag
        for tag in new.get("Tags", ())
        if tag["Key"] != RESUMED_FROM_TAG and not tag["Key"].startswith("aws:")
    ]
    new["Tags"] = [*kept, {"Key": RESUMED_FROM_TAG, "Value": earlier}]
    return new


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
        _unpack(data / CODE_CHANNEL / SOURCE_NAME, Path(scratch))
        arguments = _options(resumption.request)
        processes = arguments.get("--processes-per-host")
        plan = TrainingPlan(
            job={
                "name": resumption.name,
                "checkpoint": {"resume_from": resumption.earlier},
                "distribution": {"processes_per_host": int(processes) if processes else None},
            },
            region=None,
            request=resumption.request,
            package=SourcePackage(Path(scratch), arguments.get("--entry-point", ""), ""),
            findings=(),
        )
        inputs = {
            channel.name: channel.resolve()
            for channel in data.iterdir()
            if channel.name != CODE_CHANNEL and channel.is_dir()
        }
        yield plan, inputs


def _new_name(earlier: str) -> str:
    base = _UNIQUE_PART.sub("", earlier)[:_LONGEST_BASE].rstrip("-")
    return job_name(base, unique_part())


def _moved(uri: str, earlier: str, name: str) -> str:
    """A prefix beside the earlier job's; below the same parent where it ends in the job's name."""
    prefix = uri.rstrip("/")
    return f"{prefix.removesuffix(f'/{earlier}')}/{name}"


def _options(request: Mapping[str, Any]) -> dict[str, str]:
    """The boot's own options: pairs up to the two dashes that begin the user's arguments."""
    words = list(request.get("AlgorithmSpecification", {}).get("ContainerArguments") or ())
    own = words[: words.index("--")] if "--" in words else words
    return dict(zip(own[::2], own[1::2], strict=False))


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise BackendError(
            f"the code of the earlier job cannot be read from {archive}: {error}.",
            "Launch its job file again, with --set checkpoint.resume_from=NAME.",
        ) from error
