"""The numbers that a training prints among its words: step, epoch, loss and speed.

This is the one reader of them: the progress of a followed job and the comparison of two both ask here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.text.line_length import LONGEST_LINE

_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_EQUALS = r"['\"]?\s*+(?:[:=]\s*+)?[\[(]?\s*+['\"]?"
_NOT_HELD_OUT = r"(?<![\w.])(?<!\bval )(?<!\beval )(?<!\btest )(?<!\bvalidation )"

BUILT_IN: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rf"(?i){words}{_EQUALS}({value})")
    for name, words, value in (
        ("step", r"(?<![\w/])(?:global[_ ])?(?:step|iteration|iter)", r"\d+"),
        ("epoch", r"(?<![\w/])epoch", _NUMBER),
        (
            "loss",
            rf"{_NOT_HELD_OUT}(?:train(?:ing)?[_ /]|(?:[a-z]{{1,20}}_)?step_|lm )?loss",
            rf"{_NUMBER}|nan|inf",
        ),
        (
            "samples/s",
            r"(?<!\w)(?:samples|images|examples)(?:/s(?:ec(?:ond)?)?|[_ ]per[_ ]second)",
            _NUMBER,
        ),
    )
}
"""What training scripts print mostly: this project's example, PyTorch's, Hugging Face's Trainer, Megatron,
and diffusers' `step_loss`."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "iter"),
    "epoch": ("epoch",),
    "loss": ("loss",),
    "samples/s": ("samples", "images", "examples"),
}
"""One of these is in every line that the built-in pattern finds, in small letters: to look for a word takes
a fraction of the time of a pattern that begins with a number."""

_STEP_OF_STEPS = re.compile(r"(?:\||\] {0,4}\[)\s*+(\d{1,12})/\d{1,12}(?=\]| \[)")
"""The step in a bar of tqdm's, ` 31%|### | 31/100 [00:02<`, in `Epoch: [1][31/100]` and in torchvision's
`Epoch: [1]  [  31/5004]  eta: 1:21:33`. It counts where the line holds a loss: other bars are about files and
samples."""

_VALIDATION = re.compile(r"(?i)(?<![a-z])(?:val|eval|valid|validation|test)(?![a-z])")

_SPEED_AFTER_NUMBER = re.compile(
    rf"(?i)(?<!\d)(?<!\d\.)({_NUMBER})\s*+(?:samples|images|examples)/s(?:ec(?:ond)?)?\b"
)


class PrintedMetrics:
    """Finds metrics in lines.

    `definitions` are the job's own, name to regular expression as the service takes them, whose first group
    is the value; step, epoch, loss and speed are found by built-in ones where the job has none for them.
    `loss` is the name of the training's loss; of a validation's only where there is no other.
    """

    def __init__(self, definitions: Mapping[str, str] | None = None) -> None:
        self._patterns = {name: re.compile(text) for name, text in _usable(definitions or {}).items()}
        own = {plain_name(name) for name in self._patterns}
        self._words: dict[str, tuple[str, ...]] = {}
        for name, pattern in BUILT_IN.items():
            if name not in own:
                self._patterns[name] = pattern
                self._words[name] = _WORDS[name]
        losses = [name for name in self._patterns if "loss" in name.lower()]
        self.loss = next((name for name in losses if not _VALIDATION.search(name)), losses[0])

    def values_in(self, text: str) -> dict[str, float]:
        """The metrics in a line, by their names; the first of each."""
        values = {}
        text = text[:LONGEST_LINE]
        small = text.lower()
        for name, pattern in self._patterns.items():
            words = self._words.get(name)
            if words is not None:
                for word in words:
                    if word in small:
                        break
                else:
                    continue
            match = pattern.search(text)
            if match is None and name == "samples/s":
                match = _SPEED_AFTER_NUMBER.search(text)
            if match is not None and match.groups() and match[1] is not None:
                try:
                    values[name] = float(match[1])
                except ValueError:
                    continue
        if self.loss in values and "step" in self._words and "step" not in values:
            match = _STEP_OF_STEPS.search(text)
            if match is not None:
                values["step"] = float(match[1])
        return values


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


def plain_name(name: str) -> str:
    """A metric's name without what it is of: `train:loss`, `train_loss` and `Loss` are the loss."""
    last = re.split(r"[:/](?!s\b)", name.lower())[-1]
    return last.removeprefix("train_").removeprefix("training_").removeprefix("global_")
