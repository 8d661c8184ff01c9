"""What the user's code is: the files that belong to a job, how they are packed, and which names they use."""
