"""Batch scripts of Slurm, and the command lines that start trainings, read without running them.

A script becomes words as the shell would make them, with the variables that it sets; the line that starts the
training becomes processes, hosts, script and arguments; what only a cluster knows stays a question.
"""
