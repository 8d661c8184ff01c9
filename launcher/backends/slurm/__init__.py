"""A training job on a Slurm cluster: the same boot, folders and words, each host a task of one sbatch job.

`script` writes what sbatch gets, `start` prepares a run's folder on the shared folder and submits it once,
`commands` calls Slurm's own programs and reads what they print, here or on a `login_node` over ssh, which
`hyperpod` finds in a HyperPod cluster;
`shared_folder` is where the runs lie, or a mirror of that from behind a login node; `records` is what is
known of a run by its folder, `states` what a state of Slurm's means. `backend` puts them together.
"""
