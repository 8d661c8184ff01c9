"""Files of scripts that use no manager: they go once they are finished, and come back at a start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.uploads.folder import Folder
from slipway.uploads.plain import PlainFiles
from tests.slipway.uploads.disks import never, tree


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Host:
    """A host's folder of checkpoints, with what copies it."""

    def __init__(self, root: Path, name: str = "algo-1") -> None:
        self.disk, self.prefix, self.clock = root / name, root / "prefix", Clock()
        self.disk.mkdir()
        self.prefix.mkdir(exist_ok=True)
        self.files = PlainFiles(self.disk, Folder(self.prefix), seconds=5, clock=self.clock)

    def write(self, name: str, content: str, changed: int = 0) -> None:
        (self.disk / name).parent.mkdir(exist_ok=True)
        (self.disk / name).write_text(content)
        if changed:
            os.utime(self.disk / name, (changed, changed))

    def after(self, seconds: float) -> None:
        self.clock.now += seconds
        assert self.files.copy(never, ending=False) == {}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_finished_file_goes_and_one_that_changes_goes_again(host: Host) -> None:
    host.write("epoch-1/model.pt", "one", changed=1000)
    host.after(0)
    assert tree(host.prefix) == {}
    host.after(5)
    assert tree(host.prefix) == {"epoch-1/model.pt": b"one"}
    host.write("epoch-1/model.pt", "another", changed=2000)
    host.after(1)
    assert tree(host.prefix) == {"epoch-1/model.pt": b"one"}
    host.after(5)
    assert tree(host.prefix) == {"epoch-1/model.pt": b"another"}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open is read from /proc")
def test_an_open_file_waits_until_it_is_closed(host: Host) -> None:
    with (host.disk / "model.pt").open("wb") as file:
        file.write(b"half")
        file.flush()
        host.after(0)
        host.after(60)
        assert tree(host.prefix) == {}
        assert host.files.missing() == ["model.pt"]
    host.after(1)
    assert tree(host.prefix) == {"model.pt": b"half"}
    assert host.files.missing() == []


def test_at_the_end_nothing_waits_to_be_quiet(host: Host) -> None:
    host.write("model.pt", "x")
    host.files.copy(never, ending=True)
    assert tree(host.prefix) == {"model.pt": b"x"}


def test_what_the_script_deletes_goes_when_something_newer_is_there(host: Host) -> None:
    host.write("1.pt", "one", changed=1000)
    host.after(0)
    host.after(5)
    (host.disk / "1.pt").unlink()
    host.after(5)
    assert tree(host.prefix) == {"1.pt": b"one"}, "the only one is kept until there is another"
    host.write("2.pt", "two", changed=2000)
    host.after(5)
    host.after(5)
    assert tree(host.prefix) == {"2.pt": b"two"}


def test_what_another_host_has_put_under_the_same_name_stays(tmp_path: Path, host: Host) -> None:
    host.write("1.pt", "mine", changed=1000)
    host.write("2.pt", "mine", changed=2000)
    host.after(0)
    host.after(5)
    other = Host(tmp_path, "algo-2")
    other.write("1.pt", "theirs", changed=1500)
    other.files.copy(never, ending=True)
    (host.disk / "1.pt").unlink()
    host.after(5)
    assert tree(host.prefix)["1.pt"] == b"theirs"


def test_a_start_gets_what_an_earlier_one_has_put_there_and_puts_none_of_it_again(
    tmp_path: Path, host: Host
) -> None:
    host.write("epoch-1/model.pt", "one", changed=1000)
    host.files.copy(never, ending=True)
    (host.prefix / "step-000000000001-0a1b2c3d").mkdir()
    (host.prefix / "step-000000000001-0a1b2c3d" / "model.pt").write_text("the manager's own")
    again = Host(tmp_path, "algo-2")
    assert again.files.bring() == 1
    assert tree(again.disk) == {"epoch-1/model.pt": b"one"}
    assert again.files.missing() == []
    assert again.files.bring() == 0


def test_names_that_lead_elsewhere_are_not_brought(host: Host) -> None:
    class Hostile(Folder):
        def sizes(self) -> dict[str, int]:
            return {"../outside.pt": 1, "/etc/passwd": 1, "a//b": 1, "good.pt": 1}

    (host.prefix / "good.pt").write_bytes(b"x")
    (host.prefix.parent / "outside.pt").write_bytes(b"x")
    files = PlainFiles(host.disk, Hostile(host.prefix))
    assert files.bring() == 1
    assert tree(host.disk) == {"good.pt": b"x"}


def test_more_than_the_disk_holds_is_not_brought(host: Host) -> None:
    class Endless(Folder):
        def sizes(self) -> dict[str, int]:
            return {"model.pt": 2**60}

    with pytest.raises(ValueError, match=r"1152921504606846976 bytes, and .* `resources.volume_size_gb`"):
        PlainFiles(host.disk, Endless(host.prefix)).bring()
    assert tree(host.disk) == {}


def test_what_cannot_be_copied_is_named_and_still_missing(host: Host) -> None:
    host.write("model.pt", "x")
    host.prefix.rmdir()
    host.prefix.write_text("a file where the folder was")
    failed = host.files.copy(never, ending=True)
    assert isinstance(failed["model.pt"], OSError)
    assert host.files.missing() == ["model.pt"]
