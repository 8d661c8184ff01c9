"""What people who deploy do with a cluster: see what an update would do before `cdk deploy` does it.

`synthesis` runs the CDK app for the templates that are wanted; `plan` reads those that are deployed, and
puts the comparison together with the cluster file's own changes and the jobs that run.
"""
