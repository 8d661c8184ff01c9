"""Which lines may show a failure, and the row of the signatures that counts for each.

`prefilter` finds the candidates: the few lines in which a literal of any row begins, in one pass over the
bytes. `rows` tries on each candidate the rows whose literals stand in it.
"""
