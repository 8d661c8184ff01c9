"""Remedies with the numbers of a job: what its evidence says, against what it was asked to be.

Where a number is not known, the catalogue's own remedy stands.
"""
