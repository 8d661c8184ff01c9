"""How the processes of a job are started and connected: a small class per strategy, all of one shape.

`strategy` is the shape (processes per host, image, hyperparameters, the container's command) and what every
strategy is checked by: options, programs, and where a library exists. It also has those that our boot carries
out (torchrun, none), `toolkit` has those that the image's training toolkit starts (mpi, smddp, torch_xla),
`model_parallel` both versions of smp. `catalogue` chooses, also for tuning jobs, which cannot be given a
command for the container.
"""
