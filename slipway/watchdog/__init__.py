"""Who stalls a job: the ranks' heartbeats are read, two snapshots taken and judged, and one is named.

`beats` says when the job stands still, `questions` takes a snapshot of this host's ranks, `recording` reads
PyTorch's flight recorder, `views` is what is known of a rank, `judgement` names the culprit by it, and
`watch` is the sequence, in a thread of the boot.
"""
