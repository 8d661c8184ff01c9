"""`launch init` and `launch import`: job files of what people have.

Each parses, has `launcher.session.drafting` read what was given, and shows the draft: what was read, what is
open, and what the job that it was made of gets wrong.
"""
