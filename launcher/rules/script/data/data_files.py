"""The files of a script's data: the order in which they are listed, and the channels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import origins, parts_of
from launcher.program.index import (
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.process_starts import is_for_one_host
from launcher.program.program import Program
from launcher.program.ranks.reachability import surely_runs
from launcher.program.ranks.training_loops import shares_its_result
from launcher.program.surroundings.channels import (
    CHANNEL_FOLDERS,
    CHANNEL_VARIABLE,
    channel_key,
    channel_reads,
    option_with_default,
    reads_any,
)
from launcher.program.surroundings.commands import started_commands
from launcher.program.values import (
    Made,
    alternatives,
)
from launcher.rules.script.configuration_files import ConfigurationFiles, location_in_file
from launcher.rules.script.data.downloads import short_name
from launcher.rules.script.data.lists import class_around, derives_from, follow_list, sorts_by_time
from launcher.rules.script.data.loaders import Loaders, is_numbered, subscript_by_index
from launcher.rules.script.data.samplers import dealt_datasets
from launcher.rules.script.data.shards import is_cut_by_rank
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at, wrap_node
from launcher.rules.script.starts.job_run import given_option
from launcher.text.values import nearest

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec

LISTINGS = (
    "os.listdir",
    "os.scandir",
    "os.walk",
    "glob.glob",
    "glob.iglob",
    "pathlib.Path.iterdir",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
    *("mmcv.scandir", "mmcv.utils.scandir", "mmengine.scandir", "mmengine.utils.scandir"),
)
"""What answers in the order of the file system."""
IN_A_HOSTS_ORDER = "in the order of the file system"
"""How a finding says so: it is one order for all ranks of a host."""


@finds(Stage.SCRIPT, data.FILES_UNSORTED)
def listings_are_sorted(program: Program) -> Iterator[Finding]:
    """A listing of files in the order of the file system, whose order decides which rank reads what.

    Two hosts may list one folder in different orders. Found where the list is cut by rank, or where a Dataset
    keeps it and reads it by index while a DistributedSampler gives each rank its indices: ranks of different
    hosts then read some files twice, and others never. Listing to count, to delete, to look for a file or for
    the newest checkpoint is fine, and so is what is sorted before it is used. Informational where it is not
    known that a sampler cuts just this Dataset: another may be the one that it cuts; and where the program
    spawns its processes itself, as one host lists a folder for all of them alike.

    Bad: `files = glob.glob(pattern)[rank::world_size]`
    Good: `files = sorted(glob.glob(pattern))[rank::world_size]`

    Source: Python documentation of os.listdir and glob.
    """
    severity = Severity.INFO if is_for_one_host(program) else None
    listings = [
        (call, f"{short_name(name)} answers {IN_A_HOSTS_ORDER}", _sorted(call, name), severity)
        for call, name in program.calls(*LISTINGS)
        if (name != "os.walk" or not _is_sorted_within(call))
    ]
    listings += [
        (call, f"`{name}` prints files {IN_A_HOSTS_ORDER}", None, severity)
        for call, name in _listing_commands(program)
    ]
    listings = [each for each in listings if not shares_its_result(program, scope_of(each[0]))]
    sets = [(each, _OF_A_SET, None, None) for each in _sets_of_files(program)]
    ended = set[ast.expr]()
    for made, why, fix, severity in (*listings, *sets):
        for end in follow_list(program, made):
            use = _use_by_order(program, end)
            if use is None:
                continue
            place, how, consequence, is_sure = use
            if place not in ended:
                ended.add(place)
                timed = _sorting_by_time(program, place, made)
                if timed is not None:  # Hosts that share a file system agree on its times.
                    why, fix = "the files are sorted by the time at which each host wrote them", None
                    severity = severity or Severity.WARNING
                yield finding_at(
                    data.FILES_UNSORTED,
                    made,
                    f"{why}, and {consequence}",
                    related=[
                        *([] if place is made else [related_at(place, how)]),
                        *([] if timed is None else [related_at(timed, "sorted by time here")]),
                    ],
                    severity=severity if is_sure else Severity.INFO,
                    fix=fix,
                )
            break


def _listing_commands(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The commands that list files as the file system does, and are sorted by no other one."""
    for call, _, words in started_commands(program):
        name = words[0].rpartition("/")[2] if words else ""
        unsorted = name in ("find", "fd") or (name == "ls" and not {"-U", "-f"}.isdisjoint(words))
        if unsorted and "sort" not in words:
            yield call, name


def _sorting_by_time(program: Program, place: ast.expr, listing: ast.expr) -> ast.Call | None:
    """Where files of a listing are sorted by time before they are read."""
    for file in {file_of(listing), file_of(place)}:
        for name in ("sorted", "sort"):
            for call in file.calls_of.get(name, ()):
                owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
                given = [*(owner if name == "sort" else call.args)][:1]
                if sorts_by_time(program, call) and listing in {
                    part for each in given for part in parts_of(program, each)
                }:
                    return call
    return None


_OF_A_SET = "a set of texts has another order in each process, by the seed of its hashes"


def _sets_of_files(program: Program) -> Iterator[ast.expr]:
    """The sets of texts that are made of listings, also of keys: numbers have the same hash everywhere."""
    calls = {call for call, _ in program.calls(*LISTINGS)}
    for file in program.files if calls else ():
        adding = [each for name in ("add", "update") for each in file.calls_of.get(name, ())]
        keys = (parent_of(each) for each in file.calls_of.get("keys", ()))
        made: list[ast.expr] = [each for each in keys if isinstance(each, ast.BinOp)]
        made += [each for each in file.scopes if isinstance(each, ast.SetComp)]
        made += [each for name in ("set", "frozenset") for each in file.calls_of.get(name, ())]
        for each in made:
            given = [each]
            for call in adding:
                owner = call.func.value if isinstance(call.func, ast.Attribute) else None
                given += call.args if owner is not None and each in origins(program, owner) else []
            parts = {part for one in given for part in parts_of(program, one)}
            if not parts.isdisjoint(calls) and not any(map(_is_of_numbers, parts)):
                yield each


def _is_of_numbers(part: ast.AST) -> bool:
    """Whether a comprehension, or a map, makes numbers of what it goes through."""
    if isinstance(part, ast.Call):
        return last_name(part.func) == "map" and last_name(part.args[0]) == "int" if part.args else False
    key = part.key if isinstance(part, ast.DictComp) else getattr(part, "elt", None)
    return isinstance(key, ast.Call) and last_name(key.func) in ("int", "len", "hash")


def _use_by_order(program: Program, end: ast.expr) -> tuple[ast.expr, str, str, bool] | None:
    """Where the order of a list decides which rank reads what: the place, how, what comes of it, and whether
    it is surely this list that the ranks share."""
    if is_cut_by_rank(program, end):
        cut = "the ranks cut the list as if it were the same on all: files are read twice, and others never"
        return end, "cut by rank here", cut, True
    if is_numbered(end) and _splits_by_index(program):
        return end, "numbered here", "a name has another number elsewhere, as a class or an index", True
    if (loaded := _loaded_in_order(program, end)) is not None and _splits_by_index(program):
        rows = "rows are numbered by the order of their files: some are read twice, and others never"
        return loaded, "loaded here", rows, True
    kept = _kept_by_dataset(program, end) or _as_dataset(program, end)
    if kept is None or not _splits_by_index(program):
        return None
    read = "an index of a sampler means another file elsewhere: files are read twice, and others never"
    return kept, "read by index here", read, _is_sampled(program, kept)


def _sorted(listing: ast.Call, name: str) -> Fix | None:
    """`sorted(...)` around a listing.

    Not of scandir, whose entries have no order, nor of walk, whose folders have one of their own, nor where a
    set may bring it out of order again.
    """
    if name in ("os.scandir", "os.walk") or {"set", "frozenset"} & set(file_of(listing).calls_of):
        return None
    return Fix(True, wrap_node(listing, "sorted(", ")"))


def _is_sorted_within(call: ast.Call) -> bool:
    """Whether the loop or comprehension over `os.walk` sorts: `dirs.sort()`, `for name in sorted(names)`."""
    loop = parent_of(call)
    if isinstance(loop, ast.comprehension):
        loop = parent_of(loop)
    if not isinstance(loop, ast.For | ast.ListComp | ast.GeneratorExp):
        return True  # What becomes of the triples is not followed.
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in ("sort", "sorted", "natsorted")
        for node in walk(loop)
    )


def _splits_by_index(program: Program) -> bool:
    """Whether ranks get indices of one dataset: by a sampler of the script, or of a library that wraps it."""
    prepared = (True for _ in program.calls("accelerate.Accelerator.prepare"))
    return any(prepared) or bool(program.analysis(dealt_datasets))


def _loaded_in_order(program: Program, end: ast.expr) -> ast.Call | None:
    """Where `load_dataset` makes one dataset of a list of files, in their order."""
    holder = parent_of(end)
    call = parent_of(holder) if isinstance(holder, ast.keyword) and holder.arg == "data_files" else None
    if isinstance(holder, ast.Dict):  # `data_files={"train": files}`
        outer = parent_of(holder)
        call = parent_of(outer) if isinstance(outer, ast.keyword) and outer.arg == "data_files" else None
    loads = isinstance(call, ast.Call) and program.qualified(call.func) == "datasets.load_dataset"
    return call if loads and isinstance(call, ast.Call) else None


def _is_sampled(program: Program, kept: ast.expr) -> bool:
    """Whether a Dataset that reads here, or a list, is what a sampler or a library deals to the ranks."""
    owner = class_around(kept)
    for given, _ in program.analysis(dealt_datasets):
        own = [each.definition for each in alternatives(program.value(given)) if isinstance(each, Made)]
        if given is kept or any(owner is not None and derives_from(program, each, owner) for each in own):
            return True
    return False


def _as_dataset(program: Program, node: ast.expr) -> ast.expr | None:
    """A list that a DistributedSampler is given as the dataset: what a ConcatDataset makes of the files."""
    call = parent_of(node)
    samplers = program.analysis(Loaders).samplers
    return node if isinstance(call, ast.Call) and call in samplers and call.args[:1] == [node] else None


def _kept_by_dataset(program: Program, node: ast.expr) -> ast.Subscript | None:
    """Where a map-style Dataset reads by its index what a method of it sets: `self.files[index]`."""
    statement = parent_of(node)
    if isinstance(statement, ast.Subscript) and statement.value is node:
        owner = class_around(node)
        return subscript_by_index(program, statement, owner) if isinstance(node, ast.Attribute) else None
    return None


# The channels that a script reads, against those that the job has.


@finds(Stage.SCRIPT, data.CHANNELS_DIFFER)
def channels_are_there(subject: ScriptSubject) -> Iterator[Finding]:
    """A channel that the script reads and the job lacks, or one that the job has and nobody reads.

    `os.environ["SM_CHANNEL_TRAIN"]` without a channel `train` is a KeyError on every host, once they run. A
    path below /opt/ml/input/data that is not there is a warning, as the script may not come to it, and so is
    a channel that no text of the script, hyperparameter or argument names: every host downloads it for
    nothing. So too of a channel that an entry of a configuration file names, and of an option whose default
    is None without it where that surely is taken for a path. Reads under a test or in a try statement, and
    options that the job gives, are left alone.

    Bad: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAINING"])`, for a job with `train`
    Good: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAIN"])`

    Source: SageMaker's documentation of training storage.
    """
    # The job's models cost time that a lint without a job does not pay.
    from launcher.jobs.script_inputs import CHECKPOINT_CHANNEL, RESERVED_CHANNEL

    job, program = subject.job, subject.program
    there = {channel_key(name) for name in (*job.inputs, RESERVED_CHANNEL, CHECKPOINT_CHANNEL)}
    there |= {
        name.removeprefix(CHANNEL_VARIABLE) for name in job.environment if name.startswith(CHANNEL_VARIABLE)
    }
    reads = list(channel_reads(program))
    for read in reads:
        option = option_with_default(read.node)
        if (
            read.key in there
            or not read.is_needed
            or (
                not isinstance(read.node, ast.Subscript)
                and option
                and given_option(subject.job, option) is not None
            )
        ):
            continue
        what = "the variable is not set" if read.by_variable else "no such folder on the hosts"
        what = "KeyError" if isinstance(read.node, ast.Subscript) else what
        yield finding_at(
            data.CHANNELS_DIFFER,
            read.node,
            f"{_lacking(job, read.name)}: {what}",
            severity=None if read.by_variable else Severity.WARNING,
            remedy=_remedy(job, read.name),
        )
    yield from _configured_channels(subject, there)
    if reads and not reads_any(program):
        texts = {text.lower() for text in _texts(subject)}
        for name in (name for name, each in job.inputs.items() if each.lustre is None):
            if channel_key(name) not in {read.key for read in reads} and not any(
                name.lower() in text for text in texts
            ):
                yield finding_at(
                    data.CHANNELS_DIFFER,
                    reads[0].node,
                    f"the script reads other channels, and nowhere `{name}` of the job: every host downloads "
                    "it for nothing",
                    severity=Severity.WARNING,
                    remedy=f"Remove `inputs.{name}`, or read it from {CHANNEL_VARIABLE}{channel_key(name)}.",
                )


def _lacking(job: JobSpec, channel: str) -> str:
    return f"the job has no channel `{channel}` (it has {', '.join(sorted(job.inputs)) or 'none'})"


def _remedy(job: JobSpec, channel: str) -> str:
    meant = nearest(channel, list(job.inputs))
    return f"Did you mean `{meant[0]}`?" if meant else f"Add `inputs: {{{channel}: s3://BUCKET}}`."


def _configured_channels(subject: ScriptSubject, there: set[str]) -> Iterator[Finding]:
    """The channels that the job lacks and an entry of a configuration file names, which the program surely
    reads: by its folder, or as `${oc.env:SM_CHANNEL_TRAIN}`."""
    program, job = subject.program, subject.job
    files = program.analysis(ConfigurationFiles)
    if not any(_CHANNEL.search(each) for each in files.texts()):
        return
    reported = set[object]()
    reads: list[ast.Attribute | ast.Subscript] = []
    for file in program.files:
        reads += [*file.nodes(ast.Attribute), *file.nodes(ast.Subscript)]
    for node in (each for each in reads if isinstance(each.ctx, ast.Load)):
        entry = files.entry(node, program.words or ())
        if entry is None or not entry.is_chosen or len(entry.values) != 1 or not entry.sources:
            continue
        named = _CHANNEL.match(str(entry.values[0]))
        channel = named and (named["folder"] or named["variable"].lower())
        if channel is None or channel_key(channel) in there or entry.sources[0] in reported:
            continue
        if surely_runs(program, node):
            reported.add(entry.sources[0])
            by_variable = bool(named and named["variable"])
            what = "the variable is not set" if by_variable else "no such folder on the hosts"
            yield data.CHANNELS_DIFFER.finding(
                Stage.SCRIPT,
                f"{_lacking(job, channel)}: {what}",
                remedy=_remedy(job, channel),
                severity=None if by_variable else Severity.WARNING,
                location=location_in_file(*entry.sources[0]),
                subject=".".join(entry.sources[0][1]),
            )


_CHANNEL = re.compile(
    rf"{CHANNEL_FOLDERS}/(?P<folder>[\w.-]+)|\$\{{oc\.env:{CHANNEL_VARIABLE}(?P<variable>\w+)\}}"
)
"""How a configuration file names a channel, or its variable without a default."""


def _texts(subject: ScriptSubject) -> Iterator[str]:
    """All that could name a channel: texts of the script, and what the job gives it."""
    for file in subject.program.files:
        yield from (text for _, text in file.texts())
    job = subject.job
    yield from subject.program.analysis(ConfigurationFiles).texts()
    yield from map(str, (*job.hyperparameters.values(), *job.code.arguments, *job.environment.values()))
