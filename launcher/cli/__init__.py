"""The command line: a file per command, which parses, calls the session and renders the result.

`app` is the table of commands and how mistakes end; files called `*_view` put results on a terminal. What a
command needs is imported when it is called, so that `--help` costs nothing.
"""
