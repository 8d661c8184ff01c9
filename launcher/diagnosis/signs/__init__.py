"""Signs of failures, noted in one pass over the lines of all hosts.

`reader` takes the candidates of `match` and makes one `Reading` (`readings`) of them. `sightings` is what a
sign is, and how a row, a candidate or the service's reason becomes one. `exceptions`, `group_lines` and
`ranks` know what Python, torch and launchers print beside the rows; `topics` says of which of these a line
speaks, follows tracebacks, and teaches `storms` the lines that told all they can. Nothing here decides what
the root cause is.
"""
