"""Whether all ranks mean one folder by the name of a checkpoint of which each of them saves a part."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, constant_argument, origins, parts_of, text_parts
from launcher.program.differences.sources import own_calls, source_of_difference, surely_differs
from launcher.program.index import file_of, statement_of
from launcher.program.process_environment import changed_variables
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.truths import Guard
from launcher.program.surroundings.options import SET_ANYWAY, option_of
from launcher.program.surroundings.saves import SAVERS, path_of_file, spelling_of_path
from launcher.program.values import Constant, RankValue
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at
from launcher.rules.script.starts.job_run import JobRun, given_option

_OF_A_CHECKPOINT = {
    **dict.fromkeys(
        (f"torch.distributed.checkpoint.{each}" for each in ("save", "async_save", "save_state_dict")),
        (("checkpoint_id", None),),
    ),
    **dict.fromkeys(
        ("deepspeed.DeepSpeedEngine.save_checkpoint", "deepspeed.PipelineEngine.save_checkpoint"),
        (("save_dir", 0), ("tag", 1)),
    ),
    "accelerate.Accelerator.save_state": (("output_dir", 0),),
    "megatron.core.dist_checkpointing.save": (("checkpoint_dir", 1),),
}
"""The calls by which a library saves a whole checkpoint, and which arguments name its folder."""
_SHARED_SAVES = {**_OF_A_CHECKPOINT, "torch.distributed.checkpoint.FileSystemWriter": (("path", 0),)}
"""Checkpoints of which each rank writes its part into a folder, and which arguments name that folder."""

_AMONG_FEWER = ("process_group", "no_dist")
"""By which arguments not all ranks save together."""

_LOADS = {"torch.load": ("f", 0), "safetensors.torch.load_file": ("filename", 0)}

_DefaultOf = Callable[[ast.expr], "ast.expr | None"]
"""What an expression is made of in one job, where the program leaves that to its surroundings."""


@finds(Stage.SCRIPT, checkpoints.RANKS_NAME_OTHER_FOLDERS)
def ranks_mean_one_folder(program: Program) -> Iterator[Finding]:
    """A checkpoint below a folder that each rank names for itself, by a clock or a random name.

    The parts that the ranks save lie in as many folders, and none of them holds a whole checkpoint; or the
    file that rank 0 saves is looked for by the others where it never was. The same of the tag that DeepSpeed
    is told, which is a folder too; of files with the rank in their names, which are parts of one checkpoint;
    and of a rank in the name of the folder itself, where a library puts the parts together.

    A warning where a clock names it, by which ranks may come to one second; a name by the day is one that
    all have. Silent where the name is made before processes are spawned, is sent to the others, or may be
    given from outside.

    Bad: `dcp.save(state, checkpoint_id=f"runs/{uuid.uuid4()}")` on every rank. Good: the job's name, or one
    that `dist.broadcast_object_list` sends from rank 0.

    Source: torch.distributed.checkpoint's documentation: every rank writes below one checkpoint_id.
    """
    for call, path, read in _shared_paths(program):
        source = _named_for_itself(program, path, _nothing_more)
        if source is None and read is None and not any(argument_of(call, each) for each in _AMONG_FEWER):
            source = _rank_within(program, call, path)
        if source is not None:
            yield _of_other_folders(program, call, path, source, read)


@finds(Stage.SCRIPT, checkpoints.RANKS_NAME_OTHER_FOLDERS)
def ranks_mean_one_folder_by_default(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job: a folder that each rank names for itself, as the job gives no name for it.

    By the default of an option or of an environment variable, or by what stands for one that is empty: each
    process calculates that for itself.

    Bad: `parser.add_argument("--run", default=time.strftime("%H%M%S"))`, and no `run` in the job. Good: the
    job's name as the default.

    Source: torch.distributed.checkpoint's documentation: every rank writes below one checkpoint_id.
    """
    program, default_of = subject.program, _defaults_in_job(subject)
    for call, path, read in _shared_paths(program):
        if _named_for_itself(program, path, _nothing_more) is None:
            source = _named_for_itself(program, path, default_of)
            if source is not None:
                yield _of_other_folders(program, call, path, source, read)


def _of_other_folders(
    program: Program, call: ast.Call, path: ast.expr, source: tuple[str, ast.expr], read: ast.Call | None
) -> Finding:
    by_all = "each rank saves its part into a folder of its own, and none holds the whole checkpoint"
    name, place = source
    by_clock = name.startswith(_CLOCKS)
    own, made = file_of(call).location(call), file_of(place).location(place)
    related = [] if read is None else [related_at(read, "looked for by every rank here")]
    if (own.file, own.line) != (made.file, made.line):
        related.append(Related(made, "named here"))
    return finding_at(
        checkpoints.RANKS_NAME_OTHER_FOLDERS,
        call,
        f"`{ast.unparse(path)}` has another name on each rank (by {name}): "
        + (by_all if read is None else "the others look for what rank 0 saves where it never was"),
        severity=Severity.WARNING if by_clock else None,
        related=related,
    )


_CLOCKS = ("time.", "datetime.")


def _shared_paths(program: Program) -> Iterator[tuple[ast.Call, ast.expr, ast.Call | None]]:
    """The paths that all ranks have to mean alike: the save, the folder, and the load of what one rank saves.

    Folders of files with the rank in their names are given up to that name.
    """
    making = [call for call, _ in joining_calls(program)]
    if not making or not program.analysis(Reachability).joins_others(making):
        return
    ranks_running = program.analysis(Participants).ranks_running
    for call, name in program.calls(*_SHARED_SAVES):
        named = (argument_of(call, *each) for each in _SHARED_SAVES[name])
        for path in named if ranks_running(call) is True else ():
            if path is not None:
                yield call, path, None
    for call, name in program.calls(*SAVERS):
        path = path_of_file(program, argument_of(call, *SAVERS[name]))
        if path is not None and ranks_running(call) is True:
            yield from ((call, each, None) for each in _folder_before_rank(program, path))
    yield from _read_elsewhere(program)


def _folder_before_rank(program: Program, path: ast.expr) -> list[ast.expr]:
    """What stands in a path before the last slash that the rank is behind: `runs/{name}/` of a path such as
    `runs/{name}/rank{rank}.pt`; nothing where no rank is in it."""
    before: list[ast.expr] = []
    closed = 0
    for piece in _pieces(program, path):
        if piece is None or (isinstance(piece, ast.Constant) and "/" in str(piece.value)):
            closed = len(before)
        elif isinstance(program.value(piece), RankValue):
            return before[:closed]
        elif not isinstance(piece, ast.Constant):
            before.append(piece)
    return []


def _pieces(program: Program, path: ast.expr, depth: int = 8) -> Iterator[ast.expr | None]:
    """What a path is put together from, in its order, with None for each slash between."""
    parts, between = text_parts(program, path)
    if not parts:
        made = origins(program, path)
        only = made[0] if len(made) == 1 and not isinstance(program.value(path), RankValue) else None
        if only is None or only is path or not depth:
            yield path
        else:
            yield from _pieces(program, only, depth - 1)
    for number, part in enumerate(parts):
        if number and between:
            yield None
        yield from _pieces(program, part, depth - 1) if depth else (part,)


def _rank_within(program: Program, call: ast.Call, path: ast.expr) -> tuple[str, ast.expr] | None:
    """The rank in the name of a folder into which a library puts the parts of all ranks."""
    if program.qualified(call.func) not in _OF_A_CHECKPOINT:
        return None
    for piece in _pieces(program, path):
        value = None if piece is None else program.value(piece)
        if isinstance(value, RankValue) and piece is not None and value.source:
            return value.source, call
    return None


def _named_for_itself(
    program: Program, path: ast.expr, default_of: _DefaultOf
) -> tuple[str, ast.expr] | None:
    """By what each rank surely names a path for itself, and where; None where they may agree on it."""
    if not surely_differs(program, path, default_of):
        return None
    ranks_running = program.analysis(Participants).ranks_running
    parts = [each for each in parts_of(program, path) if isinstance(each, ast.expr)]
    for each in (path, *(told for part in parts if (told := default_of(part)) is not None)):
        made = list(own_calls(program, each))
        source = source_of_difference(program, each)
        if source is not None and made:
            # What a job leaves empty in `args.name or uuid4()` it leaves empty for all ranks.
            places = made if default_of is _nothing_more else map(statement_of, made)
            return (source, made[0]) if all(ranks_running(one) is True for one in places) else None
    return None


def _nothing_more(_: ast.expr) -> None:
    """The program alone leaves everything open that its surroundings may give."""


def _defaults_in_job(subject: ScriptSubject) -> _DefaultOf:
    """What the options and variables of a program are made of that a job does not give."""
    program, job, run = subject.program, subject.job, JobRun(subject)
    changed = {each.name for each in changed_variables(program)}

    def default_of(node: ast.expr) -> ast.expr | None:
        option = option_of(program, node) if isinstance(node, ast.Name | ast.Attribute) else None
        match node:
            case ast.Name() | ast.Attribute() if option is not None:
                return option.default if given_option(job, option.name, option.node) is None else None
            case ast.BoolOp(op=ast.Or()):
                return next((each for each in node.values if not is_empty(each)), None)
            case ast.IfExp():
                truth = run.truth(node.test)
                return None if truth is None else node.body if truth else node.orelse
            case ast.Call(args=[variable, default]) if program.qualified(node.func) in _READERS:
                name = constant_argument(program, variable)
                is_open = name is None or name.value in changed or name.value in job.environment
                return None if is_open or SET_ANYWAY.fullmatch(str(name and name.value)) else default
        return None

    def is_empty(node: ast.expr) -> bool:
        return program.value(default_of(node) or node) in (Constant(None), Constant(""))

    return default_of


_READERS = ("os.environ.get", "os.getenv")


def _read_elsewhere(program: Program) -> Iterator[tuple[ast.Call, ast.expr, ast.Call]]:
    """The files that one rank saves and that every rank loads: the save, its path and the load."""
    ranks_running = program.analysis(Participants).ranks_running
    loads = [(call, argument_of(call, *_LOADS[name])) for call, name in program.calls(*_LOADS)]
    read = {
        spelled: call
        for call, path in loads
        if path is not None
        and ranks_running(call) is True
        and (spelled := spelling_of_path(program, path)) is not None
    }
    for call, name in program.calls(*SAVERS) if read else ():
        path, who = path_of_file(program, argument_of(call, *SAVERS[name])), ranks_running(call)
        if path is not None and isinstance(who, Guard) and who.members == frozenset({0}) and not who.outside:
            found = read.get(spelling_of_path(program, path) or "")
            if found is not None:
                yield call, path, found


SHARED_FOLDER_RULES = (ranks_mean_one_folder,)

SHARED_FOLDER_JOB_RULES = (ranks_mean_one_folder_by_default,)
