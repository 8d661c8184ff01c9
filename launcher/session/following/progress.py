"""How far a training is: step, loss and speed, picked from the lines that it prints."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.backends.interface import LogLine
from launcher.session.following.log_filter import rank_of
from launcher.text.line_length import LONGEST_LINE

_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_EQUALS = r"['\"]?\s*+(?:[:=]\s*+)?[\[(]?\s*+"

BUILT_IN: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rf"(?i){words}{_EQUALS}({value})")
    for name, words, value in (
        ("step", r"(?<![\w/])(?:global[_ ])?(?:step|iteration|iter)", r"\d+"),
        ("epoch", r"(?<![\w/])epoch", _NUMBER),
        ("loss", r"(?<![\w.])(?:train(?:ing)?[_ /]|lm )?loss", rf"{_NUMBER}|nan|inf"),
        (
            "samples/s",
            r"(?<!\w)(?:samples|images|examples)(?:/s(?:ec(?:ond)?)?|[_ ]per[_ ]second)",
            _NUMBER,
        ),
    )
}
"""What training scripts print mostly: this project's example, PyTorch's, Hugging Face's Trainer, Megatron."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "iter"),
    "epoch": ("epoch",),
    "loss": ("loss",),
    "samples/s": ("samples", "images", "examples"),
}
"""One of these is in every line that the built-in pattern finds, in small letters: to look for a word takes
a fraction of the time of a pattern that begins with a number."""

_SPEED_AFTER_NUMBER = re.compile(
    rf"(?i)(?<!\d)(?<!\d\.)({_NUMBER})\s*+(?:samples|images|examples)/s(?:ec(?:ond)?)?\b"
)

_LONGEST_CURVE = 1024
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The newest value of each metric by its name, and the values so far of the one that is drawn."""

    values: Mapping[str, float]
    drawn: str | None = None
    curve: Sequence[float] = ()

    @property
    def step(self) -> float | None:
        """The newest step, or epoch where no steps are printed."""
        return self.values.get("step", self.values.get("epoch"))


class ProgressReader:
    """Picks metrics from lines; fed with all lines in their order.

    `definitions` are the job's own, name to regular expression as the service takes them; step, loss and
    speed are found by built-in ones where the job has none for them. All ranks may print the same metric:
    the values are those of the one rank or host that printed one first, or of rank 0 as soon as it does.
    """

    def __init__(
        self, definitions: Mapping[str, str] | None = None, processes_per_host: int | None = None
    ) -> None:
        self._processes_per_host = processes_per_host
        self._patterns = {name: re.compile(text) for name, text in _usable(definitions or {}).items()}
        own = {_plain(name) for name in self._patterns}
        self._words: dict[str, tuple[str, ...]] = {}
        for name, pattern in BUILT_IN.items():
            if _plain(name) not in own:
                self._patterns[name] = pattern
                self._words[name] = _WORDS[name]
        self._values: dict[str, float] = {}
        self._speaker: tuple[str, int | None] | None = None
        self._curve: list[float] = []
        self._stride = 1
        self._skipped = 0
        self._drawn = next((name for name in self._patterns if "loss" in name.lower()), None)

    def read(self, lines: Sequence[LogLine]) -> TrainingProgress | None:
        """The progress after these lines; None where they hold no metric of the rank that is read."""
        found = False
        for line in lines:
            found |= self._read(line)
        return TrainingProgress(dict(self._values), self._drawn, tuple(self._curve)) if found else None

    def _read(self, line: LogLine) -> bool:
        current = self._speaker
        # Nobody takes over from rank 0, so the lines of all others need not be looked into. The host tells
        # most of them apart, and costs next to nothing.
        if current and current[1] == 0 and (line.host != current[0] or self._speaker_of(line) != current):
            return False
        values = self._values_in(line.text)
        if not values:
            return False
        speaker = self._speaker_of(line)
        if current is None or (speaker[1] == 0 and current[1] != 0):
            self._speaker = speaker
        if speaker != self._speaker:
            return False
        self._values.update(values)
        if self._drawn in values and math.isfinite(values[self._drawn]):
            self._draw(values[self._drawn])
        return True

    def _speaker_of(self, line: LogLine) -> tuple[str, int | None]:
        return line.host, rank_of(line, self._processes_per_host)

    def _values_in(self, text: str) -> dict[str, float]:
        values = {}
        text = text[:LONGEST_LINE]
        small = text.lower()
        for name, pattern in self._patterns.items():
            words = self._words.get(name)
            if words is not None and not any(word in small for word in words):
                continue
            match = pattern.search(text)
            if match is None and name == "samples/s":
                match = _SPEED_AFTER_NUMBER.search(text)
            if match is not None and match.groups() and match[1] is not None:
                try:
                    values[name] = float(match[1])
                except ValueError:
                    continue
        return values

    def _draw(self, value: float) -> None:
        """Keep a bounded number of points: each time they are too many, every second one."""
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._curve.append(value)
        if len(self._curve) > _LONGEST_CURVE:
            self._curve = self._curve[::2]
            self._stride *= 2


def curve_in_blocks(values: Sequence[float], width: int) -> str:
    """A small curve, one character a column: the mean of the values that fall into it.

    The lowest is the lowest block; an even curve is drawn low.
    """
    columns = min(width, len(values))
    if columns < 1:
        return ""
    edges = [len(values) * column // columns for column in range(columns + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    if span <= 0:
        return _BLOCKS[0] * columns
    return "".join(_BLOCKS[min(7, int(8 * (mean - low) / span))] for mean in means)


def _usable(definitions: Mapping[str, str]) -> dict[str, str]:
    """Those that Python can read: the service's regular expressions may differ in details."""
    usable = {}
    for name, text in definitions.items():
        try:
            re.compile(text)
        except re.error:
            continue
        usable[name] = text
    return usable


def _plain(name: str) -> str:
    """`train:loss`, `train_loss` and `Loss` are the loss."""
    last = re.split(r"[:/](?!s\b)", name.lower())[-1]
    return last.removeprefix("train_").removeprefix("training_").removeprefix("global_")
