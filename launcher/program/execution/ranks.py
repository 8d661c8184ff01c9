"""A program run on its syntax tree as several ranks of one job, and what they called of libraries."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.program.execution.configuration_functions import CONFIGURATION_MODELS
from launcher.program.execution.interpreter import ProgramRun
from launcher.program.execution.objects import (
    CallMade,
    FunctionLeft,
    LoopLeft,
    OutOfSteps,
    ProcessEnded,
    Raised,
    RankWorld,
    TurnEnded,
    text_of,
)
from launcher.program.execution.option_parsers import PARSER_MODELS
from launcher.program.execution.process import Packaged
from launcher.program.execution.python_library import PYTHON_MODELS
from launcher.program.execution.training_libraries import TRAINING_MODELS
from launcher.program.execution.written_trees import place_of
from launcher.program.program import Program
from launcher.program.values import LIBRARY_TABLES

_MODELS = {**PYTHON_MODELS, **PARSER_MODELS, **TRAINING_MODELS, **CONFIGURATION_MODELS}


_REMOVED: dict[str, tuple[str, str]] = LIBRARY_TABLES["removed_names"]


def removal_of(name: str) -> tuple[str, str] | None:
    """The package that has lost a name, and the version from which on it is gone; None where it is there."""
    library, last = name.partition(".")[0], name.rpartition(".")[2]
    return _REMOVED.get(name) or _REMOVED.get(f"{library}.*.{last}")


@dataclass(eq=False)
class RankRun:
    """What one rank did: its calls of libraries in their order, and what ended it before its last statement.

    It `is_whole` where it came to its end within the steps that a run may take. `group` is the call that
    made it one of several, `variables` its environment at the end, `keys` the texts by which entries are read
    of what libraries gave. `options` are the places where its parsers' options are declared, by the names of
    their values, `truths` is what the tests of its `if` statements were, None where that is open or they were
    both, `texts` are the places of the literal texts that it came to, `documents` the names of the
    configuration files that it read, and `sampling` the calls of the workers of its loaders. It `skips_calls`
    where one took too many steps and was left before its end.
    """

    world: RankWorld
    events: list[CallMade]
    is_whole: bool
    ended_by: Raised | ProcessEnded | None
    group: CallMade | None
    variables: Mapping[str, object]
    keys: frozenset[str]
    options: Mapping[str, ast.Call]
    truths: Mapping[ast.AST, bool | None]
    texts: Mapping[str, list[ast.AST]]
    documents: tuple[str, ...]
    sampling: list[CallMade]
    skips_calls: bool = False

    def calls(self, *names: str) -> Iterator[CallMade]:
        """Its calls of these names; `*.save` is a method or function of that last name, of whatever it is."""
        exact = {each for each in names if not each.startswith("*.")}
        lasts = {each[2:] for each in names if each.startswith("*.")}
        for each in self.events:
            if each.name in exact or each.name.rpartition(".")[2] in lasts:
                yield each


def run_rank(
    program: Program,
    world: RankWorld,
    documents: Callable[[str | None], Any] = lambda name: None,
    packaged: Packaged = lambda name: None,
    is_gone: Callable[[str], bool] = lambda name: False,
    lacks: Callable[[str], bool] = lambda module: False,
) -> RankRun:
    """Run a program as one rank. `documents` reads its configuration files, each by its name, and `packaged`
    those of hydra; `is_gone` says which names the job's libraries no longer have, and `lacks` which modules
    nothing brings that it installs. Where it starts itself once more with other words, as a process for each
    device, the first of these processes is a part of the run."""

    def run_process(world: RankWorld) -> RankRun:
        return _finished(ProgramRun(program, _MODELS, world, documents, packaged, is_gone, lacks))

    run = run_process(world)
    starts = ((each, words_of_own(program, each)) for each in run.calls(*STARTING))
    event, words = next(((each, found) for each, found in starts if found), (None, None))
    if event is None or words is None:
        return run
    variables = {name: text for name, text in run.variables.items() if isinstance(text, str)}
    launched = _launched_processes(event)
    if launched is not None:
        variables |= variables_of_torchrun(launched, launched, 0)
        world = replace(world, rank=0, local_rank=0, size=launched, processes_per_host=launched)
    inner = replace(world, words=words, environment=variables)
    return _joined(run, run_process(inner))


STARTING = tuple(f"subprocess.{each}" for each in ("Popen", "run", "call", "check_call", "check_output"))
"""What starts another process."""
_PYTHON = re.compile(r"(^|[/.])(executable|python[\d.]*)$")


def words_of_own(program: Program, event: CallMade) -> tuple[str, ...] | None:
    """The words with which a call starts the program's own file, None where it starts something else."""
    given = event.argument("args", 0)
    words = [text_of(each) for each in given] if isinstance(given, list | tuple) else []
    python = getattr(given[0], "name", given[0]) if words else None
    if not isinstance(python, str) or not _PYTHON.search(python):
        return None
    names = [each.rpartition("/")[2] for each in words]
    own = program.entry.path.name
    if own not in names[1:]:
        return None
    # What torch.distributed.launch adds, as the programs read it that start it.
    by_launch = "torch.distributed.launch" in words and not {"--use_env", "--use-env"} & {*words}
    return ("--local_rank=0",) * by_launch + tuple(words[names.index(own) + 1 :])


def _launched_processes(event: CallMade) -> int | None:
    """How many processes torch.distributed.launch starts; None where it is another command."""
    words = [text_of(each) for each in event.argument("args", 0)]
    if "torch.distributed.launch" not in words and "torch.distributed.run" not in words:
        return None
    number = re.search(r"--nproc[_-]per[_-]node[= ](\d{1,3})\b", " ".join(words))
    return max(1, int(number[1])) if number else 1


def _joined(outer: RankRun, inner: RankRun) -> RankRun:
    """A run and that of the process which it starts, as one."""
    return replace(
        inner,
        world=outer.world,
        events=outer.events + inner.events,
        is_whole=outer.is_whole and inner.is_whole,
        keys=outer.keys | inner.keys,
        options={**outer.options, **inner.options},
        truths={**outer.truths, **inner.truths},
        texts={**outer.texts, **inner.texts},
        documents=tuple(dict.fromkeys((*outer.documents, *inner.documents))),
        sampling=outer.sampling + inner.sampling,
        skips_calls=outer.skips_calls or inner.skips_calls,
    )


def _finished(run: ProgramRun) -> RankRun:
    """What a process does until it ends."""
    whole, ended_by = True, None
    try:
        run.run_entry()
    except (Raised, ProcessEnded) as end:
        ended_by = end
    except (FunctionLeft, LoopLeft, TurnEnded):
        pass  # Outside of a function or loop, which Python itself refuses.
    except (OutOfSteps, RecursionError):
        whole = False
    return RankRun(
        run.world,
        run.events,
        whole,
        run.raised or ended_by,
        run.group,
        run.environ,
        frozenset(run.keys),
        run.options,
        {place_of(test): truth for test, truth in run.truths.items()},
        {text: [*map(place_of, nodes)] for text, nodes in run.texts.items()},
        tuple(dict.fromkeys(run.read_documents)),
        run.sampling,
        run.passed_over > 0,
    )


def variables_of_torchrun(world_size: int, processes: int, rank: int, port: int = 29500) -> dict[str, str]:
    """The variables that torchrun sets for one of its processes."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % processes),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(processes),
        "GROUP_RANK": str(rank // processes),
        "GROUP_WORLD_SIZE": str(world_size // processes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world_size),
        "ROLE_NAME": "default",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "MASTER_ADDR": "algo-1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "none",
    }


def variables_of_mpirun(world_size: int, processes: int, rank: int) -> dict[str, str]:
    """The variables that Open MPI's mpirun sets for one of its processes."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(world_size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % processes),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(processes),
        "OMPI_COMM_WORLD_NODE_RANK": str(rank % processes),
    }


def variables_of_service(hosts: int, host: int, devices: int, channels: list[str]) -> dict[str, str]:
    """The variables that SageMaker sets for the processes of a host."""
    names = [f"algo-{number + 1}" for number in range(hosts)]
    return {
        "SM_HOSTS": json.dumps(names),
        "SM_CURRENT_HOST": names[host],
        "SM_NUM_GPUS": str(devices),
        "SM_MODEL_DIR": "/opt/ml/model",
        "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data",
        "SM_OUTPUT_DIR": "/opt/ml/output",
        "SM_INPUT_DIR": "/opt/ml/input",
        "SM_CHANNELS": json.dumps(channels),
        **{f"SM_CHANNEL_{each.upper()}": f"/opt/ml/input/data/{each}" for each in channels},
    }
