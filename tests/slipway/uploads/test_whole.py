"""The manager's checkpoints: one with a manifest in the prefix is whole there, whoever is slow or gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from slipway.hosts.assembly import Assembly
from slipway.rendezvous import Rendezvous
from slipway.uploads.folder import Folder
from slipway.uploads.whole import WholeCheckpoints
from tests.slipway.hosts.test_assembly import container, two_free_ports
from tests.slipway.uploads.disks import delete, never, save, tree


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
    assert job.hosts[0].awaited() == ["algo-3"]
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
    assert job.hosts[0].awaited() == ["algo-2"]
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
    job.hosts[2].leave()
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
    monkeypatch.setattr(job.assemblies[1]._line, "_patience", 0.0)
    job.rounds(1, 1)
    assert job.hosts[1].talk.silent is not None
    assert list(tree(job.prefix)) == [f"{name}/rank-00002.pt"]


def test_a_host_with_nothing_to_tell_does_not_need_the_first_one(job: Job) -> None:
    save(5, *job.disks)
    job.rounds(2)
    job.assemblies[0].close()
    job.rounds(3, 1)
    assert job.hosts[1].talk.silent is None


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
        host.leave()
    assert job.hosts[0].to_do() == []
    assert not job.hosts[0].all_left()
    job.hosts[0].leave()
    assert job.hosts[0].all_left()
