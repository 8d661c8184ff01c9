"""Jobs whose ranks are real processes on this machine: stalled, killed, started again, fed odd numbers.

Each module is a command of its own, which `make` names; they take minutes to hours.
"""
