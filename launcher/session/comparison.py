"""A plan beside another: an earlier job's request, or the same job without Training Compiler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.documents.files import file_mode, read_regular
from launcher.failure_modes.refusal import Refusal
from launcher.jobs.load import LoadedJob
from launcher.planning.native_counterpart import native_counterpart
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import Request, TrainingPlan
from launcher.session.preparation import prepare
from launcher.source.tree import SourceTree

if TYPE_CHECKING:
    from launcher.aws.clients import Clients

_MOST_BYTES = 10_000_000
"""Of a file with a request; what a dry run prints has some ten thousand."""


def earlier_request(reference: str, clients: Clients, region: str | None) -> Request:
    """The request in a file (a dry run's output, or the request alone), or of a job by its name.

    Raises Refusal for a file that holds none, AwsRefusal where AWS knows no such job.
    """
    if not file_mode(Path(reference)):
        from launcher.aws.training_job import fetch_request

        return fetch_request(clients("sagemaker", region), reference)
    try:
        content = json.loads(read_regular(Path(reference), _MOST_BYTES))
        request = content.get("request", content)
        if isinstance(request, dict) and RequestView(request).name:
            return request
    except (OSError, ValueError, AttributeError, RecursionError):
        pass
    raise Refusal(
        f"{reference} holds no request of a training job.",
        "Give what `launch JOB.yaml --dry-run --output json` printed, or the name of a job.",
    )


def prepare_pair(
    loaded: LoadedJob,
    *,
    session_region: str | None,
    source: SourceTree | None,
    ignore: Sequence[str] = (),
) -> tuple[TrainingPlan, ...]:
    """The plan of a job with Training Compiler and that of the same job without; `source` is their code.

    There is one only where the file is broken. Raises Refusal for a job without the compiler.
    """
    if loaded.spec is None:
        return (prepare(loaded, session_region=session_region, ignore=ignore),)
    compiled = prepare(loaded, session_region=session_region, ignore=ignore, source=source)
    # Of the job as planned: a version that was chosen for the compiler is the native one's, too.
    native = replace(loaded, spec=native_counterpart(compiled.spec or loaded.spec))
    return (compiled, prepare(native, session_region=session_region, ignore=ignore, source=source))
