"""The processes of a host: the ranks are started, watched over, ended, and started again.

`restart_ranks` is the sequence of starts, on which all hosts agree; `torchrun` starts the processes of one,
`supervise` hands signals on and leaves none behind, `process_output` passes on what they print.
`rank_connections` sees from outside whether the ranks ever met.
"""
