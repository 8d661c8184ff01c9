"""`sync: slipway`: the boot copies what lies in the folder of checkpoints to the job's own prefix.

`beside.py` runs it beside the ranks and at their end. `whole.py` copies what slipway.CheckpointManager saves,
all hosts together, `plain.py` what scripts write by themselves, `watching.py` tells when that is closed and
quiet. They copy to a place: a prefix on S3 (`bucket.py`) or, in a local run, a folder (`folder.py`).
`causes.py` says why it does not work, `mirror.py` is how a resuming rank gets files back.
"""
