"""The life of a launch: prepare, submit, follow."""
