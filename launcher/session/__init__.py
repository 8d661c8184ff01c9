"""The life of a launch: prepare, judge, submit, follow, and try again where the cause allows it.

`launching` is the sequence that the command line and `launcher.api` share; `preparation` makes the plan,
`live` asks the account, `preflight` looks at this machine, `home` finds the local runs; `submission` starts a
job once, with `journal` for a launch that was killed and `run_id` for one that is repeated elsewhere;
`attempts` and `retry` decide what comes after a failure. `following` watches a job to its end; `here` tells
of a failure what this machine lacked, `left_out` which file was not packed, `results` where something lies,
and `cleaning` deletes old local runs. `comparison` holds a plan against another, `pair` and `ladder` make the
runs of these experiments ready, which `pair_runs` and `rung_runs` carry out. The session hands clients and
clocks down and is handed what shows its progress.
"""
