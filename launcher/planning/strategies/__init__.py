"""How the processes of a job are started: one small file per strategy, all of one shape."""
