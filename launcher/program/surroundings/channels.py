"""The channels that a program reads: by SageMaker's variables, or by their folders.

Source: SageMaker's documentation of training storage.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.frozen import frozen
from launcher.program.dataflow import origins
from launcher.program.index import ancestors, is_main_guard, last_name, parent_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import surely_runs
from launcher.program.spellings import NOT_WRITTEN, spellings
from launcher.program.surroundings.options import as_attribute, option_of
from launcher.program.values import External

CHANNEL_VARIABLE = "SM_CHANNEL_"
CHANNEL_FOLDERS = "/opt/ml/input/data"
_ABOVE = ("SM_INPUT_DIR", *(f"/opt/ml{way}{end}" for way in ("", "/input") for end in ("'", '"', "/'", '/"')))
"""How programs write what lies above it, of which they make it with more parts."""
_NAMED = (CHANNEL_VARIABLE, CHANNEL_FOLDERS, "environ")
"""What stands in a file that names a channel at one place."""
_ANY = frozenset({"SM_CHANNELS", "SM_INPUT_DIR", "SM_TRAINING_ENV", "SM_INPUT_DATA_CONFIG"})
"""Variables by which a script may read channels whose names it does not write."""


@frozen
class ChannelRead:
    """A place that names a channel: `key` as SageMaker's variable has it; whether it must be there."""

    node: ast.expr
    key: str
    name: str
    is_needed: bool
    by_variable: bool


def channel_key(name: str) -> str:
    """A channel's name as SageMaker's variable of it has it."""
    return name.upper()


def channel_reads(program: Program) -> Iterator[ChannelRead]:
    """The places of a program that name a channel, as far as the name is written."""
    made_of_parts = any(name in file.text for name in (CHANNEL_FOLDERS, *_ABOVE) for file in program.files)
    for file in program.files:
        if not made_of_parts and not any(word in file.text for word in _NAMED):
            continue  # Of hundreds of files few do.
        for node in walk(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value.startswith(CHANNEL_VARIABLE) and len(node.value) > len(CHANNEL_VARIABLE):
                    yield from _by_variable(program, node, node.value)
                elif node.value.startswith(f"{CHANNEL_FOLDERS}/"):
                    name = node.value[len(CHANNEL_FOLDERS) + 1 :].partition("/")[0]
                    if name and not isinstance(parent_of(node), ast.JoinedStr | ast.Expr):
                        yield ChannelRead(node, channel_key(name), name, _is_sure(node), by_variable=False)
            elif isinstance(node, ast.Subscript) and last_name(node.value) == "environ":
                yield from _by_spelling(program, node, node.slice, CHANNEL_VARIABLE)
            elif made_of_parts and _joins(node) and not _joins(parent_of(node)):
                assert isinstance(node, ast.expr)
                yield from _by_spelling(program, node, node, f"{CHANNEL_FOLDERS}/")


def _by_spelling(program: Program, node: ast.expr, spelt: ast.expr, begin: str) -> Iterator[ChannelRead]:
    """A read of a channel whose variable or folder is put together: `f"SM_CHANNEL_{name}"`."""
    if isinstance(spelt, ast.Constant):
        return
    by_variable = begin == CHANNEL_VARIABLE
    for spelling in spellings(program, spelt):
        text = re.sub("/+", "/", spelling.text)
        name = text.removeprefix(begin).partition("/")[0]
        written = any(
            isinstance(each.value, str) and each.value.startswith(begin) and each.value != begin
            for each in spelling.literals
        )
        if text.startswith(begin) and name and NOT_WRITTEN not in name and not written:
            needed = all(map(_is_sure, (node, *spelling.literals)))
            yield ChannelRead(
                node, channel_key(name), name.lower() if by_variable else name, needed, by_variable
            )


def _joins(node: ast.AST | None) -> bool:
    """Whether an expression puts texts or parts of a path together."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Div)
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("join", "joinpath", "Path", "PurePath", "str", "fspath")
    return isinstance(node, ast.JoinedStr)


def _by_variable(program: Program, node: ast.Constant, variable: str) -> Iterator[ChannelRead]:
    """A read of SageMaker's variable of a channel; one that is set or deleted by the script is none."""
    key = variable.removeprefix(CHANNEL_VARIABLE)
    parent = parent_of(node)
    if isinstance(parent, ast.Subscript) and program.value(parent.value) == External("os.environ"):
        needed = isinstance(parent.ctx, ast.Load) and _is_sure(parent)
        yield ChannelRead(parent, key, key.lower(), needed, by_variable=True)
    else:
        needed = _is_demanded(program, node) or _is_path_of(program, parent)
        yield ChannelRead(node, key, key.lower(), needed, by_variable=True)


_VARIABLE_KEYWORDS = ("envvar", "env_var")
"""How click, typer and configargparse are told the variable of an option."""


def _is_demanded(program: Program, name: ast.Constant) -> bool:
    """Whether who reads a variable ends without it: a required option, or a reader without a default."""
    holder = parent_of(name)
    call = parent_of(holder) if isinstance(holder, ast.keyword) else holder
    if not isinstance(call, ast.Call) or not _is_sure(call):
        return False
    if isinstance(holder, ast.keyword):
        required = next((each.value for each in call.keywords if each.arg == "required"), None)
        left_open = [each for each in call.args[:1] if getattr(each, "value", None) is Ellipsis]
        told = isinstance(required, ast.Constant) and required.value is True
        return holder.arg in _VARIABLE_KEYWORDS and (told or bool(left_open))
    reader = program.qualified(call.func) or ""
    plain = call.args == [name] and not any(each.arg in ("default", None) for each in call.keywords)
    return plain and reader.startswith(_READERS)


_READERS = ("environs.Env", "environs.env", "decouple.config", "environ.Env")
"""Libraries that raise an exception where a variable is not set and they are given no default."""

_TAKING_PATHS = (
    *("os.path.join", "pathlib.Path", "open", "os.listdir", "os.walk", "numpy.load", "numpy.memmap"),
    *("torch.load", "datasets.load_from_disk", "pandas.read_csv", "pandas.read_parquet"),
)
"""What is given a path first, which None is not."""


def _is_path_of(program: Program, read: ast.AST | None) -> bool:
    """Whether `os.environ.get(...)` without a default is surely taken for a path, which None is not: where it
    stands, or as a variable, an argument or the default of an option."""
    if not isinstance(read, ast.Call) or len(read.args) != 1 or read.keywords:
        return False
    if program.qualified(read.func) not in ("os.environ.get", "os.getenv"):
        return False
    user = parent_of(read)
    if isinstance(user, ast.BinOp) and isinstance(user.op, ast.Add) and _is_sure(read):
        return True
    return any(
        (call.args[0] is read and _is_sure(read))
        or (_is_made_by(program, call.args[0], read) and surely_runs(program, call))
        for call, _ in program.calls(*_TAKING_PATHS)
        if call.args
    )


def _is_made_by(program: Program, path: ast.expr, read: ast.Call) -> bool:
    """Whether a path is what is read, or the option of which that is the default, where the program surely
    comes to that option."""
    made = origins(program, path)
    if made == (read,):
        return True
    for each in made:
        option = option_of(program, each) if isinstance(each, ast.Attribute) else None
        if option is not None and option.default is read and each is not None and surely_runs(program, each):
            return True
    return False


def _is_sure(node: ast.AST) -> bool:
    """Whether an expression is surely evaluated, or meant, where its function runs."""
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return True
        if isinstance(outer, ast.If | ast.IfExp | ast.While):
            if inner is not outer.test and not is_main_guard(outer.test):
                return False
            if inner is outer.test:
                return False
        if isinstance(outer, ast.Try | ast.BoolOp | ast.Compare | ast.ExceptHandler):
            return False
        if isinstance(outer, ast.Call) and _is_default_of_its_channel(outer, inner):
            continue
        if isinstance(outer, ast.Call) and last_name(outer.func) in ("exists", "isdir", "is_dir", "getenv"):
            return False
        if isinstance(outer, ast.Call) and last_name(outer.func) == "get" and inner is not outer.func:
            return False
        inner = outer
    return True


def _is_default_of_its_channel(read: ast.Call, default: ast.AST) -> bool:
    """`os.getenv("SM_CHANNEL_A", "/opt/ml/input/data/a")`: taken just where there is no such channel."""
    if len(read.args) != 2 or read.args[1] is not default or not isinstance(default, ast.Constant):
        return False
    name = str(getattr(read.args[0], "value", ""))
    return (
        str(default.value).startswith(f"{CHANNEL_FOLDERS}/{name.removeprefix(CHANNEL_VARIABLE).lower()}")
        and name != ""
    )


_DECLARING = ("add_argument", "add", "option", "Option")
"""What declares an option with argparse, configargparse, click and typer."""


def option_with_default(node: ast.expr) -> str | None:
    """The option whose default, or whose variable, an expression is."""
    for outer in ancestors(node):
        if isinstance(outer, ast.Call) and last_name(outer.func) in _DECLARING:
            names = (each.value for each in outer.args if isinstance(each, ast.Constant))
            return next((as_attribute(str(each)) for each in names if str(each).startswith("-")), None)
        if isinstance(outer, ast.stmt):
            return None
    return None


def reads_any(program: Program) -> bool:
    """Whether a script may read channels whose names it calculates."""
    for file in program.files:
        for node in walk(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if (
                    text in _ANY
                    or text == CHANNEL_VARIABLE
                    or text.rstrip("/") in (CHANNEL_FOLDERS, "/opt/ml/input", "/opt/ml")
                ):
                    return True
                if isinstance(parent_of(node), ast.JoinedStr) and (
                    CHANNEL_VARIABLE in text or CHANNEL_FOLDERS in text
                ):
                    return True
    return False
