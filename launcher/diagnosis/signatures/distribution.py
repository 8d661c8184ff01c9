"""What the boot says of a job that ended well and is none: the ranks never met, the work is not kept.

Texts: slipway/processes/rank_connections.py and slipway/left_behind.py.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import checkpoints, distribution

NEVER_MET = Signature(
    mode=distribution.RANKS_NEVER_MET,
    role=LineRole.SYMPTOM,
    literal="slipway: dist008 ",
    pattern=re.compile(r"^slipway: DIST008 (?P<what>[^→]{1,400}?) → (?P<remedy>.{1,1000})$"),
    example="slipway: DIST008 none of the 4 ranks ever met another one: they ran as independent "
    "programs, each of which was paid for → PyTorch: call torch.distributed.init_process_group()",
    near_miss="slipway: warning: after 60 s none of the 4 ranks has met (slipway: DIST008 then)",
    says="{what}",
    remedy="{remedy}",
)

NOT_YET_MET = Signature(
    mode=distribution.RANKS_NEVER_MET,
    role=LineRole.ADVISORY,
    literal="slipway: warning: after ",
    pattern=re.compile(
        r"^slipway: warning: (?P<what>[^→]{1,400}? has met another one[^→(]{0,100})[^→]{0,100} → "
        r"(?P<remedy>.{1,1000})$"
    ),
    example="slipway: warning: after 60 s none of the 4 ranks has met another one, and each would train "
    "for itself (DIST008, if it stays so) → PyTorch: call torch.distributed.init_process_group()",
    near_miss="slipway: warning: after 60 s the hosts have met",
    says="{what}",
    remedy="{remedy}",
)

LOST_WORK = Signature(
    mode=checkpoints.PATH_NOT_KEPT,
    role=LineRole.ADVISORY,
    literal="slipway: ckpt007 ",
    pattern=re.compile(r"^slipway: CKPT007 (?P<what>.{1,600}?)\. (?P<remedy>Write to .{1,400})$"),
    example="slipway: CKPT007 nothing was saved where it is kept; what the script wrote elsewhere, 1 "
    "file (1.2 GB) such as out/ckpt.pt, dies with the host. Write to SM_MODEL_DIR",
    near_miss="INFO slipway: CKPT007 is explained by `launch explain`",
    says="{what}",
    remedy="{remedy}",
)

SIGNATURES = (NEVER_MET, NOT_YET_MET, LOST_WORK)
