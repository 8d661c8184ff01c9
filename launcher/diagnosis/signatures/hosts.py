"""What a host says that no container sees: its kernel, its container runtime, its mounts, NVSwitch's manager.

Texts: libnvidia-container's cli; runc and Linux' exec; nfs-utils' mount.nfs; the kernel's PCIe AER
(drivers/pci/pcie/aer.c); NVIDIA's fabric manager user guide.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, job_runtime, nccl, storage
from launcher.failure_modes.model import Retry

SIGNATURES = (
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="nvidia-container-cli: ",
        pattern=re.compile(
            r"nvidia-container-cli: (?:initialization|requirement) error: (?P<what>\S.{0,200})"
        ),
        example="nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot "
        "open shared object file: no such file or directory: unknown",
        near_miss="nvidia-container-cli: I1123 initializing",
        says="the host's driver cannot be lent to the container: {what}",
        vague=True,
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.INITIATOR,
        literal="nvidia-container-cli: ",
        pattern=re.compile(r"nvidia-container-cli: (?:detection|device) error: (?P<what>\S.{0,200})"),
        example="nvidia-container-cli: device error: 8: unknown device: unknown.",
        near_miss="nvidia-container-cli: mount error: out of space",
        says="the host's GPUs cannot be lent to the container: {what}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="exec format error",
        pattern=re.compile(r"^(?:\S{1,80} )?exec (?P<program>/\S{1,200}): exec format error$"),
        example="exec /usr/local/bin/start.sh: exec format error",
        near_miss="INFO an exec format error is raised then",
        says="the host's CPU cannot run {program}: the image is of another architecture (x86 or Arm), or the "
        "script lacks its first line (#!)",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.SYMPTOM,
        literal="aer: uncorrect",
        pattern=re.compile(r"pcieport (?P<port>[0-9a-f:.]{7,16}): AER: Uncorrect\w{1,10} \(Fatal\)"),
        example="pcieport 0000:52:00.0: AER: Uncorrected (Fatal) error message received from 0000:53:00.0",
        near_miss="pcieport 0000:52:00.0: AER: Uncorrectable (Non-Fatal) error message received",
        says="a device on the host's PCI bus had a fatal error (port {port})",
        retry=Retry.OTHER_HOSTS,
        vague=True,
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="detected nvswitch fatal error",
        pattern=re.compile(r"detected NVSwitch fatal error (?P<sxid>\d{1,6})"),
        example="nv-fabricmanager[1811]: detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
        "00000000:84:00.0 physical id 3 port 30",
        near_miss="INFO fabric manager: no detected NVSwitch fatal error",
        says="a switch between the host's GPUs had a fatal error (SXid {sxid})",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="mount.nfs",
        pattern=re.compile(
            r"^mount\.(?:nfs4|nfs): (?P<why>Connection (?:timed out|refused|reset by peer)|access "
            r"denied by server"
            r"|mounting \S{1,300} failed|Failed to resolve server|No such (?:file or directory|device)"
            r"|mount point \S{1,300} does not exist|Protocol not supported|Network is unreachable|No "
            r"route to host)"
        ),
        example="mount.nfs4: Connection timed out",
        near_miss="mount.nfs: trying text-based options 'vers=4.2'",
        says="the file system was not mounted: {why}",
    ),
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="response from daemon: ",
        pattern=re.compile(
            r"response from daemon: (?:could not select device driver \"\w{0,20}\" with capabilities: \[\[gpu"
            r"|unknown or invalid runtime name: nvidia)"
        ),
        example='docker: Error response from daemon: could not select device driver "" with '
        "capabilities: [[gpu]].",
        near_miss="docker: Error response from daemon: No such container",
        says="docker has no runtime for GPUs on this host: NVIDIA's container toolkit is not installed there",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.SYMPTOM,
        literal="couldn't communicate with the nvidia driver",
        pattern=re.compile(r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
        example="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
        "that the latest NVIDIA driver is installed and running.",
        near_miss="INFO nvidia-smi couldn't communicate with the NVIDIA driver yet",
        says="NVIDIA's driver does not run on this host",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal='failed to resolve "fs-',
        # amazon-efs-utils.
        pattern=re.compile(r"Failed to resolve \"(?P<host>fs-[\w.-]{1,120})\""),
        example='Failed to resolve "fs-0123.efs.us-east-1.amazonaws.com" - check that your file system ID is '
        "correct, and ensure that the VPC has an EFS mount target for this file system ID.",
        near_miss='INFO "failed to resolve "fs-" is what it says',
        says="the file system was not mounted: the VPC knows no {host}",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="mount: ",
        # util-linux, of whichever file system.
        pattern=re.compile(
            r"^mount: (?P<where>/\S{1,200}): (?P<why>wrong fs type|mount\(2\) system call failed"
            r"|special device \S{1,200} does not exist|mount point does not exist|unknown filesystem type)"
        ),
        example="mount: /fsx: wrong fs type, bad option, bad superblock on "
        "fs-0.fsx.amazonaws.com@tcp:/abcdefgh",
        near_miss="mount: /fsx mounted",
        says="nothing was mounted at {where}: {why}",
    ),
)
