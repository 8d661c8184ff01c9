"""What programs say of losses, gradients and loss scales that are not finite.

Texts: PyTorch's anomaly detection, fairseq, detectron2, DeepSpeed, apex, Megatron-LM, Lightning,
transformers.
"""

from __future__ import annotations

import re

from launcher.diagnosis.logs.attempts import NOTHING_LEARNED, SMALLEST_SCALE, VANISHING_SCALE
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

SIGNATURES = (
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
        role=LineRole.SYMPTOM,
        literal="nan",
        pattern=re.compile(NOTHING_LEARNED),
        example="{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 3e-10, 'epoch': 2.0}",
        near_miss="{'loss': 2.1, 'grad_norm': nan, 'learning_rate': 3e-10, 'epoch': 2.0}",
        says="the losses were not finite, which transformers logs as 0, nor are the gradients",
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
