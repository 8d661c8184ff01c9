"""What the text of the user's code tells of where a rank is: loops that it has left, conditions, saves.

Lines are those of a stack, the innermost last; `text_of` gives the text of a file of the user's code by its
name, None where it cannot be read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from slipway.watchdog.rank_views import RankView, UserLine

_OF_MODELS = frozenset({"parameters", "named_parameters", "param_groups", "buffers", "named_buffers"})


def loop_left(
    inside: Sequence[UserLine], elsewhere: Sequence[UserLine], text_of: Callable[[str], str | None]
) -> UserLine | None:
    """The loop that `inside` is in and `elsewhere` is behind; None where there is none, or it is not known.

    Both are the user's lines of a stack, the innermost last. The two stacks are compared from the outside, up
    to the function in which they are at different lines: what is behind a call there is also behind all loops
    of the functions that it called. Where both are in one loop around it, the others may be in its next
    round: a loop over parameters has not been left for good then. `text_of` gives a file's text by its name.
    """
    for depth in range(min(len(inside), len(elsewhere))):
        here, there = inside[depth], elsewhere[depth]
        if (here.file, here.function) != (there.file, there.function):
            return None
        if here.number != there.number:
            break
    else:
        return None
    if there.number < here.number:
        return None
    around = (outermost_loop(line, text_of(line.file)) for line in inside[depth + 1 :])
    mine = outermost_loop(here, text_of(here.file), behind=there.number)
    return mine or next((loop for loop in around if loop is not None), None)


def outermost_loop(line: UserLine, text: str | None, behind: int | None = None) -> UserLine | None:
    """The loop of its function around a line, the outermost of those that end before the line `behind`."""
    loops = _loops_around(line.number, text)
    if behind is not None:
        left = [loop for loop in loops if behind > (loop.end_lineno or loop.lineno)]
        loops = (
            left if len(left) == len(loops) else [loop for loop in left if not _goes_over_parameters(loop)]
        )
    return UserLine(line.file, min(loop.lineno for loop in loops), line.function) if loops else None


def same_round(
    inside: RankView,
    elsewhere: RankView,
    text_of: Callable[[str], str | None],
    here: Sequence[UserLine] = (),
    there: Sequence[UserLine] = (),
) -> bool | None:
    """Whether two ranks are in the same round of all loops that are around both; None where that is not
    known: a loop may count nothing. `here` and `there` are their lines, where they are not those of now.
    """
    known = True
    for one, other in zip(here or inside.lines, there or elsewhere.lines):
        if (one.file, one.function) != (other.file, other.function):
            break
        mine = _loops_around(one.number, text_of(one.file))
        theirs = {loop.lineno for loop in _loops_around(other.number, text_of(one.file))}
        for loop in mine:
            if loop.lineno not in theirs:
                continue
            keys = [f"{one.file} {one.function} {name}" for name in _counted_by(loop)]
            rounds = [(inside.counters.get(key), elsewhere.counters.get(key)) for key in keys]
            if any(None not in pair and pair[0] != pair[1] for pair in rounds):
                return False
            known = known and any(None not in pair for pair in rounds)
        if one.number != other.number:
            break
    return known or None


def _counted_by(loop: ast.stmt) -> list[str]:
    """What a loop counts its rounds by, as `epoch` or `self.epoch`: its target, or what its test asks."""
    counted = getattr(loop, "target", None) or getattr(loop, "test", None)
    asked = list(ast.walk(counted)) if counted is not None else []
    of_self = [
        f"self.{node.attr}"
        for node in asked
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    ]
    return of_self + [node.id for node in asked if isinstance(node, ast.Name)]


def _loops_around(number: int, text: str | None) -> list[ast.stmt]:
    tree = _parsed(text)
    return [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]


def _parsed(text: str | None) -> ast.Module | None:
    try:
        return ast.parse(text or "")
    except (SyntaxError, ValueError, RecursionError):
        return None


def _goes_over_parameters(loop: ast.stmt) -> bool:
    """Whether a loop has as many rounds on all ranks, whatever their data: one that averages gradients."""
    over = getattr(loop, "iter", None)
    asked = ast.walk(over) if over is not None else ()
    return any(isinstance(node, ast.Attribute) and node.attr in _OF_MODELS for node in asked)


# Whether all ranks that go on from a loop come to what stands behind it.


_CONDITIONS = tuple(
    getattr(ast, name)
    for name in ("If", "IfExp", "BoolOp", "For", "AsyncFor", "While", "ExceptHandler", "Match")
    if hasattr(ast, name)
)
_WAYS_OUT = (ast.Return, ast.Continue, ast.Break)


def all_come_to(
    elsewhere: Sequence[UserLine], inside: Sequence[UserLine], text_of: Callable[[str], str | None]
) -> bool:
    """Whether every rank that goes on from the loop in which `inside` is comes to `elsewhere`, behind it:
    nothing there stands under a condition, and nothing on the way leads past it."""
    pairs = enumerate(zip(inside, elsewhere))
    depth = next((number for number, (one, other) in pairs if one != other), None)
    if depth is None:
        return False
    ways = [(elsewhere[depth], inside[depth].number), *((line, 0) for line in elsewhere[depth + 1 :])]
    return all(_is_reached(line.number, since, text_of(line.file)) for line, since in ways)


def _is_reached(number: int, since: int, text: str | None) -> bool:
    """Whether a function comes to its line `number` in any case, once the loops that end before it, and have
    the line `since` in them, have ended; without those (0) from its beginning."""
    function = _function_around(number, text)
    if function is None:
        return False
    left = max(
        (loop.end_lineno or 0 for loop in _loops_around(since, text) if (loop.end_lineno or 0) < number),
        default=since,
    )
    for node in _nodes_of(function):
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
        if isinstance(node, _CONDITIONS) and first <= number <= last and not first <= since <= last:
            return False
        if isinstance(node, _WAYS_OUT) and left < first < number:
            return False
    return True


def _function_around(number: int, text: str | None) -> ast.AST | None:
    """The innermost function around a line, else the module; None where the text cannot be read."""
    tree = _parsed(text)
    if text is None or tree is None:
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.lineno <= number <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=tree)


def _nodes_of(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module, without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _nodes_of(child)


# Whether a rank saves, by what its lines call: a function may write a checkpoint by any name.


def is_saving_by_text(lines: Sequence[UserLine], text_of: Callable[[str], str | None]) -> bool:
    """Whether one of the lines is in a call that saves or is given what is saved: `torch.save`,
    `save_pretrained`, `write(path, model.state_dict())`."""
    return any(_saves(call) for line in lines for call in _calls_at(line.number, text_of(line.file)))


_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


def _calls_at(number: int, text: str | None) -> Iterator[ast.Call]:
    """The calls in the simple statement that stands at a line."""
    tree = _parsed(text)
    for statement in ast.walk(tree) if tree is not None else ():
        if isinstance(statement, _SIMPLE) and statement.lineno <= number <= (statement.end_lineno or 0):
            yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _saves(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    return name.startswith("save") or (name.endswith(("_save", "state_dict")) and not name.startswith("load"))
