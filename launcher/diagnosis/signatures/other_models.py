"""Checkpoints of another model than the one that loads them, or of one that was wrapped otherwise.

Other shapes are of another model. Other keys need not be: the script may load what it saved the model in.

Texts: torch/nn/modules/module.py (load_state_dict) and torch/distributed/checkpoint/default_planner.py of
PyTorch 1.6 to 2.13, Megatron-LM's core/dist_checkpointing/strategies/torch.py.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import checkpoints, job_runtime

_WRAPPER = r"(?:_orig_mod|module)\."
_MISSING, _UNEXPECTED = r"Missing key\(s\) in state_dict:", r"Unexpected key\(s\) in state_dict:"

_REST = r"[^\n]*(?:\n\s*)?"
"""The other missing keys, up to the line of the unexpected ones."""

_PREFIX = r"(?:\w{1,100}\.){1,8}"
"""Names before a key, each with its dot; bounded, as every split of a key is tried."""

_SHAPE = r"torch\.Size\(\[[\d, ]*\]\)"

_OTHER_MODEL = (
    "Make the model as it was when the checkpoint was written (layers, classes, vocabulary), or take a "
    "checkpoint of this one. To load only what both have, leave the other keys out of the state and pass "
    "strict=False."
)

SIGNATURES = (
    Signature(
        mode=checkpoints.UNEXPECTED_KEY_PREFIX,
        role=LineRole.INITIATOR,
        literal="key(s) in state_dict",
        pattern=re.compile(
            rf"{_MISSING} \"(?P<key>[^\"\n]+)\"{_REST}{_UNEXPECTED} \"(?P<prefix>{_PREFIX})(?P=key)\""
        ),
        example='Missing key(s) in state_dict: "fc.weight", "fc.bias".\n\tUnexpected key(s) in state_dict: '
        '"model.fc.weight", "model.fc.bias".',
        near_miss='Missing key(s) in state_dict: "module.bn.weight".\n\tUnexpected key(s) in state_dict: '
        '"module.bn1.bias".',
        says="the checkpoint's keys begin with '{prefix}', which the model's do not: {key} is there as "
        "{prefix}{key}",
        remedy="Strip it when loading, with `key.removeprefix('{prefix}')` for every key, or save the inner "
        "model: under DistributedDataParallel `model.module.state_dict()`. Do not use "
        "`k.partition('{prefix}')[2]`: it turns every key without the prefix into the empty string.",
    ),
    Signature(
        mode=checkpoints.UNEXPECTED_KEY_PREFIX,
        role=LineRole.INITIATOR,
        literal="key(s) in state_dict",
        pattern=re.compile(
            rf"{_MISSING} \"(?P<prefix>{_PREFIX}?)(?P<key>[^\"\n]+)\"{_REST}{_UNEXPECTED} \"(?P=key)\""
        ),
        example='Missing key(s) in state_dict: "_orig_mod.fc.weight".\n\tUnexpected key(s) in state_dict: '
        '"fc.weight".',
        near_miss='Missing key(s) in state_dict: "_orig_mod.fc.weight".\n\tUnexpected key(s) in state_dict: '
        '"fc1.weight".',
        says="the model's keys begin with '{prefix}', which the checkpoint's do not: {prefix}{key} is there "
        "as {key}",
        remedy="Load into the inner model, before it is wrapped or compiled: under DistributedDataParallel "
        "`model.module.load_state_dict(state)`. Or put the prefix before every key: "
        "`{{'{prefix}' + key: value for key, value in state.items()}}`.",
    ),
    Signature(
        mode=checkpoints.UNEXPECTED_KEY_PREFIX,
        role=LineRole.INITIATOR,
        literal="key(s) in state_dict",
        pattern=re.compile(
            rf"{_MISSING} \"(?!{_WRAPPER}){_REST}{_UNEXPECTED} \"(?P<prefix>{_WRAPPER})"
            rf"|{_MISSING} \"(?P<missing>{_WRAPPER}){_REST}{_UNEXPECTED} \"(?!{_WRAPPER})"
            rf"|loading state_dict for [^\n]*\n\s*{_UNEXPECTED} \"(?P<only>{_WRAPPER})"
        ),
        example='Missing key(s) in state_dict: "head.weight".\n\tUnexpected key(s) in state_dict: '
        '"module.body.weight".',
        near_miss='Missing key(s) in state_dict: "module.bn.weight".\n\tUnexpected key(s) in state_dict: '
        '"module.bn1.bias".',
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="key(s) in state_dict",
        pattern=re.compile(r"(?:Missing|Unexpected) key\(s\) in state_dict: \"(?P<key>[^\"]+)\""),
        example='\tMissing key(s) in state_dict: "module.bn.weight".\n\tUnexpected key(s) in state_dict: '
        '"module.bn1.bias".',
        near_miss="INFO all key(s) in state_dict match",
        says="the checkpoint is of another model: its keys differ, {key} first",
        remedy=_OTHER_MODEL,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="size mismatch for ",
        pattern=re.compile(
            # What loads without the layers that do not fit logs them at the margin (mmcv, mmengine).
            rf"(?:^|\n)[ \t]{{1,20}}size mismatch for (?P<key>[\w.]{{1,300}}): copying a param with shape "
            rf"(?P<saved>{_SHAPE}) from checkpoint, the shape in current model is (?P<own>{_SHAPE})"
        ),
        example="\tsize mismatch for fc.weight: copying a param with shape torch.Size([1000, 512]) from "
        "checkpoint, the shape in current model is torch.Size([10, 512]).",
        near_miss="size mismatch for fc.weight: copying a param with shape torch.Size([1000, 512]) from "
        "checkpoint, the shape in current model is torch.Size([10, 512]).",
        says="the checkpoint is of another model: {key} is {saved} there, and {own} in the model",
        remedy=_OTHER_MODEL,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="missing key in checkpoint state_dict: ",
        # torch/distributed/checkpoint/default_planner.py.
        pattern=re.compile(r"^RuntimeError: Missing key in checkpoint state_dict: (?P<key>[\w.-]{1,300})"),
        example="RuntimeError: Missing key in checkpoint state_dict: model.fc.weight.",
        near_miss="INFO missing key in checkpoint state_dict: model.fc.weight is made anew",
        says="the checkpoint has no {key}, which the model has",
        remedy=_OTHER_MODEL,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="size mismatch between saved ",
        pattern=re.compile(
            rf"^ValueError: Size mismatch between saved (?P<saved>{_SHAPE}) and current: (?P<own>{_SHAPE}) "
            r"for (?P<key>[\w.-]{1,300})"
        ),
        example="ValueError: Size mismatch between saved torch.Size([10]) and current: torch.Size([12]) for "
        "model.fc.weight",
        near_miss="INFO a size mismatch between saved and current tensors",
        says="the checkpoint is of another model: {key} is {saved} there, and {own} in the model",
        remedy=_OTHER_MODEL,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="global shape mismatch for loaded ",
        # megatron/core/dist_checkpointing/strategies/torch.py.
        pattern=re.compile(
            rf"Global shape mismatch for loaded \((?P<saved>{_SHAPE})\) and expected "
            r"\(\((?P<own>[\d, ]*)\)\) tensor for key (?P<key>[\w.-]{1,300})"
        ),
        example="megatron.core.dist_checkpointing.core.CheckpointingException: Global shape mismatch for "
        "loaded (torch.Size([50304, 1024])) and expected ((50432, 1024)) tensor for key "
        "embedding.word_embeddings.weight",
        near_miss="INFO no global shape mismatch for loaded tensors",
        says="the checkpoint is of another model: {key} is {saved} there, and ({own}) in the model",
        remedy=_OTHER_MODEL,
    ),
)
