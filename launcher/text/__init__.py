"""Text, below all that the launcher knows: how people write and read values, log lines and files.

Durations and sizes in words, the forms of credentials, control characters, who printed a log line, and files
that are opened only where they are regular ones.
Functions from text to values and back; nothing here imports another room.
"""

__version__ = "0.1.0"
"""That of what is imported, whatever else is installed: the same as in pyproject.toml."""
