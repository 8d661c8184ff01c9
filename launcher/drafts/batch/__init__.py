<<<<<<< HEAD
"""Batch scripts of Slurm, and the command lines that start trainings, read without running them.

A script becomes words as the shell would make them, with the variables that it sets; the line that starts the
training becomes processes, hosts, script and arguments; what only a cluster knows stays a question.
=======
"""Batch scripts of Slurm, read without running them: `shell_text` makes words of commands and follows the
variables, `start_line` knows the programs that start trainings, `script` makes a job file of both and of the
`#SBATCH` lines.
>>>>>>> w-import
"""
