"""The thread that answers the boot's questions leaves the script's end as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from slipway.ranks.attendant import answer_file, question_file
from slipway.ranks.heartbeat import heartbeat_file

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 120.0

ASKED_AT_ITS_END = """
    import os, pickle, sys, threading, types

    def dump(*chosen):
        dumping.set()
        # Comes back only once the script has ended, as PyTorch may.
        while threading.main_thread().is_alive():
            pass
        return pickle.dumps({"entries": []})

    dumping = threading.Event()
    recorder = types.ModuleType("torch._C._distributed_c10d")
    recorder._dump_fr_trace = dump
    sys.modules[recorder.__name__] = recorder
    question = os.open(sys.argv[1], os.O_WRONLY)
    os.write(question, b"1 1\\n")
    dumping.wait()
"""


def test_an_answer_under_way_is_ended_before_the_interpreter_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(ASKED_AT_ITS_END))
    file = heartbeat_file(tmp_path / "state", 3)
    process = subprocess.run(
        [
            *(sys.executable, "-m", "slipway.ranks.start", "--heartbeat"),
            *(str(tmp_path / "train.py"), str(question_file(file))),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "SLIPWAY_STATE": str(tmp_path / "state"),
            "RANK": "3",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(answer_file(file).read_text())["number"] == 1
