"""Text, below all that the launcher knows: how values are written for people, and how log lines are read.

Durations and sizes in words, the forms of credentials, control characters, and who printed a log line.
Functions from text to values and back; nothing here imports another room.
"""
