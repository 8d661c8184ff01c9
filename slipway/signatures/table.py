"""The rows by which an output is judged: the launcher's log signatures, generated into `signatures.json`.

`tools/generate/boot_signatures.py` writes the file, and a test holds it current: what the diagnosis knows
of a failure and what the container reports of it are one knowledge.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ROLES = ("initiator", "symptom", "cascade", "teardown", "advisory")
"""What a line is in the story of a failure, in the order in which it can be the root cause; the last two
never are."""

_MADE_FOR_OLD_PYTHONS = "_atom"


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """A pattern, compiled when it is first needed: most rows never are."""
    return re.compile(pattern, flags)


@dataclass(frozen=True)
class SignatureRow:
    """One kind of line; `role` counts in ROLES, the other fields are those of the launcher's `Signature`."""

    code: str
    role: int
    literal: str
    pattern: str
    flags: int = 0
    says: str | None = None
    vague: bool = False

    def captured(self, text: str) -> dict[str, str] | None:
        """What the pattern captures in a text; None where it does not match."""
        match = compiled(self.pattern, self.flags).search(text)
        if match is None:
            return None
        return {
            name: value
            for name, value in match.groupdict().items()
            if value is not None and not name.startswith(_MADE_FOR_OLD_PYTHONS)
        }


@dataclass(frozen=True)
class ContextRow:
    """A line that, shortly before a symptom of the codes `of`, tells what the symptom meant: `code`."""

    code: str
    of: tuple[str, ...]
    literal: str
    pattern: str
    flags: int = 0

    def matches(self, text: str) -> bool:
        """Whether a line is one of these."""
        return bool(compiled(self.pattern, self.flags).search(text))


@dataclass(frozen=True)
class Table:
    """All rows, in the order in which they count, and how the lines that they judge are read."""

    rows: tuple[SignatureRow, ...]
    contexts: tuple[ContextRow, ...]
    patterns: Mapping[str, re.Pattern[str]]


@lru_cache(maxsize=1024)
def table() -> Table:
    """The table, read once."""
    content: Any = json.loads((pkgutil.get_data(__package__ or "", "signatures.json") or b"").decode("utf-8"))
    return Table(
        tuple(SignatureRow(**{**row, "role": ROLES.index(row["role"])}) for row in content["signatures"]),
        tuple(ContextRow(**{**row, "of": tuple(row["of"])}) for row in content["contexts"]),
        {name: re.compile(*pattern) for name, pattern in content["patterns"].items()},
    )
