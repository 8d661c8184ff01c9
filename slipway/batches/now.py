"""What even_batches is doing in this process, for who measures or needs all ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Now:
    """`fetching`: seconds spent in loaders so far; `joining`: ranks may have left (mode="join")."""

    fetching: float = 0.0
    joining: bool = False


NOW = Now()
