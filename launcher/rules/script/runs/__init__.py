"""The rules on what the ranks of a job do, as the program runs on its syntax tree, with what a job gives it.

`rank_runs` runs it as a rank of the first host, as its neighbour, and as one of the next host; `meetings`
compares how they come together, `collective_order` what they call then, `saves_and_loads` where they save and
what they load. `samplers_and_workers` looks at their data, `early_ends` and `library_versions` at what ends
them before they train.
"""
