"""The version of what is imported, whatever else is installed."""

__version__ = "0.1.0"
"""The same as in pyproject.toml."""
