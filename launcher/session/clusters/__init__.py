"""What people who deploy do with a cluster: look at it, draw it, take it away.

`show` looks at all of a cluster, at its `things` one by one. `survey` says what its end would take, `destroy`
brings it, and can be called again where it was cut off. `graphviz` draws the picture of a cluster, and those
of the documentation, from a graph that `launcher.provisioning.picture` makes of templates.
"""
