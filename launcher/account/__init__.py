"""What the AWS account holds, as plain data: a module per kind of resource, and `AccountFacts` of them all.

A fact that could not be had is an `Unverified` with the permission that it needs, never a guess. Each module
has the data and how an answer of AWS is read into them; nothing here calls anything. `questions` does.
"""
