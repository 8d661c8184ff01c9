"""Slipway under attack: faults, hostile input and kills by the thousand, and the figures of what came of it.

`python -m tools.attack` runs all of it and writes `tools/attack/figures.json`; a sample of each is in
`tests/tools/attack`.
"""
