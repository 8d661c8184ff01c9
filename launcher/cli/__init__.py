"""The command line: commands parse, call the session and render the result.

`app` is the table of commands and how mistakes end; `launch`, `plan` (also check and schema), `lint`, `jobs`
(list, status, logs, stop, resume, clean), `diagnose` (also report and explain), `ladder` and `pair` are the
commands, those on clusters are in `clusters`. `interaction` is what they share with the people who call
them: options, printing, questions; `job_view` shows jobs and follows them.
What a command needs is imported when it is called, so that `--help` costs nothing.
"""
