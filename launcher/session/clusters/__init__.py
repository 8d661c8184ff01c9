"""What people who deploy do with a cluster: see what an update would do, look at it, draw it, take it away.

`synthesis` runs the CDK app for the templates that are wanted; `plan` compares them with those that are
deployed, and adds the cluster file's own changes and the jobs that run. `show` looks at all of a cluster, at
its `things` one by one. `survey` says what its end would take, `destroy` brings it, and can be called again
where it was cut off; `jobs` finds those of the cluster that have not ended. `graphviz` draws the picture of a
cluster, and those of the documentation, from a graph that `launcher.provisioning.picture` makes of templates.
"""
