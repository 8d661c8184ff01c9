"""Checkpoints that are complete or not there, and their copies on S3, which outlive the hosts.

`manager` is what a script calls: `write_checkpoint` copies a state and hands it to a thread, which writes
it and meets the other ranks, `load_checkpoint` puts the newest whole one back. `stored_checkpoints` knows
what lies on a disk, and which of it the ranks take.

`sync: slipway` lets the boot copy what lies in the folder of checkpoints to the job's own prefix: `uploads`
runs it beside the ranks and at their end, `copy_checkpoints` decides what is ready and copies it to a
place, `upload_places`: a prefix on S3 or, in a local run, a folder. From there a resuming rank also gets
files back.
"""
