"""Every command, under every fault, at each of its calls to AWS."""
