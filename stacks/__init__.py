"""What is deployed together. Each stack is thin: it wires the parts of `constructs/` to a `ClusterSpec`."""
