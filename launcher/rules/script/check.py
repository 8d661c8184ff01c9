"""All rules on a script, in the order in which their findings are shown, and which findings are accepted.

Findings are accepted by comments (`# slipway: ignore[DDP004] reason`, `ignore-file[...]`), by
`[tool.slipway.lint]` of a project's pyproject.toml and by the command line; a comment that accepts nothing
is told.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import data, distribution, registry, training_script
from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.failure_modes.registry import REGISTRY, finds
from launcher.frozen import frozen
from launcher.program.execution.written_trees import place_of
from launcher.program.index import Unread, ancestors, class_of, file_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Known, Reachability, never_runs, without_unused_files
from launcher.rules import training_compiler
from launcher.rules.script import (
    collectives,
    departures,
    environment,
    forward_passes,
    gradients,
    process_groups,
    processes,
)
from launcher.rules.script.data.data_files import IN_A_HOSTS_ORDER, channels_are_there, listings_are_sorted
from launcher.rules.script.data.downloads import one_rank_downloads
from launcher.rules.script.data.epochs import samplers_know_the_epoch
from launcher.rules.script.data.preparations import ranks_wait_for_what_one_prepares
from launcher.rules.script.data.samplers import (
    samplers_are_used,
    samplers_count_all_ranks,
    samplers_share_their_seed,
    samplers_stand_without_shuffle,
    shuffles_before_a_cut_agree,
    training_data_is_split,
)
from launcher.rules.script.data.shards import shards_are_equally_many
from launcher.rules.script.data.skipped_batches import batches_are_skipped_together
from launcher.rules.script.data.workers.worker_devices import workers_leave_the_devices_alone
from launcher.rules.script.data.workers.worker_resources import (
    prefetched_batches_have_memory,
    workers_are_there,
    workers_have_cpus,
)
from launcher.rules.script.findings import ScriptSubject
from launcher.rules.script.runs.collective_order import ORDER_RUN_RULES
from launcher.rules.script.runs.early_ends import ENDING_RUN_RULES
from launcher.rules.script.runs.file_reads import FILE_RUN_RULES
from launcher.rules.script.runs.library_versions import LIBRARY_RUN_RULES
from launcher.rules.script.runs.meetings import MEETING_RUN_RULES, collective_without_group
from launcher.rules.script.runs.rank_runs import RankRuns
from launcher.rules.script.runs.reduced_gradients import GRADIENT_RUN_RULES
from launcher.rules.script.runs.refused_checkpoints import REFUSED_RUN_RULES
from launcher.rules.script.runs.samplers_and_workers import LOADER, LOADER_RUN_RULES, classes_of_dataset
from launcher.rules.script.runs.saves_and_loads import STATE_RUN_RULES
from launcher.rules.script.runs.shared_files import SHARED_FILE_RUN_RULES
from launcher.rules.script.starts import (
    command_line,
    job_devices,
    launches,
    local_ranks,
    old_python,
    strategies,
    timeouts,
    topology,
)
from launcher.rules.script.starts.job_run import JobRun, as_started, failing_tests, given_option
from launcher.rules.script.states import kept_folders, loading, resuming, state_keys, writers
from launcher.rules.script.states.resuming import NOT_LOADED
from launcher.rules.script.states.shared_folders import SHARED_FOLDER_JOB_RULES, SHARED_FOLDER_RULES
from launcher.rules.script.steps import accumulation, clearings, engines, reductions

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec

# The rules on how a script reads its data.

DATA_RULES = (
    training_data_is_split,
    samplers_stand_without_shuffle,
    samplers_are_used,
    samplers_count_all_ranks,
    samplers_share_their_seed,
    samplers_know_the_epoch,
    listings_are_sorted,
    shards_are_equally_many,
    batches_are_skipped_together,
    shuffles_before_a_cut_agree,
    workers_are_there,
    workers_leave_the_devices_alone,
    one_rank_downloads,
    ranks_wait_for_what_one_prepares,
)

DATA_JOB_RULES = (workers_have_cpus, prefetched_batches_have_memory, channels_are_there)

RULES: tuple[Callable[[Program], Iterator[Finding]], ...] = (
    old_python.words_are_those_of_python,
    collectives.collectives_are_run_by_every_rank,
    collectives.no_collectives_in_exception_handlers,
    *environment.ENVIRONMENT_RULES,
    *topology.TOPOLOGY_RULES,
    *local_ranks.LOCAL_RANK_RULES,
    *process_groups.BACKEND_RULES,
    *processes.DEVICE_RULES,
    *loading.LOADING_RULES,
    *command_line.OPTION_RULES,
    *DATA_RULES,
    *process_groups.GROUP_RULES,
    *timeouts.TIMEOUT_RULES,
    *process_groups.JOINING_RULES,
    *forward_passes.FORWARD_RULES,
    *departures.STEP_RULES,
    *gradients.CLIPPING_RULES,
    *gradients.NO_SYNC_RULES,
    *accumulation.ACCUMULATION_RULES,
    *clearings.CLEARING_RULES,
    *reductions.REDUCTION_RULES,
    *engines.ENGINE_RULES,
    *writers.CHECKPOINT_RULES,
    *SHARED_FOLDER_RULES,
    *loading.COMMAND_RULES,
    *training_compiler.XLA_RULES,
    *process_groups.MEMORY_RULES,
    *state_keys.STATE_KEY_RULES,
    *resuming.RESUMING_RULES,
)

SINGLE_PROCESS_RULES = (
    old_python.words_are_those_of_python,
    *command_line.OPTION_RULES,
    state_keys.keys_are_not_cut_by_partition,
    loading.uploads_are_looked_at,
)
"""The rules that hold for a program of one process as well."""

SEVERAL_HOSTS_CODES = frozenset({"DIST006", "DIST007", "NCCL009"})
"""What goes wrong on several hosts, or beside a second job: informational in a test, which runs on one."""

_OF_SEVERAL_HOSTS = (writers.ON_EVERY_HOST, f"{IN_A_HOSTS_ORDER}, and", processes.NONE_ON_A_SECOND_HOST)
"""The words of findings that hold on several hosts: informational in a job of one."""

SEVERAL_RANKS_CODES = frozenset(
    {
        *("DATA001", "DATA003", "DATA004", "DATA008", "DATA009", "CKPT003", "CKPT008"),
        *("DDP001", "DDP004", "DDP007", "DDP008", "DDP009"),
    }
)
"""What goes wrong between ranks: informational in a job of one process on one device."""

JOB_RULES: tuple[Callable[[ScriptSubject], Iterator[Finding]], ...] = (
    *DATA_JOB_RULES,
    *kept_folders.FOLDER_JOB_RULES,
    *SHARED_FOLDER_JOB_RULES,
    *resuming.RESUMING_JOB_RULES,
    *processes.STRATEGY_JOB_RULES,
    *strategies.STRATEGY_RULES,
    *command_line.WORDS_JOB_RULES,
    *launches.LAUNCH_RULES,
    *job_devices.JOB_DEVICE_RULES,
    *process_groups.MEETING_RULES,
    *timeouts.TIMEOUT_JOB_RULES,
    *training_compiler.XLA_JOB_RULES,
)
"""The rules that judge script and job together; without a job they are silent."""


RUN_RULES: tuple[Callable[[RankRuns], Iterator[Finding]], ...] = (
    *MEETING_RUN_RULES,
    *STATE_RUN_RULES,
    *ENDING_RUN_RULES,
    *LIBRARY_RUN_RULES,
    *REFUSED_RUN_RULES,
    *ORDER_RUN_RULES,
    *LOADER_RUN_RULES,
    *SHARED_FILE_RUN_RULES,
    *FILE_RUN_RULES,
    *GRADIENT_RUN_RULES,
)
"""The rules on what the ranks of a job do; what another rule has found of a mode is not said again."""


def check_program(program: Program) -> Iterator[Finding]:
    """The findings of every rule on the program alone, in the order of RULES; first what could not be read.

    They come one by one, so that those that are there are kept where a later rule takes too long.
    """
    yield from (unread_finding(each, imported=True) for each in program.unread)
    reach = program.analysis(Reachability)
    is_a_test = _is_a_test(program)
    rules = SINGLE_PROCESS_RULES if reach.is_alone else RULES
    used = without_unused_files(program)
    for each in _once_a_place(each for rule in rules for each in rule(used)):
        if _is_reached(reach, each):
            yield _as_information(each) if is_a_test and each.code in SEVERAL_HOSTS_CODES else each


def _as_information(finding: Finding, also: str = "") -> Finding:
    return replace(finding, severity=Severity.INFO, message=f"{finding.message}{also}")


def _is_a_test(program: Program) -> bool:
    """Whether a script is a test, by the names that test runners look for, or that of a folder near it.

    Folders above the program's root say nothing of it: a checkout may lie anywhere.
    """
    inside = Path(os.path.relpath(program.entry.path, program.root))
    named = inside.stem.startswith("test_") or inside.stem.endswith("_test")
    return named or not {"test", "tests"}.isdisjoint(inside.parts[-4:-1])


def _is_reached(reach: Reachability, finding: Finding) -> bool:
    """Whether the program runs what a finding is about, or can't be read for it."""
    place = finding.location
    if finding.code == training_script.SCRIPT_RAISED.code:
        return True
    return place is None or place.line is None or reach.reaches_line(place.file, place.line)


def _once_a_place(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Without what a later rule says of the same mode at the same place."""
    seen: set[object] = set()
    for each in findings:
        place = each.location
        key = None if place is None else (each.code, place.file, place.line, place.column)
        if key is None or key not in seen:
            seen.add(key)
            yield each


def check_script(subject: ScriptSubject) -> Iterator[Finding]:
    """The findings of every rule that reads a program and the job that starts it.

    What is wrong with the program where this job never comes, as behind an option that it does not give, is
    informational.
    """
    subject = replace(subject, program=as_started(subject.program, subject.job))
    program, truth = subject.program, JobRun(subject).truth
    on_one_host, is_alone = subject.job.resources.instance_count == 1, _is_one_process(subject)
    for each in check_program(program):
        if _is_passed_over(program, each, truth):
            each = _as_information(each, _NOT_COME_TO)
        elif on_one_host and each.code == distribution.LOCAL_RANK_AS_RANK.code:
            each = _as_information(each, "; this job has one host, where both ranks are the same")
        elif on_one_host and any(words in each.message for words in _OF_SEVERAL_HOSTS):
            each = _as_information(each, "; this job has one host")
        elif is_alone and each.code in SEVERAL_RANKS_CODES:
            each = _as_information(each, "; this job is one process")
        elif each.message == topology.ENDS_OLD_STORES:
            each = _by_torch_of(subject.job, each)
        elif (option := command_line.switch_of(each)) and _is_meant(given_option(subject.job, option)):
            each = _as_information(each, "; this job does not")
        yield each
    reach = program.analysis(Reachability)
    yield from (each for rule in JOB_RULES for each in rule(subject) if _is_reached(reach, each))


def _by_torch_of(job: JobSpec, finding: Finding) -> Finding:
    """A store on the port of torchrun's agent, as serious as it is with the PyTorch of a job."""
    from launcher.planning.images import torch_version

    version = torch_version(job)
    if version is None:
        return finding
    if version < (2, 7):
        return replace(finding, severity=Severity.ERROR)
    return _as_information(finding, "; that of this job uses the agent's store")


def _is_meant(given: str | None) -> bool:
    """Whether a job leaves a switch as it is, or switches it on as it says."""
    return given is None or given.lower() in ("", "true", "t", "yes", "y", "on", "1")


def _is_one_process(subject: ScriptSubject) -> bool:
    """Whether a job is one process on a host with one device, for which no program starts others."""
    facts = instance_facts(subject.job.resources.instance_type)
    starts_one = subject.job.resources.instance_count == 1 and (subject.plan.world_size or 1) == 1
    return starts_one and facts is not None and facts.accelerators == 1


def check_runs(subject: ScriptSubject, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings of the rules that read, and those of every rule on what the ranks of a job do.

    A mode that the former have found is not said again, but of what ends a script there may be several. What
    a rank does is known better: a load to which one comes was wrongly said to be left out.
    """
    subject = replace(subject, program=as_started(subject.program, subject.job))
    runs = RankRuns(subject)
    try:
        findings = [
            _as_information(each, _NOT_COME_TO) if _is_kept_from(runs, each) else each
            for each in findings
            if not (_is_loaded(runs, each) or _is_never_drawn(runs, each) or _is_ended_before(runs, each))
        ]
    except Exception:
        # A rank that cannot be followed, or not in time, takes nothing away of what was read.
        yield from findings
        raise
    told = {each.code for each in findings}
    found = {each.code for each in findings if each.severity is not Severity.INFO}
    found -= {training_script.SCRIPT_RAISED.code}
    places = {(each.code, each.location and each.location.line) for each in findings}
    yield from findings
    by_runs = (
        each
        for rule in RUN_RULES
        for each in rule(runs)
        if each.code not in (told if each.severity is Severity.INFO else found)
    )
    yield from (each for each in by_runs if (each.code, each.location and each.location.line) not in places)


def _is_kept_from(runs: RankRuns, finding: Finding) -> bool:
    """Whether no rank comes to what a finding is about, and the tests are known that keep them from it."""
    place = finding.location
    if place is None or finding.severity is Severity.INFO or not finding.code.startswith(_OF_WHAT_RUNS):
        return False
    file = next((each for each in runs.program.files if str(each.path) == place.file), None)
    if file is None or not runs.runs:
        return False
    leaving = (each for kind in _LEAVING for each in file.nodes(kind))
    about = next((each for each in (*file.calls, *leaving) if _location(each) == place), None)
    if about is None:
        return False
    events = (each for run in runs.runs for each in (*run.events, *run.sampling))
    made = {each.node for each in events}
    if any(each.lineno == place.line and file_of(place_of(each)) is file for each in made):
        return False
    ways: list[ast.AST] = [about]
    # A constructor is come to where its class is called.
    owners = [class_of(each) for each in ancestors(about) if getattr(each, "name", "") == "__init__"]
    if owners and owners[0] is not None:
        ways = [call for each in runs.program.files for call in each.calls_of.get(owners[0].name, ())]
    return bool(ways) and all(
        way not in made and failing_tests(runs.program, run.truths.get, way)
        for run in runs.runs
        for way in ways
    )


def _is_loaded(runs: RankRuns, finding: Finding) -> bool:
    """Whether a rank comes to a load that is said to be left out, and the test where that was found holds or
    only asks for a file."""
    left_out = {each.location for each in finding.related if each.message in NOT_LOADED}
    if not left_out:
        return False
    for load in runs.calls("torch.load", "*.load_state_dict"):
        tests = [each for each in load.tests if _location(each) == finding.location]
        if _location(load.node) in left_out and all(
            _ASKING_FOR_FILES.search(ast.unparse(each)) for each in tests
        ):
            return True
    return False


def _is_ended_before(runs: RankRuns, finding: Finding) -> bool:
    """Whether ranks that are said to train each for itself end before, at a collective without a group."""
    return finding.code == distribution.RANKS_NEVER_MET.code and collective_without_group(runs) is not None


def _is_never_drawn(runs: RankRuns, finding: Finding) -> bool:
    """Whether a dataset is said to be put into an order by chance, and no rank does so that makes it."""
    place = finding.location
    if finding.code != data.SAMPLER_SEED_DIFFERS.code or place is None or runs.first is None:
        return False
    made = {node for each in runs.calls(LOADER) for node in classes_of_dataset(each)}
    inside = any(
        _location(each).file == place.file and each.lineno <= place.line <= (each.end_lineno or each.lineno)
        for each in made
    )
    return inside and not any(_location(each.node) == place for run in runs.runs for each in run.events)


_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise)
"""The statements by which some ranks leave the others."""
_OF_WHAT_RUNS = ("DDP", "CKPT007", "CKPT008", "DATA001", "DATA004", "DATA009")
"""The modes of what goes wrong where it runs; others say that something never runs."""
_NOT_COME_TO = "; this job does not come here"
_HAS_GROUP = "torch.distributed.is_initialized"
_ASKING_FOR_FILES = re.compile(r"\b(exists|isfile|is_file|isdir|is_dir)\b")


def _location(node: ast.AST) -> Location:
    place = place_of(node)
    return file_of(place).location(place)


def _is_passed_over(program: Program, finding: Finding, known: Known) -> bool:
    """Whether no process of a job comes to what a finding is about, by what somebody knows of its tests."""
    place = finding.location
    line = None if place is None else place.line
    file = next((each for each in program.files if place is not None and str(each.path) == place.file), None)
    if file is None or line is None or finding.severity is Severity.INFO:
        return False
    if finding.code == training_script.SCRIPT_RAISED.code:
        return False
    statements = [each for each in walk(file.tree) if isinstance(each, ast.stmt)]
    around = [each for each in statements if each.lineno <= line <= (each.end_lineno or each.lineno)]

    def known_later(test: ast.expr) -> bool | None:
        """The same once the group is made, before which others ask."""
        is_asked = isinstance(test, ast.Call) and program.qualified(test.func) == _HAS_GROUP
        return True if is_asked else known(test)

    return bool(around) and all(never_runs(program, around[-1], each) for each in (known, known_later))


def codes_found(with_job: bool) -> frozenset[str]:
    """The codes whose findings are complete: without a job not those that a rule needs one for."""
    by_rules = _codes(RULES)
    by_job_rules = _codes((*JOB_RULES, *RUN_RULES))
    return by_rules | by_job_rules if with_job else by_rules - by_job_rules


def _codes(rules: Iterable[Callable[..., object]]) -> frozenset[str]:
    listed = set(rules)
    return frozenset(mode.code for each in REGISTRY if each.function in listed for mode in each.modes)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def unfinished_finding(path: Path, reason: str, remedy: str) -> Finding:
    """A script with which the rules do not come to an end, so that they may have more to say. A warning."""
    return training_script.SCRIPT_RAISED.finding(
        Stage.SCRIPT,
        f"not judged to the end: {reason}",
        remedy=remedy,
        severity=Severity.WARNING,
        location=Location(str(path), 1, 1),
        subject=path.name,
    )


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def unread_finding(unread: Unread, *, imported: bool) -> Finding:
    """A file that this Python cannot read: nothing in it was judged.

    An error for a script itself. One that is only imported may be meant for another version, or be imported
    where its ImportError is caught.

    Bad: `print "epoch", 1`, which is Python 2. Good: `print("epoch", 1)`.

    Source: Python's grammar, in the version that runs `launch`.
    """
    return training_script.SCRIPT_RAISED.finding(
        Stage.SCRIPT,
        f"not judged: {unread.reason}",
        remedy=(
            "Every rank would end with this error when it is imported. Where it is meant for another version "
            "of Python, run `launch` with that one; where it is no program, leave it out (`exclude`)."
        ),
        severity=Severity.WARNING if imported else Severity.ERROR,
        location=Location(str(unread.path), max(1, unread.line), max(1, unread.column)),
        subject=Path(unread.path).name,
    )


# What stands above a rule, taken apart: for the page of the rules, for `launch explain` and for SARIF.
#
# A rule's docstring says in this order what it finds, why that matters and where it is silent, then `Bad:`
# and `Good:` with a line of code each, and last `Source:`.


@frozen
class RuleDescription:
    """The parts of a rule's docstring as Markdown, each without the word that begins it."""

    rule: str
    finds: str
    why: str
    bad: str
    good: str
    source: str
    codes: tuple[str, ...]
    with_job: bool


def rule_descriptions() -> list[RuleDescription]:
    """Those of all rules on scripts, in the order in which their findings are shown.

    None under `python -OO`, which leaves docstrings out.
    """
    codes = {each.function: tuple(mode.code for mode in each.modes) for each in registry.REGISTRY}
    plain: list[Callable[..., Any]] = [*RULES, unread_finding]
    every: list[Callable[..., Any]] = [*plain, *JOB_RULES, *RUN_RULES]
    return [_described(rule, codes[rule], with_job=rule not in plain) for rule in every if getdoc(rule)]


def descriptions_of(code: str) -> list[RuleDescription]:
    """Those of the rules that find a failure mode."""
    return [each for each in rule_descriptions() if code in each.codes]


def _described(rule: Callable[..., Any], codes: tuple[str, ...], *, with_job: bool) -> RuleDescription:
    """A part that the docstring lacks is empty."""
    prose, _, rest = (getdoc(rule) or "").partition("\n\nBad:")
    example, _, source = rest.rpartition("Source:")
    bad, _, good = example.partition("Good:")
    finds, _, why = prose.partition("\n\n")
    return RuleDescription(
        rule=rule.__name__,
        finds=_joined(finds),
        why=_joined(why),
        bad=_joined(bad),
        good=_joined(good),
        source=_joined(source),
        codes=codes,
        with_job=with_job,
    )


def _joined(text: str) -> str:
    """Each paragraph on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
