"""Managed runs: those whose attempts a controller in the account starts, with no terminal open.

`records` is what is kept of a run in the bucket of the code. `hand_over` writes the first of it and submits
the first attempt; `advance_run` is the step of the controller when an attempt has ended, `notices` what it
tells people; `show_run` is for those who look at a run and end it.
"""
