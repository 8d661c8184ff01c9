"""Files are read as what they are."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from launcher.text.regular_files import open_regular, read_regular, user_secret


def test_a_file_and_a_link_to_one_are_read_up_to_the_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcdef")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file", 4) == b"abcd"
    assert read_regular(tmp_path / "link", 10) == b"abcdef"


def test_what_is_not_a_regular_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening alone may do something: a pipe's writer goes on, a tape winds back."""
    monkeypatch.chdir(tmp_path)  # the name of a socket has at most 108 characters
    os.mkfifo("pipe")
    Path("folder").mkdir()
    Path("link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name, kind in {"pipe": "pipe", "folder": "folder", "link": "device", "socket": "socket"}.items():
            with pytest.raises(OSError, match=f"it is a {kind}") as refused:
                open_regular(tmp_path / name)
            assert refused.value.filename == str(tmp_path / name)


@pytest.mark.parametrize("name", ["missing", "x" * 10_000, "a\0b"])
def test_a_name_that_is_no_files_is_an_os_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"No such file|too long|null byte"):
        open_regular(tmp_path / name)


def test_a_users_secret_is_kept_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    secret = user_secret()
    assert len(secret) == 64 and user_secret() == secret
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
