"""The matrix: each command, each of its calls, each fault, once and for good; a fork for each cell."""

from __future__ import annotations

import gc
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.attack.forks import in_forks
from tools.attack.matrix.account import attacked_account
from tools.attack.matrix.commands import COMMANDS, Command
from tools.attack.matrix.faults import FAULTS
from tools.attack.matrix.judging import complaints
from tools.attack.matrix.running import Attack, Run, run

LONGEST_SECONDS = 90.0
"""Of wall clock for one cell: no time is waited in it, so whatever takes so long hangs."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One command under one attack."""

    command: Command
    attack: Attack

    def __str__(self) -> str:
        how = "for good" if self.attack.for_good else "once"
        return f"{self.command.name} / {self.attack.call} / {self.attack.fault.name} / {how}"


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell with what is wrong with its run; nothing is, where `wrong` is empty."""

    cell: Cell
    wrong: Sequence[str]
    exit_code: int | None
    seconds: float
    """Virtual seconds until the command ended."""
    printed: str


def all_cells(healthy: Mapping[str, Run]) -> list[Cell]:
    """Every cell of the matrix, from the calls that each healthy command made."""
    return [
        Cell(command, Attack(call, fault, for_good))
        for command in COMMANDS
        for call in calls_of(command, healthy)
        for fault in FAULTS
        for for_good in (False, True)
    ]


def calls_of(command: Command, healthy: Mapping[str, Run]) -> list[str]:
    """The calls of a healthy command at which it is attacked, each once."""
    elsewhere = healthy[command.repeats].calls if command.repeats else ()
    return [call for call in dict.fromkeys(healthy[command.name].calls) if call not in elsewhere]


def sampled(cells: Sequence[Cell], number: int, seed: int) -> list[Cell]:
    """Some of the cells, spread evenly over the commands, always the same for a seed."""
    chosen = random.Random(seed)
    by_command = {cell.command.name: [c for c in cells if c.command is cell.command] for cell in cells}
    share = number // len(by_command)
    return [cell for own in by_command.values() for cell in chosen.sample(own, min(share, len(own)))]


def healthy_runs(folder: Path) -> dict[str, Run]:
    """Every command without a fault, by its name; the first run also loads what the others then have."""
    found = {}
    with attacked_account(folder) as attacked:
        for command in COMMANDS:
            found[command.name] = run(attacked, command)
    return found


def attacked_cells(
    number: int | None = None, *, seed: int = 0, also: Sequence[str] = (), at_once: int = 2
) -> Iterator[Judged]:
    """Run the cells, or a sample of so many and the first whose text holds each of `also`; judge each."""
    with tempfile.TemporaryDirectory(prefix="slipway-attack-") as one:
        healthy = healthy_runs(Path(one))
    cells = all_cells(healthy)
    if number is not None:
        named = [next(cell for cell in cells if text in str(cell)) for text in also]
        cells = list(dict.fromkeys([*sampled(cells, number, seed), *named]))
    # What is there by now is there for good: collecting it in every fork would copy it.
    gc.collect()
    gc.freeze()
    with (
        tempfile.TemporaryDirectory(prefix="slipway-attack-") as two,
        attacked_account(Path(two)) as attacked,
    ):

        def work(cell: Cell) -> dict[str, object]:
            return run(attacked, cell.command, cell.attack).to_json()

        for ended in in_forks(cells, work, at_once=at_once, seconds=LONGEST_SECONDS):
            cell = ended.task
            if ended.trouble is not None:
                yield Judged(cell, [ended.trouble], None, ended.seconds, "")
                continue
            seen = Run(**ended.answer)
            wrong = list(complaints(cell.command, cell.attack, healthy[cell.command.name], seen))
            yield Judged(cell, wrong, seen.exit_code, seen.seconds, seen.printed)
