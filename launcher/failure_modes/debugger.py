"""SageMaker Debugger beside distributed training."""

from __future__ import annotations

from launcher.failure_modes import notices, sources
from launcher.failure_modes.model import FailureMode, Severity

WITH_CHECKPOINTS = FailureMode(
    code="DBG001",
    title="Debugger with checkpoints under any distribution, or on several hosts",
    cause=(
        "SageMaker Debugger is not available for jobs that are distributed and whose checkpoints SageMaker "
        "copies to S3, whichever the distribution: the job ends with 'SMDebug Does Not Currently Support "
        "Distributed Training Jobs With Checkpointing Enabled'. The Python SDK turns Debugger off for every "
        "distribution and for several hosts."
    ),
    remedy=(
        "Leave `debugger: false`; where it is true, the plan turns Debugger off and says so. To keep it, "
        "set `checkpoint.sync: slipway`, which takes the checkpoints out of the request: under torchrun, smp "
        "version 2 and none the boot copies them to S3; elsewhere the script itself must upload them to "
        "SLIPWAY_CHECKPOINT_URI."
    ),
    sources=(sources.DEBUGGER_REFERENCE, sources.DATA_PARALLEL_GUIDE, sources.PYTHON_SDK),
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
    sources=(sources.DEBUGGER_REFERENCE, sources.MODEL_PARALLEL_GUIDE),
    notices=(notices.DEBUGGER_CLOSED,),
)

NOT_OFFERED = FailureMode(
    code="DBG003",
    title="Debugger where AWS does not offer it: to new customers, and in some regions",
    cause=(
        "AWS has closed SageMaker Debugger to accounts that had not used it before, no longer adds features "
        "to it, and does not have it in every region. A job that asks for it there may be refused, or run "
        "without what it asked for: AWS documents neither."
    ),
    remedy=(
        "Leave `debugger: false`, and log losses and gradient norms from the script. For speed there "
        "is torch.profiler, for a hang the flight recorder, which is on under `strategy: torchrun`."
    ),
    sources=(sources.DEBUGGER_API_GUIDE, sources.PYTHON_SDK),
    severity=Severity.INFO,
    notices=(notices.DEBUGGER_CLOSED,),
)
