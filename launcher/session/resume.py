"""A new job from an earlier one's request, which goes on from that one's newest checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.planning.naming import unique_part
from launcher.planning.resumption import resumed_name, resumed_request
from launcher.planning.training_plan import TrainingPlan
from launcher.session.submission import Begun, Start, Started


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a resumed job will be: the earlier job's name and the plan of the new one.

    `begun` is the new job where an earlier resumption, interrupted or of the same run, has started it.
    """

    earlier: str
    plan: TrainingPlan
    start: Start
    begun: Begun | None = None

    @property
    def name(self) -> str:
        """The new job's name."""
        return self.begun.name if self.begun else str(self.plan.name)

    def run(self) -> Started:
        """Start the job, once, from the earlier one's newest checkpoint. Raises what that raises."""
        return self.start.once(self.plan, self._send)

    def run_here(self) -> str:
        """Start the job on this machine; returns its name."""
        return self._send(self.plan)

    def _send(self, plan: TrainingPlan) -> str:
        return self.start.backend.resume(self.earlier, plan.request or {}, self.start.on_progress)


def plan_resumption(start: Start, earlier: str, region: str | None = None) -> Resumption:
    """A job that goes on from an earlier one's checkpoints. Sends nothing.

    Raises UnknownJob where there is no such job, BackendError where it is a tuning job or the backend cannot
    resume.
    """
    request = start.backend.request_of(earlier)
    plan = TrainingPlan(
        job={"name": earlier},
        region=region,
        request=resumed_request(request, earlier, resumed_name(earlier, unique_part())),
        package=None,
        findings=(),
    )
    if start.backend.runs_here:
        return Resumption(earlier, plan, start)
    plan = start.named(plan)
    return Resumption(earlier, plan, start, start.begun(plan))
