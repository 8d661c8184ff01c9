"""Runs on Slurm from the session's side: how one is launched, and where those of this user are found.

A run lies on the shared folder that its job file names. `known_folders` keeps on this machine which of them
the user has launched to, `launch_run` plans a job, holds it against the cluster and submits it.
"""
