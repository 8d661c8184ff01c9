"""What a job asks of the service besides hosts and data: the parts of a request that switch something on.

Source: SageMaker API reference, CreateTrainingJob.
"""

from __future__ import annotations

from typing import Any

from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import RequestView


def service_options(job: JobSpec) -> dict[str, Any]:
    """The members of a CreateTrainingJob request for what the job switches on; no member for what is off."""
    options: dict[str, Any] = {}
    if job.resources.infra_check:
        options["InfraCheckConfig"] = {"EnableInfraCheck": True}
    if job.debug.remote:
        options["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    return options


def on_aws_alone(request: RequestView) -> dict[str, str]:
    """What of a request a run on this machine cannot have: what is missing, by its field of the job file."""
    missing: dict[str, str] = {}
    if len(request.instance_types) > 1:
        missing["resources.instance_choice"] = f"the hosts stand for {request.instance_type}"
    if request.checks_hosts:
        missing["resources.infra_check"] = "no hosts are tested"
    if request.lets_a_shell_in:
        missing["debug.remote"] = "the processes run on this machine, within reach"
    return missing
