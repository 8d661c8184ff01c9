"""What starters, tools and other ranks print once a rank has failed."""

from __future__ import annotations

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
