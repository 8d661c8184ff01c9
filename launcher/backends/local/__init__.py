"""A training job on this machine: the same boot, config files and layout, each host a process tree.

`layout` makes of the request what a container finds under /opt/ml, `job` starts the hosts and watches over
them, `ends` says why they failed, `logs` reads what they print, `processes` finds and ends whatever is left,
and `keeper` does so when the launcher cannot. `store`, `status` and `state_files` are the record on the disk.
"""
