"""A script that is watched or under anomaly detection is as it would be without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from slipway.ranks.attendant import ENDED, FAILED, heartbeat_file, read_beat
from slipway.ranks.start import words_for_rank

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 120.0
TORCH = """
class autograd:
    anomalies = False

    @classmethod
    def set_detect_anomaly(cls, mode):
        cls.anomalies = mode
"""
"""As much of torch as the module uses: most tests need no more, and start at once."""


def run(
    folder: Path,
    script: str,
    *arguments: str,
    torch: str | None = TORCH,
    direct: bool = False,
    options: Sequence[str] = (),
    module: str | None = None,
) -> subprocess.CompletedProcess[str]:
    code = folder / "code"
    code.mkdir(exist_ok=True)
    name = "train.py" if module is None else f"{module.replace('.', '/')}.py"
    (code / name).parent.mkdir(exist_ok=True)
    if script:
        (code / name).write_text(textwrap.dedent(script))
    program = [str(code / name)] if module is None else ["-m", module]
    if torch is not None:
        (code / "torch.py").write_text(torch)
    start = [] if direct else ["-m", "slipway.ranks.start", "--heartbeat", "--anomaly"]
    return subprocess.run(
        [sys.executable, *options, *start, *program, *arguments],
        cwd=folder if module is None else code,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "SLIPWAY_STATE": str(folder / "state"),
            "RANK": "3",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("value", [None, "", "0", "true"])
def test_only_1_asks_for_it(value: str | None) -> None:
    environment = {} if value is None else {"SLIPWAY_DETECT_ANOMALY": value}
    words = words_for_rank("/code/train.py", ["--a", "b"], environment)
    assert words == (False, ("/code/train.py", "--a", "b"))


def test_the_script_follows_this_module() -> None:
    words = words_for_rank("/code/train.py", ["--a", "b"], {"SLIPWAY_DETECT_ANOMALY": "1"})
    assert words == (True, ("slipway.ranks.start", "--anomaly", "/code/train.py", "--a", "b"))


def test_a_module_follows_this_module_with_its_dash() -> None:
    words = words_for_rank("pkg.train", ["--a"], {"SLIPWAY_DETECT_ANOMALY": "1"}, is_module=True)
    assert words == (True, ("slipway.ranks.start", "--anomaly", "-m", "pkg.train", "--a"))
    assert words_for_rank("pkg.train", ["--a"], {}, is_module=True) == (True, ("pkg.train", "--a"))


def test_a_script_that_is_watched_follows_this_module_with_its_option() -> None:
    words = words_for_rank("/code/train.py", ["--a"], {"SLIPWAY_DETECT_ANOMALY": "1"}, watched=True)
    assert words == (True, ("slipway.ranks.start", "--heartbeat", "--anomaly", "/code/train.py", "--a"))
    words = words_for_rank("/code/train.py", [], {}, watched=True)
    assert words == (True, ("slipway.ranks.start", "--heartbeat", "/code/train.py"))


def test_detection_is_on_before_the_script_begins(tmp_path: Path) -> None:
    ended = run(tmp_path, "import torch; print(torch.autograd.anomalies)")
    assert ended.stdout == "True\n", ended.stderr


SEEN = """
    import json, sys
    main = sys.modules["__main__"]
    print(json.dumps([__name__, __file__, main.__file__, main.__spec__, sys.argv, sys.path[0]]))
"""


def test_the_script_sees_what_it_would_see_started_directly(tmp_path: Path) -> None:
    here, direct = run(tmp_path, SEEN, "--a", "b c"), run(tmp_path, SEEN, "--a", "b c", direct=True)
    assert json.loads(here.stdout) == json.loads(direct.stdout)


def test_a_module_sees_what_it_would_see_started_directly(tmp_path: Path) -> None:
    script = SEEN.replace("main.__spec__", "main.__spec__.name, __package__")
    here = run(tmp_path, script, "--a", "b c", module="pkg.train")
    direct = run(tmp_path, script, "--a", "b c", module="pkg.train", direct=True)
    assert direct.returncode == 0, direct.stderr
    assert json.loads(here.stdout) == json.loads(direct.stdout)


def test_detection_is_on_before_a_module_begins_and_its_tracebacks_begin_with_it(tmp_path: Path) -> None:
    ended = run(tmp_path, "import torch\nprint(torch.autograd.anomalies)\n1 / 0", module="pkg.train")
    assert ended.stdout == "True\n", ended.stderr
    frames = [line for line in ended.stderr.splitlines() if "File" in line]
    assert len(frames) == 1 and "train.py" in frames[0], ended.stderr


def test_a_package_is_run_by_its_main(tmp_path: Path) -> None:
    (tmp_path / "code" / "pkg").mkdir(parents=True)
    (tmp_path / "code" / "pkg" / "__main__.py").write_text("import sys; print(sys.argv[1:])")
    ended = run(tmp_path, "", "--a", module="pkg")
    assert ended.stdout == "['--a']\n", ended.stderr


def test_processes_that_the_script_spawns_find_its_functions(tmp_path: Path) -> None:
    script = """
        import multiprocessing

        def double(x):
            return 2 * x

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(double, [21]))
    """
    ended = run(tmp_path, script)
    assert ended.stdout == "[42]\n", ended.stderr


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_objects_of_the_scripts_own_classes_travel_between_processes(tmp_path: Path, method: str) -> None:
    script = f"""
        import multiprocessing, pickle

        class Sample:
            def __init__(self, value):
                self.value = value

        def doubled(sample):
            return Sample(2 * sample.value)

        if __name__ == "__main__":
            print(pickle.loads(pickle.dumps(Sample(7))).value)
            with multiprocessing.get_context("{method}").Pool(1) as pool:
                print(pool.map(doubled, [Sample(21)])[0].value)
    """
    ended = run(tmp_path, script)
    assert ended.stdout == "7\n42\n", ended.stderr


def test_the_heartbeat_says_when_the_script_has_ended_and_whether_by_an_exception(tmp_path: Path) -> None:
    scripts = {"pass": ENDED, "raise SystemExit": ENDED, "raise SystemExit(3)": FAILED, "1 / 0": FAILED}
    for script, phase in scripts.items():
        run(tmp_path, script)
        beat = read_beat(heartbeat_file(tmp_path / "state", 3))
        assert beat is not None and beat.phase == phase, script


def test_where_no_heartbeat_can_be_written_the_script_runs_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    ended = run(tmp_path, "print('trained')")
    assert ended.stdout == "trained\n", ended.stderr
    assert "slipway: this rank is not watched: " in ended.stderr


@pytest.mark.parametrize(
    "script",
    [
        "def f():\n    raise ValueError('bad')\nf()",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('bad') from error",
        "import sys; sys.exit(7)",
        "raise SystemExit('no data')",
    ],
)
def test_failures_look_like_those_of_a_script_started_directly(tmp_path: Path, script: str) -> None:
    here, direct = run(tmp_path, script), run(tmp_path, script, direct=True)
    assert (here.returncode, here.stderr) == (direct.returncode, direct.stderr)


def test_a_script_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "x = 1\ndef broken(:")
    assert f'File "{tmp_path / "code" / "train.py"}", line 2' in ended.stderr
    assert "SyntaxError" in ended.stderr.splitlines()[-1]


def test_without_torch_the_script_runs_and_it_is_said(tmp_path: Path) -> None:
    # -S: without the installed packages, of which torch is one.
    ended = run(tmp_path, "print('trained')", torch=None, options=["-S"])
    assert ended.stdout == "trained\n", ended.stderr
    assert ended.stderr == "slipway: no torch here, so no anomaly detection either\n"


@pytest.mark.parametrize(("by_torchrun", "seen"), [("0", "2"), (None, "None")])
def test_the_boots_restarts_are_counted_as_torchruns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_torchrun: str | None, seen: str
) -> None:
    monkeypatch.setenv("SLIPWAY_ATTEMPT", "2")
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    if by_torchrun is not None:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", by_torchrun)
    done = run(tmp_path, "import os; print(os.environ.get('TORCHELASTIC_RESTART_COUNT'))")
    assert done.stdout.splitlines()[-1] == seen
