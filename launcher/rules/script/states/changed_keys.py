"""What happens to the keys of a state between a file and a model: copied, filtered, with another prefix."""

from __future__ import annotations

import ast
import re

from launcher.frozen import frozen
from launcher.program.dataflow import all_arguments, origins
from launcher.program.index import BindingKind, ancestors, file_of, last_name, scope_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.values import Constant, Defined

_COPIES = ("dict", "collections.OrderedDict", "copy.copy", "copy.deepcopy")
_TABLES = ("dict", "collections.OrderedDict")
_READING = frozenset({"get", "keys", "items", "values", "copy"})
_LOOKING = frozenset({"len", "print", "list", "set", "sorted", "any", "all", "next", "iter", "isinstance"})

_Steps = tuple[tuple[str, str], ...]
"""What is done to each key, one after the other: how, and with which text."""


@frozen
class KeyChange:
    """A state whose keys come from those of another table: that table, and what was done to each key.

    `key` is the expression of the new keys, where it is not the old ones; `is_filtered` where only some keys
    are taken; `functions` are those of the program in which that happens.
    """

    whole: ast.expr
    steps: _Steps = ()
    key: ast.expr | None = None
    is_filtered: bool = False
    functions: frozenset[ast.AST] = frozenset()

    def prefix_after(self, prefix: str) -> str | None:
        """The prefix that keys have afterwards; None where nobody can tell."""
        for how, text in self.steps:
            if how == "replace":
                prefix = prefix.replace(text, "")
            elif how == "cut":
                prefix = prefix.removeprefix(text)
            elif how == "add":
                prefix = text + prefix
            elif int(text) <= len(prefix):
                prefix = prefix[int(text) :]
            else:
                return None
        return prefix


def source_of_keys(program: Program, table: ast.expr, before: KeyChange | None = None) -> KeyChange:
    """What a table has its keys from: `{k.removeprefix("module."): v for k, v in state.items()}`.

    The table itself where nobody can tell; `before` is what follows then, if it is a table on the way.
    """
    change = before or KeyChange(table)
    made = made_alone(program, table, change.functions)
    if isinstance(made, ast.Call) and len(made.args) == 1 and program.qualified(made.func) in _COPIES:
        inner = made.args[0]
        if not isinstance(inner, ast.GeneratorExp | ast.ListComp):
            return source_of_keys(program, inner, _further(change, inner, (), None, False, made))
        return _through_pairs(program, change, made, inner)
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr == "copy":
        return source_of_keys(
            program, made.func.value, _further(change, made.func.value, (), None, False, made)
        )
    return change if made is None else _through_pairs(program, change, made, made)


def _further(
    change: KeyChange, whole: ast.expr, steps: _Steps, key: ast.expr | None, is_filtered: bool, made: ast.AST
) -> KeyChange:
    function = scope_of(made).function
    return KeyChange(
        whole,
        (*steps, *change.steps),
        key if steps else change.key,
        is_filtered or change.is_filtered,
        change.functions if function is None else change.functions | {function.node},
    )


def _through_pairs(program: Program, change: KeyChange, made: ast.expr, pairs: ast.expr) -> KeyChange:
    """The same of a table that is filled with the keys of another one."""
    found: tuple[ast.expr, _Steps, ast.expr, bool] | None = None
    match pairs:
        case (
            ast.DictComp(key=key, generators=[one])
            | ast.GeneratorExp(elt=ast.Tuple(elts=[key, _]), generators=[one])
            | ast.ListComp(elt=ast.Tuple(elts=[key, _]), generators=[one])
        ):
            listed = _listed_keys(one.target, one.iter)
            steps = None if listed is None else _steps_of(program, key, listed[1])
            if listed is not None and steps is not None:
                found = (listed[0], steps, key, bool(one.ifs))
        case ast.Dict(keys=[]) | ast.Call(args=[], keywords=[]):
            if isinstance(pairs, ast.Dict) or program.qualified(pairs.func) in _TABLES:
                found = _filled(program, pairs)
    if found is None:
        return change
    whole, steps, key, is_filtered = found
    return source_of_keys(program, whole, _further(change, whole, steps, key, is_filtered, made))


def _listed_keys(target: ast.expr, listed: ast.expr) -> tuple[ast.expr, str] | None:
    """The table that a loop goes over, `state.items()` or `state`, and the name of its keys."""
    called = listed.func if isinstance(listed, ast.Call) and not listed.args else None
    match target, called:
        case ast.Tuple(elts=[ast.Name(id=key), _]), ast.Attribute(value=whole, attr="items"):
            return whole, key
        case ast.Name(id=key), ast.Attribute(value=whole, attr="keys"):
            return whole, key
    return None


def _filled(program: Program, table: ast.expr) -> tuple[ast.expr, _Steps, ast.expr, bool] | None:
    """What an empty table is filled with by a loop over another one."""
    scope = scope_of(table)
    holders = [
        each
        for each in walk(scope.node)
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is table
    ]
    targets = [one for each in holders for one in getattr(each, "targets", [getattr(each, "target", None)])]
    names = {ast.unparse(each) for each in targets}
    stores = [
        each
        for each in walk(scope.node)
        if isinstance(each, ast.Subscript)
        and isinstance(each.ctx, ast.Store)
        and ast.unparse(each.value) in names
    ]
    found: list[tuple[ast.expr, _Steps, ast.expr, bool]] = []
    for store in stores:
        outer = next((each for each in ancestors(store) if isinstance(each, ast.For)), None)
        listed = None if outer is None else _listed_keys(outer.target, outer.iter)
        steps = None if listed is None else _steps_of(program, store.slice, listed[1])
        if listed is None or steps is None:
            return None
        found.append((listed[0], steps, store.slice, False))
    # One of the two where the prefix is asked for.
    changed = [each for each in found if each[1]] or found
    return changed[0] if len({each[1] for each in changed}) == 1 else None


def _steps_of(program: Program, key: ast.expr, name: str) -> _Steps | None:
    """What is done to a key that a loop calls by a name; None where nobody can tell."""
    inner: ast.expr | None = None
    step: tuple[str, str] | None = None
    match key:
        case ast.Name(id=own) if own == name:
            return _reassigned(program, key)
        case ast.Name():
            made = origins(program, key)
            only = made[0] if len(made) == 1 else None
            return None if only is None or only is key else _steps_of(program, only, name)
        case ast.IfExp(body=body, orelse=orelse):
            ways = {_steps_of(program, each, name) for each in (body, orelse)} - {()}
            return ways.pop() if len(ways) == 1 else None
        case ast.Call(
            func=ast.Attribute(value=owner, attr="replace"), args=[old, ast.Constant(value=""), *_]
        ):
            inner, step = owner, _step(program, "replace", old)
        case ast.Call(func=ast.Attribute(value=owner, attr="removeprefix"), args=[old]):
            inner, step = owner, _step(program, "cut", old)
        case ast.Call(args=[ast.Constant(value=str() as form), ast.Constant(value=""), given]) if (
            program.qualified(key.func) == "re.sub"
        ):
            written = re.fullmatch(r"\^?((?:\w|\\\.)+)", form)
            inner = given
            step = (
                None
                if written is None
                else ("cut" if form[0] == "^" else "replace", written[1].replace("\\", ""))
            )
        case ast.Subscript(value=owner, slice=ast.Slice(lower=ast.expr() as lower, upper=None, step=None)):
            inner, step = owner, _step(program, "drop", lower)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Add(), right=right):
            inner, step = right, ("add", text)
        case ast.JoinedStr(values=[ast.Constant(value=str() as text), ast.FormattedValue(value=right)]):
            inner, step = right, ("add", text)
    before = None if inner is None else _steps_of(program, inner, name)
    return None if before is None or step is None else (*before, step)


def _step(program: Program, how: str, given: ast.expr) -> tuple[str, str] | None:
    value = program.value(given)
    if isinstance(given, ast.Call) and program.qualified(given.func) == "len" and len(given.args) == 1:
        counted = program.value(given.args[0])
        value = (
            Constant(len(counted.value))
            if isinstance(counted, Constant) and isinstance(counted.value, str)
            else value
        )
    known = isinstance(value, Constant) and isinstance(value.value, int if how == "drop" else str)
    return (how, str(value.value)) if known and isinstance(value, Constant) else None


def _reassigned(program: Program, key: ast.Name) -> _Steps | None:
    """What a loop does to its key before it uses it: `if key.startswith("module."): key = key[7:]`."""
    scope = scope_of(key).holder_of(key.id)
    bindings = [] if scope is None else scope.bindings.get(key.id, [])
    steps: _Steps = ()
    for each in bindings:
        if each.kind is BindingKind.LOOPED:
            continue
        if each.kind is not BindingKind.ASSIGNED or each.value is None or each.item is not None:
            return None
        inner = [one for one in walk(each.value) if isinstance(one, ast.Name) and one.id == key.id]
        if key in inner:
            return steps
        of_value = _steps_of(program, each.value, key.id)
        if of_value is None:
            return None
        steps = (*steps, *of_value)
    return steps


# Whether a state is still what it was made as.


def made_alone(
    program: Program, node: ast.expr, functions: frozenset[ast.AST] = frozenset()
) -> ast.expr | None:
    """The only expression that makes something; None where that is open, or where it may be changed since."""
    if isinstance(node, ast.Name | ast.Attribute) and may_be_changed(program, node, None, functions):
        return None
    made = origins(program, node)
    found = [each for each in made if not is_empty(each)] or [
        each for each in made if isinstance(each, ast.Dict)
    ]
    return found[0] if len(found) == 1 else None


def may_be_changed(
    program: Program, state: ast.Name | ast.Attribute, key: str | None, functions: frozenset[ast.AST]
) -> bool:
    """Whether what was loaded, or what it holds below a key, is handed to anything but load_state_dict and
    functions of which is known what they do to keys."""
    scope, file = scope_of(state), file_of(state)
    changeable = (written := ast.unparse(state), f"{written}[{key!r}]")
    named_so = file.names.get(state.id) if isinstance(state, ast.Name) else file.attributes.get(state.attr)
    for call in (each for use in named_so or () for each in ancestors(use) if isinstance(each, ast.Call)):
        local = isinstance(state, ast.Attribute) or scope_of(call) is scope
        name = last_name(call.func)
        if not local or name in ("load_state_dict", "save") or program.qualified(call.func) in _COPIES:
            continue
        called = program.value(call.func)
        if name in _LOOKING or (isinstance(called, Defined) and called.node in functions):
            continue
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        given = all_arguments(call) if name in _READING or owner is None else [*all_arguments(call), owner]
        if name == "update" and owner is not None:
            given = [owner]
        named = (each for each in given if isinstance(each, ast.Name | ast.Attribute | ast.Subscript))
        if any(ast.unparse(each) in changeable for each in named):
            return True
    return False


def merged_into_own(program: Program, state: ast.expr) -> ast.expr:
    """What a model's own state is updated with before the model loads that again: of other keys it takes
    none. The state itself, where it is no such thing."""
    match state:
        case (
            ast.Dict(keys=[None, None], values=[own, other])
            | ast.BinOp(left=own, op=ast.BitOr(), right=other)
        ):
            return other if _is_own(program, own) else state
        case ast.Name() if _is_own(program, state):
            updates = [
                each
                for each in file_of(state).calls_of.get("update", ())
                if scope_of(each) is scope_of(state)
                and isinstance(each.func, ast.Attribute)
                and ast.unparse(each.func.value) == state.id
            ]
            return updates[0].args[0] if len(updates) == 1 and len(updates[0].args) == 1 else state
    return state


def _is_own(program: Program, state: ast.expr) -> bool:
    made = origins(program, state)
    return len(made) == 1 and isinstance(made[0], ast.Call) and last_name(made[0].func) == "state_dict"


def is_empty(origin: ast.expr | None) -> bool:
    """Whether an origin stands for no checkpoint at all: None or `{}`."""
    return not origin.keys if isinstance(origin, ast.Dict) else getattr(origin, "value", 0) is None
