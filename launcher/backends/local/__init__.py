"""A training job on this machine: the same boot, config files and layout, each host a process tree.

`machine` and `interpreter` say what there is to run it with, `installed` and `overlay` add what it requires.
`starting` begins a job with them: `layout` makes of the request what a container finds under /opt/ml,
`mapping` of its words what they mean here, `secrets` takes from the environment what AWS would keep. `job`
starts the hosts and watches over them, `ends` says why they failed, `logs` reads what they print,
`processes` finds and ends whatever is left, and `keeper` does so when the launcher cannot. `store`, `status`
and `state_files` are the record on the disk.
"""
