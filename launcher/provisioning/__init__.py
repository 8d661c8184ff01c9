"""What a cluster's templates say: what an update does, what the cluster costs at rest, and its picture.

Pure: templates come in as CloudFormation has them, by the names of their stacks, deployed or to be deployed.
`create_only` knows which properties CloudFormation cannot change on a resource that is there. `comparison`
goes through the stacks in the order of deployment, and says of every resource whether it is added, changed,
replaced, deleted or kept, and what stands in the way: exports in use, names and addresses that are taken,
stacks that nobody updates any more. `rest_costs` multiplies with list prices, `picture` makes a graph.
"""
