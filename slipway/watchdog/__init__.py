"""Who stalls a job: the ranks' heartbeats are read, two snapshots taken and judged, and one is named.

`ask_ranks` takes a snapshot of this host's ranks, `rank_views` is what is known of a rank, by its stacks and
PyTorch's flight recorder, `judge_stall` says when the job stands still and names the culprit, and
`watch_ranks` is the sequence, in a thread of the boot.
"""
