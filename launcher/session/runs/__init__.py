"""What is done with jobs that run or have run, here or on AWS.

`follow_job` looks at a job until its end, through whatever passes by itself; `read_job_lines` chooses the
lines that are shown of it, picks step, loss and speed from all of them, and notices when the job stands
still. `diagnose_job` says how a job ended and why, `report_runs` writes the page of it,
`compare_runs` carries out a pair of runs and `climb_ladder` a ladder of them, both experiments of
`launcher.experiments`.
"""
