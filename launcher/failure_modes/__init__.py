"""The catalogue: every known way in which a distributed job stalls, crashes or wastes money, as data.

A `FailureMode` is a row, told once: its cause, its remedy, where the knowledge comes from, and what follows
from it. A `Finding` says that one was met, at which stage and where; all rooms above speak in findings. A
`Refusal` is the one exception for what a person can act on. `registry` collects which code finds what, and
`coverage` is what `launch explain` reads of it.
"""
