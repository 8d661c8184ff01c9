"""Managed training on Amazon SageMaker.

`provide` brings to S3 what a plan speaks of: code and checkpoint (`upload`, `resume`); then `creation`, once
under its name, whatever happens to the call. `description`, `job_list` and
`tuning_job` read jobs; `logs` merges the streams of all hosts by time.
"""
