"""A training job on this machine: the same boot, config files and layout, each host a process tree.

`layout` makes of the request what a container finds under /opt/ml, `job` starts the hosts and watches over
them, `status` is the record on the disk, `logs` reads what they print, `processes` finds and ends whatever
is left of them.
"""
