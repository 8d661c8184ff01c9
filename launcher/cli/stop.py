"""`launch stop NAME`: ask a job to stop."""

from __future__ import annotations

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, message, print_json
from launcher.cli.status import JobName


def stop(name: JobName, /, *, output: OutputOption = OutputFormat.TEXT) -> int:
    """Ask a job to stop; it has two minutes to save a checkpoint. Nothing happens to one that has ended."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.jobs import find_job

    job = find_job(name, Clients(), session_region())
    ended = job.status.state.is_final
    if not ended:
        job.backend.stop(job.name)
    if output is OutputFormat.JSON:
        print_json({"name": job.name, "state": job.status.state.value, "asked_to_stop": not ended})
    elif ended:
        message(f"{job.name} is {job.status.state} already")
    else:
        message(f"{job.name} was asked to stop; see it end with: launch logs {job.name} --follow")
    return 0
