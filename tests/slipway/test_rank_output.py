"""What torchrun's ranks print is passed on with their marks, kept, and without the values of secrets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slipway.masking import Masking
from slipway.rank_output import RankOutput
from slipway.ranks.printing import PIPES_VARIABLE, pipe_of

VALUE = "hf_planted0123456789"


class Ranks:
    """Two local ranks of the second of two hosts, and whoever passes on what they print."""

    def __init__(self, folder: Path, template: str = "[rank${rank}]:") -> None:
        self._pipes = folder / "pipes"
        self._pipes.mkdir()
        self.logs = folder / "logs"
        self.output = RankOutput(self._pipes, range(2, 4), self.logs, Masking([VALUE]), template)
        names = [(rank, stream) for rank in (0, 1) for stream in ("stdout", "stderr")]
        self._ends = {name: pipe_of(self._pipes, *name).open("wb", buffering=0) for name in names}

    def prints(self, rank: int, text: bytes, stream: str = "stdout") -> None:
        self._ends[rank, stream].write(text)

    def end(self) -> dict[int, str]:
        """What both printed on stderr."""
        for end in self._ends.values():
            end.close()
        return {rank: printed.stderr for rank, printed in self.output.end().items()}

    def run(self, local_rank: int, *command: str) -> int:
        """Let a process become this command, as torchrun does; its exit code."""
        environment = {PIPES_VARIABLE: str(self._pipes), "LOCAL_RANK": str(local_rank)}
        words = [sys.executable, "-m", "slipway.ranks.printing", *command]
        return subprocess.run(words, env=environment, check=False).returncode


def test_lines_have_the_mark_of_their_rank_and_go_to_their_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path)
    ranks.prints(0, b"one\ntwo\n")
    ranks.prints(1, b"three\n", stream="stderr")
    assert ranks.end() == {0: "", 1: "three\n"}
    printed = capsys.readouterr()
    assert printed.out == "[rank2]:one\n[rank2]:two\n"
    assert printed.err == "[rank3]:three\n"


def test_what_is_kept_has_a_file_for_each_stream_of_each_rank(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path)
    ranks.prints(0, b"one\n")
    ranks.prints(1, f"{VALUE}\n".encode(), stream="stderr")
    ranks.end()
    kept = {str(file.relative_to(ranks.logs)): file.read_text() for file in ranks.logs.rglob("*.log")}
    assert kept == {"rank-2/stdout.log": "one\n", "rank-3/stderr.log": "***\n"}


def test_a_value_that_comes_in_pieces_between_those_of_another_rank_is_hidden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path)
    for letter in VALUE:
        ranks.prints(0, letter.encode())
        ranks.prints(1, letter.encode())
    ranks.prints(0, b"\n")
    ranks.prints(1, b"\n")
    ranks.end()
    assert sorted(capsys.readouterr().out.splitlines()) == ["[rank2]:***", "[rank3]:***"]


def test_long_lines_of_two_ranks_stay_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = Ranks(tmp_path)
    line = b"x" * 100_000 + VALUE.encode() + b"y" * 100_000 + b"\n"
    ranks.prints(0, line)
    ranks.prints(1, line)
    ranks.end()
    wanted = "x" * 100_000 + "***" + "y" * 100_000
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[rank2]:{wanted}", f"[rank3]:{wanted}"]


def test_a_progress_bar_is_marked_at_its_beginnings_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path)
    ranks.prints(0, b"10%\r20%")
    ranks.prints(0, b" done\n")
    ranks.end()
    assert capsys.readouterr().out.replace("\r", "|") == "[rank2]:10%|[rank2]:20% done\n"


def test_what_was_held_back_comes_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = Ranks(tmp_path)
    ranks.prints(0, b"hf_pl")
    ranks.end()
    assert capsys.readouterr().out == "[rank2]:hf_pl"


def test_the_mark_is_the_one_that_was_asked_of_torchrun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path, "${role_name}/${local_rank} ${other} ")
    ranks.prints(1, b"here\n")
    ranks.end()
    assert capsys.readouterr().out == "default/1 ${other} here\n"


def test_a_process_becomes_the_ranks_program_and_prints_into_its_pipes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path)
    said = "import os, sys; print('out', *sys.argv[1:]); print('err', file=sys.stderr); sys.exit(7)"
    assert ranks.run(1, sys.executable, "-c", said, "--log", "a b") == 7
    assert ranks.end() == {0: "", 1: "err\n"}
    assert (ranks.logs / "rank-3" / "stdout.log").read_text() == "out --log a b\n"


def test_without_its_pipes_a_rank_runs_all_the_same_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ranks = Ranks(tmp_path)
    assert ranks.run(9, sys.executable, "-c", "print('here')") == 0
    printed = capfd.readouterr()
    assert printed.out == "here\n"
    assert printed.err.startswith("slipway: this rank's output has no mark: [Errno 2] No such file")
    ranks.end()
