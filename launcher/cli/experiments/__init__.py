"""`launch ladder`, `launch pair`, `launch proof`: one job in several sizes, two that differ in one thing, and
a network that is measured.

Each parses, has `launcher.session.runs` carry its runs out, and shows what they tell: the rungs of a ladder
as they are climbed, the two sides of a pair beside each other, the curve of a proof.
"""
