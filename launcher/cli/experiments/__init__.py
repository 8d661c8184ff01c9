"""`launch ladder` and `launch pair`: runs of one job in several sizes, and of two that differ in one thing."""
