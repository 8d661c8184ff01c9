"""Faults of a GPU, or of a Neuron device.

Texts: NVIDIA's Xid documentation (docs.nvidia.com/deploy/xid-errors) and the driver's kernel messages.
Neuron's are those of its runtime (NRT, TDRV), 1.1 to 2.22, and of torch-neuronx.
Xid 48, 63, 64, 94, 95 and 140 are about memory; 13, 31, 43 and 45 mostly come from the program itself,
or follow from another one.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware
from launcher.failure_modes.model import Retry

SIGNATURES = (
    Signature(
        mode=hardware.ECC_ERROR,
        role=LineRole.INITIATOR,
        literal="uncorrectable ",
        pattern=re.compile(
            r"uncorrectable (?:NVLink|ECC) error (?:encountered|detected)|hardware error: uncorrectable ECC",
            re.I,
        ),
        example="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        near_miss="Uncorrectable ECC errors : 0",
        says="the GPU returned memory that could not be corrected (uncorrectable ECC error)",
    ),
    Signature(
        mode=hardware.ECC_ERROR,
        role=LineRole.INITIATOR,
        literal="xid",
        pattern=re.compile(r"\bXid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): (?P<xid>48|64|94|95|140)\b"),
        example="NVRM: Xid (PCI:0000:b2:00): 48, pid=7, name=python3, DBE detected",
        near_miss="NVRM: Xid (PCI:0000:b2:00): 31, pid=7, name=python3, MMU Fault",
        says="Xid {xid} on GPU {gpu}: memory that could not be corrected",
    ),
    Signature(
        mode=hardware.ECC_ERROR,
        role=LineRole.INITIATOR,
        literal="uncorrectable memory error",
        # slurmstepd/req.c of SLURM 15 to 25.
        pattern=re.compile(
            r"\*\*\* (?:JOB|STEP) \S{1,40} ON (?P<host>\S{1,80}) UNCORRECTABLE MEMORY ERROR AT "
        ),
        example="slurmstepd: error: *** STEP 4711.0 ON gpu-1 UNCORRECTABLE MEMORY ERROR AT "
        "2026-08-20T11:30:44 ***",
        near_miss="INFO uncorrectable memory error at 0 of 8 GPUs",
        says="the host {host} met memory that could not be corrected",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="xid",
        pattern=re.compile(
            r"\bXid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): "
            r"(?P<xid>(?!(?:13|31|43|45|48|63|64|92|94|95|140)\b)\d+)"
        ),
        example="NVRM: Xid (PCI:0000:b2:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
        "bus.",
        near_miss="NVRM: Xid (PCI:0000:b2:00): 43, pid=7, name=python3, Ch 00000008",
        says="Xid {xid} on GPU {gpu}",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="xid",
        pattern=re.compile(
            r"\bXid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): \d+,.*caused by previous Xid (?P<xid>\d+)"
        ),
        example="kernel: NVRM: Xid (PCI:0000:d1:00): 45, pid=7, name=python3, Ch 1 caused by previous Xid "
        "149",
        near_miss="kernel: NVRM: Xid (PCI:0000:d1:00): 45, pid=7, name=python3, Ch 1",
        says="Xid {xid} on GPU {gpu}",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.SYMPTOM,
        literal="xid",
        pattern=re.compile(
            r"\bXid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): (?P<xid>13|31|43|45)\b(?!.*previous Xid)"
        ),
        example="NVRM: Xid (PCI:0000:b2:00): 31, pid=7, name=python3, MMU Fault: ENGINE GRAPHICS",
        near_miss="NVRM: Xid (PCI:0000:d1:00): 45, pid=7, name=python3, Ch 1 caused by previous Xid 149",
        says="Xid {xid} on GPU {gpu}: mostly the program's own illegal access",
        remedy="Look for the fault in the code first, with CUDA_LAUNCH_BLOCKING=1 in one short run: an index "
        "out of bounds, memory that was freed. Where the same code fails on one host only, give that host to "
        "AWS Support.",
        retry=Retry.NEVER,
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="fallen off the bus",
        pattern=re.compile(
            r"(?:GPU (?:at )?(?:PCI:)?(?P<gpu>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F.]+):? (?:GPU )?)?"
            r"has fallen off the bus(?!\)$)|(?:^|NVRM:)\s*fallen off the bus and is not responding"
        ),
        example="NVRM: GPU 0000:b2:00.0: GPU has fallen off the bus.",
        near_miss="INFO checking that no GPU is fallen off the bus",
        says="GPU {gpu} has fallen off the bus",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="lost",
        pattern=re.compile(r"\bNV_ERR_GPU_IS_LOST\b|^GPU is lost\.|: GPU is lost\b"),
        example="NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] "
        "(0x0000000F) returned from rmStatus @ kernel_ce_gv100.c:106",
        near_miss="INFO step 3: one packet lost, no GPU is lost",
        says="a GPU no longer answers its driver",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="unable to determine the device handle for gpu",
        pattern=re.compile(
            r"Unable to determine the device handle for GPU ?(?P<gpu>[0-9a-fA-F:.]+): (?!Insufficient|No "
            r"perm)"
        ),
        example="Unable to determine the device handle for GPU0000:B2:00.0: Unknown Error",
        near_miss="Unable to determine the device handle for GPU index: see the manual",
        says="GPU {gpu} does not answer its driver",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="cuda error: ",
        pattern=re.compile(
            r"CUDA error: (?P<what>unspecified launch failure|unknown error|device not ready"
            r"|hardware stack error|Invalid access of peer GPU memory over nvlink)"
        ),
        example="RuntimeError: CUDA error: unspecified launch failure",
        near_miss="RuntimeError: CUDA error: device-side assert triggered",
        says="a fault on the GPU: {what}",
        vague=True,
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="sxid",
        pattern=re.compile(r"\bSXid \(PCI:(?P<gpu>[0-9a-fA-F:.]+)\): (?P<xid>\d+), Fatal"),
        example="nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44 sourcetrack timeout error",
        near_miss="nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted",
        says="a fatal fault of NVSwitch {gpu} (SXid {xid})",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="nvrm: ",
        pattern=re.compile(
            r"NVRM: (?:GPU (?P<gpu>[0-9a-fA-F:.]{7,20}): )?(?:RmInitAdapter failed!|rm_init_adapter failed)"
        ),
        example="NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:894)",
        near_miss="NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64",
        says="the driver cannot start GPU {gpu}",
    ),
    Signature(
        mode=hardware.NEURON_RUNTIME_FAILS,
        role=LineRole.INITIATOR,
        literal="tdrv:",
        pattern=re.compile(r"TDRV:\w{1,60}\]? +(?P<what>Could not open.{0,60})"),
        example="2024-May-21 16:08:34.244955 58100:58100 ERROR  TDRV:tdrv_init_mla_phase1          Could not "
        "open the nd3",
        near_miss="2024-May-21 16:08:34.208521 58098:58098 ERROR  TDRV:notification_destroy     "
        "Notifications not initialized!",
        says="the Neuron runtime: {what}",
    ),
    Signature(
        mode=hardware.NEURON_RUNTIME_FAILS,
        role=LineRole.INITIATOR,
        literal="nrt::",
        pattern=re.compile(r"(?P<what>Nrt::\w{1,40} failed on NeuronCores? .{1,160})"),
        example='(0) INTERNAL: Nrt::Load failed on NeuronCores 0-0(2): nrt_load status=1, error message="Non '
        'specific failure".',
        near_miss="INFO calling Nrt::Load on NeuronCores 0-0",
        says="the Neuron runtime: {what}",
    ),
    Signature(
        mode=hardware.NEURON_RUNTIME_FAILS,
        role=LineRole.INITIATOR,
        literal="nrt:nrt_init ",
        pattern=re.compile(r"ERROR +NRT:nrt_init +(?P<what>\S.{0,200})"),
        example="2022-Mar-29 07:07:29.0082    11:11    ERROR   NRT:nrt_init           Unable to determine "
        "Neuron Driver version. Please check aws-neuron-dkms package is installed.",
        near_miss="2024-10-21 7838:7838   INFO   NRT:nrt_init          Found neuron driver: 2.18",
        says="the Neuron runtime did not start: {what}",
    ),
    Signature(
        mode=hardware.NEURON_RUNTIME_FAILS,
        role=LineRole.INITIATOR,
        literal="failed to initialize devices",
        pattern=re.compile(r"NRTD:\w{1,40}\] Failed to initialize devices"),
        example="nrtd[1]: [NRTD:InitTongas] Failed to initialize devices, error:1",
        near_miss="INFO failed to initialize devices of the mouse",
        says="the Neuron runtime did not get its devices",
        vague=True,
    ),
    Signature(
        mode=hardware.NEURON_RUNTIME_FAILS,
        role=LineRole.INITIATOR,
        literal="neuron runtime could not be initialized",
        pattern=re.compile(r"PyTorch Neuron Runtime could not be initialized"),
        example="RuntimeError: The PyTorch Neuron Runtime could not be initialized. Neuron Driver issues are "
        "logged to your system logs.",
        near_miss="INFO a neuron runtime could not be initialized twice",
        says="the Neuron runtime did not start",
        vague=True,
    ),
    Signature(
        mode=hardware.NEURON_RUNTIME_FAILS,
        role=LineRole.INITIATOR,
        literal="nrt_",
        pattern=re.compile(
            r"\b(?P<what>nrt_(?:init|load|execute)\w{0,30}(?:\(\))? (?:failed|status=[1-9]).{0,80})"
        ),
        example="RuntimeError: nrt_init failed",
        near_miss="INFO nrt_load status=0",
        says="the Neuron runtime: {what}",
        vague=True,
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="nv_err_reset_required",
        pattern=re.compile(r"NVRM: .{0,300}\[NV_ERR_RESET_REQUIRED\]"),
        example="NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] "
        "(0x00000062) returned from status @ kernel_channel.c:2874",
        near_miss="INFO NV_ERR_RESET_REQUIRED is a status of the driver",
        says="the driver refuses a GPU until it is reset",
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="cuda driver error: ",
        pattern=re.compile(
            r"CUDA driver error: (?P<what>unspecified launch failure|unknown error|hardware stack "
            r"error|Invalid access of peer GPU memory over nvlink)"
        ),
        example="RuntimeError: CUDA driver error: unknown error",
        near_miss="RuntimeError: CUDA driver error: invalid device ordinal",
        says="a fault on the GPU: {what}",
        vague=True,
    ),
    Signature(
        mode=hardware.GPU_FAULT,
        role=LineRole.INITIATOR,
        literal="cuda failure ",
        pattern=re.compile(
            r"Cuda failure (?:\d{1,4} )?'(?P<what>unspecified launch failure|unknown error|hardware "
            r"stack error|Invalid access of peer GPU memory over nvlink)"
        ),
        example="algo-1:88:141 [3] enqueue.cc:200 NCCL WARN Cuda failure 719 'unspecified launch failure'",
        near_miss="algo-1:88:141 [3] init.cc:200 NCCL WARN Cuda failure 101 'invalid device ordinal'",
        says="a fault on the GPU: {what}",
        vague=True,
    ),
)
