"""What the lines of a job that completed say against its success, read while it is followed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from launcher.diagnosis.literals import alternation
from launcher.diagnosis.matching import rows_matching
from launcher.diagnosis.record import LogRecord, parse
from launcher.diagnosis.redaction import shown
from launcher.diagnosis.sighting import Sighting, sighting_of
from launcher.diagnosis.signatures.table import SIGNATURES
from launcher.diagnosis.world_size import LITERALS, WorldSizes
from launcher.failure_modes import checkpoints, distribution
from launcher.failure_modes.model import Finding, Severity, Stage

_SAID = ("slipway: DIST008 ", "slipway: CKPT007 ")
_ROWS = [row for row in SIGNATURES if row.example.startswith(_SAID)]
"""What the boot of a job says that completed."""

_LITERALS = re.compile(alternation([*(row.literal for row in _ROWS), *LITERALS]))
_LONGEST_REMEDY = 1000


class SuccessReader:
    """Reads the lines of a job as they come, a few of them closely; `warnings` are for one that completed."""

    def __init__(self) -> None:
        self._worlds = WorldSizes()
        self._said: dict[str, Sighting] = {}
        self._index = 0

    def read(self, lines: Sequence[LogRecord]) -> None:
        """Take the next lines into account; those of one host in their order, hosts in any."""
        if _LITERALS.search("\n".join([line.text for line in lines]).lower()):
            for number, line in enumerate(lines):
                if _LITERALS.search(line.text.lower()):
                    self._look_at(line, self._index + number)
        self._index += len(lines)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """That the ranks never met (DIST008), and that work was lost (CKPT007); each once."""
        apart = self._said.get(distribution.RANKS_NEVER_MET.code) or self._worlds.never_met()
        lost = self._said.get(checkpoints.PATH_NOT_KEPT.code)
        return tuple(_warning(sign) for sign in (apart, lost) if sign is not None)

    def _look_at(self, line: LogRecord, index: int) -> None:
        parsed = parse(line.text)
        self._worlds.read(parsed, line.host, index, line.time)
        for row, captured in rows_matching(parsed.text, _ROWS):
            sign = sighting_of(row, captured, parsed, line.text, host=line.host, index=index, time=line.time)
            self._said.setdefault(row.code, sign)


def _warning(sign: Sighting) -> Finding:
    return sign.mode.finding(
        Stage.LOG,
        shown(sign.what),
        remedy=None if sign.remedy is None else shown(sign.remedy, _LONGEST_REMEDY),
        severity=Severity.WARNING,
        subject=sign.subject,
    )
