"""How the processes of a job are started and connected: a small class per strategy, all of one shape.

`strategy` is the shape: processes per host, world size, image, hyperparameters, the container's command, and
what the strategy cannot run. `boot` is what those share that our boot carries out (torchrun, smp version 2,
none), `toolkit` what those share that the image's training toolkit starts. `catalogue` chooses.
"""
