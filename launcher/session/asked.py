"""What a job was asked to be, by its request: what its diagnosis names numbers of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.diagnosis.remedies.asked_job import NOTHING_ASKED, AskedJob

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView


def asked_of(request: RequestView | None, *, here: bool = False) -> AskedJob:
    """What the request says; of a run on this machine nothing of the hosts that it stands for."""
    if request is None:
        return NOTHING_ASKED
    words = request.arguments
    return AskedJob(
        instance_type=None if here else request.instance_type,
        processes_per_host=request.processes_per_host,
        volume_size_gb=None if here else request.volume_size_gb,
        hyperparameters=request.hyperparameters,
        arguments=words[words.index("--") + 1 :] if "--" in words else words,
    )
