"""Rules on what the AWS account really holds: pure functions from gathered facts to findings."""
