"""URIs, taken apart."""

from __future__ import annotations

import pytest

from launcher.text.uris import split_uri


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("s3://data/train/1", ("data", "train/1")),
        ("s3://data/", ("data", "")),
        ("s3://data", ("data", "")),
    ],
)
def test_a_uri_is_a_bucket_and_a_key(uri: str, parts: tuple[str, str]) -> None:
    assert split_uri(uri) == parts
