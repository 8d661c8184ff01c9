"""Images, and what their CUDA wants of the host's driver.

Texts: docker, containerd and NVIDIA's container runtime, CUDA and its ptxas, PyTorch, NCCL's cudawrap.cc,
FailureReason of the SageMaker API.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Retry

SIGNATURES = (
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="no basic auth credentials",
        # Docker, of a registry that it was not logged in to.
        pattern=re.compile(r"\b(?P<registry>[\w.-]{1,200})/v2/\S{1,300}: no basic auth credentials"),
        example="Error response from daemon: Get https://111122223333.dkr.ecr.us-west-2.amazonaws.com/v2/"
        "train/manifests/v1: no basic auth credentials",
        near_miss="INFO no basic auth credentials are needed here",
        says="the image could not be pulled: docker is not logged in to {registry}",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="pull",
        pattern=re.compile(
            r"in pod \"(?P<host>[\w.-]+)\" is waiting to start: trying and failing to pull image"
            r"|\bCannotPullContainer(?:Error)?\b|\bErrImagePull\b|\bImagePullBackOff\b"
            r"|pull access denied for (?P<image>\S+)|Failed to pull image "
            r"\"(?P<name>[^\"]+)\""
        ),
        example="CannotPullContainerError: Error response from daemon: manifest for x:1 not found",
        near_miss="INFO pulling image x:1, pull complete",
        says="the image could not be pulled",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="manifest",
        pattern=re.compile(r"manifest for (?P<image>\S+) not found|manifest unknown: "),
        example="Error response from daemon: manifest for x/pytorch-training:9.9 not found: manifest unknown",
        near_miss="INFO manifest for 12 shards written; not found: 0",
        says="there is no image {image}",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="does not exist in the registry",
        pattern=re.compile(r"(?:repository|image) .*does not exist in the registry", re.I),
        example="The repository with name 'train' does not exist in the registry with id '111122223333'",
        near_miss="INFO the key does not exist in the registry",
        says="there is no such image in the registry",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="cannot find",
        pattern=re.compile(r"Cannot find (?:ECR )?(?:repository|image):? (?P<image>\S+\.amazonaws\.com\S*)"),
        example="ClientError: Cannot find image: 111122223333.dkr.ecr.us-west-2.amazonaws.com/train:1",
        near_miss="INFO cannot find image sizes, using 224",
        says="image {image} is missing or may not be pulled",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="driver",
        pattern=re.compile(
            r"(?:NVIDIA|CUDA) driver on your system is too old(?: \(found version (?P<version>\d+)\))?"
            r"|CUDA driver version is insufficient for CUDA runtime version"
            r"|unsatisfied condition: cuda>=(?P<wanted>[\d.]+)"
        ),
        example="The NVIDIA driver on your system is too old (found version 10010).",
        near_miss="INFO the NVIDIA driver on your system is new",
        says="the image's CUDA wants a newer driver than the host's ({version})",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="no kernel image is available",
        pattern=re.compile(r"no kernel image is available for execution on the device"),
        example="RuntimeError: CUDA error: no kernel image is available for execution on the device",
        near_miss="INFO no kernel image is available for download",
        says="torch or an extension was not built for this GPU",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="is not compatible with the current pytorch",
        pattern=re.compile(
            r"with CUDA capability (?P<architecture>sm_\d+) is not compatible with the current PyTorch"
        ),
        example="NVIDIA A100-PCIE-40GB with CUDA capability sm_80 is not compatible with the current PyTorch "
        "installation.",
        near_miss="INFO this code is not compatible with the current PyTorch",
        says="torch was not built for this GPU ({architecture})",
        vague=True,
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="cuda error",
        pattern=re.compile(
            r"CUDA error: (?P<what>the provided PTX was compiled with an unsupported toolchain|device "
            r"kernel image is "
            r"invalid|system has unsupported display driver / cuda driver combination|forward "
            r"compatibility was "
            r"attempted on non supported HW|CUDA driver is a stub library|API call is not supported in the "
            r"installed CUDA driver)"
        ),
        example="RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        near_miss="RuntimeError: CUDA error: unknown",
        says="driver and CUDA do not fit: {what}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="driver/library version mismatch",
        pattern=re.compile(
            r"(?:Failed to initialize NVML|nvml error): Driver/library version mismatch", re.I
        ),
        example="Failed to initialize NVML: Driver/library version mismatch",
        near_miss="INFO 'NVML: Driver/library version mismatch' needs a reboot",
        says="driver and driver library differ on the host",
        remedy="The host's driver was changed while it ran: its kernel module and its library are of two "
        "versions. Run the job again on other hosts: a new job, not the same warm pool.",
        retry=Retry.OTHER_HOSTS,
        vague=True,
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="system not yet initialized",
        # CUDA's cudaErrorSystemNotReady: a daemon of the driver does not run, with NVSwitch the fabric
        # manager.
        pattern=re.compile(
            r"(?:CUDA error: |[.?] Error 802: |cuda runtime error \(802\) : |Cuda failure (?:\d+ )?')"
            r"system not yet initialized"
        ),
        example="RuntimeError: cuda runtime error (802) : system not yet initialized at "
        "/pytorch/aten/src/THC/THCGeneral.cpp:50",
        near_miss="INFO the system not yet initialized is algo-2",
        says="the host's GPUs are not ready: NVIDIA's fabric manager does not run there",
        remedy="Run the job again on other hosts: a new job, not the same warm pool. On machines of your own "
        "start nvidia-fabricmanager, in the version of the driver.",
        retry=Retry.OTHER_HOSTS,
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="error 80",
        pattern=re.compile(r"[.?] Error 80[34]: (?P<what>.{1,80})"),
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility "
        "was attempted on non supported HW",
        near_miss="INFO Error 800 of the printer",
        says="driver and CUDA do not fit: {what}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="cuda runtime error (80",
        pattern=re.compile(r"cuda runtime error \((?P<code>80[34])\) : (?P<what>.{1,80}?)(?: at /|$)"),
        example="RuntimeError: cuda runtime error (804) : forward compatibility was attempted on non "
        "supported HW at /pytorch/aten/src/THC/THCGeneral.cpp:50",
        near_miss="INFO cuda runtime error (801) is not an error here",
        says="driver and CUDA do not fit: {what}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="is not defined for option 'gpu-name'",
        pattern=re.compile(r"Value '(?P<architecture>sm_\w{1,9})' is not defined for option 'gpu-name'"),
        example="ptxas fatal   : Value 'sm_100' is not defined for option 'gpu-name'",
        near_miss="INFO a value is not defined for option 'gpu-name'",
        says="the image's compiler (ptxas) does not know this GPU's architecture, {architecture}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="unexpected error from cudagetdevicecount()",
        pattern=re.compile(
            r"^RuntimeError: Unexpected error from cudaGetDeviceCount\(\).{0,200}\bError (?:34|36): "
            r"(?P<what>.{1,80})"
        ),
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error "
        "36: API call is not supported in the installed CUDA driver",
        near_miss="UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 36: "
        "API call is not supported",
        says="driver and CUDA do not fit: {what}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.SYMPTOM,
        literal="cuda driver version found is ",
        pattern=re.compile(
            r"NCCL WARN CUDA Driver version found is (?P<version>\d{1,6})\. Minimum requirement is "
            r"(?P<wanted>\d{1,6})"
        ),
        example="gpu-1:20:31 [0] misc/cudawrap.cc:180 NCCL WARN CUDA Driver version found is 10020. "
        "Minimum requirement is 11020",
        near_miss="INFO the CUDA Driver version found is 12040",
        says="NCCL wants a newer driver ({wanted}) than the host's ({version})",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal=": invalid training image",
        pattern=re.compile(r"when calling the CreateTrainingJob operation: Invalid training image\b"),
        example="botocore.exceptions.ClientError: An error occurred (ValidationException) when calling the "
        "CreateTrainingJob operation: Invalid training image. Please provide a valid path.",
        near_miss="INFO check: invalid training images are refused",
        says="the service takes the image's address for none of a registry",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="cannot pull algorithm container",
        pattern=re.compile(r"(?:\bClientError: |^)Cannot pull algorithm container\b"),
        example="ClientError: Cannot pull algorithm container. Either the image does not exist or its "
        "permissions are incorrect.",
        near_miss="INFO a service that cannot pull algorithm containers says so",
        says="the image does not exist, or the role may not pull it",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="triton error [cuda]: ",
        pattern=re.compile(
            r"Triton Error \[CUDA\]: (?P<what>device kernel image is invalid"
            r"|the provided PTX was compiled with an unsupported toolchain)"
        ),
        example="RuntimeError: Triton Error [CUDA]: device kernel image is invalid",
        near_miss="RuntimeError: Triton Error [CUDA]: invalid argument",
        says="driver and Triton do not fit: {what}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="unsupported .version ",
        pattern=re.compile(
            r"Unsupported \.version (?P<wanted>[\d.]{1,8}); current version is '(?P<own>[\d.]{1,8})'"
        ),
        example="ptxas /tmp/x.ptx, line 5; fatal   : Unsupported .version 8.7; current version is '8.4'",
        near_miss="INFO Unsupported .version 8.7 is lowered",
        says="the image's compiler (ptxas) reads PTX up to version {own}, and gets {wanted}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="nvrtc: error: ",
        pattern=re.compile(
            r"nvrtc: error: (?P<what>invalid value for --gpu-architecture|failed to open "
            r"libnvrtc-builtins\S{0,20})"
        ),
        example="RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)",
        near_miss="RuntimeError: nvrtc: error: failed to load source",
        says="CUDA's compiler in the image does not fit GPU and torch: {what}",
    ),
)
