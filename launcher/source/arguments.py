"""How a Python script reads its command line, where its source says so without doubt."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 200_000
"""A script that starts a training is smaller; a larger one is not read."""

_OTHER_READERS = frozenset(
    {
        "parse_known_args",
        "parse_known_intermixed_args",
        "argv",
        "from_cli",
        "HfArgumentParser",
        "add_subparsers",
    }
)
"""Names by which a script may take more words than its `add_argument` calls say."""

_HARMLESS = frozenset({"description", "epilog", "formatter_class", "prog", "usage"})
"""What a parser may be made with and still takes no other words."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a script takes on its command line.

    `hydra_line` is that of a function under `@hydra.main`, None without one. `options` are those that
    `argparse` knows, such as `--lr`, where it takes these and no other words; else None.
    """

    hydra_line: int | None = None
    options: frozenset[str] | None = None


NOTHING_SEEN = CommandLine()
"""Of a script whose source does not tell."""


def command_line_of(text: bytes) -> CommandLine:
    """What a script takes, by its text; nothing of one longer than MOST_BYTES or that is no Python."""
    nodes = _nodes(text)
    return CommandLine(next(_hydra_lines(nodes), None), _options(nodes))


def offered_options(text: bytes) -> dict[str, bool]:
    """The options that a script is seen to offer besides whatever else it takes, such as `--max_steps`.

    The value says whether the option is followed by one: `--synthetic` of a `store_true` is not. Beside the
    literal names of `add_argument` these are the step limit of Transformers' TrainingArguments, where the
    script has them read from its command line.
    """
    offered: dict[str, bool] = {}
    for call in (node for node in _nodes(text) if isinstance(node, ast.Call)):
        if _name(call) == "add_argument":
            action = next((each.value for each in call.keywords if each.arg == "action"), None)
            takes_value = action is None or (isinstance(action, ast.Constant) and action.value == "store")
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
            offered |= {str(name): takes_value for name in names if str(name).startswith("--")}
        elif _name(call) == "HfArgumentParser":
            inner = [
                node
                for arg in (*call.args, *(each.value for each in call.keywords))
                for node in ast.walk(arg)
            ]
            if any(isinstance(node, ast.Name) and node.id.endswith("TrainingArguments") for node in inner):
                offered["--max_steps"] = True
    return offered


def _nodes(text: bytes) -> list[ast.AST]:
    """The script's syntax, flat; nothing of one longer than MOST_BYTES or that is no Python."""
    try:
        # What Python would warn of in the user's script is none of the launcher's output.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text) if len(text) <= MOST_BYTES else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(ast.walk(tree))


def _hydra_lines(nodes: list[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
                    continue
                if (called.value.id, called.attr) == ("hydra", "main"):
                    yield node.lineno


def _options(nodes: list[ast.AST]) -> frozenset[str] | None:
    """None unless one parser is made, all its arguments are options with literal names, and it is strict."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    named |= {node.id for node in nodes if isinstance(node, ast.Name)}
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    parsers = [call for call in calls if _name(call) == "ArgumentParser"]
    reads = [call for call in calls if _name(call) == "parse_args"]
    if len(parsers) != 1 or len(reads) != 1 or (named | imported) & _OTHER_READERS:
        return None
    # With words or a parent of its own the parser reads something else.
    if reads[0].args or reads[0].keywords or {each.arg for each in parsers[0].keywords} - _HARMLESS:
        return None
    if _handed_on(parsers[0], nodes, calls):
        return None
    options: set[str] = set()
    for call in calls:
        if _name(call) == "add_argument":
            names = [arg.value if isinstance(arg, ast.Constant) else None for arg in call.args]
            if not names or not all(isinstance(name, str) and name.startswith("-") for name in names):
                return None
            options |= {str(name) for name in names}
    return frozenset(options) if options else None


def _handed_on(parser: ast.Call, nodes: list[ast.AST], calls: list[ast.Call]) -> bool:
    """Whether others may add arguments: the parser is given to a function, or has no name to see it by."""
    targets = [node.targets for node in nodes if isinstance(node, ast.Assign) and node.value is parser]
    names = {target.id for each in targets for target in each if isinstance(target, ast.Name)}
    given = [arg for call in calls for arg in (*call.args, *(keyword.value for keyword in call.keywords))]
    return not names or any(isinstance(arg, ast.Name) and arg.id in names for arg in given)


def _name(call: ast.Call) -> str | None:
    """The last name of what is called: `ArgumentParser` in `argparse.ArgumentParser()`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None
