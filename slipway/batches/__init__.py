"""How batches and input files reach the ranks: as many, and in the same order, on all of them."""
