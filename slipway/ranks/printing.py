"""`python -m slipway.ranks.printing PROGRAM [ARGUMENT ...]`: a rank that prints into the boot's pipes.

It becomes the program (execvp), so that its process id, its signals and its exit code are the program's. The
boot reads the other ends (`slipway/processes/process_output.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

PIPES_VARIABLE = "SLIPWAY_RANK_PIPES"
"""Names the folder that holds the pipes of all ranks of this host."""

STREAMS = ("stdout", "stderr")
"""Those that have a pipe, in the order of their descriptors, which begin with 1."""


def pipe_of(folder: Path, local_rank: int, stream: str) -> Path:
    """The pipe of one of STREAMS of a rank."""
    return folder / f"{local_rank}-{stream}"


def main(words: Sequence[str]) -> None:
    """Become the program in `words`; without the pipes it prints where torchrun does, and that is said."""
    try:
        folder, local_rank = Path(os.environ.pop(PIPES_VARIABLE)), int(os.environ["LOCAL_RANK"])
        for descriptor, stream in enumerate(STREAMS, start=1):
            # Without waiting: where the boot is gone, nobody would ever open the other end.
            pipe = os.open(str(pipe_of(folder, local_rank, stream)), os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(pipe, True)
            os.dup2(pipe, descriptor)
            os.close(pipe)
    except (OSError, KeyError, ValueError) as error:
        print(f"slipway: this rank's output has no mark: {error}", file=sys.stderr, flush=True)
    os.execvp(words[0], list(words))


if __name__ == "__main__":
    main(sys.argv[1:])
