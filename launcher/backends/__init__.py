"""Where a plan runs: submit, describe, read logs, stop. The thin edge to the world."""
