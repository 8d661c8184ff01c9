"""The manifest's reader: gives back what was written, and refuses in a sentence what is anything else."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.saving.stored_checkpoints import (
    BadManifest,
    CheckpointFile,
    CheckpointManifest,
    is_safe_name,
    parse_manifest,
)

DIGEST = "0123456789abcdef" * 4
GOOD: dict[str, Any] = {
    "format": 1,
    "step": 12,
    "world_size": 2,
    "files": [{"name": "shards/__0_0.distcp", "bytes": 7, "sha256": DIGEST, "host": "algo-1"}],
    "position": {"epoch": 1},
    "made_by": {"torch": "2.7.1"},
}

names = st.from_regex(r"[a-z0-9_]{1,9}(/[a-z0-9_][a-z0-9_.]{0,9}){0,2}", fullmatch=True)
files = st.builds(
    CheckpointFile,
    name=names,
    bytes=st.integers(0, 2**50),
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    host=st.from_regex(r"algo-[0-9]{1,3}", fullmatch=True),
)
manifests = st.builds(
    CheckpointManifest,
    step=st.integers(0, 10**12 - 1),
    world_size=st.integers(1, 1_000_000),
    files=st.lists(files, min_size=1, max_size=4, unique_by=lambda file: file.name).map(tuple),
    position=st.none() | st.dictionaries(st.text(max_size=5), st.integers(-5, 10**15), max_size=3),
    made_by=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30)
@given(manifests)
def test_what_was_written_is_read_again(manifest: CheckpointManifest) -> None:
    assert parse_manifest(manifest.to_json()) == manifest


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_refused(content: bytes) -> None:
    with pytest.raises(BadManifest):
        parse_manifest(content)


@given(st.sampled_from(sorted(GOOD)), anything)
def test_any_value_of_any_field_is_read_or_refused(field: str, value: Any) -> None:
    read_or_refused({**GOOD, field: value})


@given(st.sampled_from(["name", "bytes", "sha256", "host"]), anything)
def test_any_value_of_a_files_field_is_read_or_refused(field: str, value: Any) -> None:
    read_or_refused({**GOOD, "files": [{**GOOD["files"][0], field: value}]})


def read_or_refused(content: dict[str, Any]) -> None:
    try:
        manifest = parse_manifest(json.dumps(content))
    except BadManifest as error:
        assert str(error)
    else:
        assert all(is_safe_name(file.name) and file.bytes >= 0 for file in manifest.files)


@given(st.text(max_size=30) | st.from_regex(r"[a-z./\\]{1,12}", fullmatch=True))
def test_a_safe_name_stays_below_its_folder(name: str) -> None:
    if is_safe_name(name):
        path = PurePosixPath("/folder") / name
        assert ".." not in path.parts and path.is_relative_to("/folder") and "\\" not in name


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a//b",
        "",
        ".",
        "a/.",
        "a\\b",
        "a\0b",
        "C:x",
        "a" * 200,
        "manifest.json",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BadManifest, match=r"name below|names itself"):
        parse_manifest(json.dumps({**GOOD, "files": [{**GOOD["files"][0], "name": name}]}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "too deeply|not JSON"),
        ('{"step": ' * 50_000 + "1" + "}" * 50_000, "too deeply"),
        ('{"format": 1, "step": ' + "9" * 1_000_000 + "}", "1000000 digits"),
        ('{"format": NaN}', "NaN is not a number"),
        (" " * (32 * 1024 * 1024 + 1), "bytes, more than"),
        (json.dumps({**GOOD, "format": 2}), "format is 2, not 1"),
        (json.dumps({**GOOD, "format": True}), "format is True, not 1"),
        (json.dumps({**GOOD, "step": -1}), "step is -1"),
        (json.dumps({**GOOD, "world_size": True}), "world_size is True"),
        (json.dumps({**GOOD, "files": []}), "names no files"),
        (json.dumps({**GOOD, "files": GOOD["files"] * 2}), "a file twice"),
        (json.dumps({**GOOD, "files": GOOD["files"] * 100_001}), "100001 files"),
        (json.dumps({**GOOD, "files": [{**GOOD["files"][0], "bytes": 2**60}]}), "size of shards"),
        (json.dumps({**GOOD, "files": [{**GOOD["files"][0], "sha256": "A" * 64}]}), "64 hexadecimal"),
        (json.dumps({**GOOD, "files": [{**GOOD["files"][0], "host": "a b"}]}), "no host's name"),
    ],
    ids=range(16),
)  # fmt: skip
def test_what_is_no_manifest_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadManifest, match=why):
        parse_manifest(text)
