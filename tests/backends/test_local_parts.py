"""Parts of the local backend: layout, secrets, and the Python that runs a job."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local import logs
from launcher.backends.local import python as interpreter
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.files import Host
from launcher.backends.local.job import HostEnd, failure_reason
from launcher.backends.local.layout import debugging_here, share_devices, share_threads
from launcher.backends.local.logs import Position, read_lines
from launcher.backends.local.python import choose_interpreter, interpreter_at, python_environment
from launcher.jobs.load_job import Variables
from launcher.planning.request_view import RequestView
from launcher.text.regular_files import open_regular
from slipway.processes.process_output import LogTimes
from tests.backends.environments import environment, program
from tests.backends.workplace import SHORT, Workplace, finish, texts

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "algo-1").mkdir()
    host = Host("algo-1", tmp_path / "algo-1")
    host.log.touch()
    return host


def write(host: Host, text: bytes) -> int:
    """Append to the host's log; how long that is then."""
    with host.log.open("ab") as log:
        log.write(text)
        return log.tell()


def read(
    host: Host, position: Position | None = None, *, to_the_end: bool = False
) -> tuple[list[str], Position]:
    """The texts from a position, which is read again from its words, and where they end."""
    begin = Position.parse(str(position)) if position else Position()
    lines, end = read_lines(host, begin, to_the_end=to_the_end)
    return [line.text for line in lines], end


def test_lines_come_once_and_only_when_they_are_whole(host: Host) -> None:
    write(host, b"one\ntw")
    found, position = read(host)
    assert found == ["one"]
    write(host, b"o\n\x1b[31mred\x1b[0m\n")
    found, position = read(host, position)
    assert found == ["two", "\x1b[31mred\x1b[0m"]
    assert read(host, position)[0] == []
    write(host, b"broken \xff")
    found, position = read(host, position, to_the_end=True)
    assert found == ["broken \ufffd"]
    assert read(host, position, to_the_end=True)[0] == []


def test_each_line_has_the_time_at_which_it_was_first_seen(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = LogTimes(host.log_times)
    for now, text in ((100.0, b"a\nb\n"), (105.0, b"c\nd"), (107.0, b"d\n"), (200.0, b"e\n")):
        monkeypatch.setattr("time.time", lambda now=now: now)
        times.grown(write(host, text))
        os.utime(host.log, (now, now))
    lines, position = read_lines(host, Position(), to_the_end=False)
    told = [("a", 100), ("b", 100), ("c", 105), ("dd", 107), ("e", 200)]
    assert [(line.text, line.time) for line in lines] == told
    write(host, b"f\n")
    os.utime(host.log, (300, 300))
    lines, _ = read_lines(host, position, to_the_end=False)
    assert [(line.text, line.time) for line in lines] == [("f", 300)]


def test_a_line_of_a_copied_log_is_not_before_the_one_that_it_follows(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = LogTimes(host.log_times)
    for now, text in ((105.0, b"a\n"), (107.0, b"b\n")):
        monkeypatch.setattr("time.time", lambda now=now: now)
        times.grown(write(host, text))
    # rsync gives a file that grows meanwhile the time at which it began.
    os.utime(host.log, (100, 100))
    lines, _ = read_lines(host, Position(), to_the_end=False)
    assert [(line.text, line.time) for line in lines] == [("a", 105), ("b", 105)]


def test_what_was_left_out_is_said_in_one_line(host: Host) -> None:
    write(host, b"one\ntwo\n")
    (host.folder / "log-000000000001000").write_bytes(b"three\n")
    (host.folder / "log-000000000001006").write_bytes(b"four\nfi")
    position, found = Position(), []
    for _ in range(5):
        texts_here, position = read(host, position)
        found += texts_here
    left_out = "slipway: 992 bytes of this host's output are left out here"
    assert found == ["one", "two", left_out, "three", "four"]
    assert read(host, position, to_the_end=True)[0] == ["fi"]


def test_following_goes_on_after_the_part_in_which_it_was_is_deleted(host: Host) -> None:
    write(host, b"one\n")
    older = host.folder / "log-000000000000004"
    older.write_bytes(b"two\nthree\n")
    position = read(host, read(host)[1])[1]
    assert position.log == 14
    older.unlink()
    (host.folder / "log-000000000000100").write_bytes(b"four\n")
    left_out = "slipway: 86 bytes of this host's output are left out here"
    assert read(host, position)[0] == [left_out, "four"]


def test_a_part_that_is_deleted_while_it_is_read_is_left_out(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(host, b"one\n")
    gone = host.folder / "log-000000000000004"
    gone.write_bytes(b"two\n")
    (host.folder / "log-000000000000008").write_bytes(b"three\n")

    def opened(file: Path) -> Any:
        gone.unlink(missing_ok=True)
        return open_regular(file)

    monkeypatch.setattr(logs, "open_regular", opened)
    left_out = "slipway: 4 bytes of this host's output are left out here"
    assert read(host, Position(4))[0] == [left_out, "three"]


def test_the_times_go_on_over_all_parts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    times = LogTimes(host.log_times)
    monkeypatch.setattr("time.time", lambda: 100.0)
    times.grown(write(host, b"one\n"))
    monkeypatch.setattr("time.time", lambda: 105.0)
    (host.folder / "log-000000000000050").write_bytes(b"two\n")
    times.grown(54)
    times.grown(54)
    os.utime(host.folder / "log-000000000000050", (105, 105))
    first, position = read_lines(host, Position(), to_the_end=False)
    second, _ = read_lines(host, position, to_the_end=False)
    assert [line.time for line in first + second] == [100, 105, 105]


def ended(host: Host, code: int, text: str | None, time: float) -> HostEnd:
    if text is not None:
        host.failure.parent.mkdir(parents=True)
        host.failure.write_text(text)
        os.utime(host.failure, (time, time))
    return HostEnd(host, code, time + 5)


@pytest.mark.parametrize(("first", "second", "reason"), CASES["causes"])
def test_the_job_fails_for_its_first_cause(
    tmp_path: Path,
    first: tuple[int, str | None, float],
    second: tuple[int, str | None, float],
    reason: str,
) -> None:
    ends = [
        ended(Host(f"algo-{number}", tmp_path / f"algo-{number}"), *end)
        for number, end in enumerate((first, second), start=1)
    ]
    assert failure_reason(ends) == reason
    assert failure_reason(reversed(ends)) == reason


@pytest.mark.parametrize(("devices", "hosts", "processes", "expected"), CASES["shares"])
def test_gpus_are_shared_out_or_not_used_at_all(
    devices: list[str], hosts: int, processes: int, expected: list[str | None]
) -> None:
    shares = share_devices(devices, hosts, processes)
    assert [share.get("CUDA_VISIBLE_DEVICES") for share in shares] == expected


def test_ranks_share_the_threads_of_this_machine_where_the_user_gives_no_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert share_threads(4, {}) == {"OMP_NUM_THREADS": "2"}
    assert share_threads(16, {}) == {"OMP_NUM_THREADS": "1"}
    assert share_threads(4, {"OMP_NUM_THREADS": "3"}) == {}


@pytest.mark.parametrize(
    ("planned", "devices", "given", "here"),
    [
        ("DETAIL", {}, {}, {"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
        ("DETAIL", {"CUDA_VISIBLE_DEVICES": ""}, {}, {"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
        ("DETAIL", {"CUDA_VISIBLE_DEVICES": "0,1"}, {}, {}),
        ("DETAIL", {}, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, {}),
        ("INFO", {}, {}, {}),
    ],
    ids=["no GPU", "GPUs left alone", "GPUs", "the user's own", "nothing to soften"],
)
def test_the_debugging_that_crashes_gloo_is_softened_on_hosts_without_gpus(
    planned: str, devices: dict[str, str], given: dict[str, str], here: dict[str, str]
) -> None:
    request = {"Environment": {"TORCH_DISTRIBUTED_DEBUG": planned}}
    assert debugging_here(RequestView(request), devices, given) == here


VALUE = "hf_plantedPLANTED1234"
NAMED = {"SLIPWAY_SECRETS": json.dumps({"HF_TOKEN": "team/hf", "KEY": "team/key"})}
GIVEN = {"HF_TOKEN": VALUE, "KEY": "k_planted5678", "OTHER": "planted-other"}
PRINTS = """
    import os
    print("token", os.environ["HF_TOKEN"])
    print(sorted(name for name in os.environ if name in ("HF_TOKEN", "KEY", "OTHER") or "SECRET" in name))
    print(len(os.environ["HF_TOKEN"]), flush=True)
    raise RuntimeError("no access with " + os.environ["KEY"])
"""


def local(workplace: Workplace, **variables: Any) -> LocalBackend:
    return LocalBackend(workplace.home, grace=SHORT, variables=Variables(**variables))


def everything_below(folder: Path) -> str:
    return "\n".join(file.read_text("utf-8", "replace") for file in folder.rglob("*") if file.is_file())


def test_the_script_has_the_values_and_what_is_kept_has_not(workplace: Workplace) -> None:
    plan = workplace.plan(PRINTS, environment=NAMED)
    with local(workplace, values=GIVEN) as backend:
        backend.submit(plan)
        status = finish(backend)
        lines = texts(backend)
    assert status.state is JobState.FAILED
    assert status.failure_reason is not None
    assert "no access with ***" in status.failure_reason
    assert {"token ***", "['HF_TOKEN', 'KEY']", str(len(VALUE))} <= set(lines)
    kept = everything_below(workplace.home)
    assert "team/hf" in kept
    assert "planted" not in kept + str(status) + "".join(lines)


def test_what_is_not_set_is_named_before_anything_starts(workplace: Workplace) -> None:
    backend = local(workplace, values={"KEY": "k_planted5678", "HF_TOKEN": ""})
    with pytest.raises(BackendError, match=r"^IAM002 the job's secrets HF_TOKEN are not set here") as error:
        backend.submit(workplace.plan(PRINTS, environment=NAMED))
    assert error.value.remedy == "Set them before the launch: export HF_TOKEN=..."
    assert not workplace.home.exists()


def test_a_job_file_has_no_other_variables_than_it_is_given(workplace: Workplace) -> None:
    """In CI whoever proposes a job file would get any variable of the machine's by calling it a secret."""
    backend = local(workplace, values=GIVEN, allowed=("KEY",))
    with pytest.raises(BackendError, match="the job's secrets HF_TOKEN are not taken") as error:
        backend.submit(workplace.plan(PRINTS, environment=NAMED))
    assert error.value.remedy == "If the job may have them, add --allow-env HF_TOKEN."
    assert not workplace.home.exists()


def test_by_itself_the_environment_of_the_launcher_is_asked_and_in_ci_nothing(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", VALUE)
    monkeypatch.setenv("KEY", "k_planted5678")
    monkeypatch.setenv("CI", "true")
    backend = LocalBackend(workplace.home, grace=SHORT)
    with pytest.raises(BackendError, match="in CI"):
        backend.submit(workplace.plan(PRINTS, environment=NAMED))


def test_a_resumed_job_takes_its_secrets_anew(workplace: Workplace) -> None:
    plan = workplace.plan(PRINTS, environment=NAMED)
    with local(workplace, values=GIVEN) as backend:
        backend.submit(plan)
        finish(backend)
        workplace.shared("step-1").touch()
        request = {**backend.request_of("job-1"), "TrainingJobName": "job-2"}
    with pytest.raises(BackendError, match="HF_TOKEN, KEY are not set"):
        local(workplace, values={}).resume("job-1", request)
    with local(workplace, values={**GIVEN, "HF_TOKEN": "hf_plantedAGAIN"}) as backend:
        backend.resume("job-1", request)
        finish(backend, "job-2")
        assert str(len("hf_plantedAGAIN")) in texts(backend, name="job-2")
    assert "planted" not in everything_below(workplace.home)


def test_the_active_environment_is_taken_where_it_has_torch(tmp_path: Path) -> None:
    with_torch = environment(tmp_path / "with", torch="2.9.1+cu128", cuda="12.8")
    without = environment(tmp_path / "without")
    found = choose_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / "with")})
    assert (found.path, found.torch, found.cuda) == (with_torch, "2.9.1+cu128", "12.8")
    both = {"VIRTUAL_ENV": str(tmp_path / "without"), "CONDA_PREFIX": str(tmp_path / "with")}
    assert choose_interpreter(None, both).path == with_torch
    (tmp_path / "broken" / "bin").mkdir(parents=True)
    program(tmp_path / "broken" / "bin" / "python", "exit 127")
    for name in ("without", "gone", "broken"):
        passed_over = choose_interpreter(None, {"VIRTUAL_ENV": str(tmp_path / name)})
        assert passed_over.path == Path(sys.executable), name
    # Who asks for one gets it, with torch or without.
    given = choose_interpreter(str(without), both)
    assert (given.path, given.torch, given.version[:2]) == (without, None, sys.version_info[:2])


def test_a_torch_in_the_working_directory_is_not_the_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment(tmp_path / "empty")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '9.9.9'\n")
    monkeypatch.chdir(tmp_path)
    assert interpreter_at(python).torch is None


def test_a_name_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environment(tmp_path / "named")
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    assert choose_interpreter("python", {}).path == python


@pytest.mark.parametrize(("text", "message"), CASES["no Python"])
def test_what_is_no_python_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BackendError, match=message) as refused:
        choose_interpreter(str(program(tmp_path / "python", text)), {})
    assert "--python" in refused.value.remedy


def test_a_program_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "BOUND_SECONDS", 0.1)
    with pytest.raises(BackendError, match="did not answer within 0 seconds"):
        interpreter_at(program(tmp_path / "python", "exec sleep 60"))


def test_folders_and_missing_files_are_refused_with_what_to_give(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    with pytest.raises(BackendError, match="is a folder") as refused:
        choose_interpreter(str(tmp_path / "venv"), {})
    assert f"--python {python}" in refused.value.remedy
    with pytest.raises(BackendError, match=f"there is no Python {tmp_path}/gone"):
        choose_interpreter(str(tmp_path / "gone"), {})


def test_programs_of_the_interpreter_come_first_and_its_environment_is_the_active_one(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    others = {"PATH": "/usr/bin", "VIRTUAL_ENV": "/other", "SECRET": "1"}
    assert python_environment(python, others) == {
        "PATH": f"{python.parent}:/usr/bin",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }
    assert python_environment(Path("/usr/bin/python3"), others) == {"PATH": "/usr/bin:/usr/bin"}


def test_the_ranks_run_with_the_given_python_and_so_does_a_resumption(workplace: Workplace) -> None:
    python = environment(workplace.folder / "venv")
    script = """
        import os, pathlib, shutil, sys
        pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "state").touch()
        print(sys.executable, shutil.which("python"), flush=True)
    """
    plan = workplace.plan(script)
    with LocalBackend(workplace.home, grace=SHORT, python=python) as local:
        local.submit(plan)
        assert finish(local).state is JobState.COMPLETED
        assert texts(local)[-1] == f"{python} {python}"
    with LocalBackend(workplace.home, grace=SHORT) as later:
        later.resume("job-1", {**(plan.request or {}), "TrainingJobName": "job-2"})
        finish(later, "job-2")
        assert texts(later, name="job-2")[-1] == f"{python} {python}"


def test_a_run_whose_python_is_gone_is_not_resumed_with_another(workplace: Workplace) -> None:
    python = environment(workplace.folder / "venv")
    plan = workplace.plan("pass")
    with LocalBackend(workplace.home, grace=SHORT, python=python) as local:
        local.submit(plan)
        finish(local)
    python.unlink()
    with LocalBackend(workplace.home) as later, pytest.raises(BackendError, match=f"no Python {python}"):
        later.resume("job-1", {**(plan.request or {}), "TrainingJobName": "job-2"})
    assert not (workplace.home / "job-2").exists()
