"""What failures look like in logs: the rows of the catalogue, as the search takes them.

A row has a pattern, the role of such a line in the story of a failure (initiator, symptom, cascade, teardown,
advisory), one line that matches and one near miss that does not; both are tested for every row. The rows
stand in `launcher/failure_modes/FAMILY.toml`; `table.json` is made of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from launcher.failure_modes.model import FailureMode, Retry, Stage
from launcher.failure_modes.registry import CATALOGUE, register
from launcher.frozen import frozen


class LineRole(StrEnum):
    """What a line is in the story of a failure, in the order in which it can be the root cause."""

    INITIATOR = "initiator"
    """The failure itself: it stops the rank that prints it."""
    SYMPTOM = "symptom"
    """What the failure looks like where its cause is not in reach."""
    CASCADE = "cascade"
    """What healthy ranks print because another one failed."""
    TEARDOWN = "teardown"
    """What is printed while everything comes down; never the root cause."""
    ADVISORY = "advisory"
    """Worth knowing, also in a healthy job; never the root cause."""

    @property
    def may_be_root(self) -> bool:
        """Whether such a line can be named as the root cause."""
        return self not in (LineRole.TEARDOWN, LineRole.ADVISORY)


@frozen
class Signature:
    """One kind of line.

    `literal` is a lower-case part of every line that matches, a cheap filter before `pattern` is
    searched; where a row gives none, it is the longest text that the pattern demands and the near miss
    has. The pattern sees a line without its prefixes, and after a line break each the indented lines that
    follow it. Its named groups are what it captures: `rank` and `host` (who failed), the rest for `says`,
    the message, which falls back on the line itself where a group is empty, and for `remedy`, which
    replaces the catalogue's where this line calls for another one, as `retry` does. A `vague` row says
    that something failed rather than what: it loses to the other rows of its role. `example` matches;
    `near_miss` holds the literal, and does not. `digits` are the kinds of texts in which the pattern wants
    certain digits (`logs.digits`), None where any digit of a line may count.

    `in_container` is False for what no container of a job on SageMaker prints: what SLURM, Kubernetes,
    Ray's cluster and mpirun say (which starts Horovod's scripts too), what JAX and TensorFlow do, for
    which there is no strategy, and what the service says of a job's channels or its host of itself.
    """

    mode: FailureMode
    role: LineRole
    literal: str
    pattern: re.Pattern[str]
    example: str
    near_miss: str
    says: str | None = None
    remedy: str | None = None
    retry: Retry | None = None
    vague: bool = False
    in_container: bool = True
    against_success: bool = False
    digits: frozenset[bytes] | None = frozenset()

    @property
    def code(self) -> str:
        """The code of the failure mode."""
        return self.mode.code

    @property
    def captures(self) -> tuple[str, ...]:
        """The names of what the pattern captures."""
        return tuple(self.pattern.groupindex)


SHORTLY: Final = 12
"""Lines of a stream between a context and the symptom that it explains, at most."""


@frozen
class Context:
    """A line that is ordinary by itself and, shortly before a symptom, tells what the symptom meant.

    `symptoms` are the modes of such symptoms, `mode` what they then are. `literal`, `pattern`, `example` and
    `near_miss` as in `Signature`.
    """

    mode: FailureMode
    symptoms: tuple[FailureMode, ...]
    literal: str
    pattern: re.Pattern[str]
    example: str
    near_miss: str


@frozen
class Lack:
    """What is printed where this machine lacks something, in a local run only: `lacks` says what.

    `remedy` is None where it depends on the job. The others as in `Signature`.
    """

    mode: FailureMode
    lacks: str
    pattern: re.Pattern[str]
    example: str
    near_miss: str
    remedy: str | None = None


_CONTENT: dict[str, Any] = json.loads(Path(__file__).with_name("table.json").read_text("utf-8"))

_MADE_OF: Mapping[str, Any] = {
    "mode": CATALOGUE.__getitem__,
    "symptoms": lambda codes: tuple(CATALOGUE[code] for code in codes),
    "role": LineRole,
    "retry": Retry,
    "digits": lambda kinds: None if kinds is None else frozenset(kind.encode() for kind in kinds),
}


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    row["pattern"] = re.compile(row["pattern"], row.pop("flags", 0))
    return {key: _MADE_OF[key](value) if key in _MADE_OF else value for key, value in row.items()}


SIGNATURES: Final = tuple(Signature(**_fields(row)) for row in _CONTENT["log"])
CONTEXTS: Final = tuple(Context(**_fields(row)) for row in _CONTENT["context"])
LACKS: Final[Mapping[str, Lack]] = MappingProxyType(
    {row["lacks"]: Lack(**_fields(row)) for row in _CONTENT["here"]}
)
"""What a machine may lack, in the order in which it counts."""

FRAGMENTS: Final[Mapping[str, str]] = MappingProxyType(_CONTENT["fragments"])
"""Parts of patterns and remedies of which several rows are made, by their names in the families."""

_MODES = [*(row.mode for row in SIGNATURES), *(row.mode for row in CONTEXTS)]
register(Stage.LOG, dict.fromkeys(_MODES), __name__)
