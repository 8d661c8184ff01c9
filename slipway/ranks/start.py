"""`python -m slipway.ranks.start [--heartbeat] [--anomaly] SCRIPT [ARGUMENT ...]`: how a rank begins.

`-m MODULE [ARGUMENT ...]` in place of the script runs a module. `--heartbeat` counts the script's steps and
answers the boot's questions (`attendant.py`), `--anomaly` turns on autograd's anomaly detection. torch has no
environment variable for that (torch/autograd/anomaly_mode.py), so somebody must call it before the script
does anything: with it torch is loaded already, and what a script sets in `os.environ` for the loading of
torch comes too late. The script finds `__main__`, `sys.argv` and `sys.path` as if it had been started
directly, and its tracebacks begin with it.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from slipway.ranks.attendant import ENDED, FAILED, attend, hold_failed_rank, note_failure

ANOMALY_VARIABLE = "SLIPWAY_DETECT_ANOMALY"
"""1 in the job's environment asks for anomaly detection."""

_ANOMALY, _HEARTBEAT = "--anomaly", "--heartbeat"
_RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT"


def words_for_rank(
    script: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    is_module: bool = False,
    watched: bool = False,
) -> tuple[bool, tuple[str, ...]]:
    """What Python runs: whether it is a module, then its name or file with its arguments.

    Where the script is to be `watched` or anomaly detection is asked for, that is this module, which every
    Python finds by PYTHONPATH.
    """
    options = [_HEARTBEAT] if watched else []
    options += [_ANOMALY] if environment.get(ANOMALY_VARIABLE) == "1" else []
    if not options:
        return is_module, (script, *arguments)
    return True, (__name__, *options, *(["-m"] if is_module else []), script, *arguments)


def main(words: Sequence[str]) -> None:
    """Run the script in `words`, or the module after `-m`; what follows are its arguments."""
    given = list(words)
    options = set()
    while given[0] in (_ANOMALY, _HEARTBEAT):
        options.add(given.pop(0))
    _count_restarts()
    heartbeat = attend(os.environ) if _HEARTBEAT in options else None
    phase = FAILED
    try:
        if given[0] == "-m":
            _run_module(given[1], given[2:], anomaly=_ANOMALY in options)
        else:
            _run_script(given, anomaly=_ANOMALY in options)
        phase = ENDED
    except SystemExit as end:
        phase = FAILED if end.code else ENDED
        raise
    except Exception as error:
        note_failure(error.__traceback__)
        raise
    finally:
        if heartbeat is not None:
            heartbeat.enter(phase)


def _count_restarts() -> None:
    """torchrun counts its own restarts alone, and each of the boot's is a new torchrun to it."""
    restarts = os.environ.get("SLIPWAY_ATTEMPT")
    if restarts is not None and _RESTART_COUNT in os.environ:
        os.environ[_RESTART_COUNT] = restarts


def _run_script(words: Sequence[str], *, anomaly: bool) -> None:
    script = words[0]
    sys.argv = list(words)
    # `-m` put the working directory there; with -P or PYTHONSAFEPATH Python leaves both out.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(script).absolute().parent)
    _begin_tracebacks_in(script)
    if anomaly:
        _detect_anomalies()
    runpy.run_path(script, run_name="__main__")


def _run_module(module: str, arguments: Sequence[str], *, anomaly: bool) -> None:
    # The first becomes the module's file; the working directory is in sys.path as `-m` wants it.
    sys.argv = ["-m", *arguments]
    # Finding the file of a module loads the packages around it.
    if anomaly:
        _detect_anomalies()
    specification = importlib.util.find_spec(module)
    if specification is not None and specification.submodule_search_locations is not None:
        specification = importlib.util.find_spec(f"{module}.__main__")
    if specification is not None and specification.origin is not None:
        _begin_tracebacks_in(specification.origin)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _begin_tracebacks_in(script: str) -> None:
    """Leave this module and runpy out of the script's tracebacks: a failure reason has room for little."""

    def print_exception(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        own = traceback
        while own is not None and own.tb_frame.f_code.co_filename != script:
            own = own.tb_next
        # Python prints what the exception itself holds.
        sys.__excepthook__(kind, error.with_traceback(own or traceback), own or traceback)
        hold_failed_rank()

    sys.excepthook = print_exception


def _detect_anomalies() -> None:
    if importlib.util.find_spec("torch") is None:
        print("slipway: no torch here, so no anomaly detection either", file=sys.stderr, flush=True)
        return
    importlib.import_module("torch").autograd.set_detect_anomaly(True)


if __name__ == "__main__":
    main(sys.argv[1:])
