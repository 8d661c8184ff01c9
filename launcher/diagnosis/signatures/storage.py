"""Disks and file systems.

Texts: the C library's strerror, mount.lustre, the FSx CSI driver, PyTorch, FailureReason of the SageMaker
API.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime, storage

SIGNATURES = (
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="no space left on device",
        pattern=re.compile(
            r"^(?!.*(?:/dev/shm|shm\.h|posix_fallocate|<[^>]*torch_|<filename not specified>|NCCL WARN))"
            r".*[Nn]o space left on device"
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
        pattern=re.compile(r"write\(\): fd \d+ failed with (?P<why>Input/output error|No space)"),
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
        literal="pytorchstreamwriter failed writing",
        # Mostly behind the place in inline_container.cc, which those who pass it on leave out.
        pattern=re.compile(r"\bPytorchStreamWriter failed writing (?:file|central directory)"),
        example="RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed "
        "writing file data/12: file write failed",
        near_miss="INFO PytorchStreamWriter failed writing never",
        says="a checkpoint could not be written to its end: mostly the disk is full",
        vague=True,
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="unexpected pos ",
        # Of caffe2/serialize/inline_container.cc too, which those who pass it on leave out.
        pattern=re.compile(r"\bunexpected pos (?P<at>\d{1,20}) vs (?P<written>\d{1,20})(?!\S)"),
        example="RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 704 vs 598",
        near_miss="INFO unexpected pos 704 in the index",
        says="a checkpoint could not be written to its end ({written} of {at} bytes): mostly the disk is "
        "full",
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
        literal="[errno 2] no such file or directory: ",
        # What a compiler has just written there: another process has moved it or deleted it since.
        pattern=re.compile(
            r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<file>[^']{0,200}"
            r"(?:/\.triton/|/triton_cache|/torchinductor)[^']{0,300})'"
        ),
        example="FileNotFoundError: [Errno 2] No such file or directory: "
        "'/fsx/.triton/cache/5e1f/kernel.ttir.tmp.pid_15735_304289' -> '/fsx/.triton/cache/5e1f/kernel.ttir'",
        near_miss="FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/train/0.pt'",
        says="a file of a compiler's cache is gone that another process has replaced: {file}",
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
    Signature(
        mode=job_runtime.SHARED_CACHE,
        role=LineRole.INITIATOR,
        literal="text file busy",
        pattern=re.compile(
            r"\[Errno 26\] Text file busy: '(?P<file>[^']{0,200}(?:\.triton|torchinductor"
            r"|torch_extensions)[^']{0,200})'"
        ),
        example="OSError: [Errno 26] Text file busy: '/root/.cache/torch_extensions/py311_cu124/fused_ada"
        "m/fused_adam.so'",
        near_miss="OSError: [Errno 26] Text file busy: '/opt/ml/code/run.sh'",
        says="a file of a shared cache is written while another process runs it: {file}",
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="not enough disk space",
        pattern=re.compile(r"^OSError: Not enough disk space\. Needed: (?P<needed>.{1,40}?) \("),
        example="OSError: Not enough disk space. Needed: 412.00 GiB (download: 205.00 GiB, generated: "
        "207.00 GiB, post-processed: Unknown size)",
        near_miss="WARNING not enough disk space for the cache",
        says="the disk has no room for a data set, which needs {needed}",
    ),
    Signature(
        mode=job_runtime.SHARED_CACHE,
        role=LineRole.INITIATOR,
        literal=".triton/cache/",
        # A folder that is written beside the entry and takes its place.
        pattern=re.compile(
            r"\[Errno (?:2|39)\] (?:No such file or directory|Directory not empty): "
            r"'(?P<file>[^']{0,200}\.triton/cache/[^']{0,200}tmp\.pid_[^']{0,80})"
        ),
        example="OSError: [Errno 39] Directory not empty: '/fsx/home/.triton/cache/ZK3/tmp.pid_4711_8f' -> "
        "'/fsx/home/.triton/cache/ZK3'",
        near_miss="FileNotFoundError: [Errno 2] No such file or directory: '/root/.triton/cache/ZK3'",
        says="Triton's cache was changed by another process at the same time: {file}",
    ),
)
