"""Experiments with a job: what is run to learn something about it, and what the runs say.

Pure: jobs, what a script offers and what runs printed go in, the runs to make and what they show come out.
Carrying them out is the session's. `rungs` are the runs of `launch ladder`, from one process to all hosts,
`short` is what a script is told so that they are short, and `climbing` what their ends say of the cause.
`launch pair` compares two runs, in loss and in speed, and says how sure that is.
"""
