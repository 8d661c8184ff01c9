"""The boot as a container runs it, without a launcher beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from launcher.planning.settings import CODE_DIGEST_VARIABLE
from launcher.source.packaging import build_source
from launcher.source.tree import read_source
from tests.compiled_boot import build_boot

PATIENCE_SECONDS = 60.0


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Boot:
    """A container's root with a script in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mark = uuid.uuid4().hex

    def start(
        self,
        script: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        hosts: Sequence[str] = ("algo-1",),
        host: str = "algo-1",
        name: str = "train.py",
        module: str | None = None,
        hyperparameters: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Boot a container whose source holds the script under this name; a module is started by its own."""
        data, source = self.root / "input" / "data" / "code", self.root / "src"
        config = self.root / "input" / "config"
        for folder in (data, source, config):
            folder.mkdir(parents=True)
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(textwrap.dedent(script).encode())
        if script.startswith("#!"):
            (source / name).chmod(0o755)
        build_source(read_source(source, name), data / "source.tar.gz")
        build_boot(data / "slipway.pyz")
        resources = {"current_host": host, "hosts": list(hosts), "network_interface_name": "lo"}
        (config / "resourceconfig.json").write_text(json.dumps(resources))
        (config / "hyperparameters.json").write_text(json.dumps(hyperparameters or {}))
        program = ["--module", module] if module else ["--entry-point", name]
        words = ["--strategy", "none", *program, *arguments]
        return subprocess.Popen(
            [sys.executable, str(data / "slipway.pyz"), *words],
            env={
                **os.environ,
                "SLIPWAY_ROOT": str(self.root),
                "TEST_MARK": self.mark,
                **(environment or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def left(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TEST_MARK") == self.mark:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    @property
    def failure(self) -> str:
        return (self.root / "output" / "failure").read_text()


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Boot]:
    boot = Boot(tmp_path)
    yield boot
    for process in boot.left():
        process.kill()


def test_success_is_0_and_leaves_no_failure(boot: Boot) -> None:
    process = boot.start("print('trained')")
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert out.splitlines()[-1] == "trained"
    assert not (boot.root / "output" / "failure").exists()


def test_the_output_is_passed_on_and_kept(boot: Boot) -> None:
    process = boot.start("import sys; print('out'); print('err', file=sys.stderr); print('end', end='')")
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert out.splitlines()[-2:] == ["out", "end"]
    assert err == "err\n"
    logs = boot.root / "output" / "data" / "slipway" / "algo-1"
    assert (logs / "stdout.log").read_text() == "out\nend"
    assert (logs / "stderr.log").read_text() == "err\n"


def test_where_a_log_is_named_all_output_is_kept_there_and_nowhere_else(
    boot: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_LOG", str(boot.root / "log"))
    process = boot.start("import sys; print('out'); print('err', file=sys.stderr); raise SystemExit(4)")
    assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    assert process.returncode == 4
    lines = (boot.root / "log").read_text().splitlines()
    assert sorted(lines[1:3]) == ["err", "out"]
    assert lines[3].startswith("slipway: CODE001 rank 0 on algo-1: ")
    assert list(boot.root.rglob("std*.log")) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the disk that is always full is Linux's")
def test_a_log_that_takes_nothing_keeps_the_output_flowing(boot: Boot) -> None:
    logs = boot.root / "output" / "data" / "slipway" / "algo-1"
    logs.mkdir(parents=True)
    (logs / "stdout.log").symlink_to("/dev/full")
    process = boot.start("for number in range(100_000): print(number)\nraise SystemExit(7)")
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 7
    assert out.splitlines()[-1] == "99999"
    assert [line for line in err.splitlines() if "No space left" in line] == [
        f"slipway: of the output not all can be kept in {logs / 'stdout.log'}: No space left on device",
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 kB, for what the job writes."""
    disk = tmp_path / "output"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


CHATTY = """
    import os, sys
    rank = os.environ.get("RANK", "0")
    for number in range(10_000):
        print("the same words of rank", rank, "over and over", number)
    sys.stdout.flush()
    if rank == "0":
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
"""


FILLING = """
    import os
    file = os.open(os.environ["SM_OUTPUT_DATA_DIR"] + "/much", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(file, bytes(4096)):
            pass
    except OSError:
        pass
"""


@pytest.mark.few_cases("python-by a rank", "shell-before its ranks")
@pytest.mark.skipif(sys.platform != "linux", reason="tmpfs is Linux's")
@pytest.mark.parametrize("when", ["of its output", "before its ranks", "by a rank"])
@pytest.mark.parametrize("how", ["python", "shell", "torchrun"])
def test_on_a_full_disk_the_output_flows_and_the_reason_is_kept(
    tmp_path: Path, small_disk: Path, how: str, when: str
) -> None:
    boot = Boot(tmp_path)
    script = textwrap.dedent(FILLING if when == "by a rank" else "") + textwrap.dedent(CHATTY)
    if how == "shell":
        script = f"python - <<'END'\n{script}\nEND\n"
    if when == "before its ranks":
        # Room for the boot's beginning, such as the failure file, and for none of what ranks print.
        (small_disk / "much").write_bytes(bytes(280_000))
    process = boot.start(
        script,
        *(["--strategy", "torchrun"] if how == "torchrun" else []),
        environment={"SLIPWAY_RENDEZVOUS": f"127.0.0.1:{free_port()}"},
        name="train.sh" if how == "shell" else "train.py",
    )
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert out.splitlines()[-1].endswith("over and over 9999")
    assert len([line for line in err.splitlines() if "not all can be kept" in line]) >= 1
    assert boot.failure.startswith("HW001 rank 0 on algo-1: the GPU returned memory")


@pytest.mark.skipif(sys.platform != "linux", reason="tmpfs is Linux's")
def test_a_disk_that_was_full_before_the_boot_costs_the_failure_file_alone(
    tmp_path: Path, small_disk: Path
) -> None:
    (small_disk / "much").write_bytes(bytes(300 * 1024))
    boot = Boot(tmp_path)
    process = boot.start(CHATTY)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert out.splitlines()[-1].endswith("over and over 9999")
    assert "slipway: HW001 rank 0 on algo-1: the GPU returned memory" in err
    assert f"slipway: {small_disk / 'failure'} cannot be written: No space left on device" in err


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    ("script", "code", "failure"),
    [
        ("raise SystemExit(7)", 7, "CODE001 rank 0 on algo-1: exited with code 7"),
        ("import os; os.kill(os.getpid(), 9)", 137, "MEM002 rank 0 on algo-1: killed by SIGKILL (exit -9)"),
        ("import os; os.abort()", 134, "CODE004 rank 0 on algo-1: killed by SIGABRT (exit -6)"),
        ("import argparse; argparse.ArgumentParser().parse_args()", 2, "CODE002 rank 0 on algo-1: train.py "
         "refused its command line: unrecognized arguments: --foo"),
        ("def broken(:", 1, "CODE001 rank 0 on algo-1: SyntaxError"),
    ],
)  # fmt: skip
def test_a_failure_has_its_code_and_the_scripts_exit_code(
    boot: Boot, script: str, code: int, failure: str
) -> None:
    process = boot.start(script, "--", "--foo")
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert boot.failure.startswith(failure)
    assert failure in err.splitlines()[-1]


def test_the_code_that_was_submitted_runs(boot: Boot, tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "train.py").write_text("print('trained')")
    digest = str(read_source(tmp_path / "same", "train.py").digest)
    process = boot.start("print('trained')", environment={CODE_DIGEST_VARIABLE: digest})
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out.splitlines()[-1]) == (0, "trained")


def test_other_code_than_what_was_submitted_is_not_even_unpacked(boot: Boot) -> None:
    submitted = "5" * 64
    process = boot.start("print('EVIL')", environment={CODE_DIGEST_VARIABLE: submitted})
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "EVIL" not in out
    assert not (boot.root / "code").exists()
    assert boot.failure.startswith("CODE002 the job's source source.tar.gz is not the code")
    assert "555555555555..." in boot.failure


def test_a_missing_entry_point_is_reported_before_anything_starts(boot: Boot) -> None:
    process = boot.start("pass", "--entry-point", "main.py")
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert boot.failure.startswith("CODE002 the entry point main.py is not in the job's source")


def test_a_broken_container_is_reported_too(boot: Boot) -> None:
    process = boot.start("pass")
    process.kill()
    process.communicate()
    (boot.root / "input" / "config" / "resourceconfig.json").write_text("{")
    process = subprocess.Popen(process.args, env={**os.environ, "SLIPWAY_ROOT": str(boot.root)}, stderr=-1)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "the boot itself failed: JSONDecodeError" in boot.failure


@pytest.mark.few_cases("15")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_script(boot: Boot, number: signal.Signals) -> None:
    script = f"""
        import signal, sys, time
        from pathlib import Path
        signal.signal({number.value}, lambda *_: sys.exit(print("saved")))
        Path({str(boot.root)!r}, "running").touch()
        time.sleep(600)
    """
    process = boot.start(script)
    eventually((boot.root / "running").exists)
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert out.splitlines()[-1] == "saved"
    assert process.returncode == 0
    assert not (boot.root / "output" / "failure").exists()


def test_dying_of_the_stop_is_no_failure_of_the_script(boot: Boot) -> None:
    process = boot.start(
        f"import pathlib, time; pathlib.Path({str(boot.root)!r}, 'running').touch(); time.sleep(600)"
    )
    eventually((boot.root / "running").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert not (boot.root / "output" / "failure").exists()


@pytest.mark.few_cases("True")
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
@pytest.mark.parametrize("deaf", [False, True])
def test_nothing_is_left_behind_not_even_daemons(boot: Boot, deaf: bool) -> None:
    script = f"""
        import os, signal, time
        if {deaf}:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        os.wait()
    """
    process = boot.start(script)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert boot.left() == []


def test_scripts_may_import_the_package(boot: Boot) -> None:
    process = boot.start("import slipway; print(slipway.__file__)")
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert out.splitlines()[-1].startswith(str(boot.root / "input" / "data" / "code" / "slipway.pyz"))


NAN = """
    import torch

    x = torch.zeros(2, requires_grad=True)
    (torch.sqrt(x) * 0).sum().backward()
    print("trained on")
"""


@pytest.mark.few_cases("1-1")
@pytest.mark.parametrize(("asked", "code"), [("1", 1), ("0", 0)])
def test_a_gradient_that_is_no_number_ends_the_job_where_the_job_asks_for_it(
    boot: Boot, monkeypatch: pytest.MonkeyPatch, asked: str, code: int
) -> None:
    monkeypatch.setenv("SLIPWAY_DETECT_ANOMALY", asked)
    process = boot.start(NAN)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    if code == 0:
        assert out.splitlines()[-1] == "trained on"
    else:
        assert boot.failure.startswith(
            "NUM001 rank 0 on algo-1: SqrtBackward0 gave NaN gradients (train.py:5)"
        )
        assert "anomaly.py" not in boot.failure
        assert "Error detected in SqrtBackward0" in err


@pytest.mark.skipif(sys.platform != "linux", reason="what is looked at is Linux's")
def test_hosts_that_never_met_and_work_that_is_lost_are_told_of_after_a_success(boot: Boot) -> None:
    process = boot.start(
        # The boot looks at its ranks four times a second, and does not judge what it never saw train.
        "import time, torch; torch.save(torch.zeros(5000), 'model.pt'); time.sleep(1)",
        environment={"SLIPWAY_RENDEZVOUS": "127.0.0.1:7777", "SLIPWAY_HOST_TOKEN": "4711"},
        hosts=("algo-1", "algo-2"),
    )
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    told = [line for line in err.splitlines() if line.startswith("slipway: ")]
    assert len(told) == 2, err
    never_met, lost = told
    assert never_met.startswith("slipway: DIST008 none of the 2 hosts ever met another one: ")
    assert "Trainer(num_nodes=2, devices=1, strategy='ddp')" in never_met
    assert lost.startswith("slipway: CKPT007 nothing was saved where it is kept; ")
    assert " such as model.pt, dies with the host." in lost
    assert not (boot.root / "output" / "failure").exists()


@pytest.mark.exhaustive
def test_neither_is_said_of_a_failure(boot: Boot) -> None:
    process = boot.start(
        "import torch; torch.save(torch.zeros(5000), 'model.pt'); raise SystemExit(3)",
        environment={"SLIPWAY_RENDEZVOUS": "127.0.0.1:7777", "SLIPWAY_HOST_TOKEN": "0" * 32},
        hosts=("algo-1", "algo-2"),
    )
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert [line[:16] for line in err.splitlines() if line.startswith("slipway: ")] == ["slipway: CODE001"]


def test_a_shell_script_gets_its_arguments_and_its_exit_code_counts(boot: Boot) -> None:
    script = 'echo "$1|$2|$SM_MODEL_DIR"\npwd\nexit 7\n'
    process = boot.start(script, "--", "a b", "$(id)", name="train.sh")
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 7
    assert out.splitlines()[-2:] == [f"a b|$(id)|{boot.root}/model", str(boot.root / "code")]
    assert boot.failure.startswith("CODE001 rank 0 on algo-1")


def test_a_shell_script_with_a_shebang_is_run_by_it(boot: Boot) -> None:
    process = boot.start("#!/usr/bin/env python3\nprint('run by Python')", name="train.sh")
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert out.splitlines()[-1] == "run by Python"


def test_a_shell_script_under_torchrun_is_refused(boot: Boot) -> None:
    process = boot.start("echo", "--strategy", "torchrun", name="train.sh")
    assert process.wait(timeout=PATIENCE_SECONDS) == 1
    assert boot.failure.startswith("CODE002 train.sh is a shell script, and torchrun starts Python")


def test_a_stop_reaches_what_a_shell_script_runs_and_the_script_goes_on(boot: Boot) -> None:
    (boot.root / "save.py").write_text(
        "import pathlib, signal, sys, threading\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "pathlib.Path('ready').touch()\n"
        "threading.Event().wait()\n"
    )
    process = boot.start(f"{sys.executable} {boot.root}/save.py && touch saved\n", name="train.sh")
    eventually((boot.root / "code" / "ready").exists)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=PATIENCE_SECONDS)
    assert (boot.root / "code" / "saved").exists()


def test_a_module_is_started_as_python_starts_it(boot: Boot) -> None:
    script = "import os, sys; print(__package__, os.getcwd() == sys.path[0], sys.argv[1:])"
    process = boot.start(script, "--", "--a", name="pkg/train.py", module="pkg.train")
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert out.splitlines()[-1] == "pkg True ['--a']", err


def test_a_module_that_nobody_has_is_a_matter_of_the_job_file(boot: Boot) -> None:
    process = boot.start("", module="nowhere.train")
    process.communicate(timeout=PATIENCE_SECONDS)
    assert boot.failure.startswith("CODE002 "), boot.failure
    assert "No module named" in boot.failure


def test_folders_are_those_of_this_container_wherever_the_job_names_them(boot: Boot) -> None:
    process = boot.start(
        "import json, os, sys; e = os.environ; print(json.dumps([sys.argv[1:], e['CACHE'], e['SM_HP_OUT']]))",
        "--",
        "--data=${SM_INPUT_DATA_DIR}/x",
        "$${SM_MODEL_DIR}",
        environment={"CACHE": "${SM_CHECKPOINT_DIR}/cache"},
        hyperparameters={"out": "${SM_MODEL_DIR}"},
    )
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    root = boot.root
    arguments = ["--out", f"{root}/model", f"--data={root}/input/data/x", "${SM_MODEL_DIR}"]
    assert json.loads(out.splitlines()[-1]) == [arguments, f"{root}/checkpoints/cache", f"{root}/model"], err


def test_arguments_that_look_like_torchruns_reach_the_script(boot: Boot) -> None:
    words = ["--logs", "x", "--log", "--node", "1", "--local", "--master", "m"]
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    meeting = {"SLIPWAY_RENDEZVOUS": f"127.0.0.1:{free_port()}"}
    process = boot.start(script, "--strategy", "torchrun", "--", *words, environment=meeting)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1].partition("]:")[2]) == words


SAVING = """
import os, pathlib
folder = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
print("found", sorted(path.name for path in folder.iterdir()))
(folder / "model.pt").write_text("weights")
"""


def test_checkpoints_are_copied_to_their_prefix_and_come_back_at_a_start(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    for host, found in (("first", []), ("second", ["model.pt"])):
        boot = Boot(tmp_path / host)
        process = boot.start(
            SAVING, "--checkpoint-sync", "slipway", environment={"SLIPWAY_CHECKPOINT_URI": str(prefix)}
        )
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
        assert f"found {found}" in out
        assert (prefix / "model.pt").read_text() == "weights"


def test_a_job_whose_checkpoints_are_lost_fails_and_names_them(boot: Boot, tmp_path: Path) -> None:
    boot.root = tmp_path / "host"
    prefix = tmp_path / "a-file"
    prefix.write_text("where the folder should be")
    process = boot.start(
        SAVING, "--checkpoint-sync", "slipway", environment={"SLIPWAY_CHECKPOINT_URI": str(prefix)}
    )
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert boot.failure.startswith(f"CKPT004 algo-1: not copied to {prefix} and lost with the host: model.pt")
    assert f"slipway: {boot.failure}" in err


def test_the_script_is_not_told_the_token_of_the_jobs_hosts(boot: Boot) -> None:
    script = "import os; print([name for name in os.environ if 'TOKEN' in name])"
    process = boot.start(script, environment={"SLIPWAY_HOST_TOKEN": "4711"})
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert out.splitlines()[-1] == "[]"
    assert "4711" not in out + err


@pytest.mark.parametrize("lifeline", ["x", "-1", "9" * 30, "987"])
def test_a_lifeline_that_is_none_is_the_failure_reason(boot: Boot, lifeline: str) -> None:
    process = boot.start("print('trained')", environment={"SLIPWAY_LIFELINE": lifeline})
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "trained" not in out
    assert "Traceback" not in err
    assert boot.failure.startswith(
        f"CODE002 SLIPWAY_LIFELINE is {lifeline!r}, which is no open file descriptor"
    )
