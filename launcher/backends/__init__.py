"""Where a plan runs: on SageMaker, in a cluster's queue, or on this machine.

`interface` is what the session knows of a backend: submit a plan once, describe a job, read its logs, stop
it, and what differs between the places, each with a default. A backend is a thin edge to the world: it
translates, and decides nothing about whether a job should run or run again.
"""
