"""What of a plan was found to be a credential: it is masked wherever the plan is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path
from launcher.planning.training_plan import TrainingPlan
from launcher.text.secrets import MASK, credential_in

_ARGUMENTS = ("code", "arguments")
_FROM_A_VARIABLE = re.compile(r"\$\{\w+\}")
_SHORTEST_ANYWHERE = 8
"""Characters. A shorter value stands in other texts by chance; in its own field it is masked all the same."""


@dataclass(frozen=True, slots=True)
class Masked:
    """The credentials of a plan.

    `places` are their fields in the job file, `words` the arguments that hold one with what is shown of each,
    `values` the texts that are masked wherever they stand, the longest first.
    """

    places: frozenset[Path]
    words: dict[str, str]
    values: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.places)

    def value(self, written: Any, shown: Any, path: Path) -> Any:
        """A value as it is shown: `written` is the plan's, `shown` the same with the names of variables.

        Where nothing but a variable's name is shown there is nothing to mask.
        """
        if isinstance(shown, str) and _FROM_A_VARIABLE.fullmatch(shown):
            return shown
        if path[: len(_ARGUMENTS)] == _ARGUMENTS:
            return self.words.get(str(written), shown)
        if path[:2] in self.places:
            return MASK
        return self.text(shown) if isinstance(shown, str) else shown

    def text(self, text: str) -> str:
        """A text about the plan, without the values."""
        for value in self.values:
            text = text.replace(value, MASK)
        return text

    def finding(self, found: Finding) -> Finding:
        """The finding without the values."""
        return replace(found, message=self.text(found.message), remedy=self.text(found.remedy))

    def key(self, name: Any, path: Path) -> Any:
        """The name of a field at `path`, which may be a credential itself."""
        return MASK if path in self.places and credential_in(str(name)) else name


def masked(plan: TrainingPlan) -> Masked:
    """The credentials of a plan, also those that the user accepted on purpose."""
    found = [each.path for each in plan.findings if each.code == job_file.CREDENTIAL.code and each.path]
    words = dict(_words(plan, found))
    given = (text for path in found if path[:2] != _ARGUMENTS for text in _texts(_given(plan.job, path)))
    values = {text for text in given if len(text) >= _SHORTEST_ANYWHERE}
    return Masked(frozenset(found), words, tuple(sorted(values, key=len, reverse=True)))


def _words(plan: TrainingPlan, found: list[Path]) -> Iterator[tuple[str, str]]:
    """The arguments with a credential: of `--token=VALUE` the name stays, of `--token VALUE` the option."""
    arguments: list[str] = plan.job.get("code", {}).get("arguments", [])
    for path in found:
        if path[:2] != _ARGUMENTS:
            continue
        place = int(path[2])
        word = arguments[place]
        name, equals, _ = word.partition("=")
        if word.startswith("-") and not credential_in(name):
            if equals:
                yield word, f"{name}={MASK}"
            elif place + 1 < len(arguments):
                yield arguments[place + 1], MASK
        else:
            yield word, MASK


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value: which of those in a structure is the credential is not asked."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _given(job: Any, path: Path) -> Any:
    for key in path:
        job = job.get(key) if isinstance(job, dict) else None
    return job
