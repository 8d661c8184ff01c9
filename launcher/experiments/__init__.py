"""Runs that are made to learn something: `launch ladder`, `launch pair` and `launch proof`.

`ladder_rungs` says which runs a ladder has, from one process to all hosts, and what the first that breaks
points at. `run_measures` makes losses and rates of the lines of one run, `run_comparison` holds two runs
against each other, `fabric_proof` what was measured of a network against its limit. Nothing is started here:
`launcher.session.runs` carries the experiments out.
"""
