"""Data that several ranks of a host download or unpack into one folder."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.record import Record

ARCHIVE = "./data/MNIST/raw/train-images-idx3-ubyte.gz"
DOWNLOADS = f"Downloading http://example.com/mnist/train-images-idx3-ubyte.gz to {ARCHIVE}"
EXTRACTS = f"Extracting {ARCHIVE} to ./data/MNIST/raw"
STACK = (
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


def diagnosis(lines: Iterable[str]) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line, "algo-1") for line in lines])


def code(lines: Iterable[str]) -> str | None:
    cause = diagnosis(lines).root_cause
    return None if cause is None else cause.finding.code


def raised(exception: str, rank: int | None = 1, stack: Iterable[str] = STACK) -> list[str]:
    return [f"[rank{rank}]:{line}" if rank is not None else line for line in (*stack, exception)]


@pytest.mark.parametrize("exception", TORN)
def test_an_archive_that_is_not_whole_was_being_written_by_another_rank(exception: str) -> None:
    found = diagnosis(raised(exception))
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
    stack = (STACK[0], '  File "/opt/ml/code/train.py", line 30, in read_config', "    json.load(file)")
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
