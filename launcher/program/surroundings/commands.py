"""The commands that a program runs: their words, and those that start the ranks of a training."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

from launcher.program.dataflow import argument_of, origins, text_parts
from launcher.program.index import file_of, last_name, scope_of
from launcher.program.program import Program
from launcher.program.spellings import MOST_SPELLINGS, NOT_WRITTEN, spellings
from launcher.program.values import Constant, Several, like
from launcher.source.start_line import PROCESS_OPTIONS
from launcher.text.regular_files import read_regular

COMMANDS = (*(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")), "os.system")
"""What runs a command and waits for it."""
_OF_TORCHRUN = ("torch.distributed.run.main", "torch.distributed.launch.main")
"""What takes the words of torchrun's command line, without its name."""
_LISTED = {
    **dict.fromkeys(COMMANDS, 0),
    **dict.fromkeys(("subprocess.Popen", "subprocess.getoutput", "subprocess.getstatusoutput"), 0),
    **dict.fromkeys(("os.popen", "pty.spawn", "asyncio.create_subprocess_shell", *_OF_TORCHRUN), 0),
    **dict.fromkeys(("os.execv", "os.execvp", "os.execve", "os.execvpe"), 1),
    **dict.fromkeys(("os.posix_spawn", "os.posix_spawnp"), 1),
    **dict.fromkeys(("os.spawnv", "os.spawnvp", "os.spawnve", "os.spawnvpe"), 2),
}
"""What starts a command, and the place of the list or text that holds its words."""
_SPREAD = {
    **dict.fromkeys(("os.execl", "os.execlp", "os.execle", "os.execlpe"), 1),
    **dict.fromkeys(("os.spawnl", "os.spawnlp", "os.spawnle", "os.spawnlpe"), 2),
    "asyncio.create_subprocess_exec": 0,
}
"""What starts a command whose words are arguments of their own, and the place of the first."""
_WITH_ENVIRONMENT = {
    **dict.fromkeys(("os.execve", "os.execvpe", "os.posix_spawn", "os.posix_spawnp"), 2),
    **dict.fromkeys(("os.spawnve", "os.spawnvpe"), 3),
    **dict.fromkeys(("os.execle", "os.execlpe", "os.spawnle", "os.spawnlpe"), -1),
}
"""What gives a command its environment by position, and where; the others by `env`."""
_TORCHRUN = re.compile(r"(.*/)?torchrun|torch\.distributed\.(run|launch)|accelerate\.commands\.launch")
_LAUNCH_COMMAND = re.compile(r"(\S*/)?(accelerate launch|deepspeed) ")
_OPEN = "?"
"""Stands in the words of a command for what is not written of it."""
_SETTINGS_OF_ACCELERATE = re.compile(
    r"^num_(?P<of>processes|machines):[ \t]*(?P<number>\d+)[ \t]*$", re.MULTILINE
)
_LARGEST_FILE = 50_000


def torchrun_commands(program: Program) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    """The calls by which a program starts torchrun or its like, with the words of their commands."""
    for call, words, texts in started_commands(program):
        if (
            program.qualified(call.func) in _OF_TORCHRUN
            or any(map(_TORCHRUN.fullmatch, texts))
            or _LAUNCH_COMMAND.match(" ".join(texts))
        ):
            yield call, words


def started_commands(program: Program) -> Iterator[tuple[ast.Call, list[ast.expr], list[str]]]:
    """The calls by which a program starts others, with the words of their commands: as they are written, and
    as texts, `?` where one is open."""
    for call, name in program.calls(*_LISTED, *_SPREAD):
        for words in _commands_of(program, call, name):
            yield call, words, [_text_of(program, each) for each in words]


def spelled_commands(program: Program, call: ast.Call) -> Iterator[list[str]]:
    """The words of each command that a call may run, with `?` for what is not written."""
    for words in _commands_of(program, call, program.qualified(call.func) or ""):
        for chosen in islice(product(*(spellings(program, each) for each in words)), MOST_SPELLINGS):
            yield [word for each in chosen for word in each.text.replace(NOT_WRITTEN, _OPEN).split()]


def environment_given(program: Program, call: ast.Call) -> ast.expr | None:
    """The environment that the command of a call is given instead of the program's own."""
    place = _WITH_ENVIRONMENT.get(program.qualified(call.func) or "")
    given = argument_of(call, "env", None if place == -1 else place)
    return call.args[-1] if given is None and place == -1 and call.args else given


def processes_told(program: Program, words: list[ast.expr]) -> Iterator[ast.expr]:
    """How many ranks the words of a command tell torchrun or its like to start on each host."""
    machines = next(_values_of(program, words, "num_machines"), None)
    in_all = "accelerate" in " ".join(_text_of(program, each) for each in words)
    if in_all and machines is not None and program.value(machines) not in (Constant(1), Constant("1")):
        return  # They are told how many all hosts have together.
    told = [*_values_of(program, words, *PROCESS_OPTIONS)]
    yield from told
    for file in _values_of(program, words, "config_file") if in_all and not told else ():
        processes = _processes_in_settings(program, file)
        if processes is not None:
            yield like(file, ast.Constant(processes))


def _values_of(program: Program, words: list[ast.expr], *options: str) -> Iterator[ast.expr]:
    """What follows an option among the words of a command, or stands behind its equals sign."""
    for number, word in enumerate(words):
        text = _text_of(program, word)
        option, equals, value = text.partition("=")
        begun = text_parts(program, word)[0] if text == _OPEN else []
        if len(begun) == 2 and _text_of(program, begun[0]).endswith("="):
            option = _text_of(program, begun[0])[:-1]
        if option.lstrip("-").replace("-", "_") not in options or not option.startswith("--"):
            continue
        if len(begun) == 2:
            yield begun[1]
        elif equals:
            yield like(word, ast.Constant(value))
        elif number + 1 < len(words):
            yield words[number + 1]


def _processes_in_settings(program: Program, file: ast.expr) -> int | None:
    """How many processes the file of accelerate's settings asks for on each host."""
    name = program.value(file)
    if not isinstance(name, Constant):
        return None
    for folder in (program.entry.path.parent, Path(program.root)):
        try:
            text = read_regular(folder / str(name.value), _LARGEST_FILE).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue
        found = {each["of"]: int(each["number"]) for each in _SETTINGS_OF_ACCELERATE.finditer(text)}
        processes, machines = found.get("processes"), found.get("machines", 1)
        return None if processes is None or not machines else processes // machines
    return None


def _text_of(program: Program, word: ast.expr) -> str:
    value = program.value(word)
    return str(value.value) if isinstance(value, Constant) else _OPEN


def _commands_of(program: Program, call: ast.Call, name: str) -> Iterator[list[ast.expr]]:
    if name in _SPREAD:
        yield [word for each in call.args[_SPREAD[name] :] for word in _words_of(program, each)]
        return
    given = argument_of(call, "argv" if name.startswith("os.") else "args", _LISTED.get(name, 0))
    if given is not None:
        for made in origins(program, given):
            yield [*(() if made is None else _words_of(program, made)), *_added(program, given, call)]


def _words_of(program: Program, command: ast.expr) -> Iterator[ast.expr]:
    """The words of a command that is a list or a text, as far as it is written out."""
    value = program.value(command)
    if isinstance(command, ast.Starred):
        for made in origins(program, command.value):
            yield from () if made is None else _words_of(program, made)
    elif (
        isinstance(command, ast.BinOp) and isinstance(command.op, ast.Add) and not isinstance(value, Constant)
    ):
        for side in (command.left, command.right):
            for made in origins(program, side):
                yield from _words_of(program, side if made is None else made)
    elif isinstance(value, Several):
        for each in value.node.elts:
            yield from _words_of(program, each) if isinstance(each, ast.Starred) else (each,)
    elif isinstance(value, Constant):
        yield from (like(command, ast.Constant(word)) for word in str(value.value).split())
    elif isinstance(command, ast.JoinedStr):
        yield from _words_of_text(command)
    elif isinstance(command, ast.Call) and last_name(command.func) in ("split", "join"):
        owner = command.func.value if isinstance(command.func, ast.Attribute) else None
        inner = command.args[0] if command.args else owner
        for made in () if inner is None else origins(program, inner):
            yield from () if made is None else _words_of(program, made)
    else:
        yield command


def _words_of_text(text: ast.JoinedStr) -> Iterator[ast.expr]:
    """The words of a text with parts put in; one that touches such a part is a text with it."""
    word: list[ast.expr] = []
    for part in text.values:
        if not isinstance(part, ast.Constant):
            word.append(part)
            continue
        for number, piece in enumerate(re.split(r"\s+", str(part.value))):
            if number and word:
                yield _put_together(text, word)
                word = []
            if piece:
                word.append(like(text, ast.Constant(piece)))
    if word:
        yield _put_together(text, word)


def _put_together(text: ast.JoinedStr, parts: list[ast.expr]) -> ast.expr:
    only = parts[0]
    if len(parts) == 1:
        return only.value if isinstance(only, ast.FormattedValue) else only
    return like(text, ast.JoinedStr(parts))


def _added(program: Program, command: ast.expr, call: ast.Call) -> Iterator[ast.expr]:
    """The words that the same function adds to a list before it is run: by `+=`, `append` and `extend`."""
    if not isinstance(command, ast.Name):
        return
    file, scope = file_of(call), scope_of(call)
    added = [(each, each.args) for kind in ("append", "extend") for each in file.calls_of.get(kind, ())]
    for each, words in added:
        owner = each.func.value if isinstance(each.func, ast.Attribute) else each.func
        if last_name(owner) == command.id and scope_of(each) is scope and each.lineno < call.lineno:
            for word in words:
                yield from (word,) if last_name(each.func) == "append" else _words_of(program, word)
    for statement in file.nodes(ast.AugAssign):
        is_same = last_name(statement.target) == command.id and scope_of(statement) is scope
        if is_same and statement.lineno < call.lineno:
            yield from _words_of(program, statement.value)
