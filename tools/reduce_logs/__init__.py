"""Logs of public threads made ours: the fewest lines with the same answer, in our names.

`python -m tools.reduce_logs FILE` reads whole logs with their labels (the form is that of
`tests/logs/cases.py`) and puts what is left of each into `tests/logs/cases/`:

- `fewest_lines` leaves out lines as long as the diagnosis answers the same (`answers`),
- `our_names` replaces what is of the one who posted it: paths, hosts, addresses, accounts, code. What
  programs print stays, as that is what the diagnosis reads.
"""
