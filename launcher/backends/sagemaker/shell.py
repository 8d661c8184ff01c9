"""A shell in a container of a training job that runs: the commands of the AWS command line for it.

Source: SageMaker developer guide, train-remote-debugging (the form of the target, and when a session may be
started and the job be updated).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from launcher.cluster.sagemaker_names import host_name

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView

_UPDATED_IN = ("Downloading", "Training")


def shell_commands(job: Mapping[str, Any], request: RequestView) -> tuple[str, ...]:
    """The commands that lead to a shell in the first container, in turn, by an answer of DescribeTrainingJob.

    The first of two switches it on where the job was created without it. None where there is no way in: of a
    job that does not run yet or any more, or that is isolated from the network.
    """
    if request.options.is_isolated or job.get("SecondaryStatus") not in _UPDATED_IN:
        return ()
    name, region = job["TrainingJobName"], job["TrainingJobArn"].split(":")[3]
    session = f"aws ssm start-session --region {region} --target {_target(name)}"
    if request.options.lets_a_shell_in:
        return (session,)
    update = f"aws sagemaker update-training-job --region {region} --training-job-name {name}"
    return (f"{update} --remote-debug-config EnableRemoteDebug=true", session)


def _target(job_name: str) -> str:
    return f"sagemaker-training-job:{job_name}_{host_name(1)}"
