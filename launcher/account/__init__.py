"""What the AWS account really holds, fetched into plain data."""
