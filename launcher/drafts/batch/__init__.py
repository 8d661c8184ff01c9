"""Batch scripts of Slurm, and the command lines that start trainings, read without running them."""
