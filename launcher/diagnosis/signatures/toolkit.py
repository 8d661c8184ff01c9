"""What the images' toolkit and the service say of a script that failed.

Texts: sagemaker-training-toolkit's errors.py from 3.0 on, which prints the name of the error, its exit code,
its message and the command as lines of their own; FailureReason of the SageMaker API, which has them in one;
the states of a job as the Python SDK prints them.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

SIGNATURES = (
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.SYMPTOM,
        literal='errormessage "',
        pattern=re.compile(
            r"^(?:ExitCode \d{1,4} )?ErrorMessage \"(?!(?:[\w.]+)?(?:Dist\w*Error|ChildFailedError|"
            r"ConnectionResetError|BrokenPipeError)\b)"
            r"(?P<what>[\w.]{0,80}(?:Error|Exception)\b: [^\"]{1,300})"
        ),
        example="ErrorMessage \"KeyError: 'image'\"",
        near_miss='INFO ErrorMessage "KeyError" is what it would print',
        says="the script raised {what}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="executeuserscripterror",
        pattern=re.compile(r"\bExecuteUserScriptError:.*?ErrorMessage \"(?P<what>[^\"]+)"),
        example='ERROR ExecuteUserScriptError: ExitCode 1 ErrorMessage "KeyError: \'x\'" Command "python '
        'train.py"',
        near_miss="INFO ExecuteUserScriptError is raised for scripts",
        says="the script failed: {what}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="executeuserscripterror",
        pattern=re.compile(r"\bExecuteUserScriptError:(?!.*?ErrorMessage \"[^\"])"),
        example="2026-08-20 11:30:44,011 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:",
        near_miss="ERROR ExecuteUserScriptError: ExitCode 1 ErrorMessage \"KeyError: 'x'\"",
        says="the script failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="failed - training job failed",
        pattern=re.compile(r"^(?:\S{10} \S{8} )?Failed - Training job failed"),
        example="2019-07-07 06:57:51 Failed - Training job failed",
        near_miss="INFO what is told as Failed - Training job failed",
        says="the service says that the job failed; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="exitcode ",
        pattern=re.compile(r"^ExitCode (?P<exit>[1-9]\d{0,2})$"),
        example="ExitCode 1",
        near_miss="INFO ExitCode 0",
        says="the script ended with exit code {exit}; its own error is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="algorithmerror: ",
        pattern=re.compile(r"^AlgorithmError: (?:(?P<what>.{1,160}?),? )?(?i:exit code): (?P<exit>\d+)"),
        example="AlgorithmError: framework error, exit code: 1",
        near_miss="INFO AlgorithmError: is raised by the service",
        says="the container ended with exit code {exit}: {what}",
        vague=True,
    ),
)
