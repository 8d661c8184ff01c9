"""Job files of Slurm's batch scripts, and the fields of a command line that starts a training.

What `launcher.source.start_script` reads of a script becomes processes, hosts, script and arguments; what
only a cluster knows stays a question.
"""
