"""A program run on its syntax tree, with the words and the environment that one job gives it, as one rank.

Nothing of it is executed by Python: what libraries make is a `Symbol`, from which the names of its parts
follow, and a test that nobody can tell sends the run both ways. What comes of it are the calls of libraries
in their order (`CallMade`), with their arguments as far as these are known. From the bottom: `objects`,
`expressions`, `statements`, `process` (what others may ask of a rank), `python_functions`, `python_library`,
`option_parsers` and `training_libraries` (what calls of Python, of parsers and of training libraries give),
`written_trees`, `interpreter`, and `ranks`, which runs a program as one of several ranks.
"""
