"""What is provisioned (the cluster) and what the instance types are: the launcher's ground floor."""
