"""Rules on the job file and the plan, offline."""
