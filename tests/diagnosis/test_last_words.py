"""What starters, tools and other ranks print once a rank has failed changes no root cause of a public log."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from tests.diagnosis.cases import records
from tests.diagnosis.threads import Thread, threads
from tests.exhaustive import share_and_all

LAST_WORDS = {
    "torchrun": """\
W0820 11:40:01.123000 140 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 151 closing \
signal SIGTERM
E0820 11:40:05.123000 140 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) \
local_rank: 0 (pid: 150) of binary: /opt/conda/bin/python3.11
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-08-20_11:40:05
  host      : algo-1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 150)
  error_file: <N/A>""",
    "the images' toolkit": """\
2026-08-20 11:40:09,002 sagemaker-training-toolkit INFO     Done waiting for a return code. Received 1 from \
exiting process.
2026-08-20 11:40:09,003 sagemaker-training-toolkit ERROR    Reporting training FAILURE
2026-08-20 11:40:09,003 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:
ExitCode 1
ErrorMessage ""
Command "/opt/conda/bin/python3.11 train.py --epochs 3\"""",
    "SLURM": """\
srun: error: gpu017: task 0: Exited with exit code 1
srun: Terminating StepId=71234.0
slurmstepd: error: *** STEP 71234.0 ON gpu017 CANCELLED AT 2026-08-20T11:40:09 ***
srun: error: gpu018: task 1: Terminated
srun: Force Terminated StepId=71234.0""",
    "Weights & Biases": """\
wandb: Waiting for W&B process to finish... (failed 1). Press Control-C to abort syncing.
wandb: Find logs at: ./wandb/run-20260820_113044-abc/logs""",
}

ONLY_AT_THE_END = {
    "gensyn-ai-rl-swarm-197": "a warning, which is a failure where nothing comes after it",
    "axolotl-ai-cloud-axolotl-2743": "a stack without its beginning and without what was raised",
}
FAILURES = [
    each
    for each in threads()
    if each.codes
    and each.codes != ("STOP001",)
    and not each.failure_reason
    and each.name not in ONLY_AT_THE_END
]
"""Of a job that was stopped a process that ends with a code of its own tells something new."""


@pytest.mark.parametrize("failures", share_and_all(FAILURES, lambda each: each.name))
@pytest.mark.parametrize("who", LAST_WORDS)
def test_the_root_cause_is_the_same_with_the_last_words_of_others(who: str, failures: list[Thread]) -> None:
    assert [each.name for each in failures if not _is_right(each, LAST_WORDS[who])] == []


def _is_right(thread: Thread, last_words: str) -> bool:
    root = diagnose(records(f"{thread.text}\n{last_words}")).root_cause
    return root is not None and root.finding.code in (*thread.codes, *thread.also)
