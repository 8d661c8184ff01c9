"""`launch ladder` and `launch pair`: one job in several sizes, and two that differ in one thing.

Each parses, has `launcher.session.runs` carry its runs out, and shows what they tell: the rungs of a ladder
as they are climbed, the two sides of a pair beside each other.
"""
