"""From the templates that are deployed and those that are wanted to what an update does.

`templates` reads what matters of a template: its resources, what refers to what, exports and imports.
`create_only` knows which properties CloudFormation cannot change on a resource that is there. `comparison`
goes through the stacks in the order of deployment, and says of every resource whether it is added, changed,
replaced, deleted or kept, and what stands in the way: exports in use, names and addresses that are taken,
stacks that nobody updates any more. It calls nothing; the templates come from the session.
"""
