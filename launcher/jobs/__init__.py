"""The job file: YAML with positions, and `JobSpec`, its schema, parser and documentation in one."""
