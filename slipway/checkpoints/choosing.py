"""Which checkpoint all ranks take: from what lies on each host's disk to the newest that is whole.

Pure: the hosts' surveys go in, candidates come out, and who verifies and sends which of their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.checkpoints.manifest import BadManifest, CheckpointFile, CheckpointManifest, parse_manifest
from slipway.checkpoints.shelf import folders, sizes, step_of, stored


@dataclass(frozen=True)
class Choice:
    """A checkpoint that has a manifest: `manifest`, or why it cannot be used in `reason`.

    `holders` says for each file on which hosts it lies with its size; none for one that the mirror has.
    """

    name: str
    manifest: CheckpointManifest | None
    reason: str | None
    holders: dict[str, list[str]]

    def lacking(self) -> list[CheckpointFile]:
        """The files that no host has."""
        files = self.manifest.files if self.manifest else ()
        return [entry for entry in files if not self.holders.get(entry.name)]


def survey(shelf: Path) -> list[dict[str, Any]]:
    """What lies on this host's disk, as JSON takes it: for `candidates`.

    Folders without a manifest too: a host that was killed may have its files and not yet the manifest.
    """
    read = {one.name: one for one in stored(shelf)}
    found = []
    for name in folders(shelf):
        one = read.get(name)
        text = one.manifest.to_json() if one and one.manifest else None
        reason = one.reason if one else None
        found.append({"name": name, "manifest": text, "reason": reason, "files": sizes(shelf / name)})
    return found


def candidates(
    surveys: Mapping[str, Sequence[Mapping[str, Any]]], mirrored: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The checkpoints in the order in which they are tried, the newest first, as JSON takes them.

    `surveys` are the hosts', `mirrored` the texts of the manifests that a mirror has, both by name.
    """
    texts = {name: text for name, text in mirrored.items() if step_of(name) is not None}
    reasons: dict[str, str] = {}
    for host, found in surveys.items():
        for one in found:
            name, text = one["name"], one["manifest"]
            if text is not None and texts.setdefault(name, text) != text:
                reasons[name] = f"the manifest on {host} is not that of the others"
    for host, found in surveys.items():
        for one in found:
            if one["reason"] is not None and one["name"] not in texts:
                reasons.setdefault(one["name"], f"{one['reason']} ({host})")
    ordered = sorted({*texts, *reasons}, key=lambda name: (step_of(name) or 0, name), reverse=True)
    return [
        {
            "name": name,
            "manifest": texts.get(name),
            "reason": reasons.get(name),
            "holders": _holders(name, texts.get(name), surveys),
            "mirrored": name in mirrored,
        }
        for name in ordered
    ]


def _holders(
    name: str, text: str | None, surveys: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, list[str]]:
    """For each file of a checkpoint the hosts on which it lies with its size."""
    try:
        files = parse_manifest(text).files if text is not None else ()
    except BadManifest:
        # Only a mirror's can be: it is refused, with the reason, when it is its turn.
        files = ()
    there = {host: one["files"] for host, found in surveys.items() for one in found if one["name"] == name}
    return {
        entry.name: [host for host, sizes in there.items() if sizes.get(entry.name) == entry.bytes]
        for entry in files
    }


def candidate(told: Mapping[str, Any]) -> Choice:
    """A candidate as all ranks were told of it, judged."""
    manifest, reason = None, told["reason"]
    if reason is None:
        try:
            manifest = parse_manifest(told["manifest"])
        except BadManifest as error:
            reason = str(error)
        else:
            if manifest.step != step_of(told["name"]):
                reason = f"the manifest is that of step {manifest.step}"
    one = Choice(told["name"], None if reason else manifest, reason, dict(told["holders"]))
    lacking = one.lacking()
    if lacking and not told["mirrored"]:
        first = lacking[0]
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        reason = f"{first.name}{more}, of {first.bytes} bytes, is whole on no host"
        return Choice(one.name, None, reason, one.holders)
    return one


def verifier(entry: CheckpointFile, index: int, holders: Sequence[str], hosts: Sequence[str]) -> int:
    """The rank that reads a file whole to verify it: one of a host that has it, a different one each time.

    `hosts` are the ranks' hosts by rank. A file that is fetched is verified where it was written, if that
    host is there, else on the first host.
    """
    host = home(entry, holders, hosts)
    ranks = [rank for rank, name in enumerate(hosts) if name == host]
    return ranks[index % len(ranks)]


def home(entry: CheckpointFile, holders: Sequence[str], hosts: Sequence[str]) -> str:
    """The host whose copy of a file is verified, and sent to others."""
    able = [host for host in holders if host in hosts] or list(hosts)
    return entry.host if entry.host in able else able[0]


def leader(hosts: Sequence[str], host: str) -> int:
    """The rank that acts for a host: its lowest one."""
    return list(hosts).index(host)


def transfers(
    lacks: Iterable[Sequence[str]], one: Choice, hosts: Sequence[str]
) -> list[tuple[str, int, list[int]]]:
    """What hosts send each other: file, the rank that sends it, the ranks that write it.

    `lacks` are the names of the files that each rank needs and its host has not, by rank.
    """
    wanted: dict[str, list[int]] = {}
    for rank, names in enumerate(lacks):
        for name in names:
            receivers = wanted.setdefault(name, [])
            first = leader(hosts, hosts[rank])
            if first not in receivers:
                receivers.append(first)
    files = {entry.name: entry for entry in one.manifest.files} if one.manifest else {}
    return [
        (name, leader(hosts, home(files[name], one.holders.get(name, ()), hosts)), sorted(receivers))
        for name, receivers in sorted(wanted.items())
    ]
