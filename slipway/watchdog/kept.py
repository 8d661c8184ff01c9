"""The recorders' dumps of a stall, kept as PyTorch's analyzer reads them: `rank_N` in one folder a host.

The analyzer (torch.distributed.flight_recorder.fr_trace) wants the files of all hosts in one folder.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.watchdog.recording import group_ranks, read_dump

FOLDER = "flight_recorder"


def keep(dumps: Mapping[int, bytes], groups: Mapping[int, Mapping[str, Sequence[int]]], folder: Path) -> None:
    """Write the ranks' dumps, in place of earlier ones; where that fails it is said and no more.

    `groups` are the global ranks of each rank's groups, by their names, as it knows them.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank, content in dumps.items():
            (folder / f"rank_{rank}").write_bytes(with_groups(content, groups.get(rank, {})))
    except OSError as error:
        text = f"the flight recorder's dumps cannot be kept in {folder}: {error.strerror}"
        print(f"slipway: {text}", file=sys.stderr, flush=True)


def with_groups(content: bytes, groups: Mapping[str, Sequence[int]]) -> bytes:
    """A dump that says which ranks its groups have.

    NCCL's does. gloo's has one group without a name (torch 2.13), and the analyzer ends with a
    KeyError at the first collective.
    """
    try:
        dump = dict(read_dump(content))
    except ValueError:
        return content
    said = dict(each["process_group"] for each in dump["entries"] if "process_group" in each)
    if set(said) <= set(group_ranks(dump)) or not groups:
        return content
    dump["pg_config"] = {
        name: {"name": name, "desc": said.get(name, "undefined"), "ranks": str(list(ranks))}
        for name, ranks in groups.items()
    }
    return pickle.dumps(dump, protocol=2)
