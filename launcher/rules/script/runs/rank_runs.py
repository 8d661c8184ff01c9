"""The runs of a program as some of the ranks that a job starts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from launcher.cluster.instances import instance_facts
from launcher.failure_modes.model import Related
from launcher.program.execution.objects import CallMade, RankWorld, is_known, known_beginning, text_of
from launcher.program.execution.ranks import (
    RankRun,
    removal_of,
    run_rank,
    variables_of_mpirun,
    variables_of_service,
    variables_of_torchrun,
)
from launcher.program.execution.training_libraries import TRAINING_MODELS
from launcher.program.execution.written_trees import place_of
from launcher.program.index import (
    FileIndex,
    absolute_module_name,
    ancestors,
    is_package,
    last_name,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program, is_of_a_library
from launcher.rules.script.configuration_files import ConfigurationFiles, words_of
from launcher.rules.script.findings import ScriptSubject, related_at
from launcher.rules.script.starts.job_run import failing_tests

if TYPE_CHECKING:
    from launcher.rules.script.runs.package_versions import PackageVersions

TRAINING = (
    "*.backward",
    "*.step",
    "timm.utils.NativeScaler()",
    "lightning.pytorch.Trainer().fit",
    "transformers.Trainer().train",
)
"""What a program calls where it trains."""
_LIBRARIES = (
    *("lightning.", "accelerate.", "transformers.", "trl.", "deepspeed.", "ignite.", "composer.", "ray."),
    *(
        "mmengine.",
        "mmcv.",
        "mmdet.",
        "detectron2.",
        "colossalai.",
        "fastai.",
        "catalyst.",
        "fairscale.",
        "fairseq.",
    ),
    *(
        "torchtitan.",
        "torchtune.",
        "megatron.",
        "nemo.",
        "slipway.",
        "smdistributed.",
        "torch_xla.",
        "xformers.",
    ),
)
"""The libraries that make groups, choose devices, and save and load, without a call that is seen."""
_LOADING_WHEN_ASKED = ("accelerate.", "lightning.", "transformers.", "trl.")
"""Those of them that load where the program says so."""
_ENDINGS = ("Trainer", "Engine", "Runner", "Fabric", "Learner", "Accelerator", "State")
_BEGINNINGS = ("init", "launch", "setup")
"""How the names of their classes end and those of their functions begin that do so."""


_OF_RANKS = re.compile(
    r"rank|main|master|zero|primary|leader|chief|process|host|node|world|sync", re.IGNORECASE
)
"""What a test names that may be another one on each rank."""


_OF_ONE_THING = re.compile(r"\.(setup_logger|get_logger|init_weights|post_init)$")
"""The functions of these libraries that write a log, or fill weights."""


def _does_more(name: str) -> bool:
    """Whether a name of a library, or what it is read of, is of what does more than it is told."""
    if _OF_ONE_THING.search(name):
        return False
    parts = (each.removesuffix("()") for each in name.split("."))
    return any(each.endswith(_ENDINGS) or each.startswith(_BEGINNINGS) for each in parts)


def is_asked_of_ranks(test: ast.AST) -> bool:
    """Whether a test that nobody can tell may be another one on each rank, by what it names."""
    return bool(_OF_RANKS.search(ast.unparse(test)))


def tests_before(event: CallMade) -> list[ast.expr]:
    """The tests of the `if` statements around a call, the innermost first, then around the calls that lead
    to it."""
    calls = (event.node, *reversed(event.callers))
    return [outer.test for call in calls for outer in ancestors(call) if isinstance(outer, ast.If)]


def settings_of(run: RankRun, nodes: Iterable[ast.AST]) -> list[Related]:
    """The options that are read in expressions, as of `args.gpu`, where they are declared."""
    reads = (each.attr for node in nodes for each in walk(node) if isinstance(each, ast.Attribute))
    places = {name: run.options[name] for name in dict.fromkeys(reads) if name in run.options}
    return [related_at(place, f"`{name}` is an option, declared here") for name, place in places.items()]


OF_CHECKOUT = re.compile(
    r"git (-\S+ )*(rev-parse|symbolic-ref|describe|log|status|diff|show|branch|rev-list|remote)\b"
)
"""The commands of git that tell of a checkout, and bring nothing."""


def command_of(event: CallMade) -> str | None:
    """The command that a call of `os.system`, `os.popen` or of `subprocess` runs, as one text; None where
    nobody knows all of it."""
    words = _words(event)
    return " ".join(words) if all(isinstance(each, str) for each in words) else None


def words_of_command(event: CallMade) -> str:
    """The same as far as it is known, with open parts in it."""
    return " ".join(map(text_of, _words(event)))


_COPYING = re.compile(r"(?:cp|mv) [^;&|<>$*]{1,400} ([^\s;&|<>$*]{1,200})$")
"""A shell's command that copies or moves, and where to."""


def copied_into(event: CallMade) -> str | None:
    """The path to which a command copies or moves what it is given; None of others, and where not even the
    folder at its beginning is known."""
    found = _COPYING.match(words_of_command(event))
    return found[1] if found and (is_known(found[1]) or "/" in known_beginning(found[1])) else None


def _words(event: CallMade) -> list[Any]:
    given = event.argument({"os.popen": "cmd", "os.system": "command"}.get(event.name, "args"), 0)
    return list(given) if isinstance(given, list | tuple) else [given]


_OF_PROGRESS = re.compile(
    r"%|epoch|\biter|step|eval|valid|\bbest|\blast|final|interval|freq|every|period", re.I
)
"""What a test names that holds in some turn of a training, if not in the first ones."""


def is_come_to_later(event: CallMade) -> bool:
    """Whether a rank makes a call in some turn of its loops, by what the open tests around it ask for."""
    return all(_OF_PROGRESS.search(ast.unparse(test)) for test in event.tests)


_CHANCE = ("random.", "numpy.random.", "torch.rand", "torch.bernoulli", "secrets.")


def is_by_chance(program: Program, test: ast.AST) -> bool:
    """Whether a test draws a number, or asks for one that its function has drawn."""
    test = place_of(test)
    names = {each.id for each in walk(test) if isinstance(each, ast.Name)}
    function = next((each for each in ancestors(test) if isinstance(each, ast.FunctionDef)), test)
    drawn = [
        each.value
        for each in walk(function)
        if isinstance(each, ast.Assign)
        and names.intersection(target.id for target in each.targets if isinstance(target, ast.Name))
    ]
    return any(
        (program.qualified(each.func) or "").startswith(_CHANCE)
        for place in (test, *drawn)
        for each in walk(place)
        if isinstance(each, ast.Call)
    )


def loops_around(event: CallMade) -> int:
    """How many loops a call stands in, with those around the calls of its functions."""
    calls = (event.node, *event.callers)
    return sum(isinstance(outer, ast.For | ast.While) for call in calls for outer in ancestors(call))


_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")


def _count_spawned(run: RankRun) -> int:
    """How many ranks a process starts by torch.multiprocessing; 0 where it starts none, or nobody knows."""
    counts = (each.argument("nprocs", 2) for each in run.calls(*_SPAWNS))
    return next((each for each in counts if isinstance(each, int)), 0)


class RankRuns:
    """What the first rank of a job does, its neighbour on the same host, and the first rank of the next host.

    Nothing is run before somebody asks. Where the job starts one process on one host, that is the first rank,
    or it starts the ranks by torch.multiprocessing. Other ways of starting ranks are not followed.
    """

    def __init__(self, subject: ScriptSubject) -> None:
        """Of the job that starts the program."""
        self.subject, self.program = subject, subject.program
        self.strategy = str(subject.job.distribution.strategy)
        self.hosts = subject.job.resources.instance_count or 1
        self._started = subject.plan.processes_per_host or 1
        """How many processes the job starts on each host."""

    @property
    def are_launched(self) -> bool:
        """Whether the job starts several ranks, and tells each which one it is."""
        return self.strategy in ("torchrun", "mpi") and self.hosts * self._started > 1

    @property
    def processes(self) -> int:
        """The ranks of each host."""
        return max(self._started, self._spawned)

    @property
    def world_size(self) -> int:
        """The ranks of all hosts."""
        return self.hosts * self.processes

    @cached_property
    def _spawned(self) -> int:
        """How many ranks a program starts that is one process itself; 0 where it starts none so."""
        return _count_spawned(self.begun[0]) if self.begun and not self.are_launched else 0

    def is_of_ranks(self, event: CallMade) -> bool:
        """Whether each rank makes a call, and not the process that starts them by torch.multiprocessing."""
        return self.are_launched or not self._spawning or not self._spawning.isdisjoint(event.callers)

    @cached_property
    def _spawning(self) -> set[ast.Call]:
        return {event.node for run in self.begun[:1] for event in run.calls(*_SPAWNS)}

    @cached_property
    def begun(self) -> list[RankRun]:
        """The runs of these ranks as far as they come, the first one first."""
        if self.program.entry.path.suffix != ".py":
            return []
        if self.are_launched:
            size = self._started
            return list(map(self._run, [0, *([1] if size > 1 else []), *([size] if self.hosts > 1 else [])]))
        if self.strategy != "none" or self.hosts > 1 or self._started > 1:
            return []
        first = self._run(0)
        return [first, self._run(0, child=1)] if _count_spawned(first) else [first]

    def _run(self, rank: int, child: int = 0) -> RankRun:
        files, world = self.program.analysis(ConfigurationFiles), replace(self._world(rank), child=child)
        return run_rank(self.program, world, files.document, files.packaged, self._is_gone, self._lacks)

    @cached_property
    def runs(self) -> list[RankRun]:
        """The runs of these ranks, the first one first; none where one does not come to its end within its
        steps."""
        return self.begun if all(each.is_whole for each in self.begun) else []

    def _lacks(self, module: str) -> bool:
        """Whether nothing that the job installs brings a module, without which the program can go on."""
        return module not in self._needed and self.packages.lacks(module)

    @cached_property
    def _needed(self) -> frozenset[str]:
        """The modules without which the program ends at its start, which is told elsewhere."""
        from launcher.rules.job.requirement_rules import sure_imports  # Which takes its time.

        return frozenset(name.partition(".")[0] for *_, name in sure_imports(self.program))

    def _is_gone(self, name: str) -> bool:
        """Whether the version of a library that the job has surely lacks a name."""
        removal = removal_of(name)
        return removal is not None and self.packages.has_since(*removal) is not None

    @cached_property
    def first(self) -> RankRun | None:
        """The run of rank 0."""
        return self.runs[0] if self.runs else None

    @property
    def neighbour(self) -> RankRun | None:
        """The run of rank 1, where it is on the first host."""
        return self.runs[1] if self.runs and self.processes > 1 else None

    @property
    def next_host(self) -> RankRun | None:
        """The run of the first rank on the second host."""
        return self.runs[-1] if self.runs and self.hosts > 1 else None

    @cached_property
    def trains(self) -> bool:
        """Whether the first rank trains."""
        return self.first is not None and next(self.first.calls(*TRAINING), None) is not None

    @cached_property
    def by_libraries(self) -> bool:
        """Whether a library has a part in it that does by itself what a rule looks for."""
        return bool(self._libraries)

    @property
    def loads_by_libraries(self) -> bool:
        """Whether a library has a part in it that may load a state before anybody asks it to."""
        return any(not each.startswith(_LOADING_WHEN_ASKED) for each in self._libraries)

    @cached_property
    def _libraries(self) -> set[str]:
        names = {each.name for run in self.runs for each in run.events}
        return {each for each in names if each.startswith(_LIBRARIES) and _does_more(each)}

    def may_call(self, pattern: re.Pattern[str], beside: tuple[str, ...] = ()) -> bool:
        """Whether a rank calls something by such a last name of which nobody knows what it does: of a library
        that is not known, of a module that is not there, of an object that nobody can tell. The names of
        those `beside` begin so, and do something else."""
        if any(self._is_missing(each, file) for file in self.program.files for each in file.stars):
            return True
        return any(
            not is_of_a_library(each.name)
            and not each.name.startswith(("lightning.", *beside))
            and each.name not in TRAINING_MODELS
            and pattern.search(f"{last_name(each.node.func) or ''} {each.name.rpartition('.')[2]}")
            for run in self.runs
            for each in run.events
        )

    def _is_missing(self, module: str, file: FileIndex) -> bool:
        """Whether a module of which a file imports all names is not there to be read. A folder without an
        `__init__.py` has none."""
        if is_of_a_library(module) or self.program.module(module, file) is not None:
            return False
        whole = absolute_module_name(module, self.program.module_name(file), is_package(file))
        return not self.program.entries(whole.replace(".", "/"))

    def tests_against(self, call: ast.Call) -> list[Related]:
        """The tests that keep the first rank from a call, and the options that they ask for."""
        if self.first is None:
            return []
        tests = [test for _, test in failing_tests(self.program, self.first.truths.get, call)][:2]
        return [
            *(related_at(each, "this does not hold in this job") for each in tests),
            *settings_of(self.first, tests),
        ]

    def calls(self, *names: str) -> Iterator[CallMade]:
        """The calls of these names by any of the ranks."""
        for run in self.runs:
            yield from run.calls(*names)

    def _world(self, rank: int) -> RankWorld:
        job, size = self.subject.job, self.hosts * self._started
        facts = instance_facts(job.resources.instance_type)
        devices = self._started if facts is None else facts.accelerators
        variables = variables_of_torchrun(size, self._started, rank)
        if self.strategy == "mpi":
            variables = variables_of_mpirun(size, self._started, rank)
        elif not self.are_launched:
            variables = {name: variables[name] for name in ("MASTER_ADDR", "MASTER_PORT")}
        if job.backend == "sagemaker":
            host = rank // self._started
            variables |= variables_of_service(self.hosts, host, devices, list(job.inputs))
        variables |= {name: str(value) for name, value in job.environment.items()}
        return RankWorld(
            rank,
            rank % self._started,
            size,
            self._started,
            devices,
            words_of(job),
            variables,
            self.strategy,
            self._version_of,
        )

    @cached_property
    def packages(self) -> PackageVersions:
        """The versions of packages that the ranks run with."""
        # The tables of images cost time that a lint without a job does not pay.
        from launcher.rules.script.runs.package_versions import PackageVersions

        return PackageVersions(self.subject)

    def _version_of(self, package: str) -> str | None:
        return self.packages.version_of(package)


def sure_events(runs: RankRuns) -> Iterator[CallMade]:
    """What the first rank surely does, with nothing that catches its failure: what it does at once, then what
    it does in a later turn of its loops, and what its loaders do for some item of their datasets."""
    events = [each for run in runs.begun[:1] for each in run.events if not each.is_tried]
    yield from (each for each in events if each.is_sure)
    for each in events:
        if not each.is_sure and is_come_to_later(each):
            yield each
    for each in (each for run in runs.begun[:1] for each in run.sampling if not each.is_tried):
        if is_come_to_later(each) or all(is_by_chance(runs.program, test) for test in each.tests):
            yield each


def end_of(event: CallMade) -> str:
    """How a text says that a rank ends by what it does here."""
    return "every rank ends here" if event.is_sure else "a rank ends here, in the turn in which it comes here"
