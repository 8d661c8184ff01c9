"""What torchrun's ranks print is passed on with their marks, kept, and without the values of secrets."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.job_secrets import Masking
from slipway.processes.process_output import PARTS, KeptLog, PrintedLosses, RankOutput, Relay
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


def test_output_without_line_ends_is_passed_on_before_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it was collected, and searched again at every piece: 60 MB took half a minute of a processor."""
    lengths: list[int] = []

    def marked(_: Relay, text: bytes) -> bytes:
        lengths.append(len(text))
        return text

    monkeypatch.setattr(Relay, "_marked", marked)
    ranks = Ranks(tmp_path)
    for _ in range(160):
        ranks.prints(0, b"x" * 65536)
    ranks.end()
    assert sum(lengths) == 160 * 65536
    assert max(lengths) <= 2 * 1024 * 1024
    assert len(capsys.readouterr().out) == 160 * 65536


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


FIRST, LAST = 1000, 800


def parts(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}*"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "below" / "log"


def test_what_is_usual_is_kept_whole_in_one_file(file: Path) -> None:
    log = KeptLog(file, first=FIRST, last=LAST)
    log.write(b"one\n" * 100)
    log.write(b"two\n" * 100)
    log.close()
    assert parts(file) == [file]
    assert file.read_bytes() == b"one\n" * 100 + b"two\n" * 100


@pytest.mark.few_cases("64")
@pytest.mark.parametrize("chunk", [1, 7, 64, 5000])
def test_of_a_flood_the_beginning_and_the_end_are_kept_in_whole_lines(file: Path, chunk: int) -> None:
    told: list[str] = []
    log = KeptLog(file, first=FIRST, last=LAST, tell=told.append)
    stream = b"".join(b"line %d\n" % number for number in range(20_000 if chunk > 7 else 2_000))
    for start in range(0, len(stream), chunk):
        log.write(stream[start : start + chunk])
        assert sum(part.stat().st_size for part in parts(file)) <= FIRST + LAST + 3 * LAST // PARTS
    log.close()
    first, *later = parts(file)
    assert stream.startswith(first.read_bytes())
    assert first.stat().st_size > FIRST - 20
    end = b"".join(part.read_bytes() for part in later)
    assert stream.endswith(end)
    assert len(end) >= LAST
    for part in later:
        offset = int(part.name.rpartition("-")[2])
        assert stream[offset:].startswith(part.read_bytes())
        assert not part.stat().st_size or part.read_bytes().startswith(b"line ")
    assert len(told) == 1


def test_a_line_without_an_end_is_kept_within_the_same_bounds(file: Path) -> None:
    log = KeptLog(file, first=FIRST, last=LAST)
    for _ in range(1000):
        log.write(b"." * 999)
    assert sum(part.stat().st_size for part in parts(file)) <= FIRST + LAST + 3 * LAST // PARTS


def test_what_is_in_the_file_already_is_its_beginning(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"." * 990 + b"\n")
    log = KeptLog(file, first=FIRST, last=LAST)
    log.write(b"a line\n")
    log.write(b"another\n")
    log.write(b"a third\n")
    assert [part.name for part in parts(file)] == ["log", "log-000000000001006"]


def test_what_found_no_room_is_counted_and_said_when_there_is_room_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    log = KeptLog(file, tell=told.append)
    log.write(b"before\n")

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(log, "_put", full)
        log.write(b"12345\n")
        log.write(b"67890\n")
    log.write(b"after\n")
    assert file.read_bytes() == b"before\n\nslipway: 12 bytes of the output are missing here\nafter\n"
    assert told == [f"of the output not all can be kept in {file}: No space left on device"]


# The losses in what ranks print.


def told_of(*pieces: bytes, rank: int = 0) -> tuple[list[str], dict[int, str]]:
    """What is said of a rank that prints this, and which ranks' losses are lost in the end."""
    told: list[str] = []
    losses = PrintedLosses("algo-1", told.append)
    for piece in pieces:
        losses.read(rank, piece)
    return told, losses.lost()


@pytest.mark.parametrize(
    "line",
    [
        b"step 12 | train loss nan | lr 3.00e-04",
        b"{'loss': nan, 'grad_norm': nan, 'epoch': 0.1}",
        b'{"train/loss": "NaN", "step": 3}',
        b"Epoch 5: 10/32 [00:01<00:01, 35.1it/s, v_num=0, train_loss=nan]",
        b"loss: tensor(nan, device='cuda:0')",
        b"lm loss: inf | loss scale: 1.0 | grad norm: inf",
        b"Loss is -inf",
    ],
)
def test_a_loss_that_is_not_finite_is_told_the_second_time_and_only_once(line: bytes) -> None:
    assert told_of(line + b"\n") == ([], {0: line.decode()})
    told, lost = told_of(line + b"\n", line + b"\n" + line + b"\n")
    (only,) = told
    assert only == (
        "warning: NUM001 rank 0 on algo-1 prints a loss that is not finite, twice in a row: " + line.decode()
    )
    assert list(lost) == [0]


@pytest.mark.parametrize(
    "text",
    [
        b"loss nan\nloss 0.7\nloss nan\nloss 0.6\n",
        b"best loss inf\nbest loss inf\n",
        b"min_loss=inf best_val_loss: inf\n" * 3,
        b"loss info: nanoseconds\n" * 3,
        b"loss: 1.2 | loss_scale: inf\n" * 3,
        b"lossless inf\nthe losses of nan and inf are skipped\n" * 2,
        b"10/250 [00:01, loss=1, step=9]\r11/250 [00:01, loss=1, step=10]\n",
    ],
)
def test_what_recovers_or_is_no_loss_is_not_told(text: bytes) -> None:
    assert told_of(text) == ([], {})


def test_losses_are_told_apart_by_their_names() -> None:
    told, lost = told_of(b"train_loss 0.5 val_loss nan\n", b"train_loss 0.4 val_loss nan\n")
    assert len(told) == 1
    assert lost == {0: "train_loss 0.4 val_loss nan"}
