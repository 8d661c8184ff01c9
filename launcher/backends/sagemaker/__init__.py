"""Managed training on Amazon SageMaker.

`submission` is the way of a plan: code and checkpoint to S3 (`upload`, `resume`), then `creation`, once,
whatever happens to the call, with `journal` for a launch that was killed. `description`, `job_list` and
`tuning_job` read jobs; `logs` merges the streams of all hosts by time.
"""
