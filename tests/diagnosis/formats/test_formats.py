"""Every format that log services and drivers write gives the lines that are in it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.formats import compression
from launcher.diagnosis.formats.blocks import LONGEST_RAW_LINE, headed, lines_of
from launcher.diagnosis.formats.compression import unpacked
from launcher.diagnosis.formats.detection import format_of
from launcher.diagnosis.formats.event import Event, seconds, within
from launcher.diagnosis.formats.order import MOST_TURNED
from launcher.diagnosis.formats.text import as_text
from launcher.diagnosis.formats.unreadable import Unreadable
from launcher.session.log_files import logs_in
from tests.logs.cases import log_case

START = 1_763_719_200
STREAM = "train-a/algo-2-1763719000"


def read(content: bytes, *, size: int = 1 << 18) -> list[Event]:
    """The events in some bytes, which come in blocks of that size; of text those without a time."""
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    head, _ = headed(unpacked(blocks))
    form = format_of(headed(as_text([head]))[0])
    text = as_text(unpacked(blocks))
    if form.as_events is not None:
        return list(form.as_events(text))
    return [Event(None, "", line) for line in lines_of(form.as_text(text))]


def texts(content: bytes, *, size: int = 1 << 18) -> list[str]:
    return [event.text for event in read(content, size=size)]


def stamp(number: int) -> str:
    return f"2025-11-21 {10 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000"


def get_log_events(lines: Sequence[str]) -> str:
    events = [
        {"timestamp": (START + n) * 1000, "message": line, "ingestionTime": 1} for n, line in enumerate(lines)
    ]
    return json.dumps({"events": events, "nextForwardToken": "f/1", "nextBackwardToken": "b/1"}, indent=4)


def filter_log_events(lines: Sequence[str]) -> str:
    events = [
        {"logStreamName": STREAM, "timestamp": (START + n) * 1000, "message": line, "eventId": "3" * 56}
        for n, line in enumerate(lines)
    ]
    return json.dumps({"events": events, "searchedLogStreams": []})


def jq_lines(lines: Sequence[str]) -> str:
    events = [{"timestamp": (START + n) * 1000, "message": line} for n, line in enumerate(lines)]
    return "\n".join(map(json.dumps, events))


def query_results(lines: Sequence[str]) -> str:
    rows = [
        [{"field": "@timestamp", "value": stamp(n)}, {"field": "@message", "value": line}, {"field": "@ptr"}]
        for n, line in enumerate(lines)
    ]
    return json.dumps({"queryLanguage": "CWLI", "results": rows, "status": "Complete"}, indent=4)


def console_json(lines: Sequence[str]) -> str:
    rows = [{"@timestamp": stamp(n), "@message": line} for n, line in enumerate(lines)]
    return json.dumps(rows[::-1])


def insights_csv(lines: Sequence[str]) -> str:
    rows = [[stamp(n), line, STREAM] for n, line in enumerate(lines)]
    return as_csv([["@timestamp", "@message", "@logStream"], *rows[::-1]])


def console_csv(lines: Sequence[str]) -> str:
    rows = [[str((START + n) * 1000), line] for n, line in enumerate(lines)]
    return as_csv([["timestamp", "message"], *rows])


def as_csv(rows: Sequence[Sequence[str]]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


def cli_text(lines: Sequence[str]) -> str:
    return "".join(f"EVENTS\t1763719300000\t{line}\t{(START + n) * 1000}\n" for n, line in enumerate(lines))


def cli_text_of_a_filter(lines: Sequence[str]) -> str:
    return "".join(
        f"EVENTS\t{'3' * 56}\t1763719300000\t{STREAM}\t{line}\t{(START + n) * 1000}\n"
        for n, line in enumerate(lines)
    )


def dockers(lines: Sequence[str]) -> str:
    return "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"2025-11-21T10:00:00.{n:09}Z"}) + "\n"
        for n, line in enumerate(lines)
    )


FORMATS = [
    get_log_events,
    filter_log_events,
    jq_lines,
    query_results,
    console_json,
    insights_csv,
    console_csv,
    cli_text,
    cli_text_of_a_filter,
    dockers,
]
WITH_STREAMS = (filter_log_events, insights_csv, cli_text_of_a_filter)
FAILURE = [
    "step 1, loss 2.5",
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "/opt/ml/code/train.py", line 4, in <module>',
    '[rank3]:     raise ValueError("bad, \\"learning\\" rate")',
    '[rank3]: ValueError: bad, "learning" rate \u20ac',
]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("size", [1, 7, 1 << 18])
def test_the_lines_are_read_with_times_and_streams(form: Callable[[Sequence[str]], str], size: int) -> None:
    events = read(form(FAILURE).encode(), size=size)
    assert [event.text.rstrip("\n") for event in events] == FAILURE
    assert events[0].time is not None
    assert [event.time for event in events] == sorted(event.time or 0 for event in events)
    assert events[0].stream == (STREAM if form in WITH_STREAMS else "")


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("number", ["027", "036", "084", "120", "209"])
def test_a_log_is_diagnosed_the_same_in_every_format(
    form: Callable[[Sequence[str]], str], number: str, tmp_path: Path
) -> None:
    lines = log_case(number).text.splitlines()
    (tmp_path / "plain.log").write_text("\n".join(lines))
    (tmp_path / "written").write_text(form(lines))
    told = []
    for name in ("plain.log", "written"):
        files = logs_in([tmp_path / name])
        root = diagnose(files.records, streams=files.streams).root_cause
        told.append(root and (root.finding.code, root.rank, root.finding.message.split(": ")[-1]))
    assert told[0] == told[1]


def test_a_document_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = get_log_events(FAILURE)
    cut = whole[: whole.index("ValueError: bad")]
    found = texts(cut.encode())
    assert found[: len(FAILURE) - 1] == FAILURE[:-1]
    assert any('"[rank3]: ' in text for text in found[len(FAILURE) - 1 :]), "the torn rest is not lost"


def test_pages_put_together_are_one_log() -> None:
    assert texts((get_log_events(FAILURE) + "\n" + get_log_events(FAILURE)).encode()) == FAILURE * 2


def test_lines_that_docker_cut_are_put_together() -> None:
    pieces = [("ab", "stdout"), ("other\n", "stderr"), ("cd\n", "stdout"), ("end", "stdout")]
    log = "\n".join(json.dumps({"log": log, "stream": stream, "time": ""}) for log, stream in pieces)
    assert texts(log.encode()) == ["other", "abcd", "end"]


def test_newest_first_is_turned_round_and_a_traceback_of_one_instant_is_not() -> None:
    rows = [["@timestamp", "@message"], [stamp(9), "last"], *([stamp(5), line] for line in FAILURE[1:])]
    rows.append([stamp(1), FAILURE[0]])
    assert texts(as_csv(rows).encode()) == [*FAILURE, "last"]
    reversed_rows = [rows[0], rows[1], *rows[2:-1][::-1], rows[-1]]
    assert texts(as_csv(reversed_rows).encode()) == [*FAILURE, "last"]


def test_what_is_too_long_to_be_turned_round_is_refused() -> None:
    rows = [
        ["@timestamp", "@message"],
        *([str(START + MOST_TURNED + 1 - n), "x"] for n in range(MOST_TURNED + 1)),
    ]
    with pytest.raises(Unreadable, match="newest lines first"):
        texts(as_csv(rows).encode())


def test_the_message_of_a_structured_logger_is_the_line() -> None:
    trace = "\n".join(line.removeprefix("[rank3]: ") for line in FAILURE[1:])
    logged = [
        {"message": "step 1, loss 2.5", "level": "info", "ts": START},
        {"msg": "failed", "rank": 3, "exc_info": trace},
        {"event": "x", "local_rank": "1"},
    ]
    found = texts("\n".join(map(json.dumps, logged)).encode())
    assert found == ["step 1, loss 2.5", "\n".join(["[rank3]: failed", *FAILURE[1:]]), "[default1]:x"]
    assert texts(get_log_events([json.dumps(logged[1])]).encode()) == [found[1]], "inside of another one"
    assert within('[rank3]: {"message": "x"}') == "[rank3]: x"


@pytest.mark.parametrize(
    "line",
    ['{"loss": 2.5, "step": 1}', "{'message': 'x'}", '{"message": 5}', "{}", "a {b}", '{"a":' * 5000 + "}"],
)
def test_other_objects_stay_the_lines_that_they_are(line: str) -> None:
    assert texts(f"{line}\n{line}".encode()) == [line, line]


def test_lines_of_other_formats_between_objects_are_kept() -> None:
    log = "\n".join([json.dumps({"message": "a"}), "Killed", json.dumps({"message": "b"})])
    assert texts(log.encode()) == ["a", "Killed", "b"]


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"), ("utf-16-le", b""), ("utf-8", b"\xef\xbb\xbf")],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_encodings_and_ends_of_lines_make_no_difference(encoding: str, mark: bytes, ending: str) -> None:
    content = mark + ending.join(FAILURE).encode(encoding)
    assert texts(content) == texts(content, size=1) == FAILURE


def test_zeros_of_a_rotated_file_are_let_go() -> None:
    assert texts(bytes(300_000) + b"step 1\nstep\0 2") == ["step 1", "step 2"]


def test_an_endless_line_is_bounded() -> None:
    content = b"a\n" + b"x" * 10_000_000 + b"\nb\n" + b"y" * 100_000
    assert [len(text) for text in texts(content)] == [1, LONGEST_RAW_LINE, 1, LONGEST_RAW_LINE]
    assert texts(content, size=999) == texts(content)


def test_a_bomb_is_refused_before_it_has_gone_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_FREE", 1 << 20)
    for packed in (gzip.compress(b"x\n" * 4_000_000), zstandard.compress(b"x\n" * 4_000_000)):
        size = 0
        with pytest.raises(Unreadable, match="more than 250 times"):
            for block in unpacked([packed]):
                size += len(block)
        assert size < 3 << 20


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1763719200123, 1763719200.123),
        ("1763719200123", 1763719200.123),
        (1763719200.5, 1763719200.5),
        ("2025-11-21T10:00:00.5Z", 1763719200.5),
        ("2025-11-21 11:00:00,500+01:00", 1763719200.5),
        ("2025-11-21T10:00:00.500000000Z", 1763719200.5),
        ("yesterday", None),
        ("nan", None),
        (12, None),
        (None, None),
    ],
)
def test_times_are_read_as_they_are_written(value: str | float | None, expected: float | None) -> None:
    assert seconds(value) == expected


MADE = st.sampled_from([form(FAILURE).encode() for form in FORMATS])


@given(
    st.one_of(st.binary(max_size=300), MADE), st.binary(max_size=20), st.integers(0, 2000), st.integers(1, 99)
)
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused_the_same_wherever_they_are_cut(
    content: bytes, noise: bytes, at: int, size: int
) -> None:
    content = content[:at] + noise + content[at:]

    def told(size: int) -> list[str] | str:
        try:
            return texts(content, size=size)
        except Unreadable as error:
            return error.problem

    assert told(size) == told(1 << 18)
