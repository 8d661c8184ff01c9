"""What people who deploy do with a cluster: look at it, draw it, take it away.

`graphviz` draws the picture of a cluster, and those of the documentation, from a graph that
`launcher.provisioning.picture` makes of templates.
"""
