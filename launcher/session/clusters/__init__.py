"""What people who deploy do with a cluster: see what an update would do, look at it, draw it, take it away.

`plan_update` runs the CDK app for the templates that are wanted, compares them with those that are deployed,
and adds the cluster file's own changes, the jobs that run and what it finds in what the cluster takes over.
`show_cluster` looks at all of a cluster, at its things one by one, and draws its picture, as those of the
documentation, from a graph that `launcher.provisioning.picture` makes of templates. `destroy_cluster` says
what its end would take, brings it, and can be called again where it was cut off.
"""
