"""How much of a log line is looked at: what jobs print has no bound, and looking for meaning in it must."""

from __future__ import annotations

from typing import Final

LONGEST_LINE: Final = 4096
"""Characters of a line that patterns see. What a line says it says at its beginning; what goes on for longer
is data that was printed: a mask, a tensor, an archive in base64."""
