"""Job files of what people have: what is read for a draft, and the file that is written."""
