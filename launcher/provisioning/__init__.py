"""What a cluster's templates say: what it costs at rest, and its picture.

Pure: templates come in as CloudFormation has them, by the names of their stacks, deployed or to be deployed.
"""
