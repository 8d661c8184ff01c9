"""Parallel degrees that do not fit the number of ranks.

Texts: Megatron-LM's core/parallel_state.py and training/arguments.py of core 0.2 to 0.15, torchtitan's
distributed/parallel_dims.py, PyTorch's distributed/device_mesh.py of 2.1 to 2.13, ColossalAI's
booster/plugin.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import distribution

SIGNATURES = (
    Signature(
        mode=distribution.DEGREES_DO_NOT_DIVIDE,
        role=LineRole.INITIATOR,
        literal=" must be divisible by ",
        # finetrainers, and others that check their degrees in one product.
        pattern=re.compile(
            r"(?:[Ee]rror|ERROR)\b.{0,60}?: "
            r"(?P<what>[Ww]orld[_ ]size \(?\d{1,7}\)? must be divisible by .{1,200})"
        ),
        example="ValueError: World size 2 must be divisible by the product of all parallel degrees and data "
        "parallel shards.",
        near_miss="ValueError: hidden size 2 must be divisible by the number of heads",
        says="the degrees do not divide the number of ranks: {what}",
    ),
    Signature(
        mode=distribution.DEGREES_DO_NOT_DIVIDE,
        role=LineRole.INITIATOR,
        literal="is not divisible by",
        pattern=re.compile(
            r"^(?:Runtime|Assertion|Value)Error: "
            r"(?P<what>(?:\w{1,20} )?[Ww]orld[_ ]size (?:\(\d{1,7}\)|\d{1,7}) is not divisible by .{1,200})"
        ),
        example="RuntimeError: world_size (4) is not divisible by tensor_model_parallel_size (3) x "
        "pipeline_model_parallel_size (1)",
        near_miss="RuntimeError: hidden_size (4096) is not divisible by num_attention_heads (33)",
        says="the degrees do not divide the number of ranks: {what}",
    ),
    Signature(
        mode=distribution.DEGREES_DO_NOT_DIVIDE,
        role=LineRole.INITIATOR,
        literal="!= world_size(",
        pattern=re.compile(
            r"^AssertionError: Invalid parallel dims: (?P<what>.{1,200}!= WORLD_SIZE\(\d{1,7}\))"
        ),
        example="AssertionError: Invalid parallel dims: dp_replicate(1) * dp_shard(2) * cp(1) * tp(2) * "
        "pp(1) != WORLD_SIZE(8)",
        near_miss="INFO dp_shard(2) * tp(2) != WORLD_SIZE(8) is corrected",
        says="the degrees do not come to the number of ranks: {what}",
    ),
    Signature(
        mode=distribution.DEGREES_DO_NOT_DIVIDE,
        role=LineRole.INITIATOR,
        literal="mesh should not be bigger than default world size",
        pattern=re.compile(
            r"^RuntimeError: Mesh should not be bigger than default world size(?: \d{1,7})?, but "
            r"found (?P<wanted>\d{1,7}) ranks"
        ),
        example="RuntimeError: Mesh should not be bigger than default world size 8, but found 16 ranks!",
        near_miss="INFO a mesh should not be bigger than default world size",
        says="the mesh of devices wants {wanted} ranks, more than there are",
    ),
)
