"""From what a failed job left behind to its root cause.

Lines of all hosts come in, mixed, with what the service says; a `Diagnosis` (`model`) goes out of
`diagnose`. Each folder is a step: `logs` makes clean lines of whatever bytes a file holds, `match` finds
the few of them that a row of `signatures` may match and the row that counts, `storms` remembers lines that
told all they can, so that others like them are not searched again, `signs` notes in one pass each sign of a
failure, of which rank, and where the ranks stand, `evidence` reads what is no log, and `verdict` decides
which sign is the root cause, on which rank, and what only followed from it. Imports run that way: `logs`,
`storms`, `match`, `signs`, `verdict`; `evidence` stands beside `signs`, as some of what it reads also
stands in logs. `remedies` puts this job's numbers into what to do.
"""
