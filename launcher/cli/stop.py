"""`launch stop NAME`: ask a job to stop."""

from __future__ import annotations

from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, message, print_json
from launcher.cli.status import JobName


def stop(name: JobName, /, *, output: OutputOption = OutputFormat.TEXT) -> int:
    """Ask a job to stop; it has two minutes to save a checkpoint. Nothing happens to one that has ended."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.jobs import stop_job

    answer = stop_job(name, Clients(), session_region())
    if output is OutputFormat.JSON:
        print_json({"name": name, "state": answer.state, "asked_to_stop": answer.asked})
    elif answer.asked:
        message(f"{name} was asked to stop; see it end with: launch logs {name} --follow")
    else:
        message(f"{name} is {answer.state} already")
    return 0
