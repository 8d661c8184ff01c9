"""Ranks killed at random instants, in saves too, and files damaged: does training end with the same bits?

`python -m tools.attack.real_ranks.checkpoint_kills --kills 200` trains on simulated hosts over gloo,
interrupts with SIGKILL, resumes, and compares the weights at the end with those of a run that nobody
interrupted. Every round is a fork of this process, which has imported torch already.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from slipway.saving.stored_checkpoints import files_present, stored_checkpoints
from tools import ROOT
from tools.attack.real_ranks.campaign import Tally, tell_kills

TRAINING = ROOT / "tests" / "slipway" / "saving" / "training.py"
RANKS_PER_HOST = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained: how the model is spread, over how many ranks by turns, and whose the disks are."""

    name: str
    kind: str
    worlds: tuple[int, ...]
    apart: bool

    def arguments(self, steps: int) -> list[str]:
        """Of the training script."""
        own = ["--ranks-per-host", str(RANKS_PER_HOST)] if self.apart else []
        return ["--steps", str(steps), "--every", "2", "--kind", self.kind, "--width", "64", "--tell", *own]


SETTINGS = (
    Setting("DDP, 2 hosts x 2 ranks, disks of their own", "ddp", (4,), apart=True),
    Setting("FSDP, 2 hosts x 2 ranks, disks of their own", "fsdp2", (4,), apart=True),
    Setting("DDP, one shared disk, 4, 2 and 3 ranks by turns", "ddp", (4, 2, 3), apart=False),
    Setting("FSDP, one shared disk, 4, 2 and 3 ranks by turns", "fsdp2", (4, 2, 3), apart=False),
)


def attack(kills: int, seed: int, folder: Path, steps: int) -> Tally:
    """So many interruptions, over all settings by turns."""
    tally, random = Tally(), Random(seed)
    round_ = 0
    while tally.counts["interruptions"] < kills:
        setting = SETTINGS[round_ % len(SETTINGS)]
        share = -(-(kills - tally.counts["interruptions"]) // max(1, len(SETTINGS) - round_))
        _train(setting, share, random, folder / str(round_), steps, tally)
        round_ += 1
        print(f"{setting.name}: {tally.counts['interruptions']} of {kills}", file=sys.stderr, flush=True)
    return tally


def _train(setting: Setting, kills: int, random: Random, folder: Path, steps: int, tally: Tally) -> None:
    """One training from its first step to its last, with up to so many interruptions on its way."""
    whole = _run(setting, setting.worlds[0], folder / "whole", steps)
    printed = ""
    for turn in range(kills):
        world = setting.worlds[turn % len(setting.worlds)]
        everybody = random.random() < 0.5
        ranks = list(range(world)) if everybody else [random.randrange(world)]
        # A save of this model takes some hundredths of a second: half of the kills fall into one.
        in_a_save = random.random() < 0.5
        kill = {
            "text": "saved" if in_a_save or turn == 0 or random.random() < 0.8 else "resumed",
            "seconds": random.uniform(0, 0.03 if in_a_save else 0.6),
            "signal": signal.SIGKILL,
            "ranks": ranks,
            "others": random.uniform(0, 0.3),
        }
        printed += _run(setting, world, folder / "killed", steps, kill)
        if "final" in printed:
            break
        tally.counts["interruptions"] += 1
        tally.counts["SIGKILLs"] += len(ranks)
        _damage(folder / "killed", random, tally)
    printed += _run(setting, setting.worlds[-1], folder / "killed", steps)
    tally.counts["resumes"] += printed.count("rank 0 resumed")
    tally.counts["trainings that ended"] += "final" in printed
    tally.counts["damaged checkpoints refused"] += printed.count("slipway: CKPT009 ")
    if _samples(printed) != _samples(whole):
        tally.wrong.append(f"{setting.name}: the samples of some step are others ({folder})")
    # Another number of ranks adds up in another order: the last bits differ, the samples must not.
    if len(setting.worlds) == 1 and _final(printed) != _final(whole):
        tally.wrong.append(f"{setting.name}: {_final(printed)} instead of {_final(whole)} ({folder})")
    if not _final(printed):
        tally.wrong.append(f"{setting.name}: did not end ({folder}): {printed[-1500:]}")


def _run(setting: Setting, world: int, folder: Path, steps: int, kill: dict[str, Any] | None = None) -> str:
    from tests.examples import forked_ranks

    return forked_ranks.run(str(TRAINING), world, str(folder), setting.arguments(steps), kill)


def _damage(folder: Path, random: Random, tally: Tally) -> None:
    """Now and then a file of the newest checkpoint is cut or has a bit flipped; one before it stays whole."""
    if random.random() > 0.25:
        return
    shelves = sorted(folder.glob("algo-*")) or [folder]
    whole = [
        one
        for one in stored_checkpoints(shelves[0])
        if one.manifest and _is_whole(one.name, one.manifest, shelves)
    ]
    if len(whole) < 2:
        return
    newest = [file for shelf in shelves for file in (shelf / whole[0].name).rglob("*")]
    file = random.choice(sorted(file for file in newest if file.suffix in (".pt", ".distcp")))
    if random.random() < 0.5:
        os.truncate(file, random.randrange(file.stat().st_size))
        tally.counts["files cut"] += 1
        return
    content = bytearray(file.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    file.write_bytes(content)
    tally.counts["bits flipped"] += 1


def _is_whole(name: str, manifest: Any, shelves: list[Path]) -> bool:
    there = {file for shelf in shelves for file in files_present(shelf / name, manifest.files)}
    return there == {entry.name for entry in manifest.files}


def _samples(printed: str) -> dict[int, set[int]]:
    taken: dict[int, set[int]] = {}
    for step, indices in re.findall(r"^step (\d+) ([\d ]+)$", printed, re.MULTILINE):
        taken.setdefault(int(step), set()).update(int(index) for index in indices.split())
    return taken


def _final(printed: str) -> str | None:
    found = re.findall(r"^final \d+ (\w{64})$", printed, re.MULTILINE)
    return found[-1] if found else None


if __name__ == "__main__":
    for module in ("_dynamo", "nn.parallel", "distributed.fsdp", "distributed.checkpoint"):
        importlib.import_module(f"torch.{module}")
    sys.exit(tell_kills(attack, kills=200, steps=600))
