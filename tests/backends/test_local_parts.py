"""Parts of the local backend that need no processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.local import logs
from launcher.backends.local.files import Host
from launcher.backends.local.job import HostEnd, failure_reason
from launcher.backends.local.layout import debugging_here, share_devices, share_threads
from launcher.backends.local.logs import LogClock, Position, read_lines
from launcher.planning.request_view import RequestView
from launcher.text.regular_files import open_regular


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "algo-1").mkdir()
    host = Host("algo-1", tmp_path / "algo-1")
    host.log.touch()
    return host


def write(host: Host, text: bytes) -> None:
    with host.log.open("ab") as log:
        log.write(text)


def test_lines_come_once_and_only_when_they_are_whole(host: Host) -> None:
    write(host, b"one\ntw")
    lines, position = read_lines(host, Position(), to_the_end=False)
    assert [line.text for line in lines] == ["one"]
    write(host, b"o\n\x1b[31mred\x1b[0m\n")
    lines, position = read_lines(host, Position.parse(str(position)), to_the_end=False)
    assert [line.text for line in lines] == ["two", "\x1b[31mred\x1b[0m"]
    assert read_lines(host, position, to_the_end=False)[0] == []


def test_the_rest_comes_at_the_end(host: Host) -> None:
    write(host, b"one\nbroken \xff")
    lines, position = read_lines(host, Position(), to_the_end=True)
    assert [line.text for line in lines] == ["one", "broken �"]
    assert read_lines(host, position, to_the_end=True)[0] == []


def test_each_line_has_the_time_at_which_it_was_first_seen(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = LogClock([host])
    for now, text in ((100.0, b"a\nb\n"), (105.0, b"c\nd"), (107.0, b"d\n")):
        write(host, text)
        monkeypatch.setattr("time.time", lambda now=now: now)
        clock.tick()
        clock.tick()
    lines, position = read_lines(host, Position(), to_the_end=False)
    assert [(line.text, line.time) for line in lines] == [("a", 100), ("b", 100), ("c", 105), ("dd", 107)]
    write(host, b"e\n")
    os.utime(host.log, (200, 200))
    lines, _ = read_lines(host, position, to_the_end=False)
    assert [(line.text, line.time) for line in lines] == [("e", 200)]


def test_what_was_left_out_is_said_in_one_line(host: Host) -> None:
    write(host, b"one\ntwo\n")
    (host.folder / "log-000000000001000").write_bytes(b"three\n")
    (host.folder / "log-000000000001006").write_bytes(b"four\nfi")
    position, found = Position(), []
    for _ in range(5):
        lines, position = read_lines(host, position, to_the_end=False)
        found += [line.text for line in lines]
    assert found == [
        "one",
        "two",
        "slipway: 992 bytes of this host's output are left out here",
        "three",
        "four",
    ]
    assert [line.text for line in read_lines(host, position, to_the_end=True)[0]] == ["fi"]


def test_following_goes_on_after_the_part_in_which_it_was_is_deleted(host: Host) -> None:
    write(host, b"one\n")
    older = host.folder / "log-000000000000004"
    older.write_bytes(b"two\nthree\n")
    _, position = read_lines(host, Position(), to_the_end=False)
    _, position = read_lines(host, Position.parse(str(position)), to_the_end=False)
    assert position.log == 14
    older.unlink()
    (host.folder / "log-000000000000100").write_bytes(b"four\n")
    lines, _ = read_lines(host, position, to_the_end=False)
    assert [line.text for line in lines] == [
        "slipway: 86 bytes of this host's output are left out here",
        "four",
    ]


def test_a_part_that_is_deleted_while_it_is_read_is_left_out(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(host, b"one\n")
    gone = host.folder / "log-000000000000004"
    gone.write_bytes(b"two\n")
    (host.folder / "log-000000000000008").write_bytes(b"three\n")

    def opened(file: Path) -> Any:
        gone.unlink(missing_ok=True)
        return open_regular(file)

    monkeypatch.setattr(logs, "open_regular", opened)
    lines, _ = read_lines(host, Position(4), to_the_end=False)
    assert [line.text for line in lines] == [
        "slipway: 4 bytes of this host's output are left out here",
        "three",
    ]


def test_the_times_go_on_over_all_parts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LogClock([host])
    monkeypatch.setattr("time.time", lambda: 100.0)
    write(host, b"one\n")
    clock.tick()
    monkeypatch.setattr("time.time", lambda: 105.0)
    (host.folder / "log-000000000000050").write_bytes(b"two\n")
    clock.tick()
    first, position = read_lines(host, Position(), to_the_end=False)
    second, _ = read_lines(host, position, to_the_end=False)
    assert [line.time for line in first + second] == [100, 105, 105]


def ended(host: Host, code: int, text: str | None, time: float) -> HostEnd:
    if text is not None:
        host.failure.parent.mkdir(parents=True)
        host.failure.write_text(text)
        os.utime(host.failure, (time, time))
    return HostEnd(host, code, time + 5)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ((1, "CODE001 a", 10.0), (1, "CODE001 b", 11.0), "AlgorithmError: CODE001 a, exit code: 1"),
        ((1, "NCCL006 a", 10.0), (2, "CODE001 b", 11.0), "AlgorithmError: CODE001 b, exit code: 2"),
        ((1, "NCCL006 a", 10.0), (1, "NCCL004 b", 11.0), "AlgorithmError: NCCL004 b, exit code: 1"),
        ((1, "NCCL006 a", 10.0), (143, None, 9.0), "AlgorithmError: NCCL006 a, exit code: 1"),
        ((0, None, 10.0), (137, "MEM002 b", 11.0), "AlgorithmError: MEM002 b, exit code: 137"),
        ((1, "NCCL006 a", 10.0), (-9, None, 9.0),
         "AlgorithmError: MEM002 algo-2: the boot was killed by SIGKILL: the usual reason is host memory, "
         "exit code: 137"),
    ],
)  # fmt: skip
def test_the_job_fails_for_its_first_cause(
    tmp_path: Path,
    first: tuple[int, str | None, float],
    second: tuple[int, str | None, float],
    reason: str,
) -> None:
    ends = [
        ended(Host(f"algo-{number}", tmp_path / f"algo-{number}"), *end)
        for number, end in enumerate((first, second), start=1)
    ]
    assert failure_reason(ends) == reason
    assert failure_reason(reversed(ends)) == reason


@pytest.mark.parametrize(
    ("devices", "hosts", "processes", "expected"),
    [
        ([], 2, 2, [None, None]),
        (["0", "1", "2", "3"], 2, 2, ["0,1", "2,3"]),
        (["0", "1", "2", "3"], 1, 1, ["0,1,2,3"]),
        (["0"], 2, 1, ["", ""]),
        (["0", "1"], 1, 4, [""]),
    ],
)
def test_gpus_are_shared_out_or_not_used_at_all(
    devices: list[str], hosts: int, processes: int, expected: list[str | None]
) -> None:
    shares = share_devices(devices, hosts, processes)
    assert [share.get("CUDA_VISIBLE_DEVICES") for share in shares] == expected


def test_ranks_share_the_threads_of_this_machine_and_not_those_of_the_jobs_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert share_threads(4, {}) == {"OMP_NUM_THREADS": "2"}
    assert share_threads(16, {}) == {"OMP_NUM_THREADS": "1"}


def test_the_users_number_of_threads_is_kept() -> None:
    assert share_threads(4, {"OMP_NUM_THREADS": "3"}) == {}


@pytest.mark.parametrize(
    ("planned", "devices", "given", "here"),
    [
        ("DETAIL", {}, {}, {"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
        ("DETAIL", {"CUDA_VISIBLE_DEVICES": ""}, {}, {"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
        ("DETAIL", {"CUDA_VISIBLE_DEVICES": "0,1"}, {}, {}),
        ("DETAIL", {}, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, {}),
        ("INFO", {}, {}, {}),
    ],
    ids=["no GPU", "GPUs left alone", "GPUs", "the user's own", "nothing to soften"],
)
def test_the_debugging_that_crashes_gloo_is_softened_on_hosts_without_gpus(
    planned: str, devices: dict[str, str], given: dict[str, str], here: dict[str, str]
) -> None:
    request = {"Environment": {"TORCH_DISTRIBUTED_DEBUG": planned}}
    assert debugging_here(RequestView(request), devices, given) == here
