"""Checkpoints: who writes them, with which keys, and what of them is left when the hosts are gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.script_inputs import CODE_FOLDER, CONTAINER_ROOT, DEFAULT_CHECKPOINT_PATH
from launcher.program.dataflow import argument_of, has_star_arguments, origins, parts_of, text_parts
from launcher.program.index import ancestors, file_of, last_name, scope_of
from launcher.program.process_environment import COMMANDS, is_for_one_host
from launcher.program.program import Program, calls_as_given, joining_calls
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.reachability import Reachability, never_runs
from launcher.program.ranks.truths import Guard
from launcher.program.ranks.uniformity import Uniformity
from launcher.program.surroundings.options import option_of
from launcher.program.surroundings.saves import (
    SAVED_FOLDER,
    SAVED_TO,
    SAVERS,
    is_a_cache,
    path_of_file,
    state_saves,
)
from launcher.program.values import (
    PATH,
    Constant,
    Defined,
    Instance,
    RankKind,
    RankValue,
)
from launcher.rules.script.findings import (
    JobRun,
    ScriptSubject,
    finding_at,
    given_option,
    guard_by_rank_zero,
    related_at,
    spelled_commands,
)


@finds(Stage.SCRIPT, checkpoints.RANKS_WRITE_SAME_FILE)
def one_rank_writes_a_file(program: Program) -> Iterator[Finding]:
    """`torch.save` that every rank, or one rank of each host, runs with one path.

    The ranks overwrite each other's file, in the middle of the write where the file system is shared. A path
    that may differ between ranks, and a save that some ranks may not come to, say nothing; nor does one of
    each host below /tmp, which each has for itself. The same holds for safetensors, joblib, torch.jit and
    save_pretrained of a transformers model, and, as a warning, for a text that the program goes on to read,
    such as a configuration of DeepSpeed: another rank may have emptied it just then.

    Informational where the script comes to nothing that makes it one of several processes, as a converter
    does that shares a module with the training, and where only what it imports makes the group, as inference.

    Bad: `torch.save(model.state_dict(), "model.pt")`. Good: the same under `if dist.get_rank() == 0:`, or
    with `f"model-{rank}.pt"`. Source: developer guide, model-checkpoints.
    """
    making = [call for call, _ in joining_calls(program)]
    if not making:
        return
    participants = program.analysis(Participants)
    severity = None if program.analysis(Reachability).is_one_of_several(making) else Severity.INFO
    states = (*calls_as_given(program, *SAVERS), *_models_saved(program))
    for call, name in (*states, *((each, "open") for each in _texts_read_again(program))):
        where = ("file", 0) if name == "open" else SAVERS.get(name, SAVED_FOLDER)
        path = path_of_file(program, argument_of(call, *where))
        if path is None:
            continue
        who = participants.ranks_running(call)
        written = ast.unparse(path)
        if not participants.uniformity.is_uniform(path):
            if who is True:
                yield from _overwritten_by_hosts(program, call, path, severity)
        elif who is True:
            yield finding_at(
                checkpoints.RANKS_WRITE_SAME_FILE,
                call,
                f"every rank saves to `{written}`: they overwrite each other, on a shared file system in the "
                "middle of the write, and the file that is left may be torn",
                remedy="Save on one rank, under `if dist.get_rank() == 0:`, or put the rank into the file's "
                "name where each rank holds another part.",
                severity=severity or (Severity.WARNING if name == "open" else None),
                fix=None if participants.early else guard_by_rank_zero(call),
                related=[related_at(each, "asked before there is a group") for each in participants.early],
            )
        elif (
            isinstance(who, Guard)
            and who.kind is RankKind.LOCAL
            and who.members == frozenset({0})
            and not who.outside
            and not _is_spawned(program, who)
            and not is_a_hosts_own(program, path)
        ):
            yield finding_at(
                checkpoints.RANKS_WRITE_SAME_FILE,
                call,
                f"one rank of every host saves to `{written}`: on a file system that the hosts share, or in "
                "the one S3 prefix that their checkpoint folders go to, they overwrite each other",
                remedy="Save on global rank 0 alone, or put the host's number into the name.",
                severity=severity or Severity.WARNING,
                related=[] if who.test is None else [related_at(who.test, "true on one rank of every host")],
            )


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
    """The calls of save_pretrained of a transformers model, where nothing tells which rank saves."""
    for file in program.files:
        for call in file.calls_of.get("save_pretrained", ()):
            if (
                not isinstance(call.func, ast.Attribute)
                or has_star_arguments(call)
                or argument_of(call, "is_main_process")
            ):
                continue
            model = program.value(call.func.value)
            name = model.name if isinstance(model, Instance) else ""
            if name.startswith("transformers.") and "Model" in name and ".from_pretrained" in name:
                yield call, "save_pretrained"


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
    file, scope, written = file_of(write), scope_of(write), ast.unparse(path)
    behind = [each for each in file.calls if scope_of(each) is scope and each.lineno > write.lineno]
    for read in (each for each in behind if last_name(each.func) == "open" and each.args):
        mode = argument_of(read, "mode", 1)
        if ast.unparse(read.args[0]) != written or getattr(mode, "value", "r")[:1] != "r":
            continue
        between = [last_name(each.func) or "" for each in behind if each.lineno < read.lineno]
        return not any(re.search("barrier|wait|sync|gather|broadcast|reduce", each) for each in between)
    return False


def _is_spawned(program: Program, guard: Guard) -> bool:
    """Whether a guard asks for the number that `spawn` gives, which is a global rank on a single host."""
    parts = [] if guard.test is None else list(ast.walk(guard.test))
    values = [program.value(each) for each in parts if isinstance(each, ast.expr)]
    return any(isinstance(each, RankValue) and each.source == "spawn" for each in values)


CHECKPOINT_RULES = (one_rank_writes_a_file,)


# Paths that each host has for itself: below /tmp.


_OWN = ("/tmp/", "/dev/shm/")


def is_a_hosts_own(program: Program, path: ast.expr) -> bool:
    """Whether a text that begins below /tmp goes into a path, also as the default of an option."""
    return any(text.startswith(_OWN) for text in _texts_in(program, path))


def _texts_in(program: Program, path: ast.expr) -> Iterator[str]:
    """The texts of which a path may be made, with those of the defaults of options."""
    options = program.evaluation.attributes.options
    for part in parts_of(program, path):
        defaults = options.defaults(part.attr) if isinstance(part, ast.Attribute) else []
        for each in (part, *(inner for default in defaults for inner in ast.walk(default))):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


# Where paths lead in the run of a job, by what they begin with.


_HOST_FOLDERS = {
    "pathlib.Path.home": "~/",
    "pathlib.Path.cwd": "./",
    "os.getcwd": "./",
    "tempfile.gettempdir": "/tmp/",
    "tempfile.mkdtemp": "/tmp/",
    "tempfile.TemporaryDirectory": "/tmp/",
    "tempfile.NamedTemporaryFile": "/tmp/",
}
"""What gives a folder of the host, or a file in one."""

_KEPT_BY_VARIABLE = "SM_"
"""What the names of variables begin with that lead to folders of SageMaker's."""


def path_beginnings(subject: ScriptSubject, path: ast.expr, depth: int = 8) -> list[str | None]:
    """What a path may begin with, by all that it may come from; None where that is not written."""
    made = subject.program.value(path)
    if isinstance(made, Instance) and made.name in _HOST_FOLDERS:
        return [_HOST_FOLDERS[made.name] if argument_of(made.call, "dir") is None else None]
    if isinstance(path, ast.Name) and path.id == "__file__":
        return [None if _leaves_the_code(subject, path) else f"{CODE_FOLDER}/"]
    if not depth:
        return [None]
    if isinstance(path, ast.Name | ast.Attribute):
        option = option_of(subject.program, path)
        name = path.attr if isinstance(path, ast.Attribute) else option.name if option else ""
        given = given_option(subject.job, name, option.node if option else None)
        if given is not None:
            is_path = isinstance(given, str) and given and not given.startswith("${")
            return [str(given) if is_path else None]
        if option is not None:
            return path_beginnings(subject, option.default, depth - 1)
    found = origins(subject.program, path)
    others: list[ast.expr | None] = [each for each in found if not _only_adds(subject.program, each)]
    if found and not others and isinstance(path, ast.Attribute):
        others += subject.program.evaluation.attributes.options.defaults(path.attr)
    return [
        each
        for origin in others
        if not isinstance(origin, ast.Constant) or origin.value not in (None, "")
        for each in _begin_of(subject, origin, depth - 1)
    ]


def _only_adds(program: Program, path: ast.expr | None) -> bool:
    """Whether a path is made of what it was before: `args.out = os.path.join(args.out, name)`."""
    first = next(iter(text_parts(program, path)[0]), None)
    return isinstance(first, ast.Name | ast.Attribute) and path in origins(program, first)


def _leaves_the_code(subject: ScriptSubject, file: ast.Name) -> bool:
    """Whether more parents are taken of a script's own file than there are folders of the code above it."""
    own, root = file_of(file).path, subject.program.root
    above = len(own.relative_to(root).parents) if own.is_relative_to(root) else 1
    up = 0
    for outer in ancestors(file):
        if isinstance(outer, ast.stmt):
            break
        named = outer.func if isinstance(outer, ast.Call) else outer
        up += isinstance(named, ast.Attribute) and named.attr in ("dirname", "parent")
        up += 2 * (isinstance(named, ast.Attribute) and named.attr == "parents")
    return up > above


def _begin_of(subject: ScriptSubject, origin: ast.expr | None, depth: int) -> list[str | None]:
    parts, _ = text_parts(subject.program, origin)
    inner = parts[0] if parts else None
    name = subject.program.qualified(origin.func) if isinstance(origin, ast.Call) else None
    match origin:
        case ast.Constant(value=str() as text) if text:
            return [text]
        case ast.BoolOp(op=ast.Or()):
            return [each for one in origin.values for each in path_beginnings(subject, one, depth)]
        case ast.BinOp(op=ast.Mod()):
            inner = origin.left
        case ast.Attribute(attr="parent"):
            inner = origin.value
        case ast.Attribute(value=owner) if origin.attr == "name" and _begins_on_host(subject, owner):
            inner = owner
        case ast.Attribute() if option_of(subject.program, origin):
            return path_beginnings(subject, origin, depth)
        case ast.Attribute():
            return _beginnings_of_entry(subject, origin, depth)
        case ast.Call(args=[variable, *others]) if name in ("os.environ.get", "os.getenv"):
            return _begin_of_variable(subject, variable, others, depth)
        case ast.Call(func=ast.Attribute(value=owner, attr="with_suffix" | "with_name" | "format")):
            inner = owner
        case ast.Call(args=[path, *_]) if name == "os.path.dirname":
            inner = path
    return [None] if inner is None else path_beginnings(subject, inner, depth)


def _begins_on_host(subject: ScriptSubject, owner: ast.expr) -> bool:
    made = subject.program.value(owner)
    return isinstance(made, Instance) and made.name in _HOST_FOLDERS


def _beginnings_of_entry(subject: ScriptSubject, entry: ast.Attribute, depth: int) -> list[str | None]:
    """What an entry of a library's configuration begins with: by the job's words, or by what the program sets
    it to, or by its default. A file that may be read into it is not read here."""
    program, words, key = subject.program, subject.job.code.arguments, entry.attr
    library = _CONFIGURATIONS.match(program.qualified(entry) or "")
    if library is None or any(re.search(f"[\"'.]{key}[\"'] ?[,=]", file.text) for file in program.files):
        return [None]
    for word, following in pairwise((*words, "")):
        name, sign, value = word.partition("=")
        if re.split(r"[-.]", name)[-1] == key:
            return [value if sign else following]
    if words or any("merge_from_file" in file.calls_of for file in program.files):
        return [None]
    truth = JobRun(subject).truth
    stores = (each for file in program.files for each in file.set_attributes.get(key, ()))
    begins = [
        begin
        for each in stores
        if not never_runs(program, each.node, truth)
        for begin in ([None] if each.value is None else path_beginnings(subject, each.value, depth))
    ]
    return begins or [_OF_CONFIGURATIONS.get(f"{library[0]}.{key}")]


def _begin_of_variable(
    subject: ScriptSubject, variable: ast.expr, others: list[ast.expr], depth: int
) -> list[str | None]:
    """What an environment variable begins with: as the job sets it, or else by the default of its reader."""
    name = subject.program.value(variable)
    if not isinstance(name, Constant) or not isinstance(name.value, str) or not others:
        return [None]
    given = subject.job.environment.get(name.value)
    if given is not None:
        return [str(given)]
    if name.value.startswith(_KEPT_BY_VARIABLE) or subject.program.mentioning(name.value):
        return [None]
    return path_beginnings(subject, others[0], depth)


# What a script saves and loads, judged with the job: what is left when the hosts are gone.


_NOT_LOST = (
    *(f"{CONTAINER_ROOT}/{name}/" for name in ("model", "output", "input")),
    *(f"/{name}" for name in ("fsx", "efs", "mnt", "lustre", "nfs", "gpfs", "shared", "s3", "dbfs")),
)
"""Folders that are kept, or into which a file system may be mounted; all else is deleted with its host."""

_BRINGING = {
    **dict.fromkeys(
        (
            *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move")),
            *(f"os.{name}" for name in ("rename", "renames", "replace", "link")),
        ),
        ("dst", 1),
    ),
    **dict.fromkeys((f"{PATH}.rename", f"{PATH}.replace", f"{PATH}.symlink_to"), ("target", 0)),
    **dict.fromkeys(("os.chdir", "contextlib.chdir"), ("path", 0)),
    "os.symlink": ("src", 0),
    "shutil.make_archive": ("base_name", 0),
    "tarfile.open": ("name", 0),
    "zipfile.ZipFile": ("file", 0),
}
"""What brings files to another place, or makes a path mean one, and which argument says where."""

_MOVING = frozenset(
    {"read_bytes", "put_object", "push_to_hub", "log_artifact", "log_artifacts", "log_model", "main"}
)
"""What may bring a file off its host, or make a relative path mean another folder, as hydra's `main` does."""

_STORES = ("fsspec", "s3fs", "gcsfs", "cloudpathlib")
_OTHER_COMMANDS = ("subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput", "os.popen")
_HARMLESS_COMMANDS = re.compile(
    "apt|apt-get|awk|cat|cd|chmod|clear|conda|cut|date|df|done|du|echo|esac|exit|export|fi|find|for|free|"
    "gcc|git|grep|gunzip|head|hostname|id|ifconfig|ip|kill|killall|ldd|ls|lsb_release|lscpu|lsof|lspci|"
    "md5sum|mkdir|ninja|nproc|numactl|nvcc|nvidia-smi|ping|pip|pip3|pkill|popd|printenv|printf|ps|pushd|pwd|"
    "renice|reset|rm|rmdir|scancel|scontrol|sed|sha256sum|sinfo|sleep|sort|squeue|stat|stty|sync|sysctl|tail|"
    "tee|tensorboard|test|top|touch|tput|tr|ulimit|uname|uniq|unzip|uptime|vmstat|wc|wget|which|whoami"
)
"""What a command may be that leaves files where they are, or fetches others."""

_LOADERS = re.compile("load_(state|model|ckpt|weights)|restore|resum|checkpoint|snapshot")
_CONFIGURATIONS = re.compile(r"(yacs|fvcore\.common|detectron2)\.config\.(CfgNode|get_cfg)")
"""What makes a configuration whose entries a program, its files and a job's words set."""

_OF_CONFIGURATIONS = {"detectron2.config.get_cfg.OUTPUT_DIR": "./output"}
"""What a library's configuration holds where neither the program nor a job's words or files say more."""

_TRAINERS = (
    *(f"transformers.{name}.train" for name in ("Trainer", "Seq2SeqTrainer")),
    *(f"trl.{name}.train" for name in ("SFTTrainer", "DPOTrainer", "RewardTrainer")),
    "lightning.pytorch.Trainer.fit",
)
"""What trains for a script, from the beginning unless it is told where to resume."""

_CHANNELS = ("SM_CHANNEL", "/opt/ml/input")
_OTHER_LOADS = ("json.", "yaml.", "numpy.", "csv.", "toml")


@finds(Stage.SCRIPT, checkpoints.PATH_NOT_KEPT)
def saves_go_where_they_are_kept(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job: `torch.save` to a folder of the host that is deleted with it.

    That is the working directory, /tmp, home, and the checkpoints' folder where the job keeps none. Silent
    where the path is not written in the program, and where anything in it may bring the file elsewhere. A
    warning where the program also saves to other places.

    Bad: `torch.save(state, "model.pt")`. Good: `os.path.join(os.environ["SM_MODEL_DIR"], "model.pt")`.
    Source: developer guide, model-train-storage.
    """
    program, planned = subject.program, subject.plan.checkpoints
    kept = () if planned is None else (planned.local_path,)
    saves = [each for each in state_saves(program) if not is_a_cache(program, each[0])]
    lost = [each for each in saves if _is_lost(subject, each[1], kept)]
    movers, run = _movers(subject, kept) if lost else [], JobRun(subject)
    if any(_may_run(run, each) for each in movers):
        return
    if movers:
        # Of a save that the program never comes to, as of a library's, they are as little seen to run.
        lost = [each for each in lost if program.analysis(Reachability).reaches(each[0])]
    others = [call for call, _ in saves if all(call is not each for each, _ in lost)]
    for call, path in lost:
        where = f"keeps {planned.local_path}" if planned is not None else "keeps no folder for checkpoints"
        yield finding_at(
            checkpoints.PATH_NOT_KEPT,
            call,
            f"`{ast.unparse(path)}` is on the host's own disk, which is deleted with the job; beside "
            f"the folders of the model and the output this job {where}",
            remedy=None if planned is not None else _KEEP_CHECKPOINTS,
            severity=_severity_of(call, others),
        )


_KEEP_CHECKPOINTS = (
    "Add the line `checkpoint: {}` to the job file, which keeps what is saved below "
    f"{DEFAULT_CHECKPOINT_PATH}; save checkpoints there, the final model to os.environ['SM_MODEL_DIR'] and "
    "everything else to os.environ['SM_OUTPUT_DATA_DIR']."
)


def _severity_of(lost: ast.Call, others: list[ast.Call]) -> Severity | None:
    """Information where the same is saved beside it to a place that is kept, a warning where anything is."""
    same = (ast.unparse(each.args[0]) for each in others if each.args and scope_of(each) is scope_of(lost))
    if lost.args and ast.unparse(lost.args[0]) in same:
        return Severity.INFO
    return Severity.WARNING if others else None


def _movers(subject: ScriptSubject, kept: tuple[str, ...]) -> list[ast.Call]:
    """The calls that may bring what is lost to where it is kept, wherever they stand."""
    program = subject.program
    names = (*_BRINGING, *COMMANDS, *_OTHER_COMMANDS)
    lasts = program.known_as({name.rpartition(".")[2] for name in names}) | _MOVING
    of_stores = any(name in file.text for name in _STORES for file in program.files)
    calls = (
        call
        for file in program.files
        for last, calls in file.calls_of.items()
        if of_stores or last in lasts or "upload" in last.lower()
        for call in calls
    )
    return [each for each in calls if _brings_away(subject, each, kept)]


def _brings_away(subject: ScriptSubject, call: ast.Call, kept: tuple[str, ...]) -> bool:
    """Whether a call sends files away, or brings them to a folder that is not deleted with the host."""
    program, last = subject.program, last_name(call.func) or ""
    whole = program.qualified(call.func) or ""
    if "upload" in last.lower() or whole.partition(".")[0] in _STORES:
        return True
    if last in _MOVING:
        return last != "main" or whole == "hydra.main"
    if whole in COMMANDS or whole in _OTHER_COMMANDS:
        commands = spelled_commands(program, call)
        return not commands or any(_may_send(" ".join(words), kept) for words in commands)
    if whole not in _BRINGING or _is_renamed_in_its_folder(call, whole):
        return False
    if whole in ("tarfile.open", "zipfile.ZipFile"):
        mode = argument_of(call, "mode", 1)
        if mode is None or getattr(program.value(mode), "value", "w")[:1] == "r":
            return False
    place = argument_of(call, *_BRINGING[whole])
    return place is None or not _is_lost(subject, place, kept)


_BEFORE_COMMANDS = ("do", "else", "if", "sudo", "then", "time", "while")
_QUOTED = re.compile(r"\"[^\"]{0,400}\"|'[^']{0,400}'|\d?>&\d")


def _may_send(command: str, kept: tuple[str, ...]) -> bool:
    """Whether a shell's command may bring files to where they are kept."""
    for part in re.split(r"[;&|]+", _QUOTED.sub(lambda found: re.sub("[;&|]", " ", found[0]), command)):
        words = part.split()
        while words and words[0] in _BEFORE_COMMANDS:
            words = words[1:]
        match words:
            case []:
                continue
            case ["cp" | "mv" | "rsync", *_, place]:
                if place.startswith("?") or not _is_deleted(place.strip("\"'"), kept):
                    return True
            case [name, *_] if not _HARMLESS_COMMANDS.fullmatch(name.rpartition("/")[2]):
                return True
    return False


def _is_renamed_in_its_folder(call: ast.Call, name: str) -> bool:
    """`os.replace(path + ".tmp", path)`: a file that gets its name once it is whole."""
    if name not in ("os.replace", "os.rename") or len(call.args) != 2:
        return False
    return ast.unparse(call.args[1]) in ast.unparse(call.args[0])


def _is_lost(subject: ScriptSubject, path: ast.expr, kept: tuple[str, ...]) -> bool:
    """Whether a path leads to a folder that is deleted with the host, wherever it comes from."""
    begins = path_beginnings(subject, path)
    return bool(begins) and all(each is not None and _is_deleted(each, kept) for each in begins)


def _is_deleted(begins: str, kept: tuple[str, ...]) -> bool:
    whole = f"{begins.rstrip('/')}/"
    if any(whole.startswith(f"{each.rstrip('/')}/") for each in kept):
        return False
    if not begins.startswith(("/", "~")):
        return "://" not in begins
    return not whole.startswith(_NOT_LOST)


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_loads_a_checkpoint(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job on spot capacity or with retries: a program with a training loop that loads nothing.

    After an interruption it starts from the beginning, though its checkpoints are there. Silent where
    anything in the program may load or resume, by its name or by an argument's.

    Bad: a loop that only saves, or `trainer.train()`. Good: `torch.load` of the newest checkpoint before it.
    Source: developer guide, model-managed-spot-training.
    """
    job, program = subject.job, subject.program
    spot = job.resources.capacity.kind == "spot"
    if not spot and not job.limits.max_retries:
        return
    if subject.plan.checkpoints is None or program.unread or _may_load(subject):
        return
    why = (
        "`capacity: spot` may be interrupted"
        if spot
        else f"`max_retries: {job.limits.max_retries}` starts again"
    )
    trained = (call for file in program.files for call in file.calls_of.get("backward", ()))
    first = next(trained, None) or next((call for call, _ in program.calls(*_TRAINERS)), None)
    if first is not None:
        yield finding_at(
            checkpoints.NOTHING_TO_RESUME_FROM,
            first,
            f"{why}, and nothing in this program loads a checkpoint: it would train from the beginning, "
            "and what was done until then is paid for twice",
            remedy=f"Load the newest checkpoint of {subject.plan.checkpoints.local_path} at the start, "
            "with the states of model, optimizer and scheduler.",
        )


def _may_load(subject: ScriptSubject) -> bool:
    """Whether anything that may run loads a checkpoint: weights to begin with, from a channel, are none."""
    program, run = subject.program, JobRun(subject)
    for file in program.files:
        if file.stars:
            return True
        for call in file.calls:
            name = (last_name(call.func) or "").lower()
            asked = [
                each.value
                for each in call.keywords
                if (each.arg or "").lower().startswith(("resume", "ckpt"))
            ]
            if name == "train" and program.qualified(call.func) in _TRAINERS:
                asked += call.args[:1]
            if not all(_is_nothing(program, each) for each in asked):
                return True
            if _loads_by_name(program, call, name) and _may_run(run, call):
                return True
    return False


def _loads_by_name(program: Program, call: ast.Call, name: str) -> bool:
    if name == "load" and not (program.qualified(call.func) or "").startswith(_OTHER_LOADS):
        path = argument_of(call, "f", 0)
        return path is None or not _is_of_a_channel(program, path)
    if name.startswith("load_state"):
        state = argument_of(call, "state_dict", 0)
        found = () if state is None else origins(program, state)
        return not found or not all(
            isinstance(each, ast.Call) and last_name(each.func) == "load" for each in found
        )
    whole = program.qualified(call.func) or ""
    if name.startswith("gradient_") or whole in SAVED_TO or whole.startswith("torch.utils.checkpoint"):
        return False
    defined = isinstance(program.value(call.func), Defined)
    return not defined and bool(_LOADERS.search(name)) and not name.startswith("save")


def _is_nothing(program: Program, value: ast.expr) -> bool:
    return program.value(value) in (Constant(None), Constant(False))


def _is_of_a_channel(program: Program, path: ast.expr) -> bool:
    """Whether a path leads into the job's inputs, as far as it is written."""
    return any(word in text for text in _texts_in(program, path) for word in _CHANNELS)


def _may_run(run: JobRun, call: ast.Call, deepest: int = 4) -> bool:
    """Whether a call is reached: no test that never holds around it or around each call of its function.

    A function whose callers are not all seen is called where its name is; one that nobody names, by a hook.
    """
    program = run.program
    if not program.analysis(Reachability).reaches(call) or never_runs(program, call, run.truth):
        return False
    function = next((each for each in ancestors(call) if isinstance(each, ast.FunctionDef)), None)
    if function is None or deepest == 0:
        return True
    sites = program.evaluation.callers.call_sites(function)
    if sites == []:
        return bool(function.decorator_list)
    named = [each for file in program.files for each in file.calls_of.get(function.name, ())]
    calls = named if sites is None else [site.call for site in sites]
    return not calls or any(_may_run(run, each, deepest - 1) for each in calls)


STORAGE_JOB_RULES = (saves_go_where_they_are_kept, what_restarts_loads_a_checkpoint)
