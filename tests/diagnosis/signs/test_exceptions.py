"""Exceptions and stacks that no row knows: cut ones, those of downloads, and where ranks stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis, Verdict

STACK = (
    '  File "<frozen runpy>", line 88, in _run_code',
    '  File "/opt/ml/code/train.py", line 121, in <module>',
    "    main(parse_arguments())",
    '  File "/opt/ml/code/train.py", line 45, in main',
    "    model = build(",
    "            ^^^^^^",
)
TO_RENDEZVOUS = (
    "Traceback (most recent call last):",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/run.py", line 892, in run',
    "    elastic_launch(",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/'
    'static_tcp_rendezvous.py", line 66, in next_rendezvous',
    "    self._store = TCPStore(",
)


def diagnosis(*lines: str) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line, "algo-1") for line in lines])


def of_rank(rank: int, lines: Sequence[str]) -> list[str]:
    return [f"[rank{rank}]:{line}" for line in lines]


@pytest.mark.parametrize("torn", [[], ["    )"], ["Valu"]])
def test_a_log_that_ends_within_a_stack_tells_that_and_where_an_exception_was_raised(torn: list[str]) -> None:
    found = diagnosis("loading the model", *STACK, *torn)
    assert found.verdict is Verdict.FAILED
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "CODE001"
    assert "an exception, of which the log has only the stack" in found.root_cause.finding.message
    assert "train.py:45" in found.root_cause.finding.message


def test_the_rank_is_that_of_the_stack_among_the_lines_of_others() -> None:
    mixed = [line for pair in zip(of_rank(1, STACK), ["[rank0]:loading"] * 6, strict=True) for line in pair]
    found = diagnosis(*mixed)
    assert found.root_cause is not None
    assert found.root_cause.finding.subject == "rank 1"


@pytest.mark.parametrize(
    "before", ["Stack (most recent call last):", "Thread 0x7f12 (most recent call first):"]
)
def test_a_stack_that_is_printed_without_an_error_is_none(before: str) -> None:
    assert diagnosis("loading the model", before, *STACK).verdict is Verdict.UNKNOWN


def test_the_stacks_of_faulthandler_have_no_error() -> None:
    lines = [line.replace(", in ", " in ") for line in STACK]
    assert diagnosis("loading the model", *lines).verdict is Verdict.UNKNOWN


def test_what_comes_after_a_stack_shows_that_somebody_dealt_with_it() -> None:
    assert diagnosis(*STACK, "INFO retried", "INFO step 3 of 10").root_cause is None


def test_a_stack_of_an_earlier_start_is_history() -> None:
    again = "INFO torch.distributed.elastic.agent.server.api:[default] Restarting worker group"
    assert diagnosis(*of_rank(1, STACK), again, "[rank0]:loading").root_cause is None


def test_a_stack_with_its_header_is_told_once() -> None:
    found = diagnosis(*of_rank(1, ("Traceback (most recent call last):", *STACK)))
    assert [finding.message for finding in found.findings] == [
        "rank 1 on algo-1: an exception, of which the log has only the stack (train.py:45)"
    ]


def test_a_stack_with_its_header_before_training_went_on_was_survived() -> None:
    steps = [f"[rank0]:step {step} of 90 loss 2.1" for step in range(3, 9)]
    cut = of_rank(1, ("Traceback (most recent call last):", *STACK))
    assert diagnosis(*steps[:2], *cut, *steps[2:]).root_cause is None


@pytest.mark.parametrize("raised", ["ValueError: bad learning rate", "zipfile.BadZipFile: bad header"])
def test_an_exception_that_stands_there_is_told_rather_than_the_stack(raised: str) -> None:
    found = diagnosis("Traceback (most recent call last):", *STACK, raised)
    assert found.root_cause is not None
    assert found.root_cause.finding.message == f"algo-1: {raised} (train.py:45)"
    assert found.consequences == ()


def test_the_known_failure_of_another_rank_comes_first() -> None:
    found = diagnosis("[rank0]: torch.OutOfMemoryError: CUDA out of memory.", *of_rank(1, STACK))
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.finding.subject) == ("MEM001", "rank 0")


def test_a_stack_that_ends_where_hosts_meet_tells_that_they_did_not() -> None:
    found = diagnosis(*TO_RENDEZVOUS)
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "NCCL008"


ARCHIVE = "./data/MNIST/raw/train-images-idx3-ubyte.gz"
DOWNLOADS = f"Downloading http://example.com/mnist/train-images-idx3-ubyte.gz to {ARCHIVE}"
EXTRACTS = f"Extracting {ARCHIVE} to ./data/MNIST/raw"
STACK_downloads = (
    "Traceback (most recent call last):",
    '  File "/opt/ml/code/train.py", line 12, in <module>',
    '    data = datasets.MNIST("data", download=True)',
    '  File "/opt/conda/lib/python3.11/site-packages/torchvision/datasets/utils.py", line 395, in '
    "extract_archive",
    "    extractor(from_path, to_path, compression)",
)
TORN = [
    "EOFError: Compressed file ended before the end-of-stream marker was reached",
    "zipfile.BadZipFile: File is not a zip file",
    "gzip.BadGzipFile: Not a gzipped file (b'PK')",
    "tarfile.ReadError: unexpected end of data",
    "zlib.error: Error -3 while decompressing data: invalid block type",
    "FileExistsError: [Errno 17] File exists: './data/MNIST/raw'",
    "OSError: [Errno 39] Directory not empty: './data/MNIST/raw'",
    "RuntimeError: File not found or corrupted.",
]
MAY_BE_MISSING = "RuntimeError: Dataset not found or corrupted. You can use download=True to download it"


def diagnosis_downloads(lines: Iterable[str]) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line, "algo-1") for line in lines])


def code(lines: Iterable[str]) -> str | None:
    cause = diagnosis_downloads(lines).root_cause
    return None if cause is None else cause.finding.code


def raised(exception: str, rank: int | None = 1, stack: Iterable[str] = STACK_downloads) -> list[str]:
    return [f"[rank{rank}]:{line}" if rank is not None else line for line in (*stack, exception)]


@pytest.mark.parametrize("exception", TORN)
def test_an_archive_that_is_not_whole_was_being_written_by_another_rank(exception: str) -> None:
    found = diagnosis_downloads(raised(exception))
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.finding.subject) == ("DATA009", "rank 1")
    said = f"rank 1 on algo-1: {exception.rstrip('.')}: another rank was writing the same files (train.py:12)"
    assert found.root_cause.finding.message == said


@pytest.mark.parametrize("exception", [*TORN, MAY_BE_MISSING])
def test_a_process_that_may_be_alone_raised_it_for_a_reason_of_its_own(exception: str) -> None:
    assert code(raised(exception, 0)) == "CODE001"
    assert code(raised(exception, None)) == "CODE001"


@pytest.mark.parametrize("exception", [*TORN, MAY_BE_MISSING])
@pytest.mark.parametrize("begins", [DOWNLOADS, EXTRACTS])
@pytest.mark.parametrize("prefixes", [("", ""), ("[rank0]:", "[rank1]:")])
def test_two_who_begin_with_one_archive_are_several(
    exception: str, begins: str, prefixes: tuple[str, str]
) -> None:
    assert code([prefix + begins for prefix in prefixes] + raised(exception, None)) == "DATA009"


def test_one_that_begins_twice_is_still_one() -> None:
    assert code([f"[rank0]:{DOWNLOADS}"] * 2 + raised(TORN[0], 0)) == "CODE001"


def test_the_size_of_the_world_tells_of_others() -> None:
    assert code(["[rank0]:world size: 8", *raised(TORN[0], 0)]) == "DATA009"


def test_data_that_is_not_there_need_not_be_torn() -> None:
    assert code(raised(MAY_BE_MISSING, 1)) == "CODE001"


def test_what_another_part_of_the_script_cannot_read_is_its_own() -> None:
    stack = (
        STACK_downloads[0],
        '  File "/opt/ml/code/train.py", line 30, in read_config',
        "    json.load(file)",
    )
    assert code(raised("EOFError: no data", 1, stack)) == "CODE001"


def test_the_log_knows_more_of_an_exception_than_the_boot_that_reports_it() -> None:
    lines = [Record(None, "algo-1", line, "algo-1") for line in raised(TORN[1])]
    found = diagnose(lines, f"CODE001 rank 1 on algo-1: {TORN[1]} (train.py:12)")
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "DATA009"
    assert found.root_cause.finding.message.startswith(f"rank 1 on algo-1: {TORN[1]}: another rank was")
    of_another = diagnose(lines, f"CODE001 rank 2 on algo-1: {TORN[1]} (train.py:12)")
    assert of_another.root_cause is not None
    assert of_another.root_cause.finding.code == "CODE001"


FAULT = 'Thread 0x00007f1 (most recent call first):\n  File "{file}", line {line} in {function}\n'
PYSPY = 'Thread 4711 (active): "MainThread"\n    {function} ({file}:{line})\n'
USERS = '  File "/opt/ml/code/train.py", line {} in main'
OF_PYSPY = "    main (/opt/ml/code/train.py:{})"
WAITS = {
    "file": "/x/site-packages/torch/distributed/distributed_c10d.py",
    "line": 2501,
    "function": "all_reduce",
}
READS = {"file": "/opt/ml/code/data.py", "line": 31, "function": "read"}


def told(form: str, users: str, after: str = "", ranks: int = 4) -> Diagnosis:
    lines: list[Record] = []
    for rank in range(ranks):
        stack = form.format(**(READS if rank == 2 else WAITS)) + users.format(90)
        texts = [
            "step 1 loss 2",
            "step 2 loss 2",
            "Timeout (0:05:00)!",
            *stack.split("\n"),
            *after.split("\n"),
        ]
        lines += [Record(None, "algo-1", f"[rank{rank}]: {text}") for text in texts]
    return diagnose(lines)


@pytest.mark.parametrize(
    ("form", "users"), [(FAULT, USERS), (PYSPY, OF_PYSPY)], ids=["faulthandler", "py-spy"]
)
def test_the_rank_that_stands_elsewhere_than_those_that_wait_is_named(form: str, users: str) -> None:
    found = told(form, users)
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("NCCL004", 2)
    assert "data.py:31 in read" in found.root_cause.finding.message
    assert {row.rank: row.frame for row in found.ranks}[0] == "train.py:90 in main"


@pytest.mark.parametrize("after", ["step 3 loss 2", "Training finished"])
def test_what_goes_on_after_its_stacks_stands_nowhere(after: str) -> None:
    assert told(FAULT, USERS, after).verdict is Verdict.HEALTHY


def test_stacks_of_nobody_in_particular_name_nobody() -> None:
    lines = [Record(None, "", text) for text in (FAULT.format(**READS) + USERS.format(90)).split("\n")]
    assert diagnose(lines).root_cause is None
