"""What is said of a file in which no log can be read."""

from __future__ import annotations


class Unreadable(Exception):
    """Bytes that are no log. `problem` goes on after the file's name, `remedy` is a sentence of its own."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
