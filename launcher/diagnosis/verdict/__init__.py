"""Which of the signs is the root cause, on which rank, and what only followed from it.

`causes` is the sequence: choose the last incident and take out copies and consequences (`incidents`), take
out what an end from outside explains, weigh and order what is left, name the rank and put it into words
(`findings`). Where nothing is a cause, `stream_ends` says whether the ends of the streams show that all is
well.
"""
