"""From what a failed job left behind to its cause."""
