"""SageMaker Debugger beside the distributed libraries."""

from __future__ import annotations

from launcher.failure_modes import notices, sources
from launcher.failure_modes.model import FailureMode

WITH_SMDDP_AND_CHECKPOINTS = FailureMode(
    code="DBG001",
    title="Debugger with SMDDP and checkpoints",
    cause=(
        "SageMaker Debugger, the data parallel library and SageMaker's checkpoint upload do not work "
        "together: the job ends with 'SMDebug Does Not Currently Support Distributed Training Jobs With "
        "Checkpointing Enabled'. Any two of the three do."
    ),
    remedy=(
        "Leave `debugger: false`: Debugger is turned off and the plan says so. To keep it, set "
        "`checkpoint.sync: slipway`, which takes the checkpoints out of the request; the script itself must "
        "then upload them to SLIPWAY_CHECKPOINT_URI."
    ),
    sources=(sources.DATA_PARALLEL_GUIDE,),
    notices=(notices.DEBUGGER_CLOSED,),
)

WITH_MODEL_PARALLEL = FailureMode(
    code="DBG002",
    title="Debugger with SMP",
    cause=(
        "SageMaker Debugger is not available for the model parallel library, yet the Python SDK turns it "
        "on by default. The job then dies on '/opt/ml/checkpoints/metadata.json.sagemaker-uploading', a "
        "file that is not there."
    ),
    remedy=(
        "Leave `debugger: false`; there is no way to have both. With the Python SDK pass "
        "debugger_hook_config=False."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE,),
    notices=(notices.DEBUGGER_CLOSED,),
)
