"""Which ranks write a checkpoint: one of them, each its own file, or all of them the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.bindings import are_exclusive
from launcher.program.dataflow import argument_of, has_star_arguments, origins, parts_of, text_parts, unmoved
from launcher.program.index import (
    ancestors_in_function,
    file_of,
    last_name,
)
from launcher.program.objects.nodes import walk
from launcher.program.process_starts import is_for_one_host
from launcher.program.program import Program, calls_as_given, joining_calls
from launcher.program.ranks.guards import Guards
from launcher.program.ranks.participants import OpenParticipants, Participants
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.training_loops import calls_beside
from launcher.program.ranks.truths import Guard, Truth
from launcher.program.ranks.uniformity import OpenUniformity, Uniformity
from launcher.program.surroundings.saves import (
    SAVED_FOLDER,
    SAVERS,
    WRITE_ON_ONE_RANK,
    path_of_file,
)
from launcher.program.values import (
    DDP,
    Constant,
    Instance,
    RankKind,
    RankValue,
)
from launcher.rules.script.data.by_libraries import trainers_of_several
from launcher.rules.script.data.downloads import is_made_once
from launcher.rules.script.findings import (
    finding_at,
    guard_by_rank_zero,
    related_at,
)


@finds(Stage.SCRIPT, checkpoints.RANKS_WRITE_SAME_FILE)
def one_rank_writes_a_file(program: Program) -> Iterator[Finding]:
    """`torch.save` that every rank, or one rank of each host, runs with one path.

    The ranks overwrite each other's file, in the middle of the write where the file system is shared. A path
    that may differ between ranks, and a save that some ranks may not come to, say nothing; nor does one of
    each host below /tmp, which each has for itself. A folder that a configuration names is one for all hosts
    where nothing in it hints at a host or a clock. The same holds for safetensors, joblib, torch.jit and
    save_pretrained of a transformers model, for torch_xla's save with `master_only=False`, and, as a warning,
    for a text that the program goes on to read, such as a configuration of DeepSpeed: another rank may have
    emptied it just then. Information of a document that is only written, by `json.dump` or its like. A test
    of one rank that `or` joins with one of how far the training is lets every rank save then.

    Of a class of Lightning the hooks count that its Trainer calls on every rank. A file that is made where it
    is missing is asked for as what every rank prepares (DATA009).

    Informational where the script comes to nothing that makes it one of several processes, as a converter
    does that shares a module with the training, and where only what it imports makes the group, as inference.

    Bad: `torch.save(model.state_dict(), "model.pt")`. Good: the same under `if dist.get_rank() == 0:`, or
    with `f"model-{rank}.pt"`. Source: developer guide, model-checkpoints.
    """
    making = [call for call, _ in joining_calls(program)]
    by_lightning = [call for call, _ in trainers_of_several(program)]
    if not making and not by_lightning:
        return
    participants = program.analysis(Participants)
    several = program.analysis(Reachability).is_one_of_several([*making, *by_lightning])
    severity = None if several else Severity.INFO
    states = (*calls_as_given(program, *SAVERS), *_models_saved(program))
    texts = dict.fromkeys(_texts_read_again(program), "open")
    documents = [
        (call, name)
        for call, name in program.calls(*_DOCUMENTS)
        if (file := _file_of_document(program, call)) is not None
        and file not in texts
        and file.args
        and _OF_A_MODEL.search(ast.unparse(file.args[0]))
    ]
    for call, name in (*states, *texts.items(), *documents):
        where = ("file", 0) if name == "open" else _DOCUMENTS.get(name) or SAVERS.get(name, SAVED_FOLDER)
        told = _LESS.get(name, Severity.INFO if name in _DOCUMENTS else None)
        path = path_of_file(program, argument_of(call, *where))
        by_itself = WRITE_ON_ONE_RANK.get(name)
        if by_itself and not _is_off(program, argument_of(call, *by_itself)):
            continue
        if path is None or (name in _DOCUMENTS and path is argument_of(call, *where)):
            continue
        who = participants.ranks_running(call)
        entering = who if who is not None else program.analysis(OpenParticipants).ranks_running(call)
        of_hosts = _guard_of_each_host(program, entering)
        written = ast.unparse(path)
        if of_hosts is not None and program.analysis(OpenUniformity).is_uniform(path):
            yield from _saved_by_hosts(program, call, path, of_hosts, severity or told)
        elif not participants.uniformity.is_uniform(path):
            if who is True:
                yield from _overwritten_by_hosts(program, call, path, severity)
        elif who is True and not is_made_once(program, call, path):
            yield finding_at(
                checkpoints.RANKS_WRITE_SAME_FILE,
                call,
                f"every rank saves to `{written}`: they overwrite each other, on a shared file system in the "
                "middle of the write, and the file that is left may be torn",
                remedy=f"Leave out `{by_itself[0]}=False`, {_OR_BY_NAME}"
                if by_itself
                else f"Save on one rank, under `if dist.get_rank() == 0:`, {_OR_BY_NAME}",
                severity=severity or told,
                fix=None if participants.early or by_itself else guard_by_rank_zero(call),
                related=[related_at(each, "asked before there is a group") for each in participants.early],
            )
        elif who is None and (counted := _also_for_all(program, call)) is not None:
            yield finding_at(
                checkpoints.RANKS_WRITE_SAME_FILE,
                call,
                f"one rank saves to `{written}`, and where `{ast.unparse(counted)}` every rank, as `and` "
                "binds more tightly than `or`: they overwrite each other",
                remedy="Ask for the rank beside both: `rank == 0 and (... or ...)`.",
                severity=severity or told,
                related=[related_at(counted, "true on every rank")],
            )


def _guard_of_each_host(program: Program, who: Truth) -> Guard | None:
    """The guard that lets one rank of every host come to a statement; the number that `spawn` gives is the
    rank."""
    if not isinstance(who, Guard) or who.kind is not RankKind.LOCAL or who.outside:
        return None
    return who if who.members == frozenset({0}) and not _is_spawned(program, who) else None


ON_EVERY_HOST = "one rank of every host"
"""How a finding begins that needs several hosts."""


def _saved_by_hosts(
    program: Program, call: ast.Call, path: ast.expr, who: Guard, severity: Severity | None
) -> Iterator[Finding]:
    """A path that is the same on all hosts, of each of which one rank saves."""
    if not is_a_hosts_own(program, path):
        yield finding_at(
            checkpoints.RANKS_WRITE_SAME_FILE,
            call,
            f"{ON_EVERY_HOST} saves to `{ast.unparse(path)}`: on a file system that the hosts share, "
            "or in the one S3 prefix that their checkpoint folders go to, they overwrite each other",
            remedy="Save on global rank 0 alone, or put the host's number into the name.",
            severity=severity or Severity.WARNING,
            related=[] if who.test is None else [related_at(who.test, "true on one rank of every host")],
        )


_OR_BY_NAME = "or put the rank into the file's name where each rank holds another part."


def _is_off(program: Program, given: ast.expr | None) -> bool:
    return given is not None and program.value(given) == Constant(False)


def _also_for_all(program: Program, call: ast.Call) -> ast.expr | None:
    """The test of how far a training is that lets every rank come to a save, beside one that is for one rank:
    `first and step % 100 == 0 or step == last`."""
    truth = program.analysis(Guards).truth
    inner: ast.AST = call
    for outer in ancestors_in_function(call):
        test = outer.test if isinstance(outer, ast.If) and inner in outer.body else None
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            guards = [each for each in test.values if isinstance(truth(each), Guard)]
            counted = [each for each in test.values if each not in guards and _asks_how_far(program, each)]
            if len(guards) == 1 and isinstance(guards[0], ast.BoolOp) and counted:
                everybody = program.analysis(Participants).ranks_running(outer) is True
                return counted[0] if everybody else None
        inner = outer
    return None


def _asks_how_far(program: Program, test: ast.expr) -> bool:
    """Whether a comparison is of a number that counts, the variable of a loop or one that gets larger."""
    parts = [each for each in walk(test) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)]
    counting = {ast.unparse(each.target) for each in file_of(test).nodes(ast.AugAssign)}
    loops = [each.target for each in ancestors_in_function(test) if isinstance(each, ast.For)]
    counting |= {each.id for target in loops for each in walk(target) if isinstance(each, ast.Name)}
    return (
        isinstance(test, ast.Compare)
        and not counting.isdisjoint(map(ast.unparse, parts))
        and not any(isinstance(program.value(each), RankValue) for each in parts)
    )


_DOCUMENTS = {
    **dict.fromkeys(("json.dump", "pickle.dump"), ("fp", 1)),
    **dict.fromkeys(("yaml.dump", "yaml.safe_dump"), ("stream", 1)),
}
"""What writes a whole document into an open file, and which argument is that."""
_OF_A_MODEL = re.compile(r"config|args|vocab|param|setting|label|state", re.IGNORECASE)
_LESS = {"open": Severity.WARNING}


def _file_of_document(program: Program, dump: ast.Call) -> ast.Call | None:
    """The call that opens the file of a document."""
    file = argument_of(dump, *_DOCUMENTS[program.qualified(dump.func) or "json.dump"])
    made = None if file is None else program.value(file)
    return made.call if isinstance(made, Instance) else None


def _overwritten_by_hosts(
    program: Program, call: ast.Call, path: ast.expr, severity: Severity | None
) -> Iterator[Finding]:
    """A path that tells the ranks of one host apart, but not the hosts."""
    if _differs_on_a_host_alone(program, path) and not is_a_hosts_own(program, path):
        yield finding_at(
            checkpoints.RANKS_WRITE_SAME_FILE,
            call,
            f"`{ast.unparse(path)}` tells the ranks of one host apart, but not the hosts: on a file system "
            "that they share, or in the one S3 prefix that their folders go to, they overwrite each other",
            remedy="Put the global rank into the name: `dist.get_rank()`.",
            severity=Severity.INFO if is_for_one_host(program) else severity or Severity.WARNING,
        )


def _differs_on_a_host_alone(program: Program, path: ast.expr, depth: int = 6) -> bool:
    """Whether the rank on its host, and nothing else in a path, differs between the ranks."""
    parts = text_parts(program, path)[0]
    if not parts:
        parts = [each for each in origins(program, path) if each is not None and each is not path]
    differing = [each for each in parts if not program.analysis(Uniformity).is_uniform(each)]
    return bool(differing) and all(
        value.kind is RankKind.LOCAL and value.source != "spawn"
        if isinstance(value := program.value(each), RankValue)
        else depth > 0 and _differs_on_a_host_alone(program, each, depth - 1)
        for each in differing
    )


def _models_saved(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The calls of save_pretrained of a model of Hugging Face's, where nothing tells which rank saves."""
    for file in program.files:
        for call in file.calls_of.get("save_pretrained", ()):
            if (
                not isinstance(call.func, ast.Attribute)
                or has_star_arguments(call)
                or argument_of(call, "is_main_process")
            ):
                continue
            if _is_a_whole_model(program, call.func.value):
                yield call, "save_pretrained"


_MODELS = re.compile(
    r"(transformers|diffusers|peft)\.(\w+\.)*"
    r"(\w*(Model|For[A-Z]|Pipeline)\w*(\.from_(pretrained|config))?|get_peft_model)(\.(to|cuda|train|eval))*"
)
"""What makes a model of Hugging Face's, of which every rank has a whole one."""


def _is_a_whole_model(program: Program, model: ast.expr, depth: int = 4) -> bool:
    """Whether an expression is a model of Hugging Face's, also taken out of the wrapper of DDP."""
    made = program.value(model)
    if isinstance(made, Instance) and _MODELS.fullmatch(made.name):
        return True
    found = [unmoved(each) for each in origins(program, model) if each is not None]
    inner: list[ast.expr | None] = []
    for each in found:
        if isinstance(each, ast.Call) and _MODELS.fullmatch(program.qualified(each.func) or ""):
            continue
        if isinstance(each, ast.Name) and depth:
            inner.append(each)
            continue
        wrappers = (
            origins(program, each.value) if isinstance(each, ast.Attribute) and each.attr == "module" else ()
        )
        wrapped = [
            one for one in wrappers if isinstance(one, ast.Call) and program.qualified(one.func) == DDP
        ]
        if not wrapped or len(wrapped) < len(wrappers) or not depth:
            return False
        inner += [argument_of(one, "module", 0) for one in wrapped]
    return bool(found) and all(
        each is not None and _is_a_whole_model(program, each, depth - 1) for each in inner
    )


def _texts_read_again(program: Program) -> Iterator[ast.Call]:
    """The calls `open(path, "w")` of a file that DeepSpeed or the same function reads without a barrier."""
    imported = (each.module or "" for file in program.files for each in file.imports)
    by_deepspeed = any(each.partition(".")[0] == "deepspeed" for each in imported)
    engines = [call for call, _ in program.calls("deepspeed.initialize")] if by_deepspeed else []
    given = [argument_of(call, "config", 7) or argument_of(call, "config_params") for call in engines]
    configurations = {ast.unparse(each) for each in given if each is not None}
    for file in program.files:
        for call in file.calls_of.get("open", ()):
            path, mode = argument_of(call, "file", 0), argument_of(call, "mode", 1)
            if path is None or not isinstance(mode, ast.Constant) or str(mode.value)[:1] != "w":
                continue
            is_configuration = by_deepspeed and last_name(path) == "deepspeed_config"
            if is_configuration or ast.unparse(path) in configurations or _is_read_behind(call, path):
                yield call


def _is_read_behind(write: ast.Call, path: ast.expr) -> bool:
    """Whether the same function goes on to open a file to read it, and waits for nobody between."""
    written = ast.unparse(path)
    behind = [each for each in calls_beside(write) if each.lineno > write.lineno]
    for read in (each for each in behind if last_name(each.func) == "open" and each.args):
        if are_exclusive(write, read):
            continue  # What is made where it is missing, and is read where it is there.
        mode = argument_of(read, "mode", 1)
        if ast.unparse(read.args[0]) != written or getattr(mode, "value", "r")[:1] != "r":
            continue
        between = [last_name(each.func) or "" for each in behind if each.lineno < read.lineno]
        return not any(re.search("barrier|wait|sync|gather|broadcast|reduce", each) for each in between)
    return False


def _is_spawned(program: Program, guard: Guard) -> bool:
    """Whether a guard asks for the number that `spawn` gives, which is a global rank on a single host."""
    parts = [] if guard.test is None else list(walk(guard.test))
    values = [program.value(each) for each in parts if isinstance(each, ast.expr)]
    return any(isinstance(each, RankValue) and each.source == "spawn" for each in values)


CHECKPOINT_RULES = (one_rank_writes_a_file,)


# Paths that each host has for itself: below /tmp.


_OWN = ("/tmp/", "/dev/shm/")


def is_a_hosts_own(program: Program, path: ast.expr) -> bool:
    """Whether a text that begins below /tmp goes into a path, also as the default of an option."""
    return any(text.startswith(_OWN) for text in texts_in(program, path))


def texts_in(program: Program, path: ast.expr) -> Iterator[str]:
    """The texts of which a path may be made, with those of the defaults of options."""
    options = program.evaluation.attributes.options
    for part in parts_of(program, path):
        defaults = options.defaults(part.attr) if isinstance(part, ast.Attribute) else []
        for each in (part, *(inner for default in defaults for inner in walk(default))):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value
