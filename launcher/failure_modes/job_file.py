"""The job file itself: syntax, fields, values, and what the API accepts."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode

UNREADABLE = FailureMode(
    code="SPEC001",
    title="not YAML, or not a mapping",
    cause=(
        "The job file cannot be read as one YAML mapping: a syntax error, a duplicate key, bytes that are "
        "not UTF-8, an empty file, a list, or aliases that expand beyond 10,000 nodes. Nothing else can "
        "be checked. For `launch lint` a pyproject.toml that is no TOML is the same."
    ),
    remedy=(
        "Correct the file at the line and column given; examples/ddp/job.yaml is one to start from. "
        "Indent with spaces, and quote values that contain ': ' or ' #'."
    ),
    sources=(sources.JOB_FILE,),
)

UNKNOWN_FIELD = FailureMode(
    code="SPEC002",
    title="unknown field",
    cause=(
        "The field is not part of the job file's schema. Were it ignored, a misspelt limit or checkpoint "
        "would leave the job running with a default that nobody chose. In `# slipway: ignore[...]` and in "
        "[tool.slipway.lint] of a pyproject.toml an unknown code or key is one, too: it accepts nothing."
    ),
    remedy=(
        "Use the known name that the finding suggests; `launch schema` prints all fields, and an editor "
        "that reads this JSON schema completes them."
    ),
    sources=(sources.JOB_FILE,),
)

INVALID_VALUE = FailureMode(
    code="SPEC003",
    title="wrong type or value",
    cause=(
        "A value has the wrong type, lies out of range, is missing, or does not parse as a duration or "
        "size. SageMaker would refuse it only at submission, or take it for something else. A comment "
        "`# slipway: ignore[...]` that accepts no finding is such a value: it would hide the next one."
    ),
    remedy=(
        "Write the value in the form the finding names: durations as 30m, 24h or 2d, sizes as 500GB or "
        "2TB, whole numbers without quotes."
    ),
    sources=(sources.JOB_FILE,),
)

BREAKS_API_MODEL = FailureMode(
    code="SPEC004",
    title="breaks a constraint of the API model (pattern, length, count, enum)",
    cause=(
        "The request would not satisfy CreateTrainingJob: for instance more than 100 environment variables "
        "or a value over 512 characters, more than 20 channels or 5 security groups, a name outside the "
        "pattern, an instance type not in the enumeration, MaxWait below MaxRuntime, or spot with a warm "
        "pool. boto3 checks little of this before sending."
    ),
    remedy=(
        "Shorten, drop or correct the field that the finding names. For an instance type newer than the "
        "installed botocore update it, or set `ignore: [SPEC004]` and give processes_per_host."
    ),
    sources=(sources.TRAINING_JOB_API,),
)

CREDENTIAL = FailureMode(
    code="SPEC005",
    title="looks like a credential in environment or hyperparameters",
    cause=(
        "Environment and hyperparameters are stored in clear text and shown to everyone who may describe "
        "the job, for as long as the account exists. SageMaker refuses a request in which it recognises "
        "credentials."
    ),
    remedy=(
        "Keep the secret in AWS Secrets Manager and name it in `secrets` of the job file, as in "
        "`secrets: {HF_TOKEN: NAME}`: the script then has it in its environment. Give AWS permissions to "
        "the role, not as keys. Revoke what was already sent."
    ),
    sources=(sources.TRAINING_JOB_API,),
)
