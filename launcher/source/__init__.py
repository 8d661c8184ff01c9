"""The user's code: one walk of the source folder per launch, and one `SourceTree` of what it found.

A folder and the name of the entry point come in; the files that belong to the job go out, with what is left
out and why, the names that the code uses, its digest, and what keeps it from being packed. The rules, the
plan and `packaging` all read that one tree, so that what was judged is what is sent. Links, special files and
patterns of ignore files are met in `files`; errors are the room's own `SourceError`.
"""
