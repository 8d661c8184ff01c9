"""Command lines that start trainings, read without running them."""

from __future__ import annotations

import pytest

from launcher.source.start_line import read_start_line


@pytest.mark.parametrize(
    "text", ["echo torchrun train.py", "pip install torchrun", "python -m venv x", "python -c 'x'", ""]
)
def test_other_commands_start_nothing(text: str) -> None:
    assert read_start_line(text) is None


@pytest.mark.parametrize(
    ("text", "place", "file"),
    [
        ("torchrun --nnodes 2 --master_addr host-1 train.py", "host-1", None),
        ("torchrun --rdzv_endpoint=host-1:29500 train.py", "host-1:29500", None),
        ("accelerate launch --config_file a.yaml --main_process_ip host-1 train.py", "host-1", "a.yaml"),
        ("torchrun --standalone train.py", None, None),
    ],
)
def test_where_the_ranks_meet_and_what_configures_them(
    text: str, place: str | None, file: str | None
) -> None:
    start = read_start_line(text)
    assert start is not None
    assert (start.meets_at and start.meets_at.text) == place
    assert (start.configuration and start.configuration.text) == file


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        ("torchrun --nproc_per_node=4 train.py", 4),
        ("accelerate launch --num_machines 2 --num_processes 16 train.py", 8),
        ("accelerate launch --num_machines 3 --num_processes 16 train.py", None),
        ("torchrun --nproc_per_node=gpu train.py", None),
    ],
)
def test_how_many_ranks_each_host_has(text: str, processes: int | None) -> None:
    start = read_start_line(text)
    assert start is not None
    assert start.processes_per_host == processes
