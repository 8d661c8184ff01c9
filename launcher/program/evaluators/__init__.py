"""The parts of the evaluation of expressions, which ask one another through the whole of it.

`arithmetic` says what is calculated of numbers, texts and switches, `tables` what dictionaries hold below a
key and when that was set, `members` what classes give their objects, and `attributes` what objects, classes
and modules have by a name. None of them guesses: what is not sure is UNKNOWN.
"""
