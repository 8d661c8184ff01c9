"""What the user's code is: a folder or an archive, read once into a `SourceTree`.

`folder_walk` looks at the folder: what is packed, what is left out and by which pattern, where links lead,
what is in the way. `archive` says byte by byte what is packed, and the digest of that, and reads an archive
that is packed already. `requirements_file` looks into what is to be installed. `tree` puts these together,
and looks into the Python files: the names that they use, and the script's parser. `packaging` writes what the
hosts download. Whoever plans, judges or packs gets the same tree, so that one launch speaks of one state of
the folder. What cannot be packed is a `SourceError`.
"""
