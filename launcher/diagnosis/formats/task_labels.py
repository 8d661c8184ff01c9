"""Lines that `srun --label` numbers by their task: `3: text`, the number as wide as the largest one.

The number is the global rank only where srun starts the ranks itself. Where it starts torchrun, once on each
node, it is the node's: what is printed then says so (torchrun's own lines, the ranks' own prefixes), and the
number becomes a host's name, so that no rank is blamed for its neighbour's lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from launcher.diagnosis.formats.blocks import lines_of

_LABEL = re.compile(r" {0,6}(\d{1,6}): ?")
_FEWEST = 4
_SHARE = 0.9
_LAUNCHED = re.compile(
    r"torchrun|torch[./]distributed[./](?:run|launch|elastic)|OMP_NUM_THREADS|\[(?:rank|default|trainer)\d|accelerate",
)


def are_labelled(lines: Sequence[str]) -> bool:
    """Whether these lines have tasks before them: nearly all of them, and their numbers come again."""
    filled = [line for line in lines if line.strip()]
    numbers = [match[1] for line in filled if (match := _LABEL.match(line))]
    return (
        len(numbers) >= max(_FEWEST, _SHARE * len(filled))
        and len(set(numbers)) <= len(numbers) / 2
        and "0" in numbers
    )


def _is_launched(line: str) -> bool:
    """Whether another launcher than srun started who printed this; a rank that is its label is srun's."""
    shown = _LAUNCHED.search(line)
    label = _LABEL.match(line)
    return shown is not None and not (label and line.startswith(f"[rank{label[1]}]:", shown.start()))


def relabelled(blocks: Iterable[bytes], lines: Sequence[str]) -> Iterator[bytes]:
    """The text with the labels as torch writes ranks, or as hosts where `lines` show another launcher."""
    mark = "task-{}: " if any(map(_is_launched, lines)) else "[rank{}]: "
    for line in lines_of(blocks):
        if mark.startswith("[") and _is_launched(line):
            mark = "task-{}: "
        label = _LABEL.match(line)
        text = mark.format(int(label[1])) + line[label.end() :] if label else line
        yield f"{text}\n".encode("utf-8", errors="replace")
