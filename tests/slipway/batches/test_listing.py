"""Which files a folder has, in which order, and where two lists part."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.batches.listing import difference, files_in, fingerprint, odd_ones


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return folder


def names(folder: Path, pattern: str = "*") -> list[str]:
    return [path for path, _ in files_in(folder, pattern)]


def test_files_are_sorted_by_the_bytes_of_their_paths(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.txt", "ä.txt", "B.txt", "a.txt", "a/b/c.txt", "10.txt", "9.txt")
    assert names(tmp_path) == [
        "10.txt", "9.txt", "B.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt", "ä.txt",
    ]  # fmt: skip


def test_a_pattern_is_for_the_name_or_with_a_slash_for_the_path(tmp_path: Path) -> None:
    fill(tmp_path, "a/x.tar", "b/x.tar", "b/x.txt", "x.tar")
    assert names(tmp_path, "*.tar") == ["a/x.tar", "b/x.tar", "x.tar"]
    assert names(tmp_path, "b/*.tar") == ["b/x.tar"]


def test_what_begins_with_a_dot_is_left_out(tmp_path: Path) -> None:
    assert names(fill(tmp_path, ".nfs01", ".cache/x.tar", "x.tar")) == ["x.tar"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", "x.tar")
    folder = fill(tmp_path / "train", "a.tar")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "b.tar").symlink_to(tmp_path / "elsewhere" / "x.tar")
    (folder / "again").symlink_to(folder)
    assert files_in(folder, "*") == [("a.tar", 5), ("b.tar", 5), ("linked/x.tar", 5)]


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.tar").symlink_to(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"x\.tar is a link that leads nowhere"):
        files_in(tmp_path, "*")


def test_a_name_that_is_no_text_is_listed(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.tar")).touch()
    assert [os.fsencode(path) for path, _ in files_in(tmp_path, "*.tar")] == [b"\xff.tar"]


ENTRIES = st.lists(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 9)), unique=True, max_size=8)


@given(ENTRIES, ENTRIES)
def test_only_equal_lists_have_one_fingerprint(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    def printable(entries: list[tuple[str, int]]) -> list[tuple[str, int]]:
        return [(path.encode("ascii", "ignore").decode().replace("\0", ""), size) for path, size in entries]

    one, other = printable(one), printable(other)
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
def test_the_odd_ones_are_fewer_than_the_rest_or_no_more(prints: list[str]) -> None:
    odd = odd_ones(prints)
    usual = {prints[position] for position in range(len(prints)) if position not in odd}
    assert len(usual) == 1
    assert all(prints[position] not in usual for position in odd)
    assert all(prints.count(prints[position]) <= prints.count(*usual) for position in odd)


@pytest.mark.parametrize(
    ("usual", "odd", "words"),
    [
        (("a", 1), ("b", 1), "it lacks a"),
        (("b", 1), ("a", 1), "it alone has a"),
        (("a", 1), ("a", 2000), "a has 2,000 bytes there and 1 elsewhere"),
        (("a", 1), None, "it lacks a"),
        (None, ("a", 1), "it alone has a"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told_in_words(
    usual: tuple[str, int] | None, odd: tuple[str, int] | None, words: str
) -> None:
    assert difference(usual, odd) == words
