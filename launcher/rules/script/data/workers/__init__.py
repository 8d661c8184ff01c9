"""Rules on the worker processes that read data beside the training.

`pools` are the calls that start them, `worker_devices` whether they leave the accelerators alone, and
`worker_resources` whether they are there, and have CPUs and memory.
"""
