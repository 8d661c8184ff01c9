"""Pickles of plain values are read as Python reads them, and nothing else is."""

from __future__ import annotations

import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.evidence import plain_pickle
from launcher.diagnosis.evidence.plain_pickle import read_plain_pickle
from tests.diagnosis.evidence.recorders import RECORDED

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.text(max_size=9)
    | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.lists(inner, min_size=1, max_size=5).map(tuple)
    ),
    max_leaves=8,
)
DUMPS = [file.read_bytes() for file in sorted(RECORDED.glob("*/rank_*"))]


@pytest.mark.few_cases("2", "5")
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@given(value=PLAIN)
def test_plain_values_come_back(protocol: int, value: Any) -> None:
    assert read_plain_pickle(pickle.dumps(value, protocol)) == value


def test_recorded_dumps_are_read_as_python_reads_them() -> None:
    assert DUMPS
    for content in DUMPS:
        assert read_plain_pickle(content) == pickle.loads(content)


class Runs:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_what_would_call_something_is_refused_before_it_does(tmp_path: Path, protocol: int) -> None:
    file = tmp_path / "made"
    content = pickle.dumps({"entries": [Runs(file)]}, protocol)
    with pytest.raises(ValueError, match="plain value"):
        read_plain_pickle(content)
    assert not file.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00true\x85R.",
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Pname\n.",
        b"\x80\x02}q\x00b.",
        b"\x80\x02K\x01r\xff\xff\xff\xff",
        b"\x80\x02j\xff\xff\xff\xff.",
        b"\x80\x02\x8b\xff\xff\xff\x7f",
        b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".",
        b"\x80\x02X\xff\xff\xff\xffa.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
        b"\x80\x02}(K\x01K\x02u.",
        b"\x80\x02}(K\x01\x85K\x02u.",
        b"\x80\x02}u.",
        b"\x80\x02e.",
        b"\x80\x02\x86.",
        b"\x80\x02",
        b"",
    ],
)
def test_hostile_and_torn_ones_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_plain_pickle(content)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("content", [b"\x80\x02" + b"]" * 2_000_000, b"\x80\x02(" + b"}" * 2_000_000])
def test_a_pickle_of_containers_takes_no_memory_out_of_proportion(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plain_pickle._MOST_CONTAINERS == 2_000_000  # A tenth of them is tried, in a tenth of the memory.
    monkeypatch.setattr(plain_pickle, "_MOST_CONTAINERS", 200_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more values"):
            read_plain_pickle(content)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_number_in_the_memo_may_be_any_without_taking_memory() -> None:
    assert read_plain_pickle(b"\x80\x02K\x07r" + struct.pack("<I", 2**32 - 1) + b".") == 7


@given(content=st.sampled_from(DUMPS), data=st.data())
def test_a_broken_dump_is_read_or_refused(content: bytes, data: st.DataObject) -> None:
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 5))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_plain_pickle(bytes(changed))
    except ValueError:
        return


@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        read_plain_pickle(b"\x80\x02" + content)
    except ValueError:
        return
