"""Disks, file systems and images.

Texts: the C library's strerror, mount.lustre, the FSx CSI driver, docker, containerd and NVIDIA's container
runtime, CUDA and its ptxas, PyTorch, FailureReason of the SageMaker API.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime, storage
from launcher.failure_modes.model import Retry

SIGNATURES = (
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="no space left on device",
        pattern=re.compile(
            r"^(?!.*(?:/dev/shm|shm\.h|posix_fallocate|<[^>]*torch_|NCCL WARN)).*No space left on device"
        ),
        example="OSError: [Errno 28] No space left on device",
        near_miss="NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes, error: No space "
        "left on device",
        says="the disk is full",
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="failed with",
        pattern=re.compile(
            r"PytorchStreamWriter failed writing file|write\(\): fd \d+ failed with (?P<why>Input/output "
            r"error|No space)"
        ),
        example="RuntimeError: write(): fd 31 failed with Input/output error",
        near_miss="INFO the request failed with Input/output error",
        says="a checkpoint could not be written: {why}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="basic_ios::clear: iostream error",
        # What the C++ stream of torch.save says where a write does not succeed.
        pattern=re.compile(r"^RuntimeError: basic_ios::clear: iostream error"),
        example="RuntimeError: basic_ios::clear: iostream error",
        near_miss="INFO basic_ios::clear: iostream error was handled",
        says="a checkpoint could not be written: mostly the disk is full",
        vague=True,
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="inline_container.cc",
        pattern=re.compile(
            r"inline_container\.cc:\d+\] \. (?:PytorchStreamWriter failed writing|unexpected pos)"
        ),
        example="RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 704 vs 598",
        near_miss="INFO inline_container.cc:1 reads the archive",
        says="a checkpoint could not be written to its end: mostly the disk is full",
        vague=True,
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="disk quota exceeded",
        pattern=re.compile(r"(?:Errno 122\] ?|[Ee]rror.*)Disk quota exceeded"),
        example="OSError: [Errno 122] Disk quota exceeded",
        near_miss="INFO warn before the disk quota exceeded mail",
        says="the disk's quota is used up",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="mount",
        pattern=re.compile(
            r"mount\.lustre: .*(?P<why>Connection timed out|Input/output error|No such file or directory"
            r"|Invalid argument|No such device|Cannot send after transport endpoint shutdown)"
        ),
        example="mount.lustre: mount 10.0.0.5@tcp:/abcd at /fsx failed: Connection timed out",
        near_miss="mount.lustre: mounted 10.0.0.5@tcp:/abcd at /fsx",
        says="the Lustre file system was not mounted: {why}",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="mountvolume.",
        pattern=re.compile(
            r"(?:kubelet, (?P<host>[\w.-]+)\s+)?MountVolume\.\w+ failed for volume \"(?P<volume>[^\"]+)\""
        ),
        example='MountVolume.SetUp failed for volume "pvc-0000" : rpc error: code = Internal desc = Could '
        "not mount",
        near_miss='MountVolume.SetUp succeeded for volume "pvc-0000"',
        says="volume {volume} was not mounted",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.SYMPTOM,
        literal="unable to attach or mount volumes",
        pattern=re.compile(
            r"(?:kubelet, (?P<host>[\w.-]+)\s+)?Unable to attach or mount volumes: unmounted "
            r"volumes=\[(?P<volume>[^\]]+)\]"
        ),
        example="Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: "
        "timed out",
        near_miss="INFO unable to attach or mount volumes twice",
        says="volume {volume} was not mounted in time",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="file system",
        pattern=re.compile(
            r"(?:Unable|Failed) to mount (?:the )?(?:FSx|Lustre|[Ff]ile [Ss]ystem)[^.]{0,160}"
            r"|mount of file ?system .* failed|[Ff]ailed to mount .*(?:lustre|fsx|file system)"
        ),
        example="ClientError: Unable to mount file system: fs-0a1b2c3d, directory: /abcd. Check the path.",
        near_miss="INFO unable to unmount the file system",
        says="the file system was not mounted",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="could not mount",
        pattern=re.compile(r"Could not mount \"(?P<volume>fs-[0-9a-f]+)"),
        example='rpc error: code = Internal desc = Could not mount "fs-0a1b2c3d"',
        near_miss='INFO could not mount "usb"',
        says="file system {volume} was not mounted",
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="pull",
        pattern=re.compile(
            r"in pod \"(?P<host>[\w.-]+)\" is waiting to start: trying and failing to pull image"
            r"|\bCannotPullContainer(?:Error)?\b|\bErrImagePull\b|\bImagePullBackOff\b"
            r"|pull access denied for (?P<image>\S+)|Failed to pull image \"(?P<name>[^\"]+)\""
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
            r"attempted on non supported HW)"
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
            r"(?:CUDA error: |[.?] Error 802: |cuda runtime error \(802\) : )system not yet initialized"
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
        pattern=re.compile(r"\. Error 80[34]: (?P<what>.{1,80})"),
        example="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward "
        "compatibility was "
        "attempted on non supported HW",
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
        mode=job_runtime.SHARED_CACHE,
        role=LineRole.INITIATOR,
        literal="stale file handle",
        pattern=re.compile(
            r"\[Errno 116\] Stale file handle(?:: '?(?P<file>[^\s'\"]{1,300}))?|: Stale file handle$"
        ),
        example="OSError: [Errno 116] Stale file handle: '/fsx/.triton/cache/5e1f/kernel.json'",
        near_miss="INFO a stale file handle is opened again",
        says="a file on a shared file system was replaced by another host while it was open here: {file}",
    ),
    Signature(
        mode=job_runtime.SHARED_CACHE,
        role=LineRole.INITIATOR,
        literal="device or resource busy",
        pattern=re.compile(
            r"\[Errno 16\] Device or resource busy: '(?P<file>[^']{0,200}"
            r"(?:\.triton|torchinductor|torch_extensions|\.nfs)[^']{0,200})'"
        ),
        example="OSError: [Errno 16] Device or resource busy: '/root/.triton/cache/8a/cuda_utils.so'",
        near_miss="OSError: [Errno 16] Device or resource busy: '/dev/snd'",
        says="a file of a shared cache is in use by another host: {file}",
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="disk space",
        pattern=re.compile(r"(?:upload|[Dd]ownload) failed: ?.{0,40}?[Ii]nsufficient disk space"),
        example="ClientError: Artifact upload failed:Insufficient disk space",
        near_miss="INFO checking that there is no insufficient disk space",
        says="the disk is full",
    ),
)
