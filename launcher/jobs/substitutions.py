"""What came from variables, and texts for people with the variables' names in place of the values.

A value from `${NAME}` may be a secret, and nothing here can tell. So what is shown of a job (findings, plans,
refusals) says `${NAME}` where a text would repeat it; what is sent has the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Finding, Path
from launcher.failure_modes.refusal import Refusal

SHORTEST_ANYWHERE: Final = 6
"""Characters. Shorter values stand in any text by chance: they are looked for only in what is said of their
own field."""

SHORTEST_IN_WORDS: Final = 8
"""Characters. Shorter values are taken for a value only where they are words of their own."""

_SEPARATORS = re.compile(r"[/:@=,;\s]+")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")
_CUT = "..."


@dataclass(frozen=True, slots=True)
class Substitution:
    """One text of the job file in which variables were replaced.

    `path` leads to it, `written` is the text with the references, `text` the one with the values; `values`
    are those of the variables in it, by name.
    """

    path: Path
    written: str
    text: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Substitutions:
    """All that was replaced in a job file."""

    made: tuple[Substitution, ...] = ()

    def shown(self, text: str, *paths: Path) -> str:
        """The text with `${NAME}` for each value in it; `paths` are the fields that it speaks of.

        Values of six characters and more are replaced in any text, shorter ones where the text is about
        their field, as words of their own. The parts of a URI or ARN count as well, and so does a value
        that the text cuts short.
        """
        if not self.made:
            return text
        near = [each for each in self.made if any(_related(each.path, path) for path in paths)]
        for each in self.made:
            text = _without_cut(text, each)
        names = {**_names(near, 1), **self._anywhere} if near else self._anywhere
        return _pattern(names).sub(lambda match: names[match[0]], text) if names else text

    def finding(self, found: Finding) -> Finding:
        """The finding without the values; what the catalogue says in general stays."""
        paths = () if not found.path else (found.path,)
        mode = CATALOGUE.get(found.code)
        general = mode is not None and found.remedy == mode.remedy
        return replace(
            found,
            message=self.shown(found.message, *paths),
            remedy=found.remedy if general else self.shown(found.remedy, *paths),
            subject=None if found.subject is None else self.shown(found.subject, *paths),
        )

    def value(self, value: Any, path: Path) -> Any:
        """A single value that came from the field at `path`, as it is shown."""
        if isinstance(value, str):
            return self.shown(value, path)
        # A number or a truth value was parsed from what stands there.
        whole = (each.written for each in self.made if _begins(path, each.path))
        return next(whole, value)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Let refusals from within pass without the values."""
        try:
            yield
        except Refusal as refusal:
            message, remedy = self.shown(refusal.message), self.shown(refusal.remedy)
            if (message, remedy) == (refusal.message, refusal.remedy):
                raise
            refusal.message, refusal.remedy, refusal.args = message, remedy, (f"{message} {remedy}",)
            # The cause has AWS's words with the values, and a traceback would show them.
            raise refusal from None

    @cached_property
    def _anywhere(self) -> dict[str, str]:
        return _names(self.made, SHORTEST_ANYWHERE)


NOTHING_REPLACED: Final = Substitutions()
"""Of a job file without variables."""


def _names(made: Sequence[Substitution], shortest: int) -> dict[str, str]:
    """What stands for each text to be replaced; whole fields go before the values in them."""
    names: dict[str, str] = {}
    for each in made:
        _add(names, each.text, each.written, shortest)
    for each in made:
        for name, value in each.values.items():
            _add(names, value, f"${{{name}}}", shortest)
    for each in made:
        for name, value in each.values.items():
            for part in _SEPARATORS.split(value):
                # A region is said of many things besides.
                if len(part) >= SHORTEST_IN_WORDS and not _REGION.fullmatch(part):
                    _add(names, part, f"${{{name}}}", shortest)
    return names


def _add(names: dict[str, str], value: str, shown: str, shortest: int) -> None:
    """Add a value as it is, and as messages write it."""
    value = value.strip()
    quoted = (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
    for form in (value, *(text[1:-1] for text in quoted)):
        if len(form) >= shortest:
            names.setdefault(form, shown)


def _pattern(names: Mapping[str, str]) -> re.Pattern[str]:
    """All of them at once, the longest first: what was put in is not looked at again."""
    return re.compile("|".join(map(_form, sorted(names, key=len, reverse=True))))


def _form(text: str) -> str:
    literal = re.escape(text)
    if len(text) >= SHORTEST_IN_WORDS:
        return literal
    # `2` stands neither in `32` nor in `2,424.10`.
    before = r"(?<!\w)(?<!\d[.,])" if re.match(r"\w", text) else ""
    after = r"(?!\w|[.,]\d)" if re.search(r"\w\Z", text) else ""
    if len(text) < 3 and not text.isdigit():
        # `a` and `no` are words of the message.
        before, after = "(?<=['\"`])", "(?=['\"`])"
    return f"{before}{literal}{after}"


def _without_cut(text: str, made: Substitution) -> str:
    """The text without the beginning of a replaced text that is followed by dots."""
    values = {made.text: made.written, **{value: f"${{{name}}}" for name, value in made.values.items()}}
    for value, shown in values.items():
        start = value[:SHORTEST_IN_WORDS]
        at = text.find(start) if len(start) == SHORTEST_IN_WORDS else -1
        while at >= 0:
            length = _alike(text[at:], value)
            if length < len(value) and text.startswith(_CUT, at + length):
                text = f"{text[:at]}{shown}{text[at + length + len(_CUT) :]}"
            at = text.find(start, at + 1)
    return text


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _related(one: Path, other: Path) -> bool:
    return _begins(one, other) or _begins(other, one)


def _begins(path: Path, beginning: Path) -> bool:
    return bool(beginning) and path[: len(beginning)] == beginning
