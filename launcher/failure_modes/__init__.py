"""The catalogue of failure modes: data, a file per family, and the finding that reports one."""
