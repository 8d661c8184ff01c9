"""What a deployment asks the account before it synthesizes: what stands there already."""
