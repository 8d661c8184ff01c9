"""`slipway.sorted_inputs`: the files of a channel, in one order on all ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.agreement.group import SideGroup, host_name, named
from slipway.batches.listing import difference, files_in, fingerprint, odd_ones
from slipway.errors import SlipwayError


def sorted_inputs(where: str | os.PathLike[str], pattern: str = "*") -> list[str]:
    """The files of a channel or a folder whose names fit, sorted, the same list on all ranks.

    `where` is a channel's name ("train"), else a folder. Files in folders below it and behind links count.
    A pattern with a slash is for the whole path below it, else for the name. All ranks call it, and their
    lists are compared by names and sizes; those of a channel whose files are spread over the hosts
    (ShardedByS3Key) only within each host.

    Raises SlipwayError (DATA002) on all ranks where a list differs, with the host and the first name at
    odds; FileNotFoundError where there is no such channel or folder, where no file fits or where a link
    leads nowhere; where that is so on another rank, SlipwayError (NCCL006).
    """
    agreement = SideGroup()
    folder, entries, error = Path(), [], None
    try:
        folder = folder_of(where, os.environ)
        entries = files_in(folder, pattern)
        if not entries:
            raise FileNotFoundError(f"no file in {folder} fits {pattern!r}, so there is nothing to train on")
    except OSError as raised:
        error = raised
    spread = error is None and is_spread(where, os.environ)
    _compare(agreement, where, entries, error, spread)
    return [str(folder / path) for path, _ in entries]


def folder_of(where: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
    """The folder of a channel, by the environment that SageMaker gives, or else the folder itself.

    Raises FileNotFoundError with the channels that there are.
    """
    name = os.fspath(where)
    for spelled in (name.upper(), name.upper().replace("-", "_")):
        channel = environment.get(f"SM_CHANNEL_{spelled}")
        if channel:
            return Path(channel)
    if Path(name).is_dir():
        return Path(name)
    channels = sorted(key[len("SM_CHANNEL_") :] for key in environment if key.startswith("SM_CHANNEL_"))
    there = f"the job's channels are {', '.join(channels).lower()}" if channels else "the job has no channels"
    raise FileNotFoundError(f"{name} is neither a channel of this job nor a folder; {there}")


def is_spread(where: str | os.PathLike[str], environment: Mapping[str, str]) -> bool:
    """Whether each host has only a part of a channel's files, by what SageMaker wrote of the channels."""
    folder = environment.get("SM_INPUT_CONFIG_DIR")
    if not folder:
        return False
    try:
        channels: Any = json.loads((Path(folder) / "inputdataconfig.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    channel = channels.get(os.fspath(where)) if isinstance(channels, dict) else None
    return isinstance(channel, dict) and channel.get("S3DistributionType") == "ShardedByS3Key"


def _compare(
    agreement: SideGroup,
    where: str | os.PathLike[str],
    entries: list[tuple[str, int]],
    error: OSError | None,
    spread: bool,
) -> None:
    own = {
        "host": host_name(),
        "error": f"{type(error).__name__}: {error}"[:300] if error is not None else None,
        "files": len(entries),
        "hash": fingerprint(entries),
        "spread": spread,
    }
    all_ranks = agreement.gather(own)
    if error is not None:
        raise error
    failed = [rank for rank, one in enumerate(all_ranks) if one["error"]]
    if failed:
        first = all_ranks[failed[0]]
        raise SlipwayError(
            "NCCL006",
            f"{named(failed)} could not list {os.fspath(where)}, so this rank ends as well. Rank "
            f"{failed[0]} on {first['host']} raised {first['error']}",
        )
    hosts = sorted({one["host"] for one in all_ranks}) if all_ranks[0]["spread"] else [None]
    for host in hosts:
        members = [rank for rank, one in enumerate(all_ranks) if host in (None, one["host"])]
        odd = [members[position] for position in odd_ones([all_ranks[rank]["hash"] for rank in members])]
        if odd:
            usual = next(rank for rank in members if rank not in odd)
            _refuse(agreement, where, entries, all_ranks, usual, odd)


def _refuse(
    agreement: SideGroup,
    where: str | os.PathLike[str],
    entries: list[tuple[str, int]],
    all_ranks: list[dict[str, Any]],
    usual: int,
    odd: list[int],
) -> None:
    at = _first_difference(agreement, entries, all_ranks, usual, odd[0])
    there = agreement.gather(list(entries[at]) if at < len(entries) else None)
    sound, other = (tuple(one) if one is not None else None for one in (there[usual], there[odd[0]]))
    hosts = list(dict.fromkeys(all_ranks[rank]["host"] for rank in odd))
    others = f" (and so on {', '.join(hosts[1:9])})" if len(hosts) > 1 else ""
    raise SlipwayError(
        "DATA002",
        f"the files of {os.fspath(where)} on {hosts[0]} ({named(odd)}) are not those of the other hosts"
        f"{others}: {difference(sound, other)} ({all_ranks[odd[0]]['files']:,} files there, "
        f"{all_ranks[usual]['files']:,} on {all_ranks[usual]['host']}). Ranks would have trained on other "
        "files than they share out. Give all hosts the same data, and let nothing write into the folder",
    )


def _first_difference(
    agreement: SideGroup,
    entries: list[tuple[str, int]],
    all_ranks: list[dict[str, Any]],
    usual: int,
    odd: int,
) -> int:
    """The first position at which two ranks' lists differ, found by halves: lists may be long."""
    low, high = 0, min(all_ranks[usual]["files"], all_ranks[odd]["files"])
    while low < high:
        middle = (low + high + 1) // 2
        hashes = agreement.gather(fingerprint(entries[:middle]))
        if hashes[usual] == hashes[odd]:
            low = middle
        else:
            high = middle - 1
    return low
