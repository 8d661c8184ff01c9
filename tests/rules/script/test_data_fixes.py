"""What the fixes of the data rules write: the finding is gone, nothing else has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script.data import RULES
from launcher.scripts.edits import edited
from launcher.scripts.program import Program
from launcher.scripts.reading import read_program

START = """\
import glob, os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
rank, world_size = dist.get_rank(), dist.get_world_size()
"""


def findings(file: Path) -> list[Finding]:
    program = read_program(file)
    assert isinstance(program, Program)
    return [finding for rule in RULES for finding in rule(program)]


def fixed(file: Path, text: str) -> str:
    """The text after the one fix of its one finding, of which nothing is left then."""
    file.write_text(START + text)
    (finding,) = findings(file)
    assert finding.fix is not None
    assert finding.fix.safe
    file.write_bytes(edited(file.read_bytes(), finding.fix.edits))
    assert findings(file) == []
    return file.read_text().removeprefix(START)


EPOCHS = """\
sampler = DistributedSampler(dataset)  # shuffles
loader = DataLoader(dataset, sampler=sampler)
for epoch in range(90):
{}    for batch in loader:  # all of it
        model(batch).backward()
"""


def test_set_epoch_comes_at_the_head_of_the_epoch(tmp_path: Path) -> None:
    after = fixed(tmp_path / "train.py", EPOCHS.format(""))
    assert after == EPOCHS.format("    sampler.set_epoch(epoch)\n")


def test_set_epoch_reaches_a_sampler_of_the_module(tmp_path: Path) -> None:
    text = (
        "sampler = DistributedSampler(dataset)\nloader = DataLoader(dataset, sampler=sampler)\n"
        "def main():\n\tfor number in range(9):\n{}\t\tfor batch in loader: model(batch).backward()\nmain()\n"
    )
    after = fixed(tmp_path / "train.py", text.format(""))
    assert after == text.format("\t\tsampler.set_epoch(number)\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "loader = DataLoader(dataset, sampler=DistributedSampler(dataset))\n"
            "for epoch in range(9):\n    for batch in loader: model(batch).backward()",
            id="a sampler without a name",
        ),
        pytest.param(
            "if world_size > 1:\n    sampler = DistributedSampler(dataset)\nelse:\n    sampler = None\n"
            "loader = DataLoader(dataset, sampler=sampler)\n"
            "for epoch in range(9):\n    for batch in loader: model(batch).backward()",
            id="a sampler that may be None",
        ),
        pytest.param(
            "sampler = DistributedSampler(dataset)\nloader = DataLoader(dataset, sampler=sampler)\n"
            "for _ in range(9):\n    for batch in loader: model(batch).backward()",
            id="an epoch without a name",
        ),
        pytest.param(
            "mine = [e.path for e in os.scandir('d')][rank::world_size]", id="entries have no order"
        ),
    ],
)
def test_what_is_not_sure_to_be_right_is_not_fixed(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(START + text)
    assert [each.fix for each in findings(tmp_path / "train.py")] == [None]


def test_a_listing_is_sorted(tmp_path: Path) -> None:
    text = "mine = {}[rank::world_size]  # ours\n"
    after = fixed(tmp_path / "train.py", text.format("glob.glob('*.tar')"))
    assert after == text.format("sorted(glob.glob('*.tar'))")


def test_shuffle_is_dropped_beside_a_sampler(tmp_path: Path) -> None:
    text = (
        "sampler = DistributedSampler(dataset)\n"
        "loader = DataLoader(\n    dataset,{}\n    sampler=sampler,\n)\n"
    )
    assert fixed(tmp_path / "train.py", text.format("\n    shuffle=True,")) == text.format("")
