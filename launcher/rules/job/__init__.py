"""Rules on a job and its plan, offline: in comes a `JobSubject`, out come findings at fields of the job file.

A rule is one function, named by what it demands and marked with `@finds(Stage.SPEC, mode)`; `check` lists all
of them in the order in which their findings are shown, and a test sees that none is left out. They stand by
what they judge: the code, the hosts and the image, the data and the checkpoints, the environment, and who may
reach what.
"""
