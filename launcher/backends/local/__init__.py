"""A training job on this machine: the same boot, config files and layout, each host a process tree."""
