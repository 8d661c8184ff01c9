"""Jobs whose ranks are real processes on this machine: stalled, killed, started again, fed odd numbers.
number.

Each module is a command of its own, which `make` names; they take minutes to hours.
"""
