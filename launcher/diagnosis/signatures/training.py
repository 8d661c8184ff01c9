"""What PyTorch says of data loading, DDP and the loss, and torch_xla of its devices.

Texts: torch/utils/data/_utils, torch/csrc/distributed/c10d/reducer.cpp, fairseq, detectron2, torch_xla.
"""

from __future__ import annotations

import re

from launcher.diagnosis.progress import SMALLEST_SCALE, VANISHING_SCALE
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import data, ddp, job_runtime, training_compiler

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
        "shared "
        "memory (shm).",
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
        "any unused "
        "parameters in the forward pass.",
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
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="floatingpointerror",
        pattern=re.compile(
            r"^(?:\S*\.)?FloatingPointError: (?!Fatal error: gradients are inconsistent)(?P<what>.{1,120})"
        ),
        example="FloatingPointError: Loss became infinite or NaN at iteration=1980!",
        near_miss="INFO raising FloatingPointError: on",
        says="{what}",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="loss is",
        pattern=re.compile(
            r"\bloss is (?:nan|inf(?:inite)?|-inf|not finite|non-finite)\b.{0,30}"
            r"(?:stop|abort|exit|terminat|quit)|^\w*Error: .*\bloss is (?:nan|inf|not finite|non-finite)",
            re.I,
        ),
        example="Loss is nan, stopping training",
        near_miss="INFO if the loss is nan, the step is skipped",
        says="the loss is not finite",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="loss scale",
        pattern=re.compile(r"Minimum loss scale reached|loss scale already at minimum", re.I),
        example="Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting "
        "run.",
        near_miss="INFO the loss scale is 65536, the minimum 1",
        says="the fp16 loss scale fell to its minimum: the gradients overflow at every step",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.SYMPTOM,
        literal="attempted loss scale: 1",
        pattern=re.compile(rf"Skipping step{SMALLEST_SCALE}"),
        example="[2021-11-27 00:36:54,800] [INFO] [stage2.py:1628:step] [deepscale] OVERFLOW! Rank 0 "
        "Skipping step. Attempted loss scale: 1, reducing to 1",
        near_miss="[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 16, reducing to 8",
        says="the gradients overflow at the smallest loss scale, and the step is skipped",
        vague=True,
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.SYMPTOM,
        literal="reducing loss scale to ",
        pattern=re.compile(rf"Skipping step{VANISHING_SCALE}"),
        example="Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 2.17292e-311",
        near_miss="Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        says="the gradients overflow though the loss scale is next to nothing, and the step is skipped",
        vague=True,
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="returned nan values in its",
        pattern=re.compile(r"Function '(?P<function>\w+)' returned nan values in its \d+th output"),
        example="RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
        near_miss="INFO no layer returned nan values in its output",
        says="{function} gave NaN gradients",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="nan in",
        pattern=re.compile(r"found NaN in (?:local )?(?:forward loss|grad norm|loss)", re.I),
        example="AssertionError: Rank 3: found NaN in forward loss calculation. Device: 3, node: gpu-1",
        near_miss="INFO found nan in 0 columns",
        says="the loss or a gradient is NaN",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.SYMPTOM,
        literal="nan",
        pattern=re.compile(r"\b(?:\w+_)?loss['\"]?\s*+[:=]?\s*+(?:tensor\()?-?nan\b", re.I),
        example="step 120 | train_loss: nan | lr 1e-3",
        near_miss="step 120 | loss: 2.31 | nan_steps 0 | grad_norm: inf",
        says="the loss is not finite",
        vague=True,
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.SYMPTOM,
        literal="loss scale: 1.0 | grad norm: nan",
        pattern=re.compile(r"loss scale: 1\.0 \| grad norm: nan\b"),
        example="iteration 5426/ 250000 | global batch size: 8 | loss scale: 1.0 | grad norm: nan | "
        "number of skipped iterations: 0 |",
        near_miss="INFO loss scale: 1.0 | grad norm: nans 0",
        says="the gradients are NaN at the smallest loss scale",
        vague=True,
    ),
    Signature(
        mode=training_compiler.GPU_NUM_DEVICES_WRONG,
        role=LineRole.INITIATOR,
        literal="missing xla configuration",
        pattern=re.compile(r"(?:RuntimeError:|computation_client\.cc).*Missing XLA configuration"),
        example="RuntimeError: tensorflow/compiler/xla/xla_client/computation_client.cc:234 : Missing XLA "
        "configuration",
        near_miss="INFO 'missing XLA configuration' means GPU_NUM_DEVICES",
        says="torch_xla does not know its devices",
    ),
    Signature(
        mode=training_compiler.NO_MP_FN,
        role=LineRole.INITIATOR,
        literal="'_mp_fn'",
        pattern=re.compile(r"^AttributeError: module '(?P<module>[\w.]{1,200})' has no attribute '_mp_fn'"),
        example="AttributeError: module 'train' has no attribute '_mp_fn'",
        near_miss="AttributeError: 'Trainer' object has no attribute '_mp_fn'",
        says="the entry point {module} has no function _mp_fn, which the launcher calls on each worker",
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
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="found inf in",
        pattern=re.compile(
            r"^\w{1,40}(?:Error|Exception): .{0,100}?found Inf in (?:local )?(?P<what>forward loss"
            r"|grad norm|loss)"
        ),
        example="RuntimeError: found Inf in local grad norm for bucket #0 in backward pass before "
        "data-parallel communication collective. Device: 3, node: gpu-1",
        near_miss="INFO found inf in 0 columns",
        says="the loss or a gradient is infinite ({what})",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="detected nan ",
        pattern=re.compile(
            r"^ValueError: (?:\[Megatron-FSDP\].{0,60} )?Detected (?:NaN or Inf|nan and/or inf "
            r"values) in (?P<what>`[^`]{1,200}`|wgrad)"
        ),
        example="ValueError: Detected nan and/or inf values in `layer.weight`. Check your forward pass "
        "for numerically unstable operations.",
        near_miss="INFO detected nan and/or inf values in 0 columns",
        says="NaN or infinity in {what}",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="the loss returned in `",
        pattern=re.compile(r"^ValueError: The loss returned in `(?P<where>\w{1,60})` is (?P<what>nan|inf)"),
        example="ValueError: The loss returned in `training_step` is nan.",
        near_miss="INFO the loss returned in `training_step` is logged",
        says="the loss of {where} is {what}",
    ),
    Signature(
        mode=job_runtime.LOSS_NOT_FINITE,
        role=LineRole.INITIATOR,
        literal="error: ",
        pattern=re.compile(
            r"^(?:\w+\.)*\w+Error: (?P<what>.{0,80}\b[Ll]oss "
            r"(?:contains|has|became|becomes|went|was|turned)\b.{0,20}"
            r"\b(?i:nan|inf|infinite|not finite|non-finite)\b)"
        ),
        example="RuntimeError: Train loss contains a NaN.",
        near_miss="INFO error: the loss was nan, skipping it",
        says="the loss is not finite: {what}",
        vague=True,
    ),
)
