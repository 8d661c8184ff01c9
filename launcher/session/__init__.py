"""The life of a launch: prepare, judge, submit, follow, and try again where the cause allows it.

`prepare_plan` makes the plan and judges it offline, `account_checks` hold it against the account.
`launch_job` is the sequence that the command line and `launcher.api` share, with the attempts after a
failure; `submit_job` starts a job once, also where a launch was killed or is repeated elsewhere, and
`plan_notes` keeps what it was planned to be. `find_jobs` finds a job by its name, `local_runs` where the runs
of this machine are kept, says what the machine lacks, and deletes old runs. `lint_scripts` lints without a
job, `log_files` reads logs on this machine. `show_cluster`, `plan_update` and `destroy_cluster` are about a
whole cluster. In `runs` is what is done with jobs that run or ran, in `managed` runs that go on with no
terminal open. The session hands clients and clocks down and is handed what shows its progress.
"""
