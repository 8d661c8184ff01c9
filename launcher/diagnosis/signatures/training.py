"""What PyTorch says of data loading and DDP.

Texts: torch/utils/data/_utils, torch/csrc/distributed/c10d/reducer.cpp, Lightning.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import data, ddp, job_runtime

_SAME_MODEL = (
    "Build the same model on every rank, with the same parameters in the same order, memory format and "
    "requires_grad, before it is wrapped: what a rank decides by its own data, seed or files (a "
    "vocabulary, a checkpoint that only one finds, an adapter) makes them differ. A rank with 0 "
    "parameters had frozen all of them, or failed at this point."
)

SIGNATURES = (
    Signature(
        mode=data.LOADER_WORKER_KILLED,
        role=LineRole.INITIATOR,
        literal="dataloader worker",
        pattern=re.compile(
            r"DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) is killed by signal: "
            r"(?P<signal>(?!Killed|Terminated)[\w ]+)"
        ),
        example="RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error.",
        near_miss="RuntimeError: DataLoader worker (pid 411) is killed by signal: Killed.",
        says="a DataLoader worker died of: {signal}",
    ),
    Signature(
        mode=data.LOADER_WORKER_KILLED,
        role=LineRole.INITIATOR,
        literal="insufficient shared memory",
        pattern=re.compile(r"Unexpected bus error encountered in worker.*insufficient shared memory"),
        example="ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
        "shared memory (shm).",
        near_miss="INFO insufficient shared memory makes workers die",
        says="a DataLoader worker found /dev/shm full",
    ),
    Signature(
        mode=data.LOADER_WORKER_KILLED,
        role=LineRole.INITIATOR,
        literal="unable to",
        pattern=re.compile(
            r"unable to (?:write to file|mmap \d+ bytes from file|open shared memory object|resize file"
            r"|allocate shared memory ?\(shm\) for file) <(?:/?torch_[^>]*|filename not specified)>"
            r"(?!.*Too many open files)"
        ),
        example="RuntimeError: unable to write to file </torch_17_2356_0>: No space left on device (28)",
        near_miss="RuntimeError: unable to write to file <model.pt>: No space left on device (28)",
        says="a DataLoader worker found /dev/shm full",
    ),
    Signature(
        mode=data.LOADER_WORKER_KILLED,
        role=LineRole.SYMPTOM,
        literal="exited unexpectedly",
        pattern=re.compile(r"DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) exited unexpectedly"),
        example="RuntimeError: DataLoader worker (pid(s) 9120, 9123) exited unexpectedly",
        near_miss="INFO the shell exited unexpectedly",
        says="DataLoader workers (pid {pid}) ended",
    ),
    Signature(
        mode=data.LOADER_WORKER_KILLED,
        role=LineRole.SYMPTOM,
        literal="dataloader timed out after",
        pattern=re.compile(r"^RuntimeError: DataLoader timed out after (?P<seconds>[\d.]{1,20}) seconds"),
        example="RuntimeError: DataLoader timed out after 30 seconds",
        near_miss="WARNING DataLoader timed out after 30 seconds, trying again",
        says="no DataLoader worker gave a batch within {seconds} s",
        remedy="A worker hangs or is slow: see what it waits for (a file system, a lock that was held when "
        "it was forked; `multiprocessing_context='spawn'` frees it of that), and give the DataLoader a "
        "`timeout` longer than its slowest batch.",
    ),
    Signature(
        mode=data.LOADER_WORKER_KILLED,
        role=LineRole.INITIATOR,
        literal="cannot allocate memory",
        pattern=re.compile(r"^OSError: (?:\[Errno 12\] )?Cannot allocate memory"),
        example="OSError: [Errno 12] Cannot allocate memory",
        near_miss="libfabric:3:core <warn> cannot allocate memory hooks",
        says="a fork failed: memory or, with EFA, huge pages are used up",
    ),
    Signature(
        mode=ddp.REDUCTION_NOT_FINISHED,
        role=LineRole.INITIATOR,
        literal="expected to have finished reduction in the prior",
        pattern=re.compile(
            r"Expected to have finished reduction in the prior iteration before starting a new one"
        ),
        example="RuntimeError: Expected to have finished reduction in the prior iteration before starting "
        "a new one.",
        near_miss="INFO expected to have finished reduction in the prior hour",
        says="DDP waited for gradients that the last step did not produce",
        vague=True,
    ),
    Signature(
        mode=ddp.PARAMETERS_WITHOUT_GRADIENT,
        role=LineRole.INITIATOR,
        literal="which did not receive grad for rank",
        pattern=re.compile(
            r"Parameter(?:s| indices) which did not receive grad for rank (?P<rank>\d+): "
            r"(?P<which>[\w., ]{1,120})"
        ),
        example="Parameter indices which did not receive grad for rank 3: 270 271",
        near_miss="INFO parameters which did not receive grad for rank reasons",
        says="parameters got no gradient: {which}",
    ),
    Signature(
        mode=ddp.FIND_UNUSED_LEFT_ON,
        role=LineRole.ADVISORY,
        literal="did not find any unused parameters",
        pattern=re.compile(
            r"find_unused_parameters=True was specified in DDP constructor, but did not find any unused"
        ),
        example="Warning: find_unused_parameters=True was specified in DDP constructor, but did not find "
        "any unused parameters in the forward pass.",
        near_miss="INFO did not find any unused parameters",
        says="find_unused_parameters=True finds nothing and costs time in every step",
    ),
    Signature(
        mode=ddp.GROUP_NEVER_DESTROYED,
        role=LineRole.ADVISORY,
        literal="destroy",
        pattern=re.compile(
            r"(?:process group has NOT been destroyed before we destruct ProcessGroupNCCL"
            r"|destroy_process_group\(\) was not called before program exit)"
        ),
        example="[rank0]:[W] Warning: WARNING: process group has NOT been destroyed before we destruct "
        "ProcessGroupNCCL.",
        near_miss="INFO destroy_process_group() was called",
        says="the process group was not destroyed at the end",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="of the same param in process",
        pattern=re.compile(
            r"(?P<what>params\[\d{1,9}\] in this process with sizes \[[\d, ]{0,200}\] appears not to "
            r"match (?:sizes|strides) of the same param in process \d{1,6})"
        ),
        example="RuntimeError: [2]: params[4] in this process with sizes [243, 256] appears not to match "
        "sizes of the same param in process 0.",
        near_miss="INFO looking at the sizes of the same param in process 0",
        says="DDP was given another model on one rank than on another: {what}",
        remedy=_SAME_MODEL,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="ddp expects same model across all ranks",
        pattern=re.compile(
            r"DDP expects same model across all ranks, but (?P<what>Rank \d{1,6} has \d{1,9} params, "
            r"while rank \d{1,6} has inconsistent \d{1,9} params)"
        ),
        example="RuntimeError: DDP expects same model across all ranks, but Rank 0 has 2 params, while "
        "rank 1 has inconsistent 0 params.",
        near_miss="INFO DDP expects same model across all ranks",
        says="DDP was given another model on one rank than on another: {what}",
        remedy=_SAME_MODEL,
    ),
    Signature(
        mode=ddp.PARAMETERS_WITHOUT_GRADIENT,
        role=LineRole.INITIATOR,
        literal="were not used in producing the loss returned by",
        pattern=re.compile(
            r"^RuntimeError: It looks like your LightningModule has parameters that were not used in "
            r"producing the loss returned by"
        ),
        example="RuntimeError: It looks like your LightningModule has parameters that were not used in "
        "producing the loss returned by training_step. If this is intentional, you must enable "
        "the detection of unused parameters in DDP",
        near_miss="INFO parameters that were not used in producing the loss returned by the head",
        says="parameters got no gradient (Lightning)",
    ),
)
