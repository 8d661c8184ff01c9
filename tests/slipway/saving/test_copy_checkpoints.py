"""What of the folder of checkpoints is copied, and when: whole checkpoints and plain files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from slipway.container import Rendezvous
from slipway.host_assembly import Assembly
from slipway.saving.copy_checkpoints import (
    FileState,
    PlainFiles,
    Quiet,
    WholeCheckpoints,
    files_below,
    open_for_writing,
)
from slipway.saving.upload_places import Folder
from tests.slipway.saving.disks import delete, never, save, tree
from tests.slipway.test_host_assembly import container, two_free_ports


class Prefix(Folder):
    """A prefix that a test can let fail."""

    failing = False
    puts: list[str]

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.puts = []

    def put(self, files: Mapping[str, Path], until: Callable[[], bool]) -> dict[str, Exception]:
        if self.failing:
            return {name: OSError(28, "No space left on device", name) for name in files}
        self.puts += files
        return super().put(files, until)


class Job:
    """Some hosts with disks of their own, whose boots speak to each other."""

    def __init__(self, root: Path, hosts: int) -> None:
        rendezvous = Rendezvous("127.0.0.1", two_free_ports())
        self.prefix = root / "prefix"
        self.prefix.mkdir(exist_ok=True)
        self.disks = [root / f"disk-{number}" for number in range(hosts)]
        self.places = [Prefix(self.prefix) for _ in self.disks]
        self.assemblies = [Assembly(container(number, hosts), rendezvous, "job-1") for number in range(hosts)]
        self.hosts = self.started()

    def started(self) -> list[WholeCheckpoints]:
        return [
            WholeCheckpoints(disk, place, assembly)
            for disk, place, assembly in zip(self.disks, self.places, self.assemblies, strict=True)
        ]

    def rounds(self, times: int, *numbers: int) -> None:
        for _ in range(times):
            for number in numbers or range(len(self.hosts)):
                self.hosts[number].copy(never)

    def manifests(self) -> list[str]:
        return sorted(path.parent.name for path in self.prefix.glob("*/manifest.json"))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, 3)
    yield job
    for assembly in job.assemblies:
        assembly.close()


def test_each_host_copies_its_own_files_and_the_first_one_the_manifest_last(job: Job) -> None:
    name = save(5, *job.disks)
    job.rounds(1, 0, 1)
    assert sorted(tree(job.prefix)) == [f"{name}/rank-00001.pt", f"{name}/rank-00002.pt"]
    assert job.hosts[0].awaited_hosts() == ["algo-3"]
    job.rounds(1, 2, 0)
    assert job.manifests() == [name]
    assert tree(job.prefix) == {**tree(job.disks[0]), **tree(job.disks[1]), **tree(job.disks[2])}
    assert [place.puts for place in job.places] == [
        [f"{name}/rank-00001.pt", f"{name}/manifest.json"],
        [f"{name}/rank-00002.pt"],
        [f"{name}/rank-00003.pt"],
    ]
    assert not any(host.to_do() or host.missing() for host in job.hosts)


def test_a_checkpoint_of_which_a_host_failed_gets_no_manifest_until_it_succeeds(job: Job) -> None:
    name = save(5, *job.disks)
    job.places[1].failing = True
    job.rounds(3)
    assert job.manifests() == []
    assert job.hosts[1].missing() == job.hosts[0].missing() == [name]
    assert job.hosts[0].awaited_hosts() == ["algo-2"]
    job.places[1].failing = False
    job.rounds(2)
    assert job.manifests() == [name]


def test_deletions_follow_and_the_newest_whole_one_stays(job: Job) -> None:
    old = save(5, *job.disks)
    job.rounds(2)
    new = save(6, *job.disks)
    delete(old, *job.disks)
    job.rounds(1, 0)
    assert job.manifests() == [old], "nothing newer is whole there"
    job.rounds(2)
    assert job.manifests() == [new]
    assert not any(name.startswith(old) for name in tree(job.prefix))


def test_hosts_finish_together_what_the_first_one_wants(job: Job) -> None:
    first = save(1, *job.disks)
    job.rounds(1, 0)
    second = save(2, *job.disks)
    # A host that is late would begin with the newest; the first one waits for what it has copied already.
    job.rounds(1, 1, 2)
    assert sorted(tree(job.prefix)) == [f"{first}/rank-0000{number}.pt" for number in (1, 2, 3)]
    job.rounds(3)
    assert job.manifests() == [first, second]


def test_what_is_deleted_while_it_goes_leaves_nothing_there(job: Job) -> None:
    name = save(1, *job.disks)

    class Deleting(Prefix):
        def put(self, files: Mapping[str, Path], until: Callable[[], bool]) -> dict[str, Exception]:
            failed = super().put(files, until)
            delete(name, *job.disks)
            return failed

    WholeCheckpoints(job.disks[1], Deleting(job.prefix), job.assemblies[1]).copy(never)
    assert tree(job.prefix) == {}


def test_a_start_copies_nothing_again_and_removes_what_a_killed_one_left_half(job: Job) -> None:
    whole = save(1, *job.disks)
    job.rounds(2)
    half = save(2, *job.disks)
    job.rounds(1, 1)
    delete(half, *job.disks)
    for place in job.places:
        place.puts.clear()
    job.hosts = job.started()
    for host in job.hosts:
        host.look()
    assert {name.split("/")[0] for name in tree(job.prefix)} == {whole}
    job.rounds(2)
    assert [place.puts for place in job.places] == [[], [], []]
    assert job.manifests() == [whole]


def test_hosts_that_left_or_are_of_another_job_are_not_waited_for(job: Job, tmp_path: Path) -> None:
    name = save(5, *job.disks)
    job.rounds(1, 0, 1)
    assert job.hosts[0].to_do() == [name]
    job.hosts[2].post_farewell()
    assert job.hosts[0].to_do() == []
    assert job.hosts[0].missing() == [name]
    foreign = save(6, *job.disks, tmp_path / "disk of algo-4")
    job.rounds(3)
    assert job.manifests() == [name]
    assert job.hosts[0].to_do() == []
    assert job.hosts[0].missing() == [foreign]


def test_a_silent_first_host_is_told_and_own_files_go_on(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    name = save(5, *job.disks)
    job.assemblies[0].close()
    monkeypatch.setattr(job.assemblies[1]._switchboard, "_patience", 0.0)
    job.rounds(1, 1)
    assert job.hosts[1].messages.silent is not None
    assert list(tree(job.prefix)) == [f"{name}/rank-00002.pt"]


def test_a_host_with_nothing_to_tell_does_not_need_the_first_one(job: Job) -> None:
    save(5, *job.disks)
    job.rounds(2)
    job.assemblies[0].close()
    job.rounds(3, 1)
    assert job.hosts[1].messages.silent is None


def test_files_of_a_checkpoint_that_was_never_whole_go_when_it_is_deleted(job: Job) -> None:
    half = save(5, *job.disks)
    job.rounds(1, 1, 0)
    delete(half, *job.disks)
    whole = save(6, *job.disks)
    job.rounds(3)
    assert {name.split("/")[0] for name in tree(job.prefix)} == {whole}


def test_a_host_that_has_not_got_the_manifest_says_that_it_leaves(job: Job) -> None:
    name = save(5, *job.disks)
    (job.disks[1] / name / "manifest.json").unlink()
    job.rounds(2)
    assert job.hosts[0].to_do() == [name]
    for host in job.hosts[1:]:
        host.post_farewell()
    assert job.hosts[0].to_do() == []
    assert not job.hosts[0].have_all_left()
    job.hosts[0].post_farewell()
    assert job.hosts[0].have_all_left()


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


ONE, TWO = FileState(10, 1), FileState(20, 2)


def test_a_file_is_finished_once_it_was_unchanged_for_so_long() -> None:
    quiet = Quiet()
    assert quiet.unchanged({"a": ONE}, 0.0, 5.0) == []
    assert quiet.unchanged({"a": ONE}, 4.9, 5.0) == []
    assert quiet.unchanged({"a": ONE}, 5.0, 5.0) == ["a"]


def test_a_change_begins_the_wait_anew() -> None:
    quiet = Quiet()
    quiet.unchanged({"a": ONE}, 0.0, 5.0)
    assert quiet.unchanged({"a": TWO}, 5.0, 5.0) == []
    assert quiet.unchanged({"a": TWO}, 9.9, 5.0) == []
    assert quiet.unchanged({"a": TWO}, 10.0, 5.0) == ["a"]


def test_a_file_that_went_and_came_back_is_a_new_one() -> None:
    quiet = Quiet()
    quiet.unchanged({"a": ONE}, 0.0, 5.0)
    quiet.unchanged({}, 3.0, 5.0)
    assert quiet.unchanged({"a": ONE}, 6.0, 5.0) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open is read from /proc")
def test_only_what_is_open_to_write_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "read.pt").write_bytes(b"x")
    with (
        (tmp_path / "deep" / "written.pt").open("wb"),
        (tmp_path / "appended.log").open("ab"),
        (tmp_path / "read.pt").open("rb"),
    ):
        assert open_for_writing(tmp_path) == {"deep/written.pt", "appended.log"}
    assert open_for_writing(tmp_path) == set()


def test_without_proc_nothing_is_known_to_be_written(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb"):
        assert open_for_writing(tmp_path, tmp_path / "no-proc") == set()


def test_links_and_the_managers_checkpoints_are_no_files_of_scripts(tmp_path: Path) -> None:
    (tmp_path / "step-000000000001-0a1b2c3d").mkdir()
    (tmp_path / "step-000000000001-0a1b2c3d" / "model.pt").write_bytes(b"x")
    (tmp_path / "link.pt").symlink_to("/etc/passwd")
    (tmp_path / "step-5").mkdir()
    (tmp_path / "step-5" / "model.pt").write_bytes(b"12345")
    found = files_below(tmp_path)
    assert {name: one.size for name, one in found.items()} == {"step-5/model.pt": 5}


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert files_below(tmp_path / "none") == {}
