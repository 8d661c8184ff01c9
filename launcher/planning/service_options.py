"""What a job asks of the service besides hosts and data: the parts of a request that switch something on.

Source: SageMaker API reference, CreateTrainingJob.
"""

from __future__ import annotations

from typing import Any

from launcher.jobs.mlflow import Mlflow
from launcher.jobs.placement import UltraServerPlacement
from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import RequestView


def service_options(job: JobSpec) -> dict[str, Any]:
    """The members of a CreateTrainingJob request for what the job switches on; no member for what is off."""
    options: dict[str, Any] = {}
    if job.resources.infra_check:
        options["InfraCheckConfig"] = {"EnableInfraCheck": True}
    if job.debug.remote:
        options["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    if job.network.isolation:
        options["EnableNetworkIsolation"] = True
    if job.network.encryption:
        options["EnableInterContainerTrafficEncryption"] = True
    if job.mlflow is not None:
        options["MlflowConfig"] = _mlflow(job.mlflow)
    return options


def placement_config(placement: UltraServerPlacement | None) -> dict[str, Any]:
    """The member of a ResourceConfig that places the hosts on UltraServers; none where nothing is asked."""
    if placement is None:
        return {}
    config: dict[str, Any] = {"EnableMultipleJobs": placement.share}
    if placement.together:
        config["PlacementSpecifications"] = [
            {
                **({"UltraServerId": each.ultra_server} if each.ultra_server else {}),
                "InstanceCount": each.instance_count,
            }
            for each in placement.together
        ]
    return {"InstancePlacementConfig": config}


def _mlflow(mlflow: Mlflow) -> dict[str, str]:
    given = {
        "MlflowResourceArn": mlflow.arn,
        "MlflowExperimentName": mlflow.experiment,
        "MlflowRunName": mlflow.run,
    }
    return {name: value for name, value in given.items() if value is not None}


def on_aws_alone(request: RequestView) -> dict[str, str]:
    """What of a request a run on this machine cannot have: what is missing, by its field of the job file."""
    missing: dict[str, str] = {}
    if len(request.instance_types) > 1:
        missing["resources.instance_choice"] = f"the hosts stand for {request.instance_type}"
    if request.options.checks_hosts:
        missing["resources.infra_check"] = "no hosts are tested"
    if request.options.lets_a_shell_in:
        missing["debug.remote"] = "the processes run on this machine, within reach"
    if request.options.shares_ultra_servers is not None:
        missing["resources.placement"] = "no hosts are placed"
    if request.options.is_isolated:
        missing["network.isolation"] = "the processes reach what this machine reaches"
    if request.options.encrypts_between_hosts:
        missing["network.encryption"] = "what the hosts send each other stays on this machine"
    if request.options.mlflow_arn is not None:
        missing["mlflow"] = "the run is not known to SageMaker"
    return missing
