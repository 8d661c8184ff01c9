"""The job's hosts among themselves: what their boots tell each other, beside the ranks' own connections."""
