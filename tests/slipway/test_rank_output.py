"""What torchrun's ranks print is passed on with their marks, and without the values of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from slipway.masking import Masking
from slipway.rank_output import RankOutput

VALUE = "hf_planted0123456789"


class Ranks:
    """The files of two local ranks of the second of two hosts, and whoever passes them on."""

    def __init__(self, logs: Path) -> None:
        self._folder = logs / "none_x" / "attempt_0"
        for rank in ("0", "1"):
            (self._folder / rank).mkdir(parents=True)
        self.output = RankOutput(logs, Masking([VALUE]), 2, clock=count().__next__)

    def prints(self, rank: int, text: bytes, stream: str = "stdout") -> None:
        with (self._folder / str(rank) / f"{stream}.log").open("ab") as file:
            file.write(text)
        self.output.pass_on(0)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    made = Ranks(tmp_path)
    yield made
    made.output.finish()


def test_lines_have_the_mark_of_their_rank_and_go_to_their_stream(
    ranks: Ranks, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks.prints(0, b"one\ntwo\n")
    ranks.prints(1, b"three\n", stream="stderr")
    printed = capsys.readouterr()
    assert printed.out == "[rank2]:one\n[rank2]:two\n"
    assert printed.err == "[rank3]:three\n"


def test_a_value_that_comes_in_pieces_between_those_of_another_rank_is_hidden(
    ranks: Ranks, capsys: pytest.CaptureFixture[str]
) -> None:
    for letter in VALUE:
        ranks.prints(0, letter.encode())
        ranks.prints(1, letter.encode())
    ranks.prints(0, b"\n")
    ranks.prints(1, b"\n")
    printed = capsys.readouterr().out
    assert VALUE not in printed.replace("[rank2]:", "").replace("[rank3]:", "")
    assert printed.count("***") == 2


def test_long_lines_of_two_ranks_stay_apart(ranks: Ranks, capsys: pytest.CaptureFixture[str]) -> None:
    line = b"x" * 100_000 + VALUE.encode() + b"y" * 100_000 + b"\n"
    ranks.prints(0, line)
    ranks.prints(1, line)
    wanted = "x" * 100_000 + "***" + "y" * 100_000 + "\n"
    assert capsys.readouterr().out == f"[rank2]:{wanted}[rank3]:{wanted}"


def test_a_progress_bar_is_shown_before_its_line_ends_and_marked_once(
    ranks: Ranks, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks.prints(0, b"10%")
    ranks.output.pass_on(0)
    ranks.prints(0, b" done\n")
    assert capsys.readouterr().out == "[rank2]:10% done\n"


def test_what_was_held_back_comes_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = Ranks(tmp_path)
    ranks.prints(0, b"hf_pl")
    ranks.output.finish()
    assert capsys.readouterr().out == "[rank2]:hf_pl"
