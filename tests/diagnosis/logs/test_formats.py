"""Logs in every format that people save and copy them in: what is read, and what is refused."""

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
from launcher.diagnosis.logs import decode
from launcher.diagnosis.logs.decode import Unreadable, as_text, unpack
from launcher.diagnosis.logs.events import MOST_TURNED, Event, event_within, seconds
from launcher.diagnosis.logs.formats import format_of, join_lines, wrapping_width
from launcher.diagnosis.logs.lines import HEAD, LONGEST_RAW_LINE, Record, lines_of, parse, split_head
from launcher.session.log_files import logs_in
from tests.diagnosis.cases import cases
from tests.logs.cases import log_case

START = 1_763_719_200
STREAM = "train-a/algo-2-1763719000"


def read(content: bytes, *, size: int = 1 << 18) -> list[Event]:
    """The events in some bytes, which come in blocks of that size; of text those without a time."""
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    head, _ = split_head(unpack(blocks))
    form = format_of(split_head(as_text([head]))[0])
    text = as_text(unpack(blocks))
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
    assert event_within('[rank3]: {"message": "x"}') == "[rank3]: x"


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
    monkeypatch.setattr(decode, "_FREE", 1 << 20)
    for packed in (gzip.compress(b"x\n" * 4_000_000), zstandard.compress(b"x\n" * 4_000_000)):
        size = 0
        with pytest.raises(Unreadable, match="more than 250 times"):
            for block in unpack([packed]):
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


LOG = [
    "step 10 loss 2.1",
    "",
    "Traceback (most recent call last):",
    '  File "/opt/ml/code/train.py", line 3, in <module>',
    "    main()",
    "ValueError: bad value 7",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0",
    "the end",
]


def read_margins(lines: list[str]) -> list[str]:
    whole = "".join(f"{line}\n" for line in lines).encode()
    return b"".join(format_of(whole[:HEAD]).as_text([whole])).decode().splitlines()


MARGINS = {
    "indentation": "    {}",
    "a tab": "\t{}",
    "a quotation": "> {}",
    "a quotation in a quotation": "> > {}",
    "cat -n": "{n:6}\t{}",
    "an editor": "{n:4}  | {}",
    "grep -n": "{n}:{}",
    "grep -H": "logs/train.log:{}",
    "grep -Hn": "logs/train.log:{n}:{}",
    "a service": "stderr: {}",
    "GitHub's command line": "train\tRun it\t2026-11-21T10:00:00.1234567Z {}",
}


@pytest.mark.parametrize("name", MARGINS)
def test_a_margin_is_taken_off(name: str) -> None:
    covered = [MARGINS[name].format(line, n=number) for number, line in enumerate(LOG, 1)]
    assert [parse(line).text.rstrip() for line in read_margins(covered)] == LOG


@pytest.mark.parametrize("margin", ["> {}", "    {}"])
def test_what_stands_behind_it_may_have_any_format(margin: str) -> None:
    events = [
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-21T10:00:00Z"}) for line in LOG
    ]
    whole = "".join(f"{margin.format(line)}\n" for line in events).encode()
    found = format_of(whole)
    assert found.as_events is not None
    assert [each.text.rstrip("\n") for each in found.as_events([whole])] == LOG


@pytest.mark.parametrize(
    "lines",
    [
        LOG,
        ["3: x", "3: y", "7: z"],
        ["  a frame of a stack", "and what was raised"],
        ["> a quoted line", *LOG],
        ["INFO: step 1", "INFO: step 2", "INFO: step 3"],
        ["[rank0]: x", "[rank0]: y", "[rank0]: z"],
        ["\tsize mismatch for a.weight: x", "\tsize mismatch for b.weight: y"],
    ],
    ids=[
        "nothing before it",
        "numbers that do not count lines",
        "some are indented",
        "one is quoted",
        "levels",
        "ranks",
        "items of a list without its heading",
    ],
)
def test_what_is_no_margin_stays(lines: list[str]) -> None:
    assert read_margins(lines) == lines


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
        if wrapping_width(paste) != width:
            continue
        found += 1
        again = b"".join(join_lines(["\n".join(paste).encode()], width)).decode()
        # A line that is as long as the terminal is wide cannot be told from one that goes on.
        if not any(len(line) and len(line) % width == 0 for line in text.splitlines()):
            assert again.splitlines() == text.splitlines()
    assert found >= 0.8 * candidates > 0


def test_no_log_as_it_was_printed_is_called_wrapped() -> None:
    assert [name for name, text in LOGS.items() if wrapping_width(text.splitlines()) is not None] == []


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
    assert wrapping_width(lines) is None


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


PLACE = "/opt/ml/code/train.py"
TRACEBACK = (
    f"Traceback (most recent call last):\n  File \"{PLACE}\", line 9, in main\n    load()\nKeyError: 'label'"
)
FRAMES = [{"filename": PLACE, "lineno": 9, "name": "main", "locals": {"token": "hunter2"}}]
DICT = [
    {"exc_type": "KeyError", "exc_value": "'label'", "exc_notes": [], "is_cause": False, "frames": FRAMES}
]


@pytest.mark.parametrize(
    "written",
    [
        {"text": f"2026-08-20 10:00:00.1 | ERROR | __main__:main:9 - failed\n{TRACEBACK}\n", "record": {}},
        {"event": "failed", "level": "error", "timestamp": "2026-08-20T10:00:00Z", "exception": TRACEBACK},
        {"event": "failed", "level": "error", "exception": DICT},
        {"asctime": "2026-08-20 10:00:00", "levelname": "ERROR", "message": "failed", "exc_info": TRACEBACK},
    ],
    ids=["loguru", "structlog", "structlog's dict_tracebacks", "python-json-logger"],
)
def test_the_exception_in_an_object_is_the_root_cause(written: dict[str, object]) -> None:
    lines = ["starting", json.dumps(written | {"rank": 3})]
    cause = diagnose([Record(1000.0 + n, "algo-1", text) for n, text in enumerate(lines)]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("CODE001", 3)
    assert "KeyError: 'label' (train.py:9)" in cause.finding.message


@pytest.mark.parametrize(
    "exception", [[], [{}], [{"exc_type": 1}], {"exc_type": "E"}, [{"exc_type": "E"}], 7]
)
def test_other_shapes_beside_a_message_are_left_out(exception: object) -> None:
    line = json.dumps({"event": "step 1 loss 2", "exception": exception})
    assert diagnose([Record(None, "", line)]).root_cause is None


def test_the_variables_of_a_frame_are_told_to_nobody() -> None:
    line = json.dumps({"event": "failed", "exception": DICT})
    assert "hunter2" not in json.dumps(diagnose([Record(None, "", line)]).to_json())


STEPS = [f"{rank:2}: step {step}" for step in range(3) for rank in range(12)]


def read_task_labels(lines: list[str]) -> list[str]:
    content = "\n".join(lines).encode()
    return list(lines_of(format_of(content).as_text([content])))


def test_the_task_is_the_rank() -> None:
    lines = [
        parse(line)
        for line in read_task_labels([*STEPS, "11: ValueError: x", "srun: error: node-7: task 11: Exited"])
    ]
    assert (lines[11].rank, lines[11].text) == (11, "step 0")
    assert (lines[-2].rank, lines[-2].text) == (11, "ValueError: x")
    assert lines[-1].rank is None


def test_the_task_is_a_node_where_it_starts_torchrun() -> None:
    late = read_task_labels([*STEPS, "1: [default3]:ValueError: x", "1: ValueError: y"])
    assert [(parse(line).rank, parse(line).host) for line in late[-2:]] == [(None, "task-1")] * 2
    started = read_task_labels(
        [f"{node}: Setting OMP_NUM_THREADS environment variable" for node in (0, 1)] + STEPS
    )
    assert {parse(line).rank for line in started} == {None}


@pytest.mark.parametrize(
    "lines",
    [
        [*STEPS[:3], *["text without a label"] * 9],
        ["3: x"] * 9,
    ],
    ids=["some lines", "no first task"],
)
def test_other_numbers_before_lines_are_left_alone(lines: list[str]) -> None:
    assert read_task_labels(lines) == lines


DESCRIBED = """\
Name:             trainer-{pod}
Namespace:        train
Containers:
  pytorch:
    State:          Terminated
      Reason:       {reason}
      Exit Code:    {code}
    Restart Count:  0
"""


def read_pod_descriptions(text: str) -> list[Record]:
    content = text.encode()
    lines = lines_of(format_of(content).as_text([content]))
    return [Record(None, "describe.txt", line) for line in lines]


def test_a_pod_that_crashed_is_named_with_its_signal() -> None:
    cause = diagnose(read_pod_descriptions(DESCRIBED.format(pod=2, reason="Error", code=139))).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("CODE004", "trainer-2")


def test_of_several_pods_the_one_that_was_killed_is_named() -> None:
    text = DESCRIBED.format(pod=0, reason="Completed", code=0) + "\n\n"
    cause = diagnose(
        read_pod_descriptions(text + DESCRIBED.format(pod=1, reason="OOMKilled", code=137))
    ).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("MEM002", "trainer-1")


def test_a_name_alone_makes_no_description() -> None:
    assert [each.text for each in read_pod_descriptions("Name:    trainer-0\nstep 1 loss 2\n")] == [
        "Name:    trainer-0",
        "step 1 loss 2",
    ]
