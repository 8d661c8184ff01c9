"""What the user's code is: a folder, read once into a `SourceTree` for everybody who wants to know of it.

`walking` looks at the folder: what is packed, what is left out and by which pattern, what is in the way.
`names` looks into the Python files, `archive` says byte by byte what is packed, and the digest of that,
`packaging` writes what the hosts download. Whoever plans, judges or packs gets the same tree, so that one
launch speaks of one state of the folder. What cannot be packed is a `SourceError`.
"""
