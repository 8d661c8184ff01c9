"""What failures look like in the output of a process, and who judges an output by it."""
