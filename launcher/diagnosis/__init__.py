"""From what a failed job left behind to its root cause.

Lines of all hosts come in, mixed, with what the service says; a `Diagnosis` goes out. `scan` finds the few
lines that matter, `reader` matches them with the rows of `signatures` and notes each as a sighting, and
`attribution` decides which of them is the root cause, on which rank, and what only followed from it.
`stops` tells what ended a job from outside by its `ending`, `completed` and `world_size` what a success
hides. `redaction` sees to it that nothing secret is shown.
"""
