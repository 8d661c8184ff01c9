"""`launch ladder` and `launch pair`: one job in several sizes, and two that differ in one thing."""
