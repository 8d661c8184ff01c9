"""A new job from an earlier one's request, which goes on from that one's newest checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.backends.interface import Backend
from launcher.planning.naming import unique_part
from launcher.planning.request_view import RequestView
from launcher.planning.resumption import resumed_name, resumed_request
from launcher.planning.training_plan import Request


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a resumed job will be: the earlier job's name and the request for the new one."""

    earlier: str
    request: Request

    @property
    def name(self) -> str:
        """The new job's name."""
        return str(RequestView(self.request).name)


def plan_resumption(backend: Backend, earlier: str) -> Resumption:
    """The request of a job that goes on from an earlier one's checkpoints. Sends nothing.

    `backend.resume` then starts it. Raises UnknownJob where there is no such job, BackendError where it is a
    tuning job or the backend cannot resume.
    """
    request = backend.request_of(earlier)
    return Resumption(earlier, resumed_request(request, earlier, resumed_name(earlier, unique_part())))
