"""What the user's code is: a folder or an archive, read once into a `SourceTree`.

`walking` looks at the folder: what is packed, what is left out and by which pattern (`layers`, `patterns`),
where `links` lead, what is in the way. `packed` reads an archive. `names` looks into the Python files,
`arguments` into the script's parser, `requirements_reader` into what is to be installed, `archive` says
byte by byte what is packed, and the digest of that, `packaging` writes what the hosts download. Whoever
plans, judges or packs gets the same tree, so that one launch speaks of one state of the folder. What cannot
be packed is a `SourceError`.
"""
