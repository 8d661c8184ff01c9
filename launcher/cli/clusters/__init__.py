"""The commands of `launch cluster`, for people who deploy.

`cluster_commands` parses and asks: what an update would do, what there is of a cluster, and its end.
`cluster_view` shows each of them on a terminal and as JSON; it imports rich, so that it comes when something
is shown.
"""
