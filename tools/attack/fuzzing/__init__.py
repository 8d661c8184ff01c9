"""Documents and log lines that nobody would write, made from valid ones by a seeded generator."""
