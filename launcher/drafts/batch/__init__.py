"""Batch scripts of Slurm, read without running them: `shell_text` makes words of commands and follows the
variables, `start_line` knows the programs that start trainings, `script` makes a job file of both and of the
`#SBATCH` lines.
"""
