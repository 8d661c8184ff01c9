"""Whether what the launcher takes for true still is: our tables against other sources."""
