"""Experiments with a job: what is run to learn something about it, and what the runs say.

Pure: jobs, what a script offers and what runs printed go in, the runs to make and what they show come out.
Carrying them out is the session's. There are two: `ladder`, one job from one process to all its hosts, and
`pair`, two runs that differ in one thing.
"""
