"""How long the diagnosis of a large job takes against the least that any such search must do.

64 hosts with 10,000 lines each, mostly progress and NCCL lines, one failure among them. The peer searches
each line of the same text for nine words with one compiled pattern and keeps nothing. Seen: four to
six times that, as there are some 150 words to look for; 5 seconds in all. Bound: eight times. The ratio is
that of medians in one run, so that a slow machine does not matter.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.record import Record

HOSTS, LINES, RUNS = 64, 10_000, 3
BOUND = 8.0

PEER = re.compile(
    "out of memory|Traceback|timeout|closed by remote peer|ECC error|CapacityError|LimitExceeded"
    "|AccessDenied|Xid"
)


def records() -> Iterator[Record]:
    """The lines of all hosts as a log service gives them: mixed, in the order of their times."""
    for number in range(LINES):
        for host in range(1, HOSTS + 1):
            yield Record(float(number), f"algo-{host}", text_of(number, host))


def text_of(number: int, host: int) -> str:
    """The line of a host: progress, now and then NCCL and a checkpoint, at last the failure and its echo."""
    if number == LINES - 3 and host == 17:
        return "[rank131]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 3"
    if number == LINES - 1:
        return f"algo-{host}:77:79 [3] misc/socket.cc:49 NCCL WARN Connection closed by remote peer"
    if number < 500:
        return f"algo-{host}:126:199 [5] NCCL INFO Channel {number:02}/0 : 5[5] -> 6[6] via P2P/CUMEM/read"
    if number % 1000 == 0:
        return f"[rank{host * 8}]: INFO Saving checkpoint of step {number} to /opt/ml/checkpoints"
    return (
        f"[1,{host * 8}]<stdout>:2026-08-20 11:30:44,123 INFO step {number} loss: 2.{number % 997:03} "
        f"lr 1.0e-04 tokens/s 81234.5 memory 71.3 GiB"
    )


def main() -> int:
    """Measure in turn, print the ratio, exit with 1 where it is over the bound."""
    lines = list(records())
    mine, theirs = [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        diagnosis = diagnose(lines)
        mine.append(time.perf_counter() - start)
        start = time.perf_counter()
        sum(1 for line in lines if PEER.search(line.text))
        theirs.append(time.perf_counter() - start)
    if diagnosis.root_cause is None or diagnosis.root_cause.rank != 131:
        raise AssertionError("the failure was not found")
    own, peer = statistics.median(mine), statistics.median(theirs)
    ratio = own / peer
    measured = f"diagnosis of {len(lines):,} lines {own:.2f} s, one search {peer:.2f} s"
    print(f"{measured}: ratio {ratio:.2f} (bound {BOUND})")
    return 0 if ratio <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
