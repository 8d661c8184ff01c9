"""What a terminal broke is joined, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.formats.wrapping import joined, width_of
from launcher.session.log_files import logs_in
from tests.diagnosis.cases import cases

LOGS = {case.name: case.text for case in cases()}


def wrapped(text: str, width: int) -> str:
    return "\n".join(
        line[at : at + width] for line in text.splitlines() for at in range(0, max(1, len(line)), width)
    )


@pytest.mark.parametrize("width", [80, 100, 118, 120, 160])
def test_pastes_are_joined_to_what_they_were(width: int) -> None:
    found, candidates = 0, 0
    for text in LOGS.values():
        paste = wrapped(text, width).splitlines()
        if sum(len(line) == width for line in paste) < 4:
            continue
        candidates += 1
        if width_of(paste) != width:
            continue
        found += 1
        again = b"".join(joined(["\n".join(paste).encode()], width)).decode()
        # A line that is as long as the terminal is wide cannot be told from one that goes on.
        if not any(len(line) and len(line) % width == 0 for line in text.splitlines()):
            assert again.splitlines() == text.splitlines()
    assert found >= 0.8 * candidates > 0


def test_no_log_as_it_was_printed_is_called_wrapped() -> None:
    assert [name for name, text in LOGS.items() if width_of(text.splitlines()) is not None] == []


@pytest.mark.parametrize(
    "lines",
    [
        [f"2025-11-21 10:00:{n:02} INFO step {n:06} loss 2.50 lr 0.00010 tokens/s 1234.5" for n in range(60)],
        ["=" * 80, "a title", "=" * 80, "text", "-" * 80, "more text", "=" * 80, "end"] * 9,
        [
            f"| {n:3}  N/A  {n * 7:9}  C   python train.py                             {n:6}MiB |".ljust(79)
            for n in range(9)
        ],
        [
            f"epoch {n:03} batch {n * 31 % 97:05} of 10000 loss {n % 7}.123456 accuracy 0.{n % 9}12345 ok"
            for n in range(70)
        ],
    ],
    ids=["logging", "rules", "nvidia-smi", "steps"],
)
def test_lines_of_one_length_by_their_format_are_left_alone(lines: list[str]) -> None:
    assert width_of(lines) is None


def test_a_wrapped_paste_is_diagnosed_as_the_log(tmp_path: Path) -> None:
    told = []
    for name, text in (
        ("a.log", LOGS["009"]),
        ("b.log", wrapped(LOGS["009"], 80)),
    ):
        (tmp_path / name).write_text(text)
        files = logs_in([tmp_path / name])
        root = diagnose(files.records, streams=files.streams).root_cause
        told.append(root and (root.finding.code, root.rank))
    assert told[0] == told[1] != None  # noqa: E711
