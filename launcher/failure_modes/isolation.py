"""Containers without a network, and traffic between hosts that is encrypted."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Severity

ISOLATED_BUT_CALLS_OUT = FailureMode(
    code="NET001",
    title="network isolation keeps the job from what it calls",
    cause=(
        "With EnableNetworkIsolation the containers reach each other and nothing else: no AWS service, not "
        "even through the VPC, no package index, no hub. The service brings channels, checkpoints and the "
        "model by itself. The training toolkit of the images, which starts some strategies and all tuning "
        "jobs, fetches the code from inside the container, and so does whatever fetches secrets, packages "
        "or data there; a shell by Systems Manager cannot get in."
    ),
    remedy=(
        "Give the job all that it needs as channels (`inputs`), let SageMaker move the checkpoints (`sync: "
        "sagemaker`) and use a strategy that the boot starts: torchrun, smp version 2 or none. Otherwise "
        "keep the hosts in private subnets with endpoints for what they call, without `network.isolation`."
    ),
    sources=(sources.TRAINING_JOB_API, sources.REMOTE_DEBUGGING, sources.TRAINING_TOOLKIT),
)

HOSTS_ENCRYPT_THEIR_TRAFFIC = FailureMode(
    code="NET002",
    title="traffic between hosts is encrypted, which takes time",
    cause=(
        "With EnableInterContainerTrafficEncryption the hosts encrypt what they send each other. AWS says "
        "that training can take longer and cost more, by as much as the hosts communicate, above all in "
        "distributed deep learning, and that one host alone is not affected. What becomes of EFA, which "
        "sends past the kernel, the guide does not say."
    ),
    remedy=(
        "Measure steps in a second with and without it before a long run. The security group must let UDP "
        "500 and ESP (protocol 50) pass between the hosts both ways, which the rules for all traffic do "
        "that several hosts need anyway. Where no rule asks for encryption, leave it out."
    ),
    sources=(sources.TRAFFIC_ENCRYPTION, sources.TRAINING_JOB_API),
    severity=Severity.WARNING,
)
