"""What failures look like in logs: signatures as rows of data, a file per family."""
