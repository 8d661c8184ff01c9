"""What a program uses that says how it is started, on which hosts, and where it keeps its checkpoints.

Each answer has the place in the program that shows it, or is none at all.
"""

from __future__ import annotations

import ast
import contextlib
import io
import math
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, constant_argument, is_parsed_field, origins, text_parts
from launcher.program.index import (
    FileIndex,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    default_of,
    file_of,
    is_main_guard,
    last_name,
    parameters_of,
    parent_of,
)
from launcher.program.process_starts import rank_starts, ranks_are_started_only_here
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.reachability import Reachability, surely_runs
from launcher.program.surroundings.commands import torchrun_commands
from launcher.program.surroundings.options import option_of
from launcher.program.surroundings.saves import SAVED_TO, is_a_cache, state_saves
from launcher.program.values import (
    Constant,
    Defined,
    Dictionary,
    External,
    Instance,
    ModuleOf,
    Value,
    WorldSize,
    canonical_name,
    is_import_of,
)

FILE_ARGUMENTS = frozenset({"f", "filename", "file", "filepath", "path"})
"""The arguments of savers that name a file; those of the others name a folder."""


@frozen
class ProcessStart:
    """How a program's processes are started: the job file's strategy, and what shows it, in words.

    `question` is what is to be looked at before, empty where nothing is; `line` that of the entry which it is
    about. `options` are the job file's of the strategy.
    """

    strategy: str
    reason: str
    question: str = ""
    line: int | None = None
    options: Mapping[str, str | int] = field(default_factory=dict)


def place_of(program: Program, node: ast.AST) -> str:
    """Such as `line 12`, with the file where that is not the entry."""
    file = file_of(node)
    return _where(program, file, getattr(node, "lineno", 1))


def line_in_entry(program: Program, node: ast.AST) -> int | None:
    """The line of a place in the entry; None in other files."""
    return getattr(node, "lineno", None) if file_of(node) is program.entry else None


_OF_LIBRARIES = (
    ("torch.sagemaker", "smp", "SageMaker's model parallel library, version 2"),
    ("smdistributed.dataparallel", "smddp", "SageMaker's data parallel library"),
    ("horovod", "mpi", "Horovod"),
)
"""Libraries that one strategy alone starts, wherever they are imported: the job file's name of it."""

_TRAINERS = (
    (("lightning.pytorch.Trainer", "lightning.pytorch.cli.LightningCLI"), "PyTorch Lightning"),
    (("lightning.fabric.Fabric",), "Lightning Fabric"),
    (("accelerate.Accelerator", "accelerate.PartialState"), "Hugging Face Accelerate"),
    (("deepspeed.initialize", "deepspeed.init_distributed"), "DeepSpeed"),
    (
        tuple(f"transformers.{name}" for name in ("Trainer", "Seq2SeqTrainer"))
        + tuple(f"trl.{name}" for name in ("SFTTrainer", "DPOTrainer", "RewardTrainer", "GRPOTrainer")),
        "the Trainer of Hugging Face",
    ),
)
"""What trains for a script, or joins the ranks for it, in the order in which it is named."""

_MPI_VARIABLE = re.compile(r"environ\['OMPI_")
_RANK_VARIABLE = re.compile(r"""["'](LOCAL_RANK|RANK|WORLD_SIZE)["']""")
_LIGHTNING_TOLD = ("num_nodes", "devices")


def choose_start(program: Program) -> ProcessStart:
    """The strategy that starts a program's processes, by what it uses."""
    node = _import_of(program, "smdistributed.modelparallel", at_once=False)
    if node is not None:
        return ProcessStart(
            "smp",
            f"SageMaker's model parallel library, version 1 ({place_of(program, node)})",
            "how is the model divided? Add `parameters: {partitions: 2, ...}` to the options.",
            line_in_entry(program, node),
            {"version": 1},
        )
    for library, strategy, name in _OF_LIBRARIES:
        node = _import_of(program, library, at_once=False)
        if node is not None:
            return ProcessStart(strategy, f"{name} ({place_of(program, node)})")
    node = _import_of(program, "mpi4py", at_once=True)
    if node is not None:
        return ProcessStart("mpi", f"mpi4py ({place_of(program, node)})")
    for read in _sure_reads(program, _MPI_VARIABLE):
        return ProcessStart("mpi", f"MPI's variables are read ({place_of(program, read)})")
    spawned = _import_of(program, "torch_xla", at_once=True)
    worker = next((each for each in program.entry.functions if getattr(each, "name", "") == "_mp_fn"), None)
    # Training Compiler's launcher gives it the rank alone.
    if spawned is not None and worker is not None and len(_needed_parameters(worker)) <= 1:
        return ProcessStart("torch_xla", f"torch_xla with _mp_fn ({place_of(program, worker)})")
    own = _starts_its_ranks(program)
    if own is not None:
        return own
    start = _joined_ranks(program)
    if start is not None and not start.question and (asked := _asked_of_local_rank(program)) is not None:
        text = (
            f"--{asked.attr} is read ({place_of(program, asked)}), which torchrun does not give: read "
            "LOCAL_RANK in its place, or every process has the default."
        )
        return replace(start, question=text, line=line_in_entry(program, asked))
    return start or ProcessStart("none", "one process per host: nothing in the script joins others")


_OF_TENSORFLOW = tuple(
    f"tensorflow.distribute.{name}"
    for name in ("MultiWorkerMirroredStrategy", "experimental.MultiWorkerMirroredStrategy")
)


def _needed_parameters(function: FunctionNode) -> list[ast.arg]:
    return [each for each in parameters_of(function) if default_of(function, each.arg) is None]


def _joined_ranks(program: Program) -> ProcessStart | None:
    """How ranks are started that join each other; None where nothing joins others."""
    for call, _ in program.calls("ray.train.torch.TorchTrainer"):
        return ProcessStart("none", f"Ray Train starts its workers itself ({place_of(program, call)})")
    for call, _ in program.calls(*_OF_TENSORFLOW):
        return ProcessStart("none", f"TensorFlow's workers join by TF_CONFIG ({place_of(program, call)})")
    reaches = program.analysis(Reachability).reaches
    for names, library in _TRAINERS:
        made = (*(call for call, _ in program.calls(*names)), *_calls_of_subclasses(program, names))
        for call in sorted(made, key=lambda each: not reaches(each))[:1]:
            return _under_trainer(program, call, library)
    for call, name in sorted(joining_calls(program), key=lambda each: not reaches(each[0]))[:1]:
        reason = f"{name.rpartition('.')[2]} ({place_of(program, call)})"
        return ProcessStart("torchrun", reason, _asked_of_rank(program, call), line_in_entry(program, call))
    for module, node in program.analysis(_imports):
        name = canonical_name(module)
        if name.partition(".")[0] == "lightning":
            line = getattr(node, "lineno", None) if file_of(node) is program.entry else None
            return ProcessStart(
                "torchrun", f"PyTorch Lightning ({place_of(program, node)})", _TELL_THE_TRAINER, line
            )
        if is_import_of(name, "joining_imports"):
            return ProcessStart("torchrun", f"{module} ({place_of(program, node)})")
    for call, _ in program.calls("torch.nn.DataParallel"):
        if reaches(call):
            return ProcessStart(
                "none", f"DataParallel is one process for all GPUs ({place_of(program, call)})"
            )
    for file in program.files:
        line = _first_line(file, _RANK_VARIABLE)
        if line is not None:
            return ProcessStart("torchrun", f"the ranks' variables are read ({_where(program, file, line)})")
    return None


_LOCAL_RANK = "local_rank"
_READS_LOCAL_RANK = re.compile(r"""["']LOCAL_RANK["']""")
_DECLARES_LOCAL_RANK = re.compile(r"""DEFINE_integer\(\s*["']local_rank["']""")


def _asked_of_local_rank(program: Program) -> ast.Attribute | None:
    """Where the program reads an option `--local_rank`, though nothing reads torchrun's variable for it: only
    launchers before torch 2 and DeepSpeed's own give that option."""
    if any(_first_line(file, _READS_LOCAL_RANK) for file in program.files):
        return None
    by_flag = any(_DECLARES_LOCAL_RANK.search(file.text) for file in program.files)
    reaches = program.analysis(Reachability).reaches
    for file in program.files:
        for use in file.attributes.get(_LOCAL_RANK, ()):
            is_flag = by_flag and last_name(use.value) == "FLAGS"
            is_read = is_flag or (option_of(program, use) is not None and _is_kept(program, use))
            if is_read and reaches(use):
                return use
    return None


def _import_of(program: Program, library: str, *, at_once: bool) -> ast.AST | None:
    """Where a library is imported; with `at_once` only as soon as its file is."""
    for module, node in program.analysis(_imports):
        if module != library and not module.startswith(f"{library}."):
            continue
        if at_once and not isinstance(parent_of(node), ast.Module):
            continue
        if not any(
            isinstance(each, ast.If) and _asks_transformers(program, each.test) for each in ancestors(node)
        ):
            return node
    return None


def _imports(program: Program) -> list[tuple[str, ast.AST]]:
    """What is imported, but for what a module beside the entry imports in some runs alone, as libraries do
    that can be started in several ways."""
    return [
        (each.module, each.node)
        for file in program.files
        for each in file.imports
        if each.module
        and (
            isinstance(parent_of(each.node), ast.Module)
            or file is program.entry
            or _is_sure(program, each.node)
        )
    ]


def _is_sure(program: Program, node: ast.AST) -> bool:
    """Whether every run comes by here, under no condition, and ends where that fails."""
    is_left_out = any(
        isinstance(each, ast.Try) or (isinstance(each, ast.If | ast.IfExp) and not is_main_guard(each.test))
        for each in ancestors(node)
    )
    return not is_left_out and surely_runs(program, node)


def _asks_transformers(program: Program, test: ast.expr) -> bool:
    """Whether a test asks a library for what a job is started with: `if is_sagemaker_mp_enabled():`."""
    asked = (program.qualified(each.func) or "" for each in ast.walk(test) if isinstance(each, ast.Call))
    return any(name.startswith(("transformers.", "accelerate.")) for name in asked)


def _sure_reads(program: Program, pattern: re.Pattern[str]) -> Iterator[ast.Subscript]:
    """The reads of variables that every run comes to, and that end it where the variable is not set."""
    for file in program.mentioning("environ"):
        for node in file.nodes(ast.Subscript):
            if pattern.search(ast.unparse(node)) and _is_sure(program, node):
                yield node


def _where(program: Program, file: FileIndex, line: int) -> str:
    return f"line {line}" if file is program.entry else f"{file.path.name} line {line}"


def _starts_its_ranks(program: Program) -> ProcessStart | None:
    """Of a program that starts its ranks itself; None of one that does not."""
    reaches = program.analysis(Reachability).reaches
    for call, _ in torchrun_commands(program):
        return ProcessStart("none", f"the script starts torchrun itself ({place_of(program, call)})")
    calls = [call for call in rank_starts(program) if reaches(call)]
    if not calls:
        return None
    where = place_of(program, calls[0])
    line = line_in_entry(program, calls[0])
    if any(ranks_are_started_only_here(program, call, reaches) for call in calls):
        reason = f"the script starts its ranks itself ({where})"
        if _counts_hosts(program):
            asked = "by which options is the script told of several hosts, and which of them it is on?"
            return ProcessStart("none", reason, asked, line)
        return ProcessStart("none", f"{reason}, one host's")
    if any(_first_line(file, _RANK_VARIABLE) for file in program.files):
        return ProcessStart(
            "torchrun",
            f"the ranks' variables are read, and ranks are started, too ({where})",
            "by which options does the script leave its ranks to torchrun? If by none, write `none`.",
            line,
        )
    return ProcessStart(
        "none",
        f"the script starts its ranks itself ({where})",
        "if an option leaves that to torchrun, write `torchrun`; several hosts need it.",
        line,
    )


def _counts_hosts(program: Program) -> bool:
    """Whether the size of a group is put together: the ranks of a host, times the hosts."""
    sizes = (argument_of(call, "world_size") for call, _ in joining_calls(program))
    made = (each for size in sizes if size is not None for each in origins(program, size))
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult) for each in made)


def _calls_of_subclasses(program: Program, names: Sequence[str]) -> Iterator[ast.Call]:
    """The calls that make an object of a class of the program which is one of a library's."""
    for file in program.files:
        for definition in file.classes:
            if any(program.qualified(each) in names for each in definition.bases):
                for other in program.files:
                    for known in (definition.name, *other.aliases.get(definition.name, ())):
                        for call in other.calls_of.get(known, ()):
                            if program.value(call.func) == Defined(definition):
                                yield call


_TELL_THE_TRAINER = (
    "its Trainer is to be told of hosts and processes: num_nodes=int(os.environ['SM_HOST_COUNT']), "
    "devices=int(os.environ['LOCAL_WORLD_SIZE']), strategy='ddp'"
)


def _asked_of_rank(program: Program, call: ast.Call) -> str:
    """What is to be asked where a group's ranks come from an option, which a launcher of the script's own
    gives; empty where they do not."""
    given = argument_of(call, "rank")
    for each in origins(program, given) if given is not None else ():
        if isinstance(each, ast.Attribute) and option_of(program, each) is not None:
            return (
                f"a process has its rank from --{each.attr}, which torchrun does not give: read RANK in its "
                "place, or write `none` for one process."
            )
    return ""


def _under_trainer(program: Program, call: ast.Call, library: str) -> ProcessStart:
    reason = f"{library} ({place_of(program, call)})"
    hosts = argument_of(call, "num_nodes")
    is_told = hosts is not None and constant_argument(program, hosts) != Constant(1)
    if not library.startswith("PyTorch Lightning") or is_told:
        return ProcessStart("torchrun", reason)
    if any(each.arg is None for each in call.keywords):
        return ProcessStart("torchrun", reason)
    return ProcessStart(
        "torchrun",
        reason,
        _TELL_THE_TRAINER,
        line_in_entry(program, call),
    )


def _first_line(file: FileIndex, pattern: re.Pattern[str]) -> int | None:
    return next(_lines_with(file, pattern), None)


def _lines_with(file: FileIndex, pattern: re.Pattern[str], literals: Sequence[str] = ("",)) -> Iterator[int]:
    """The lines on which a pattern stands in a file's code or texts, not in its comments; without any of
    the literals it is not searched, which is faster."""
    if not any(each in file.text for each in literals):
        return
    comments: Mapping[int, int] | None = None
    for found in pattern.finditer(file.text):
        begin = file.text.rfind("\n", 0, found.start()) + 1
        line = file.text.count("\n", 0, found.start()) + 1
        if "#" in file.text[begin : found.start()]:
            # Reading tokens is slow, and few files need it: once then, however many lines are asked about.
            comments = _comment_columns(file) if comments is None else comments
            if found.start() - begin >= comments.get(line, math.inf):
                continue
        yield line


def _comment_columns(file: FileIndex) -> Mapping[int, int]:
    """Where the comment of a line begins, by the lines that have one."""
    columns: dict[int, int] = {}
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type == tokenize.COMMENT:
                columns[token.start[0]] = token.start[1]
    return columns


# What is assumed of hosts and ranks.

_GPU = re.compile(
    r"""\.cuda\(|["']cuda|["']nccl|torch\.cuda|torch\.accelerator|device_map=|accelerator=["']gpu|["']GPU["']"""
)
_PRECISIONS = (
    (
        "fp8 (NVIDIA H100 and later: p5, p6)",
        ("float8", "fp8", "transformer_engine"),
        re.compile(r"""\bfloat8\w*|["']fp8|transformer_engine"""),
    ),
    (
        "bf16 (NVIDIA A10G, A100 and later: g5, g6, p4d, p5)",
        ("bfloat16", "bf16"),
        re.compile(r"""\bbfloat16\b|["']bf16"""),
    ),
    (
        "fp16",
        ("float16", "fp16", ".half()", "GradScaler"),
        re.compile(r"""\bfloat16\b|["']fp16|\.half\(\)|GradScaler"""),
    ),
)
"""How programs name the precisions that need certain GPUs. Source: NVIDIA's CUDA programming guide, compute
capabilities (bf16 from 8.0, fp8 from 8.9)."""


@frozen
class Assumptions:
    """What a program takes for granted of its hosts: the precisions that it names and the sizes that it
    fixes, in words for each, and whether GPUs are spoken of."""

    speaks_of_gpus: bool
    precisions: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


def find_assumptions(program: Program) -> Assumptions:
    """What is assumed of the hosts' devices, and of the number of ranks."""
    reaches = program.analysis(Reachability).reaches_line
    precisions = []
    for words, literals, pattern in _PRECISIONS:
        for file in program.files:
            lines = (each for each in _lines_with(file, pattern, literals) if reaches(str(file.path), each))
            line = next((each for each in lines if not _is_of_any_type(file, each)), None)
            if line is not None:
                precisions.append(f"{words} in {_where(program, file, line)}")
                break
    sizes = [f"{ast.unparse(each)} ({place_of(program, each)})" for each in _fixed_sizes(program)]
    speaks = any(_GPU.search(file.text) for file in program.files)
    trains = any(
        is_import_of(canonical_name(each.module or ""), key)
        for key in ("trainer_imports", "joining_imports")
        for file in program.files
        for each in file.imports
    )
    return Assumptions(speaks or trains, tuple(precisions), tuple(sizes))


_NUMBER_TYPE = re.compile(r"^(b?float|u?int)\d+$")


def _is_of_any_type(file: FileIndex, line: int) -> bool:
    """Whether a line is of a table of all types of numbers, which names each of them and takes none."""
    return any(
        table.lineno <= line <= (table.end_lineno or table.lineno)
        and len([each for each in table.values if _NUMBER_TYPE.match(last_name(each) or "")]) > 2
        for table in file.nodes(ast.Dict)
    )


_MOST_SIZES = 3


def _fixed_sizes(program: Program) -> list[ast.expr]:
    """The places where the world size, or the processes of a host, are one literal number."""
    found: list[ast.expr] = []
    for file in program.files:
        if "assert" not in file.text or "world" not in file.text:
            continue
        for node in file.nodes(ast.Assert):
            if isinstance(node.test, ast.Compare):
                sides = [program.value(each) for each in (node.test.left, *node.test.comparators)]
                sizes = any(isinstance(each, WorldSize) for each in sides)
                if sizes and any(isinstance(each, Constant) for each in sides):
                    found += [] if _is_of_any_size(node.test, sides) else [node.test]
    for call, _ in program.calls("lightning.pytorch.Trainer", "lightning.fabric.Fabric"):
        for keyword in call.keywords:
            given = constant_argument(program, keyword.value) if keyword.arg in _LIGHTNING_TOLD else None
            if given is not None and type(given.value) is int and given.value > 1:
                found.append(call)
    return found[:_MOST_SIZES]


def _is_of_any_size(test: ast.Compare, sides: Sequence[Value]) -> bool:
    """Whether a test says no more of the world size than that there is a rank: `world_size >= 1`."""
    low = {ast.GtE: 1, ast.Gt: 0}.get(type(test.ops[0]))
    return low is not None and len(sides) == 2 and sides[1] == Constant(low)


# Where a training is saved.

_MANAGERS = re.compile(
    r"CheckpointManager\(|SM_CHECKPOINT_DIR|SLIPWAY_CHECKPOINT_DIR|/opt/ml/checkpoints|_checkpoint_dir"
)
_KEPT = re.compile(r"SM_|SLIPWAY_")
_MODEL = re.compile(r"SM_MODEL_DIR|/opt/ml/model|SM_OUTPUT")
_NAMED_MODEL = re.compile(r"\.model_(dir|path|folder)$")


@frozen
class FolderOption:
    """An option of the script that names the folder into which it saves, a checkpoint or its model, or, where
    it `is_file`, the file itself."""

    name: str
    is_of_model: bool
    is_file: bool = False


@frozen
class Saving:
    """That a program saves: the line where it saves what it can go on from, empty where that is the model
    alone, and the options that tell it the folder."""

    place: str
    folders: tuple[FolderOption, ...] = ()


_TRAINERS_OWN = re.compile(r"(TrainingArguments|Config|Trainer)(\.train)?$")
"""What is told a folder into which a trainer writes the checkpoints that it goes on from."""


def find_saving(program: Program) -> Saving | None:
    """How a program saves; None where it is not seen to."""
    reaches = program.analysis(Reachability).reaches
    folders: dict[str, FolderOption] = {}
    saves = []
    for call, path in state_saves(program):
        if not reaches(call) or is_a_cache(program, call):
            continue
        name = program.qualified(call.func) or ""
        by_name = _TRAINERS_OWN.search(name) is None
        begins = [
            (each, is_whole, _is_of_model(program, each, by_name=by_name))
            for each, is_whole in _beginnings(program, path)
        ]
        if not begins or not all(of_model for _, _, of_model in begins):
            saves.append(call)
        names_a_file = SAVED_TO.get(name, ("", None))[0] in FILE_ARGUMENTS
        for each, is_whole, of_model in begins:
            if isinstance(each, ast.Attribute) and _is_kept(program, each):
                is_file = is_whole and names_a_file
                folders.setdefault(each.attr, FolderOption(each.attr, of_model, is_file))
    if saves:
        return Saving(place_of(program, saves[0]), tuple(folders.values()))
    for file in program.files:
        line = _first_line(file, _MANAGERS)
        if line is not None:
            return Saving(_where(program, file, line), tuple(folders.values()))
    return Saving("", tuple(folders.values())) if folders else None


def _is_of_model(program: Program, path: ast.expr, *, by_name: bool) -> bool:
    """Whether a path is that of the model or the output, also as an option which is that by default, and
    with `by_name` as one that is called so."""
    option = option_of(program, path) if _is_option(program, path) else None
    written = [ast.unparse(each) for each in (path, *([option.default] if option is not None else []))]
    return any(map(_MODEL.search, written)) or (by_name and any(map(_NAMED_MODEL.search, written)))


def _beginnings(program: Program, path: ast.expr, depth: int = 8) -> Iterator[tuple[ast.expr, bool]]:
    """What a path begins with, an option or what else is written there, and whether that is all of it."""
    parts, _ = text_parts(program, path) if not _is_option(program, path) else ([], "")
    if parts and depth:
        is_whole = len(parts) == 1
        for each, inner in _beginnings(program, parts[0], depth - 1):
            yield each, inner and is_whole
        return
    made = [each for each in origins(program, path) if each is not None and each is not path]
    if not made or not depth or _is_option(program, path):
        if not isinstance(path, ast.Attribute) or _is_option(program, path):
            yield path, True
        return
    for each in made:
        yield from _beginnings(program, each, depth - 1)


def _is_option(program: Program, node: ast.expr) -> bool:
    """Whether an expression is an option of a parser: `args.out`."""
    if not isinstance(node, ast.Attribute):
        return False
    owner = program.value(node.value)
    if isinstance(owner, Dictionary | External | ModuleOf):
        return False
    if isinstance(owner, Instance) and "pars" not in owner.name.lower():
        return False
    declared = program.evaluation.attributes.options.declared.get(node.attr, ())
    return bool(declared) or any(map(is_parsed_field, program.evaluation.sources(node)))


def _is_kept(program: Program, option: ast.Attribute) -> bool:
    """Whether what is given for an option holds: the program sets it to nothing else, whatever it was."""
    owner = program.value(option.value)
    for file in program.files:
        for store in file.set_attributes.get(option.attr, ()):
            held = store.node.value if isinstance(store.node, ast.Attribute) else None
            if held is None or store.value is None or program.value(held) != owner:
                continue
            tests = [each.test for each in ancestors_in_function(store.node) if isinstance(each, ast.If)]
            if not any(f".{option.attr}" in ast.unparse(each) for each in (store.value, *tests)):
                return False
    return True


def is_kept_already(default: ast.expr | None) -> bool:
    """Whether an option's default is one of SageMaker's folders by its variable, here as there."""
    return default is not None and _KEPT.search(ast.unparse(default)) is not None
