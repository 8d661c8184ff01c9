"""Logs as pasted into public issue threads, each with what is known of it.

Only what programs printed is kept, cut to the lines around the failure; names of people, hosts and folders
are replaced. They were labelled before the diagnosis saw them. Half of them, told by a hash of the thread's
address, served to find wording that was missing; the other half only to measure.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from tests.diagnosis.cases import LOGS, records


@dataclass(frozen=True)
class Thread:
    """A log and its label. `codes` are empty where it tells of no failure; `also` are as right. `retry` is
    None where the thread does not tell; `first_failing` is such as `rank 3`, or None where no line tells it.
    `failure_reason` says that the text is not a log but what the service gives as the reason."""

    name: str
    text: str
    codes: tuple[str, ...]
    also: tuple[str, ...]
    first_failing: str | None
    retry: str | None
    failure_reason: bool
    url: str
    why: str

    @property
    def is_for_tuning(self) -> bool:
        """Whether the wording of this one was looked at while rows were written."""
        return int(hashlib.sha256(self.url.encode()).hexdigest(), 16) % 2 == 0

    def diagnosis(self) -> Diagnosis:
        """What the diagnosis says of it."""
        return diagnose([], self.text) if self.failure_reason else diagnose(records(self.text))

    def is_right(self) -> bool:
        """Whether the root cause is one of those in the label, or none where there is none."""
        root = self.diagnosis().root_cause
        return (root.finding.code if root else None) in ((*self.codes, *self.also) or (None,))


def threads() -> list[Thread]:
    """All of them, by name."""
    found = []
    for file in sorted((LOGS / "threads").glob("*.json")):
        label = json.loads(file.read_text("utf-8"))
        label["codes"], label["also"] = tuple(label["codes"]), tuple(label["also"])
        found.append(Thread(name=file.stem, text=file.with_suffix(".log").read_text("utf-8"), **label))
    return found
