"""Where a checkpoint is saved: what a path begins with in the run of a job, and what outlives the host."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.jobs.script_inputs import CODE_FOLDER, CONTAINER_ROOT, DEFAULT_CHECKPOINT_PATH, channel_folder
from launcher.program.dataflow import argument_of, constant_argument, origins, origins_of_binding, text_parts
from launcher.program.index import (
    Binding,
    BindingKind,
    ancestors,
    file_of,
    last_name,
    parent_of,
    scope_of,
    statement_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.process_environment import changed_variables
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability, never_runs
from launcher.program.surroundings.commands import COMMANDS, spelled_commands
from launcher.program.surroundings.options import SET_ANYWAY, option_of
from launcher.program.surroundings.saves import (
    LIGHTNING_LOGS,
    is_a_cache,
    state_saves,
)
from launcher.program.values import (
    PATH,
    Constant,
    External,
    Instance,
    like,
)
from launcher.rules.script.configuration_files import ConfigurationFiles, location_in_file, words_of
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at
from launcher.rules.script.starts.job_run import JobRun, given_option, may_run
from launcher.rules.script.states.writers import texts_in

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
OUTPUT_FOLDER = f"{CONTAINER_ROOT}/output"
"""The folder of which only `data` is kept; SM_OUTPUT_DIR leads to it."""


@frozen
class Beginning:
    """What a path begins with, None where that is not written, and where it is: in the program, or in the
    files of its configuration, of which perhaps nobody knows which a run reads (`is_guessed`)."""

    text: str | None
    place: ast.expr | None = None
    sources: tuple[tuple[Path, tuple[str, ...]], ...] = ()
    is_guessed: bool = False


_NOT_WRITTEN = Beginning(None)


def path_beginnings(subject: ScriptSubject, path: ast.expr, depth: int = 12) -> list[Beginning]:
    """What a path may begin with, by all that it may come from; by what it is in the job's run where it may
    come from several."""
    found = _all_beginnings(subject, path, depth)
    if len(found) != 1 or found[0].text is None:
        known = default_constant(subject.program, path)
        if known is not None and isinstance(known.value, str) and known.value:
            return [Beginning(known.value, path)]
    return found


def _all_beginnings(subject: ScriptSubject, path: ast.expr, depth: int) -> list[Beginning]:
    made = subject.program.value(path)
    if isinstance(made, Instance) and made.name in _HOST_FOLDERS:
        of_host = argument_of(made.call, "dir") is None
        return [Beginning(_HOST_FOLDERS[made.name], path) if of_host else _NOT_WRITTEN]
    if isinstance(path, ast.Name) and path.id == "__file__":
        return [_NOT_WRITTEN if _leaves_the_code(subject, path) else Beginning(f"{CODE_FOLDER}/", path)]
    if not depth:
        return [_NOT_WRITTEN]
    if isinstance(path, ast.Name | ast.Attribute) and _COUNTED.fullmatch(last_name(path) or ""):
        return [Beginning("0", path)]
    if isinstance(path, ast.Name | ast.Attribute):
        option = option_of(subject.program, path)
        name = path.attr if isinstance(path, ast.Attribute) else option.name if option else ""
        given = given_option(subject.job, name, option.node if option else None)
        if given is not None:
            is_path = isinstance(given, str) and given and not given.startswith("${")
            return [Beginning(str(given)) if is_path else _NOT_WRITTEN]
        if option is not None:
            return path_beginnings(subject, option.default, depth - 1)
    found = _before_more_is_added(subject.program, path)
    others: list[ast.expr | None] = [each for each in found if not _only_adds(subject.program, each)]
    # A rank tells the others by a file what it has put together; a field has its default where the command
    # line, of which it is itself, gives it nothing.
    told = [each for each in others if not _is_read_back(each) and each is not path]
    others = told or others
    if found and not others and isinstance(path, ast.Attribute):
        others += subject.program.evaluation.attributes.options.defaults(path.attr)
    elif found and not others:  # A parameter that is given such a path.
        begun = {ast.unparse(first): first for each in found for first in _first_parts(subject.program, each)}
        return [each for first in begun.values() for each in path_beginnings(subject, first, depth - 1)]
    return [
        each
        for origin in others
        if not isinstance(origin, ast.Constant) or origin.value not in (None, "")
        for each in _begin_of(subject, origin, depth - 1)
    ]


def _as_attribute(program: Program, path: ast.expr) -> ast.expr:
    """`args.out` for `getattr(args, "out", None)` and for `vars(args)["out"]`."""
    key: ast.expr | None = None
    owner = path
    if isinstance(path, ast.Call) and program.qualified(path.func) == "getattr" and len(path.args) > 1:
        owner, key = path.args[:2]
    elif isinstance(path, ast.Subscript):
        made, key = program.value(path.value), path.slice
        table = made.call if isinstance(made, Instance) and made.name == "vars" else None
        owner = table.args[0] if table is not None and table.args else path
    name = constant_argument(program, key)
    if owner is path or name is None or not isinstance(name.value, str):
        return path
    return like(path, ast.Attribute(owner, name.value, ast.Load()))


def _before_more_is_added(program: Program, path: ast.expr) -> tuple[ast.expr | None, ...]:
    """What a path may come from; of one that gets longer, `path += "/last.pt"`, what it was before."""
    bindings = program.evaluation.sources(path) if isinstance(path, ast.Name) else []
    begun = [each for each in bindings if not _is_added(each)]
    if len(begun) == len(bindings):
        return origins(program, path)
    return tuple(one for each in begun for one in origins_of_binding(program, each))


def _is_added(binding: Binding) -> bool:
    node = binding.node if isinstance(binding.node, ast.AugAssign) else parent_of(binding.node)
    return binding.kind is BindingKind.CHANGED and isinstance(getattr(node, "op", None), ast.Add)


def _is_read_back(origin: ast.expr | None) -> bool:
    """Whether a text is all that a file holds, `file.read().strip()`."""
    while isinstance(origin, ast.Call) and isinstance(origin.func, ast.Attribute):
        if origin.func.attr in ("read", "read_text", "readline"):
            return True
        origin = origin.func.value
    return False


def _only_adds(program: Program, path: ast.expr | None) -> bool:
    """Whether a path is made of what it was before: `args.out = os.path.join(args.out, name)`."""
    return any(path in origins(program, first) for first in _first_parts(program, path))


def _first_parts(program: Program, path: ast.expr | None) -> list[ast.expr]:
    """The name or attribute with which a path begins, where it does so."""
    begun = text_parts(program, path)[0][:1]
    return [each for each in begun if isinstance(each, ast.Name | ast.Attribute)]


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
        if isinstance(named, ast.Subscript) and last_name(named.value) == "parents":
            level = getattr(named.slice, "value", 1)
            up += 1 + (level if isinstance(level, int) else 1)
    return up > above


def _begin_of(subject: ScriptSubject, origin: ast.expr | None, depth: int) -> list[Beginning]:
    parts, _ = text_parts(subject.program, origin)
    inner = next((each for each in parts if not _is_empty(subject, each)), None)
    name = subject.program.qualified(origin.func) if isinstance(origin, ast.Call) else None
    if isinstance(origin, ast.Call) and name == "os.path.join":
        written = takewhile(lambda each: isinstance(each, ast.Constant), origin.args)
        folders = [str(getattr(each, "value", "")) for each in written]
        if folders[1:]:
            return [Beginning(posixpath.join(*folders), origin)]
    match origin:
        case ast.Call() | ast.Subscript() if (read := _as_attribute(subject.program, origin)) is not origin:
            return path_beginnings(subject, read, depth)
        case ast.Constant(value=str() as text) if text:
            return [Beginning(text, origin)]
        case ast.BoolOp(op=ast.Or()):
            return [each for one in origin.values for each in path_beginnings(subject, one, depth)]
        case ast.BinOp(op=ast.Mod()) if inner is None:
            inner = origin.left
        case ast.Attribute(attr="parent"):
            inner = origin.value
        case ast.Subscript(value=ast.Attribute(value=owner, attr="parents")):
            inner = owner
        case ast.Attribute(value=owner) if origin.attr == "name" and _begins_on_host(subject, owner):
            inner = owner
        case ast.Attribute() if option_of(subject.program, origin):
            return path_beginnings(subject, origin, depth)
        case ast.Attribute() if _CONFIGURATIONS.match(subject.program.qualified(origin) or ""):
            return _beginnings_of_entry(subject, origin, depth)
        case ast.Call(args=[variable, *others]) if name in ("os.environ.get", "os.getenv"):
            return _begin_of_variable(subject, variable, others, depth)
        case ast.Subscript(slice=variable) if subject.program.value(origin.value) == External("os.environ"):
            return _begin_of_variable(subject, variable, [], depth)
        case ast.Call(func=ast.Attribute(value=owner, attr="with_suffix" | "with_name")):
            inner = owner
        case ast.Call(func=ast.Attribute(value=owner, attr="format")) if inner is None:
            inner = owner
        case ast.Call(func=ast.Attribute(attr="strftime"), args=[*_, form]):
            inner = form
        case ast.Call(args=[ast.Name(id="__name__")]) if name == "os.path.abspath":
            return [Beginning("./", origin)]  # The name of a module is no absolute path.
        case ast.Call(args=[path, *_]) if name == "os.path.dirname":
            inner = path
    if inner is not None:
        return path_beginnings(subject, inner, depth)
    files = subject.program.analysis(ConfigurationFiles)
    held = None if origin is None else files.entry(origin, words_of(subject.job))
    if held is None and isinstance(origin, ast.Attribute | ast.Subscript):
        stores = _stores_of_entry(subject.program, origin)
        if isinstance(origin, ast.Subscript) or not any(origin.attr in each for each in files.texts()):
            found = [each for one in stores for each in path_beginnings(subject, one, depth)]
            return found or [_NOT_WRITTEN]
    if held is None:
        known = default_constant(subject.program, origin)
        if known is None or not isinstance(known.value, str) or not known.value:
            return [_NOT_WRITTEN]
        return [Beginning(known.value, origin)]
    values = (_WHERE_IT_RUNS.sub("./", each) if isinstance(each, str) else None for each in held.values)
    texts = (None if each is None or each.startswith("${") else each for each in values)
    return [Beginning(each, None, held.sources, not held.is_chosen) for each in texts]


_WHERE_IT_RUNS = re.compile(r"^\$\{hydra:(runtime\.(cwd|output_dir)|run\.dir)\}")
"""How hydra's files name the folder in which the program was started, or one below it."""

_COUNTED = re.compile(r"(\w+_)?(epoch|step|iter|iteration|rank|seed)s?|iteration_number|i|e|it|n_iter")
"""What numbers are called with which the name of a file may begin."""


def _is_empty(subject: ScriptSubject, part: ast.expr) -> bool:
    return JobRun(subject).value(part) == Constant("")


def _stores_of_entry(program: Program, entry: ast.Attribute | ast.Subscript) -> list[ast.expr]:
    """What a program sets an entry of a configuration to, on what has its name: `cfg.folder = "./runs"`."""
    owner = last_name(entry.value)
    if isinstance(entry, ast.Attribute):
        found = (each for file in program.files for each in file.set_attributes.get(entry.attr, ()))
        stores = [each for each in found if owner != "self" and each.name.split(".")[-2] == owner]
    else:
        key = constant_argument(program, entry.slice)
        items = (file.set_items.get(str(key and key.value), ()) for file in program.files)
        written = ast.unparse(entry)
        stores = [each for found in items for each in found if ast.unparse(each.node) == written]
    return [] if any(each.value is None for each in stores) else [each.value for each in stores if each.value]


def _begins_on_host(subject: ScriptSubject, owner: ast.expr) -> bool:
    made = subject.program.value(owner)
    return isinstance(made, Instance) and made.name in _HOST_FOLDERS


def _beginnings_of_entry(subject: ScriptSubject, entry: ast.Attribute, depth: int) -> list[Beginning]:
    """What an entry of a library's configuration begins with: by the job's words, or by what the program sets
    it to, or by its default. A file that may be read into it is not read here."""
    program, words, key = subject.program, subject.job.code.arguments, entry.attr
    library = _CONFIGURATIONS.match(program.qualified(entry) or "")
    if library is None or any(re.search(f"[\"'.]{key}[\"'] ?[,=]", file.text) for file in program.files):
        return [_NOT_WRITTEN]
    for word, following in pairwise((*words, "")):
        name, sign, value = word.partition("=")
        if re.split(r"[-.]", name)[-1] == key:
            return [Beginning(value if sign else following)]
    if words or any("merge_from_file" in file.calls_of for file in program.files):
        return [_NOT_WRITTEN]
    truth = JobRun(subject).truth
    stores = (each for file in program.files for each in file.set_attributes.get(key, ()))
    begins = [
        begin
        for each in stores
        if not never_runs(program, each.node, truth)
        for begin in ([_NOT_WRITTEN] if each.value is None else path_beginnings(subject, each.value, depth))
    ]
    return begins or [Beginning(_OF_CONFIGURATIONS.get(f"{library[0]}.{key}"))]


def _begin_of_variable(
    subject: ScriptSubject, variable: ast.expr, others: list[ast.expr], depth: int
) -> list[Beginning]:
    """What an environment variable begins with: as the job or the program sets it, or else by the default of
    its reader."""
    name = subject.program.value(variable)
    if not isinstance(name, Constant) or not isinstance(name.value, str):
        return [_NOT_WRITTEN]
    given = subject.job.environment.get(name.value)
    changes = [each for each in changed_variables(subject.program) if each.name == name.value]
    if name.value == "SM_OUTPUT_DIR" and not changes:
        return [Beginning(f"{OUTPUT_FOLDER}/", variable)]
    if any(each.only_unset and SET_ANYWAY.fullmatch(name.value) for each in changes):
        return [_NOT_WRITTEN]
    if given is not None:
        return [Beginning(None if changes else str(given))]
    if changes:
        values = [path_beginnings(subject, each.value, depth) for each in changes]
        return [each for found in values for each in found or [_NOT_WRITTEN]]
    if name.value.startswith(_KEPT_BY_VARIABLE) or subject.program.mentioning(name.value) or not others:
        return [_NOT_WRITTEN]
    return path_beginnings(subject, others[0], depth)


# What a script saves and loads, judged with the job: what is left when the hosts are gone.


_NOT_LOST = (
    *(f"{CONTAINER_ROOT}/{name}/" for name in ("model", "output/data", "input")),
    *(f"/{name}" for name in ("fsx", "efs", "mnt", "lustre", "nfs", "gpfs", "shared", "s3", "dbfs")),
)
"""Folders that are kept, or into which a file system may be mounted; all else is deleted with its host."""


@frozen
class KeptFolders:
    """Where the files of a job outlive its hosts besides the folders of the model and the output, and the
    channels to which S3 is downloaded, from where nothing goes back."""

    checkpoints: tuple[str, ...]
    s3_channels: tuple[str, ...]


def kept_folders(subject: ScriptSubject) -> KeptFolders:
    """The folder of the job's checkpoints, and those of its channels that read S3."""
    planned, inputs = subject.plan.checkpoints, subject.job.inputs
    return KeptFolders(
        () if planned is None else (planned.local_path,),
        tuple(f"{channel_folder(name)}/" for name, each in inputs.items() if each.s3_uri is not None),
    )


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

_KEPT_PLACES = re.compile(
    r"\bSM_|(?<![\w/.])(s3|gs|hdfs|abfss?|oss|cos|hf)://|"
    rf"(?<![\w/.])({'|'.join(each.rstrip('/') for each in _NOT_LOST)})(?!\w)"
)
"""What a text holds that names a folder or a variable of one that outlives the host."""

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
_UPLOADING = re.compile(r"-T|--upload-file|-F|--form|-d|--data|-X|--request|-K|--config|\?")
"""The options of curl with which it sends something, or may."""

_CONFIGURATIONS = re.compile(r"(yacs|fvcore\.common|detectron2)\.config\.(CfgNode|get_cfg)")
"""What makes a configuration whose entries a program, its files and a job's words set."""

_OF_CONFIGURATIONS = {"detectron2.config.get_cfg.OUTPUT_DIR": "./output"}
"""What a library's configuration holds where neither the program nor a job's words or files say more."""


@finds(Stage.SCRIPT, checkpoints.PATH_NOT_KEPT)
def saves_go_where_they_are_kept(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job: `torch.save` to a folder of the host that is deleted with it.

    That is the working directory, /tmp, home, and the checkpoints' folder where the job keeps none; and
    Lightning's own folder, where it is told no other. What configuration files say counts; where it is not
    known which of several a run reads, all that lie with the program must say so, and it is a warning; so too
    where the path may come from elsewhere as well. Silent where nothing of it is written in the program, and
    where anything may bring the file to where it is kept. A warning where the program also saves to other
    places.

    Bad: `torch.save(state, "model.pt")`. Good: `os.path.join(os.environ["SM_MODEL_DIR"], "model.pt")`.
    Source: developer guide, model-train-storage.
    """
    program = subject.program
    kept = kept_folders(subject)
    saves = [
        (call, path)
        for call, path in state_saves(program)
        if not (is_a_cache(program, call) or is_removed_again(call))
    ]
    if given_option(subject.job, "default_root_dir") is not None:  # Lightning's parser reads it.
        saves = [each for each in saves if getattr(each[1], "value", None) != LIGHTNING_LOGS]
    lost = [each for each in saves if _is_lost(subject, each[1], kept)]
    moving, run = movers(subject, kept) if lost else [], JobRun(subject)
    if any(may_run(run, each) for each in moving):
        return
    if moving:
        # Of a save that the program never comes to, as of a library's, they are as little seen to run.
        lost = [each for each in lost if program.analysis(Reachability).reaches(each[0])]
    others = [call for call, _ in saves if all(call is not each for each, _ in lost)]
    places: dict[tuple[object, ...], list[ast.Call]] = {}
    first: dict[tuple[object, ...], tuple[ast.expr, Severity | None, list[Related]]] = {}
    for call, path in lost:
        begins = path_beginnings(subject, path)
        guessed = [each.is_guessed or each.text is None for each in begins]
        severity = _severity_of(call, others) or (Severity.WARNING if any(guessed) else None)
        # What `torch.save(*args)` is given stands where its function is called.
        givers = (parent_of(each) for each in call.args)
        place = next((each for each in givers if isinstance(each, ast.Call)), call)
        names = frozenset(each.id for each in walk(path) if isinstance(each, ast.Name)) - {"os", "osp"}
        # One cause, one finding: what a function saves below one folder.
        key: tuple[object, ...] = (scope_of(call).function or file_of(call), severity, names or place)
        first.setdefault(key, (path, severity, _places_of_folder(call, begins)))
        places.setdefault(key, []).append(place)
    for key, (path, severity, related) in first.items():
        place, *further = places[key]
        related += [related_at(each, "saved to the same folder here") for each in further]
        yield lost_state(subject, place, ast.unparse(path), severity, related)


def is_removed_again(save: ast.Call) -> bool:
    """Whether the function that saves a file deletes it further down, as one that asks for its size."""
    names = ("remove", "unlink", "rmtree")
    removing = (call for name in names for call in file_of(save).calls_of.get(name, ()))
    behind = (each for each in removing if each.lineno > save.lineno)
    beside = [each for each in behind if scope_of(each).function is scope_of(save).function]
    given = {ast.dump(each) for each in (*save.args, *(each.value for each in save.keywords))}
    return any(ast.dump(part) in given for call in beside for part in walk(call))


def lost_state(
    subject: ScriptSubject,
    call: ast.Call,
    path: str,
    severity: Severity | None,
    related: Sequence[Related] = (),
) -> Finding:
    """A save to a path of the host's own disk, as it is shown to the user."""
    planned = subject.plan.checkpoints
    where = f"keeps {planned.local_path}" if planned is not None else "keeps no folder for checkpoints"
    return finding_at(
        checkpoints.PATH_NOT_KEPT,
        call,
        f"`{path}` is on the host's own disk, which is deleted with the job; beside "
        f"the folders of the model and the output this job {where}",
        remedy=None if planned is not None else _KEEP_CHECKPOINTS,
        severity=severity,
        related=related,
    )


_KEEP_CHECKPOINTS = (
    "Add the line `checkpoint: {}` to the job file, which keeps what is saved below "
    f"{DEFAULT_CHECKPOINT_PATH}; save checkpoints there, the final model to os.environ['SM_MODEL_DIR'] and "
    "everything else to os.environ['SM_OUTPUT_DATA_DIR']."
)


def _places_of_folder(save: ast.Call, begins: list[Beginning]) -> list[Related]:
    """Where the text stands with which a path begins, or the entry of a configuration that gives it."""
    named = [file_of(each.place).location(each.place) for each in begins if each.place is not None]
    named += [location_in_file(*each) for one in begins for each in one.sources]
    own = file_of(save).location(save)
    places = {(each.file, each.line): each for each in named}
    places.pop((own.file, own.line), None)
    return [Related(each, "the folder is named here") for each in places.values()][:2]


def _severity_of(lost: ast.Call, others: list[ast.Call]) -> Severity | None:
    """Information where the same is saved beside it to a place that is kept, a warning where anything is."""
    same = (ast.unparse(each.args[0]) for each in others if each.args and scope_of(each) is scope_of(lost))
    if lost.args and ast.unparse(lost.args[0]) in same:
        return Severity.INFO
    return Severity.WARNING if others else None


def movers(subject: ScriptSubject, kept: KeptFolders) -> list[ast.Call]:
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
    knows_places = _knows_kept_places(subject, kept)
    return [each for each in calls if _brings_away(subject, each, kept, knows_places)]


def _knows_kept_places(subject: ScriptSubject, kept: KeptFolders) -> bool:
    """Whether the program, its configuration files or the job name any folder that is kept: without that,
    what is copied to where nobody sees goes to none."""
    job, files = subject.job, subject.program.analysis(ConfigurationFiles)
    given = map(str, (*words_of(job), *job.environment.values()))
    texts = (*(each.text for each in subject.program.files), *given, *files.texts())
    return any(_KEPT_PLACES.search(each) or any(one in each for one in kept.checkpoints) for each in texts)


def _brings_away(subject: ScriptSubject, call: ast.Call, kept: KeptFolders, knows_places: bool) -> bool:
    """Whether a call sends files away, or brings them to a folder that is not deleted with the host."""
    program, last = subject.program, last_name(call.func) or ""
    whole = program.qualified(call.func) or ""
    if "upload" in last.lower() or whole.partition(".")[0] in _STORES:
        return True
    if whole == "hydra.main":
        files = program.analysis(ConfigurationFiles)
        may_know = knows_places or next(files.texts(), None) is None
        return may_know and files.sets_the_folder(words_of(subject.job))
    if last in _MOVING:
        return last != "main"
    if whole in COMMANDS or whole in _OTHER_COMMANDS:
        commands = list(spelled_commands(program, call))
        return not commands or any(_may_send(" ".join(words), kept, knows_places) for words in commands)
    if whole not in _BRINGING or _is_renamed_in_its_folder(call, whole):
        return False
    if whole in ("tarfile.open", "zipfile.ZipFile"):
        mode = argument_of(call, "mode", 1)
        if mode is None or getattr(program.value(mode), "value", "w")[:1] == "r":
            return False
    place = argument_of(call, *_BRINGING[whole])
    return knows_places and (place is None or not _is_lost(subject, place, kept))


_BEFORE_COMMANDS = ("do", "else", "if", "sudo", "then", "time", "while")
_QUOTED = re.compile(r"\"[^\"]{0,400}\"|'[^']{0,400}'|\d?>&\d")


def _may_send(command: str, kept: KeptFolders, knows_places: bool) -> bool:
    """Whether a shell's command may bring files to where they are kept."""
    for part in re.split(r"[;&|]+", _QUOTED.sub(lambda found: re.sub("[;&|]", " ", found[0]), command)):
        words = part.split()
        while words and words[0] in _BEFORE_COMMANDS:
            words = words[1:]
        match words:
            case []:
                continue
            case ["cp" | "mv" | "rsync" as name, *_, place]:
                if place.startswith("?"):
                    return knows_places or name == "rsync"
                if not is_deleted(place.strip("\"'"), kept):
                    return True
            case ["zip" | "tar" | "gzip", *_] if not knows_places:
                continue
            case ["tar", how, *_] if "x" in how and "c" not in how:
                continue
            case ["curl", *others] if not any(_UPLOADING.match(each) for each in others):
                continue
            case [name, *_] if not _HARMLESS_COMMANDS.fullmatch(name.rpartition("/")[2]):
                return True
    return False


def _is_renamed_in_its_folder(call: ast.Call, name: str) -> bool:
    """`os.replace(path + ".tmp", path)`: a file that gets its name once it is whole."""
    if name not in ("os.replace", "os.rename") or len(call.args) != 2:
        return False
    return ast.unparse(call.args[1]) in ast.unparse(call.args[0])


def _is_lost(subject: ScriptSubject, path: ast.expr, kept: KeptFolders) -> bool:
    """Whether a path leads to a folder that is deleted with the host, by all that is known of where it comes
    from."""
    begins = path_beginnings(subject, path)
    places = [each.place for each in begins if each.place is not None]
    if any(each.text is None for each in begins) and all(
        isinstance(scope_of(each).node, ast.ClassDef) for each in places
    ):
        return False  # The default of a field, instead of which something unknown gives another.
    if any(_is_given_by_words(subject, each) for each in places):
        return False
    known = [each.text for each in begins if each.text is not None]
    if any(f"{each.rstrip('/')}/" == f"{OUTPUT_FOLDER}/" for each in known):
        return not any(
            re.search(r"(^|/)(data|failure)(/|$)", each) for each in texts_in(subject.program, path)
        )
    return bool(known) and all(is_deleted(each, kept) for each in known)


def _is_given_by_words(subject: ScriptSubject, place: ast.expr) -> bool:
    """Whether the job's words give an attribute that a text sets: `--system.work_dir=/opt/ml/model`
    for `config.system.work_dir = "./out"`."""
    statement = statement_of(place)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {each.attr for each in targets if isinstance(each, ast.Attribute)}
    given = {
        word.partition("=")[0].lstrip("-").rpartition(".")[2] for word in words_of(subject.job) if "=" in word
    }
    return not names.isdisjoint(given)


def is_deleted(begins: str, kept: KeptFolders) -> bool:
    """Whether a path that begins like this is deleted with its host, by the folders that a job keeps."""
    whole = f"{begins.rstrip('/')}/"
    if whole.startswith(kept.s3_channels):
        return True
    if any(whole.startswith(f"{each.rstrip('/')}/") for each in kept.checkpoints):
        return False
    if begins.startswith("../"):
        return is_deleted(posixpath.normpath(posixpath.join(CODE_FOLDER, begins)), kept)
    if not begins.startswith(("/", "~")):
        return "://" not in begins
    if any(f"{each.rstrip('/')}/".startswith(whole) for each in (*kept.checkpoints, *_NOT_LOST)):
        return False  # What follows may lead there.
    return not whole.startswith(_NOT_LOST)


FOLDER_JOB_RULES = (saves_go_where_they_are_kept,)
