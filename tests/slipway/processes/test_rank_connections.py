"""Whether the ranks ever met, with real processes and connections in place of ranks."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.container import Container, Rendezvous, Task
from slipway.processes import rank_connections
from slipway.processes.rank_connections import Meeting, meeting_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is looked at is Linux's")

TRAINS = """
    import mmap, socket, sys
    library = open(sys.argv[1], "rb")
    mapped = mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)
"""
WAITS = """
    print("ready", flush=True)
    sys.stdin.read()
"""


class Job:
    """Ranks that are watched, and the store's port, on which this process listens as an agent does."""

    def __init__(self, folder: Path) -> None:
        self.time = 0.0
        self.ranks: list[subprocess.Popen[str]] = []
        self.store = socket.create_server(("127.0.0.1", 0))
        self.port = self.store.getsockname()[1]
        self.library = folder / "torch" / "lib" / "libtorch.so"
        self.library.parent.mkdir(parents=True)
        self.library.write_bytes(b"torch")
        self.meeting = Meeting(
            needed=True,
            port=self.port,
            addresses=set,
            ranks=lambda _: [rank.pid for rank in self.ranks],
            subject="the 2 ranks",
            remedy=lambda _: "Meet.",
            clock=lambda: self.time,
        )

    def rank(self, script: str, *, first: str = TRAINS, last: str = WAITS) -> subprocess.Popen[str]:
        text = "".join(map(textwrap.dedent, (first, script, last)))
        process = subprocess.Popen(
            [sys.executable, "-c", text, str(self.library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ranks.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def look(self) -> None:
        self.meeting.look(1)
        self.time += 1

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.communicate()
        self.store.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    job.close()


Said = Callable[[], list[str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda: capsys.readouterr().err.splitlines()


def test_ranks_that_never_met_are_told_of_at_the_end(job: Job, said: Said) -> None:
    job.rank("")
    job.rank("")
    job.look()
    assert said() == []
    job.meeting.tell_of_the_end()
    assert said() == [
        "slipway: DIST008 none of the 2 ranks ever met another one: they ran as independent programs, each "
        "of which was paid for → Meet."
    ]


def test_ranks_of_several_groups_are_told_of_though_they_met_in_each(job: Job, said: Said) -> None:
    job.meeting.met = True
    job.meeting.tell_of_groups([2, 2, 2, 2], 4)
    job.meeting.tell_of_the_end()
    (line,) = said()
    assert line.startswith(
        "slipway: DIST008 none of the 2 ranks ever met another one outside of its process group of 2: the "
        "groups ran as independent programs, each of which was paid for → Leave `rank`, `world_size`"
    )


@pytest.mark.parametrize(
    "sizes",
    [[4, 4, 4, 4], [2, 2], [2, 2, 0, 0], [2, 2, 4, 4], []],
    ids=["one group", "half is not known", "others train nothing", "some have all", "nothing"],
)
def test_of_groups_that_may_be_right_nothing_is_said(job: Job, said: Said, sizes: list[int]) -> None:
    job.meeting.tell_of_groups(sizes, 4)
    assert said() == []


def test_they_are_warned_once_after_a_minute_of_training(job: Job, said: Said) -> None:
    job.rank("")
    job.look()
    job.time = 59.0
    job.look()
    assert said() == []
    job.time = 61.0
    job.look()
    job.time = 600.0
    job.look()
    assert said() == [
        "slipway: warning: after 61 s none of the 2 ranks has met another one, and each would train for "
        "itself (DIST008, if it stays so) → Meet."
    ]


def test_a_rank_at_the_store_has_met_the_others(job: Job, said: Said) -> None:
    job.rank(f"store = socket.create_connection(('127.0.0.1', {job.port}))")
    accepted, _ = job.store.accept()
    job.look()
    accepted.close()
    assert job.meeting.met
    job.meeting.tell_of_the_end()
    assert said() == []


def test_so_has_one_whose_child_is_at_the_store(job: Job) -> None:
    script = (
        f"import socket; s = socket.create_connection(('127.0.0.1', {job.port})); print('ready', flush=True)"
    )
    job.rank(
        f"""
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", {script + "; input()"!r}], stdin=subprocess.PIPE)
        """,
        last="sys.stdin.read()",
    )
    accepted, _ = job.store.accept()
    job.look()
    accepted.close()
    assert job.meeting.met


def test_a_meeting_between_two_looks_is_seen_afterwards(job: Job) -> None:
    job.rank("")
    job.look()
    job.rank(f"socket.create_connection(('127.0.0.1', {job.port})).close()")
    accepted, _ = job.store.accept()
    accepted.close()
    job.look()
    assert job.meeting.met


def test_an_agent_at_the_store_is_no_rank_neither_while_it_is_there_nor_afterwards(
    job: Job, said: Said
) -> None:
    job.rank("")
    agent = socket.create_connection(("127.0.0.1", job.port))
    accepted, _ = job.store.accept()
    job.look()
    agent.close()
    accepted.close()
    job.look()
    job.meeting.tell_of_the_end()
    assert [line[:16] for line in said()] == ["slipway: DIST008"]


def test_a_rank_that_is_connected_to_itself_has_met_nobody(job: Job, said: Said) -> None:
    job.rank(
        """
        server = socket.create_server(("127.0.0.1", 0))
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        """
    )
    job.look()
    job.meeting.tell_of_the_end()
    assert [line[:16] for line in said()] == ["slipway: DIST008"]


def test_ranks_that_are_connected_to_each_other_have_met(job: Job) -> None:
    first = job.rank(
        """
        server = socket.create_server(("127.0.0.1", 0))
        print("ready", flush=True)
        print(server.getsockname()[1], flush=True)
        peer, _ = server.accept()
        """,
    )
    assert first.stdout is not None
    port = int(first.stdout.readline())
    job.rank(f"peer = socket.create_connection(('127.0.0.1', {port}))")
    assert first.stdout.readline() == "ready\n"
    job.look()
    assert job.meeting.met


def test_programs_without_a_training_framework_are_none_of_our_business(job: Job, said: Said) -> None:
    job.rank("", first="import sys")
    job.look()
    job.time = 900.0
    job.look()
    job.meeting.tell_of_the_end()
    assert said() == []


def test_programs_that_train_after_a_minute_or_never_are_looked_at_every_five_seconds(
    job: Job, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(rank_connections, "connections", lambda: looks.append(job.time) or [])
    job.rank("", first="import sys")

    def look_until(end: float) -> None:
        while job.time < end:
            job.meeting.look(1)
            job.time += 0.5

    look_until(60.0)
    assert len(looks) == 120
    look_until(120.0)
    assert len(looks) == 120 + 12
    job.rank("")
    look_until(190.0)
    assert [line for line in said() if "warning: after 60 s" in line]


@pytest.mark.parametrize("what", ["connections", "sockets_of"])
def test_what_cannot_be_seen_is_not_called_anything(
    job: Job, said: Said, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(rank_connections, what, refuse)
    job.rank("")
    job.look()
    job.time = 900.0
    job.look()
    job.meeting.tell_of_the_end()
    assert said() == []


def test_a_connection_into_the_unknown_decides_nothing_before_the_hosts_are_known(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: set[str] | None = None
    meeting = Meeting(
        needed=True, port=1, addresses=lambda: known, ranks=lambda _: [], subject="them", remedy=str
    )
    inside, outside = (
        rank_connections.SocketEnd("10.0.0.1", 40000),
        rank_connections.SocketEnd("10.0.0.2", 50000),
    )
    monkeypatch.setattr(
        rank_connections, "connections", lambda: [rank_connections.Connection(inside, outside, 7, False)]
    )
    monkeypatch.setattr(rank_connections, "sockets_of", lambda _: {7})
    meeting._look([2**22 + 1])
    assert not meeting.met
    assert not meeting._never_met()
    known = {"10.0.0.9"}
    meeting._look([2**22 + 1])
    assert meeting._never_met()
    known = {"10.0.0.2"}
    meeting._look([2**22 + 1])
    assert meeting.met


SHARDED = {"train": {"S3DistributionType": "ShardedByS3Key"}}


@pytest.mark.parametrize(
    ("hosts", "current", "strategy", "processes", "channels", "watches"),
    [
        (2, 1, "torchrun", 2, {}, True),
        (2, 2, "torchrun", 2, {}, False),
        (1, 1, "torchrun", 1, {}, False),
        (1, 1, "torchrun", 2, {}, True),
        (1, 1, "none", 1, {}, False),
        (2, 1, "none", 1, {}, True),
        (2, 1, "none", 1, SHARDED, False),
        (2, 1, "torchrun", 1, SHARDED, True),
    ],
)
def test_the_first_host_watches_where_there_is_somebody_to_meet(
    job: Job, said: Said, monkeypatch: pytest.MonkeyPatch, hosts: int, current: int, strategy: str,
    processes: int, channels: dict[str, object], watches: bool,
) -> None:  # fmt: skip
    names = tuple(f"algo-{number + 1}" for number in range(hosts))
    container = Container(Path("/opt/ml"), names, f"algo-{current}", "ml.c5.xlarge", None, {}, channels, {})
    task = Task(strategy, processes, "train.py", ())
    monkeypatch.setattr(rank_connections, "workers", lambda _: [job.ranks[0].pid])
    rank = job.rank("")
    meeting = meeting_of(task, container, Rendezvous("127.0.0.1", job.port))
    meeting.look(rank.pid)
    meeting.tell_of_the_end()
    assert bool(said()) is watches


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("torch/lib/libtorch.so", "Set `distribution.strategy: torchrun`, which gives each process its rank"),
        ("tensorflow/python/_pywrap.so", "TensorFlow: make a tf.distribute.MultiWorkerMirroredStrategy()"),
        ("jaxlib/_jax.so", "JAX: call jax.distributed.initialize() before anything else of jax"),
    ],
)
def test_how_ranks_meet_is_told_in_their_frameworks_words(
    job: Job, said: Said, library: str, words: str
) -> None:
    job.library = job.library.parents[2] / library
    job.library.parent.mkdir(parents=True, exist_ok=True)
    job.library.write_bytes(b"library")
    names = ("algo-1", "algo-2")
    container = Container(Path("/opt/ml"), names, "algo-1", "ml.c5.xlarge", None, {}, {}, {})
    rank = job.rank("")
    meeting = meeting_of(Task("none", 1, "train.py", ()), container, Rendezvous("127.0.0.1", job.port))
    meeting.look(rank.pid)
    meeting.tell_of_the_end()
    (told,) = said()
    assert f"→ {words}" in told
    assert "num_nodes=2, devices=1" in told or "torch" not in library


def test_on_one_host_ranks_may_meet_over_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting(needed=True, port=1, addresses=set, ranks=lambda _: [], subject="them", remedy=str)
    one, other = rank_connections.SocketEnd("10.0.0.1", 40000), rank_connections.SocketEnd("10.0.0.1", 50000)
    table = [
        rank_connections.Connection(one, other, 7, False),
        rank_connections.Connection(other, one, 8, False),
    ]
    monkeypatch.setattr(rank_connections, "connections", lambda: table)
    gone = 2**22 + 1
    monkeypatch.setattr(rank_connections, "sockets_of", lambda pid: {7 + pid - gone})
    meeting._look([gone])
    assert not meeting.met
    meeting._look([gone, gone + 1])
    assert meeting.met
