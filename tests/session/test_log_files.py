"""Files, folders, archives and standard input as logs: what is taken, what it is called, what is refused."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zipfile
from pathlib import Path

import pytest
import zstandard

from launcher.diagnosis.logs.lines import lines_of
from launcher.failure_modes.model import Refusal
from launcher.session.log_files import logs_in


def lines_in(*paths: Path, stdin: bytes | None = None) -> list[tuple[str, str]]:
    """Host and text of every line."""
    files = logs_in(list(paths), io.BytesIO(stdin) if stdin is not None else None)
    records = [(record.host, record.text) for record in files.records]
    return records + [(stream.host, line) for stream in files.streams for line in lines_of(stream.blocks)]


def texts_in(*paths: Path, stdin: bytes | None = None) -> list[str]:
    return [text for _, text in lines_in(*paths, stdin=stdin)]


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_hosts_are_known_by_the_names_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "hosts" / "algo-2").mkdir(parents=True)
    (tmp_path / "hosts" / "algo-2" / "log").write_text("a\n")
    (tmp_path / "job-algo-1-1724.log").write_text("b\n")
    (tmp_path / "model.pt").write_bytes(b"\0")
    assert lines_in(tmp_path) == [("algo-2", "a"), ("algo-1", "b")]


def test_several_files_without_hosts_are_told_apart_by_name(tmp_path: Path) -> None:
    for name in ("left.log", "right.log"):
        (tmp_path / name).write_text("x")
    assert lines_in(tmp_path) == [("left.log", "x"), ("right.log", "x")]
    assert lines_in(tmp_path / "left.log") == [("", "x")]


def test_streams_of_one_name_are_kept_apart_with_what_their_paths_tell(tmp_path: Path) -> None:
    for place in ("attempt_0/0", "attempt_0/1", "attempt_1/1"):
        (tmp_path / "none_abc" / place).mkdir(parents=True)
        (tmp_path / "none_abc" / place / "stderr.log").write_text(f"{place}\n")
    (tmp_path / "rank_12.log").write_text("x\n")
    found = [(each.host, each.rank, each.local_rank) for each in logs_in([tmp_path]).streams]
    assert found == [
        ("0/stderr.log", None, 0),
        ("attempt_0/1/stderr.log", None, 1),
        ("attempt_1/1/stderr.log", None, 1),
        ("rank_12.log", 12, None),
    ]
    assert len({each.name for each in logs_in([tmp_path]).streams}) == 4


def test_an_export_to_s3_is_one_stream_for_each_folder(tmp_path: Path) -> None:
    for host in (1, 2):
        folder = tmp_path / "5f3c" / f"train-a-algo-{host}-1763724000"
        folder.mkdir(parents=True)
        for number in range(2):
            line = f"2026-11-21T10:00:0{number}.000Z {host}.{number}\n"
            (folder / f"{number:06}.gz").write_bytes(gzip.compress(line.encode()))
    streams = list(logs_in([tmp_path]).streams)
    assert [stream.host for stream in streams] == ["algo-1", "algo-2"]
    assert [line[-3:] for line in lines_of(logs_in([tmp_path]).streams.__next__().blocks)] == ["1.0", "1.1"]


@pytest.mark.parametrize("name", ["a.log.gz", "a.log.zst", "a.zip", "plain"])
def test_what_is_packed_is_unpacked(tmp_path: Path, name: str) -> None:
    file, text = tmp_path / name, b"step 1\nstep 2\n"
    if name.endswith("gz"):
        file.write_bytes(gzip.compress(text[:7]) + gzip.compress(text[7:]) + bytes(2))
    elif name.endswith("zst"):
        file.write_bytes(zstandard.compress(text[:7]) + zstandard.compress(text[7:]))
    elif name.endswith("zip"):
        zipped(file, {"logs/a.log.gz": gzip.compress(text), "logs/notes.md": b"no"})
    else:
        file.write_bytes(text)
    assert texts_in(file) == texts_in(tmp_path) == ["step 1", "step 2"]
    if name != "a.zip":
        assert texts_in(Path("-"), stdin=file.read_bytes()) == ["step 1", "step 2"]


def test_a_folder_is_searched_for_what_holds_log_lines(tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text('{"events": [{"timestamp": 1763719200000, "message": "a"}]}')
    (tmp_path / "config.json").write_text('{"message": 5, "events": 3}')
    (tmp_path / "losses.csv").write_text("step,loss\n1,2\n")
    (tmp_path / "rows.csv").write_text("@timestamp,@message\n2026-11-21 10:00:00.000,b\n")
    (tmp_path / "weights").write_bytes(os.urandom(5000))
    assert texts_in(tmp_path) == ["a", "b"]
    assert texts_in(tmp_path / "config.json") == ['{"message": 5, "events": 3}'], "named, it is read"


def test_a_part_that_is_cut_off_does_not_run_into_the_next_line(tmp_path: Path) -> None:
    cut = gzip.compress(b"step 1\nste" + os.urandom(4000).hex().encode())
    (tmp_path / "000000.gz").write_bytes(cut[: len(cut) - 900])
    (tmp_path / "000001.gz").write_bytes(gzip.compress(b"step 9\n"))
    texts = texts_in(tmp_path)
    assert (texts[0], texts[-1]) == ("step 1", "step 9")


def test_bytes_that_are_no_utf8_do_not_hide_their_line() -> None:
    (text,) = texts_in(Path("-"), stdin=b"\xff\xfe loss\r\n")
    assert text.endswith(" loss")


def test_a_file_that_is_no_log_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"\x80\x02}q\x00" + bytes(range(1, 200)))
    with pytest.raises(Refusal, match=r"trace is a Python pickle, in which no log can be read. Name the log"):
        logs_in([tmp_path / "trace"])
    with pytest.raises(Refusal, match="trace is a Python pickle"):
        logs_in([tmp_path])
    with pytest.raises(Refusal, match="standard input is a binary file"):
        logs_in([Path("-")], io.BytesIO(os.urandom(5000)))
    (tmp_path / "steps.log").write_text("step 1")
    assert texts_in(tmp_path) == ["step 1"]


def test_an_archive_is_hostile(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("passwords.log")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped(tmp_path / "links.zip", {"../../outside.log": b"step 1\n"})
    with zipfile.ZipFile(tmp_path / "links.zip", "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert texts_in(tmp_path / "links.zip") == ["step 1"], "nothing is opened by a name of its"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["links.zip"]
    with pytest.raises(Refusal, match="without logs in it"):
        logs_in([zipped(tmp_path / "none.zip", {"a.md": b"x"})])
    with pytest.raises(Refusal, match="more than 10000 files"):
        logs_in([zipped(tmp_path / "many.zip", {f"{number}.log": b"" for number in range(10_001)})])
    with pytest.raises(Refusal, match="packed in a way that is not read"):
        logs_in([zipped(tmp_path / "lzma.zip", {"a.log": b"x"}, zipfile.ZIP_LZMA)])
    whole = (tmp_path / "links.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:-30])
    with pytest.raises(Refusal, match="damaged"):
        logs_in([tmp_path / "cut.zip"])
    with pytest.raises(Refusal, match="not read from a pipe"):
        logs_in([Path("-")], io.BytesIO(whole))


def test_a_damaged_file_is_refused_where_the_damage_is(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(300_000).hex().encode()))
    packed[-6] ^= 1
    (tmp_path / "a.log.gz").write_bytes(packed)
    with pytest.raises(Refusal, match=r"a\.log\.gz is packed with gzip and damaged"):
        lines_in(tmp_path / "a.log.gz")


def test_what_is_not_a_regular_file_is_refused_or_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(Refusal, match=r"pipe\.log cannot be read: it is a pipe"):
        logs_in([tmp_path / "pipe.log"])
    (tmp_path / "a.log").write_text("step 1")
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    assert texts_in(tmp_path) == ["step 1"]


def test_logs_are_found_however_deep_their_folder_is(tmp_path: Path, deepest_folder: Path) -> None:
    (deepest_folder / "deep.log").write_text("step 1")
    assert texts_in(tmp_path) == ["step 1"]


def test_an_empty_folder_and_what_is_not_there_are_refused(tmp_path: Path) -> None:
    for path, said in ((tmp_path, None), (tmp_path / "absent.log", None), (Path("x" * 10_000), "too long")):
        with pytest.raises(Refusal, match=said):
            logs_in([path])


def test_what_the_log_itself_is_called_never_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refusal:
        logs_in([zipped(tmp_path / "a.zip", {"\x1b[2J.log": os.urandom(5000)})])
    assert "\x1b" not in refusal.value.message


def test_the_folder_of_a_host_with_torchruns_logs_is_the_host(tmp_path: Path) -> None:
    for host in ("gpu-1", "gpu-2"):
        for name in ("none_x7/attempt_0/0/stderr.log", "agent.log"):
            path = tmp_path / host / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("step 1 loss 2\n")
    hosts = sorted((each.host, each.local_rank is None) for each in logs_in([tmp_path]).streams)
    assert hosts == [("gpu-1", False), ("gpu-1", True), ("gpu-2", False), ("gpu-2", True)]
