"""What the ranks of a job tell each other beside the training, on a group of their own."""
