"""The keys of states, which a wrapper changes: those that are saved and those that are loaded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.dataflow import (
    argument_of,
    origins,
    parts_of,
    text_beginning,
    text_parts,
)
from launcher.program.index import (
    ancestors,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import FileCache, Program, calls_as_given, read_program
from launcher.program.ranks.reachability import Reachability
from launcher.program.spellings import NOT_WRITTEN, spellings
from launcher.program.surroundings.saves import path_of_file
from launcher.program.values import DDP, UNKNOWN, Constant, Dictionary, Made, entries_of
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.states.changed_keys import (
    KeyChange,
    is_empty,
    made_alone,
    may_be_changed,
    merged_into_own,
    source_of_keys,
)


@finds(Stage.SCRIPT, checkpoints.UNEXPECTED_KEY_PREFIX)
def keys_are_not_cut_by_partition(program: Program) -> Iterator[Finding]:
    """`key.partition("module.")[2]`, which turns a key without the prefix into the empty string.

    All but one of those keys are lost. Right where a test for the prefix goes before it.

    Bad: `{k.partition("module.")[2]: v for k, v in state.items()}`. Good: `k.removeprefix("module.")`.
    Source: the recipe of AWS's guide distributed-troubleshooting-data-parallel.
    """
    for file in program.files:
        for call in file.calls_of.get("partition", ()):
            prefix = program.value(call.args[0]) if len(call.args) == 1 else UNKNOWN
            key = call.func.value if isinstance(call.func, ast.Attribute) else None
            if not isinstance(prefix, Constant) or not str(prefix.value).endswith(".") or key is None:
                continue
            taken = _rest_of_key(program, call)
            if taken is None or _asked_before(taken, ast.unparse(key), str(prefix.value)):
                continue
            yield finding_at(
                checkpoints.UNEXPECTED_KEY_PREFIX,
                taken,
                f"`{ast.unparse(taken)}` is the empty string for every key without {prefix.value!r}: all of "
                "them become one key, and all but one of their tensors are lost",
                remedy=f"Use `{ast.unparse(key)}.removeprefix({prefix.value!r})`, which keeps other keys.",
            )


def _rest_of_key(program: Program, partition: ast.Call) -> ast.expr | None:
    """Where what is behind a prefix becomes a key: itself, or by a name, and nothing asks for the parts."""
    outer = parent_of(partition)
    if isinstance(outer, ast.Subscript) and outer.value is partition:
        last = program.value(outer.slice) in (Constant(2), Constant(-1))
        return outer if last and _becomes_a_key(outer) else None
    target = outer.targets[0] if isinstance(outer, ast.Assign) else None
    parts = target.elts if isinstance(target, ast.Tuple) and len(target.elts) == 3 else []
    uses = [use for part in parts for use in file_of(partition).names.get(ast.unparse(part), ())]
    uses = [each for each in uses if scope_of(each) is scope_of(partition)]
    return uses[0] if uses and all(map(_becomes_a_key, uses)) else None


def _becomes_a_key(node: ast.expr) -> bool:
    """Whether an expression is the key of a dictionary that a loop over another one fills."""
    parent = parent_of(node)
    if isinstance(parent, ast.DictComp):
        return parent.key is node
    if isinstance(parent, ast.Tuple):  # `dict((k.partition("module.")[2], v) for k, v in ...)`
        return isinstance(parent_of(parent), ast.GeneratorExp | ast.ListComp) and parent.elts[0] is node
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        return isinstance(parent.ctx, ast.Store) and any(
            isinstance(each, ast.For) for each in ancestors(node)
        )
    return False


def _asked_before(node: ast.expr, key: str, prefix: str) -> bool:
    """Whether a test around an expression looks at the key, or for the prefix in another one: keys of a
    wrapped model all have it, so that people ask for the first."""
    inner: ast.AST = node
    for outer in ancestors(node):
        tests: list[ast.expr] = []
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            tests = [outer.test]
        elif isinstance(outer, ast.DictComp | ast.GeneratorExp | ast.ListComp):
            tests = [test for each in outer.generators for test in each.ifs]
        asked = [part for test in tests for part in walk(test) if isinstance(part, ast.expr)]
        if any(ast.unparse(part) == key or _looks_for(part, prefix) for part in asked):
            return True
        inner = outer
    return False


def _looks_for(test: ast.expr, prefix: str) -> bool:
    """Whether something is asked for beginning with the prefix."""
    if not isinstance(test, ast.Call) or last_name(test.func) != "startswith":
        return False
    return any(isinstance(each, ast.Constant) and each.value == prefix for each in test.args)


# Keys of saved states: those of a wrapper do not load into the bare model, nor the other way round.


_PREFIXES = {
    DDP: "module.",
    "torch.nn.parallel.DataParallel": "module.",
    "apex.parallel.DistributedDataParallel": "module.",
    "torch.compile": "_orig_mod.",
    "torch.optim.swa_utils.AveragedModel": "module.",
    **{f"timm.utils.{name}": "module." for name in ("ModelEma", "ModelEmaV2", "ModelEmaV3")},
}
_WRAPPED_AS = {name: "model" for name in _PREFIXES if not name.endswith("Parallel")}
"""What the parameter is called by which a wrapper gets the model, where that is not `module`."""
_BARE_MODELS = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")
_SAME_MODEL = frozenset({"to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "float"})


@frozen
class _State:
    """A model's state in a file: where it is saved or loaded, under which key, and with which prefix."""

    call: ast.Call
    path: ast.expr
    key: str | None
    prefix: str
    change: KeyChange | None = None

    def fits(self, saved: _State) -> bool:
        """Whether a model that loads gets its own keys of what is saved, or nobody can tell."""
        given = saved.prefix if self.change is None else self.change.prefix_after(saved.prefix)
        return given is None or given == self.prefix


@finds(Stage.SCRIPT, checkpoints.UNEXPECTED_KEY_PREFIX)
def states_are_loaded_as_they_are_saved(program: Program) -> Iterator[Finding]:
    """A state saved from a wrapper and loaded into the bare model, or the other way round, by one path.

    The keys do not match: load_state_dict raises, or with strict=False loads nothing. Both ends must be in
    the program, with the same path and key as written, and the model's way to its wrapper must be known; what
    happens to the keys between is followed where it is copying, filtering, or taking prefixes off.

    A program beside it, such as the inference.py of an endpoint, loads what has the file's name. A warning
    where the two are only in one folder. Information of a wrapper's weights in a program that loads other
    weights into the bare model, as a later run would load these.

    Bad: `torch.save(ddp.state_dict(), path)` and `model.load_state_dict(torch.load(path))`. Good:
    `torch.save(ddp.module.state_dict(), path)`. Source: discuss.pytorch.org topic 494.
    """
    saved = list(_saved(program))
    yield from _loaded_beside(program, saved)
    yield from _handed_over(program)
    yield from _cut_for_wrappers(program)
    told = set[_State]()
    for loaded in _loaded(program):
        place = _place(program, loaded.path)
        of_key = [each for each in saved if each.key == loaded.key]
        same = [each for each in of_key if _place(program, each.path) == place]
        same = same or [each for each in of_key if _has_shape_of(program, each.path, loaded.path)]
        near = [] if same else [each for each in of_key if _is_in_folder_of(program, each.path, loaded.path)]
        told |= {*same, *near}
        if not (same or near) or any(map(loaded.fits, (*same, *near))):
            continue
        save, path = (*same, *near)[0], ast.unparse(loaded.path)
        # What loads for an endpoint, the training itself never comes to.
        is_come_to = program.analysis(Reachability).reaches(loaded.call)
        yield finding_at(
            checkpoints.UNEXPECTED_KEY_PREFIX,
            loaded.call if is_come_to else save.call,
            f"the keys saved to `{path}` {_begin(save.prefix)}{_changed(save, loaded)}, and the model that "
            f"loads them has keys that {_begin(loaded.prefix)}: {_end_of(loaded)}",
            severity=Severity.WARNING if near or not is_come_to else None,
            related=[
                related_at(save.call, "saved here") if is_come_to else related_at(loaded.call, "loaded here")
            ],
        )
    bare = _loads_of_bare_models(program)
    for each in (one for one in saved if one.prefix == "module." and one.key is None and one not in told):
        other = [load for load, path in bare if _may_be_loaded_later(program, each.path, path)]
        if other and len(other) == len(bare):
            yield finding_at(
                checkpoints.UNEXPECTED_KEY_PREFIX,
                each.call,
                "this is the state of the wrapper: its keys begin with `module.`, and the models into which "
                "this program loads weights have keys without that",
                remedy="Save `model.module.state_dict()`.",
                severity=Severity.INFO,
                related=[related_at(other[0], "loaded here")],
            )


def _may_be_loaded_later(program: Program, saved: ast.expr, loaded: ast.expr) -> bool:
    """Whether a file that is saved may be what a later run loads: not where both names are written."""
    one, other = _place(program, saved), _place(program, loaded)
    return one != other and not len(one) == len(other) == 1


def _loads_of_bare_models(program: Program) -> list[tuple[ast.Call, ast.expr]]:
    """The calls that load files into bare models, with the files; none where anything may load into a
    wrapper, or takes the prefix off."""
    found: list[tuple[ast.Call, ast.expr]] = []
    if any('"module.' in file.text or "'module." in file.text for file in program.files):
        return []
    for file in program.files:
        for call in file.calls_of.get("load_state_dict", ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if owner is None or _OTHER_STATES.search(last_name(owner) or ""):
                continue
            prefix, state = _prefix_of_model(program, call, owner), argument_of(call, "state_dict", 0)
            if prefix != "" or state is None:
                return []
            for part in parts_of(program, state):
                if isinstance(part, ast.Call) and program.qualified(part.func) == "torch.load":
                    path = path_of_file(program, argument_of(part, "f", 0))
                    found += [] if path is None else [(call, path)]
    return found


_OTHER_STATES = re.compile(r"optim|sched|scaler|^opt$|_opt$|^opt_")


def _has_shape_of(program: Program, one: ast.expr, other: ast.expr) -> bool:
    """Whether the names of two files are written alike, but for what is put in: `f"best({step}).pt"`."""
    shapes = [{each.text.rpartition("/")[2] for each in spellings(program, path)} for path in (one, other)]
    return any(len(each.replace(NOT_WRITTEN, "").rpartition(".")[0]) > 1 for each in shapes[0] & shapes[1])


def _is_in_folder_of(program: Program, one: ast.expr, other: ast.expr) -> bool:
    """Whether two paths begin with the same variable, which is the folder that both are in."""
    first, second = (_folder_of(program, each) for each in (one, other))
    return first is not None and first == second


def _folder_of(program: Program, path: ast.expr, depth: int = 4) -> tuple[str, int] | None:
    parts, _ = text_parts(program, path)
    for part in parts:
        if isinstance(part, ast.Name):
            return part.id, id(scope_of(part).holder_of(part.id))
        if isinstance(part, ast.Attribute):
            return ast.unparse(part), 0
        if not isinstance(part, ast.Constant):
            return _folder_of(program, part, depth - 1) if depth else None
    made = () if parts else origins(program, path)
    only = made[0] if len(made) == 1 else None
    return _folder_of(program, only, depth - 1) if only is not None and only is not path and depth else None


def _handed_over(program: Program) -> Iterator[Finding]:
    """States that go from one model into another in memory: `ema.load_state_dict(ddp.state_dict())`."""
    for call, state, prefix in _loads(program):
        given = _prefix_handed_over(program, state)
        if given is not None and given != prefix:
            yield finding_at(
                checkpoints.UNEXPECTED_KEY_PREFIX,
                call,
                f"the keys of `{ast.unparse(state)}` {_begin(given)}, and the model that gets them has keys "
                f"that {_begin(prefix)}: load_state_dict raises, or with strict=False loads nothing",
            )


def _cut_for_wrappers(program: Program) -> Iterator[Finding]:
    """States whose keys lose the prefix and go into the wrapper, whose keys have it."""
    for call, state, prefix in _loads(program):
        change = source_of_keys(program, state)
        cut = change.key if prefix == "module." and change.prefix_after(prefix) == "" else None
        if cut is not None:
            yield finding_at(
                checkpoints.UNEXPECTED_KEY_PREFIX,
                call,
                f"`{ast.unparse(cut)}` takes `module.` off the keys, and the model that gets them is the "
                "wrapper, whose keys all have it: load_state_dict raises, or with strict=False loads nothing",
                remedy="Load them into `model.module`, or before the model is wrapped.",
                related=[related_at(cut, "taken off here")],
            )


def _loaded_beside(program: Program, saved: list[_State]) -> Iterator[Finding]:
    """States that other programs of the same folder load, which this one does not import."""
    names = {each: _file_name(program, each.path) for each in saved if each.prefix}
    folder, own = program.entry.path.parent, {each.path for each in program.files}
    beside = sorted({*folder.glob("*.py"), *folder.glob("*/*.py")} - own) if any(names.values()) else []
    cache = FileCache(program=program)
    for path in beside[:_MOST_BESIDE]:
        if path.stat().st_size > _LARGEST_BESIDE or b"load_state_dict" not in path.read_bytes():
            continue
        other = read_program(path, folder, cache)
        if not isinstance(other, Program):
            continue
        for loaded in _loaded(other):
            owner = loaded.call.func
            model = other.value(owner.value) if isinstance(owner, ast.Attribute) else None
            if not isinstance(model, Made) or not program.mentioning(model.definition.name):
                continue  # It is another model, whose file has the same name.
            name = _file_name(other, loaded.path)
            same = [each for each in saved if each.key == loaded.key and name in (names.get(each), None)]
            same += [each for each in saved if not each.prefix and _file_name(program, each.path) == name]
            if name and same and not any(map(loaded.fits, same)):
                yield finding_at(
                    checkpoints.UNEXPECTED_KEY_PREFIX,
                    same[0].call,
                    f"the keys saved to {name} {_begin(same[0].prefix)}, and the model that gets them in "
                    f"{path.name} has keys that {_begin(loaded.prefix)}: load_state_dict raises",
                    related=[related_at(loaded.call, "loaded here")],
                )


_MOST_BESIDE, _LARGEST_BESIDE = 50, 200_000
"""So many files beside a program, of so many bytes, are looked at for what loads its states."""


def _file_name(program: Program, path: ast.expr, depth: int = 6) -> str | None:
    """The name of the file that a path ends with, where it is written."""
    value = program.value(path)
    if isinstance(value, Constant):
        return str(value.value).rpartition("/")[2] or None
    parts, _ = text_parts(program, path)
    made = origins(program, path) if not parts else ()
    inner = parts[-1] if parts else made[0] if len(made) == 1 else None
    return _file_name(program, inner, depth - 1) if inner not in (None, path) and inner and depth else None


def _place(program: Program, path: ast.expr) -> tuple[object, ...]:
    """What tells a path from others: its text where that is known, else how and of which names it is made."""
    known = text_beginning(program, path)
    if known is not None and known[1]:
        return (known[0],)
    made = origins(program, path) if isinstance(path, ast.Name | ast.Attribute) else ()
    if len(made) == 1 and made[0] is not None:
        path = made[0]  # Who saves and who loads are given it by other names.
    names = [each for each in walk(path) if isinstance(each, ast.Name)]
    values = [(each, program.value(each)) for each in names]
    return (
        ast.unparse(path),
        *(
            value if isinstance(value, Made) else id(scope_of(each).holder_of(each.id))
            for each, value in values
        ),
    )


def _renamed(program: Program, path: ast.expr) -> ast.expr:
    """The name that a file gets once it is whole: `os.replace(path + ".tmp", path)`, `tmp.rename(path)`."""
    place = _place(program, path)
    for name in ("replace", "rename", "move"):
        for call in file_of(path).calls_of.get(name, ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            given = call.args if len(call.args) == 2 else [owner, *call.args]
            before, after = given if len(given) == 2 else (None, None)
            if before is not None and after is not None and _place(program, before) == place:
                return after
    return path


def _begin(prefix: str) -> str:
    return f"begin with `{prefix}`" if prefix else "have no prefix"


def _changed(save: _State, loaded: _State) -> str:
    """What is left of a prefix that is taken off in part before a model loads the keys."""
    given = loaded.change and loaded.change.prefix_after(save.prefix)
    return "" if given is None or given == save.prefix else f" (`{given or 'none'}` once they are changed)"


def _end_of(loaded: _State) -> str:
    if loaded.change is not None and loaded.change.is_filtered:
        return "of those that are left by the filter it gets none, and nothing tells"
    return "load_state_dict raises, or with strict=False loads nothing"


def _saved(program: Program) -> Iterator[_State]:
    for call, _ in calls_as_given(program, "torch.save"):
        path, what = path_of_file(program, argument_of(call, "f", 1)), argument_of(call, "obj", 0)
        if path is None or what is None:
            continue
        (whole, *others) = origins(program, what) or (None,)
        if whole is None or others:
            continue
        parts: list[tuple[str | None, ast.expr]] = [(None, what)]
        if (entries := _entries(program, whole)) is not None:
            parts = [*entries, *_set_before(program, what, call)]
        for key, value in parts:
            prefix = _prefix_of_state(program, value)
            if prefix is not None:
                yield _State(call, _renamed(program, path), key, prefix)


def _entries(program: Program, table: ast.expr, depth: int = 4) -> list[tuple[str, ast.expr]] | None:
    """The entries of a table that is written out, also in parts: `{**base, "epoch": 3}`, `base | {...}`."""
    value = program.value(table)
    listed: list[tuple[ast.expr | None, ast.expr]] = []
    if isinstance(table, ast.BinOp) and isinstance(table.op, ast.BitOr):
        listed = [(None, table.left), (None, table.right)]
    elif isinstance(value, Dictionary):
        listed = entries_of(value.node)
    else:
        return None
    found: dict[str, ast.expr] = {}
    for key, each in listed:
        made = origins(program, each) if key is None and depth else ()
        inner = made[0] if len(made) == 1 else None
        if isinstance(key, ast.Constant):
            found[str(key.value)] = each
        elif inner is not None:
            found |= dict(_entries(program, inner, depth - 1) or ())
    return [*found.items()]


def _set_before(program: Program, table: ast.expr, save: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The entries that a table gets before it is saved: `state["model"] = ddp.state_dict()`."""
    file, scope = file_of(save), scope_of(save)
    for key, bindings in file.set_items.items() if isinstance(table, ast.Name) else ():
        for each in bindings:
            if each.name == last_name(table) and each.value is not None and scope_of(each.node) is scope:
                yield key, each.value


def _prefix_of_state(program: Program, node: ast.expr) -> str | None:
    """The prefix of the keys of `model.state_dict()`; None for other things and for models not known."""
    change = source_of_keys(program, node)
    made = made_alone(program, change.whole, change.functions)
    match made:
        case ast.Call(func=ast.Attribute(value=model, attr="state_dict"), args=[], keywords=[]):
            prefix = _prefix_of_model(program, made, model)
            return None if prefix is None else change.prefix_after(prefix)
    return None


def _prefix_handed_over(program: Program, state: ast.expr) -> str | None:
    """The prefix of a state that goes from one model into another; of one that may also come from a file,
    such as the best weights until then, that which it has otherwise."""
    if isinstance(state, ast.Name | ast.Attribute) and may_be_changed(program, state, None, frozenset()):
        return None
    found = [each for each in origins(program, state) if not is_empty(each)]
    others = [each for each in found if each is None or not _is_of_a_file(program, each)]
    given = {None if each is None else _prefix_of_state(program, each) for each in others}
    return given.pop() if len(given) == 1 else None


def _is_of_a_file(program: Program, state: ast.expr) -> bool:
    """Whether a state is an entry of what was loaded: `checkpoint["best"]`."""
    made = origins(program, state.value) if isinstance(state, ast.Subscript) else ()
    return bool(made) and all(
        is_empty(each) or (isinstance(each, ast.Call) and program.qualified(each.func) == "torch.load")
        for each in made
    )


def _prefix_of_model(program: Program, call: ast.Call, model: ast.expr) -> str | None:
    """The prefix of a model's keys where one of its methods is called."""
    prefix = _Prefixes(program).prefix_of(model)
    if prefix and (early := _is_before_wrapping(program, call, model)) is not False:
        return early and ""
    return prefix


def _loads(program: Program) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    """The calls of load_state_dict of models whose prefix is known, with what they are given."""
    for file in program.files:
        for call in file.calls_of.get("load_state_dict", ()):
            state = argument_of(call, "state_dict", 0)
            if state is None or not isinstance(call.func, ast.Attribute):
                continue
            prefix = _prefix_of_model(program, call, call.func.value)
            if prefix is not None:
                yield call, state, prefix


def _loaded(program: Program) -> Iterator[_State]:
    for call, state, prefix in _loads(program):
        merged = merged_into_own(program, state)
        change = source_of_keys(program, merged)
        read = _read(program, change.whole, change.functions)
        if read is not None:
            yield _State(
                call, *read, prefix, change if merged is state else replace(change, is_filtered=True)
            )


def _is_before_wrapping(program: Program, call: ast.Call, model: ast.expr) -> bool | None:
    """Whether `self.model` is wrapped only behind a call, or behind what calls its method; None: at times.

    `self._load(path)`, and then `self.model = DDP(self.model)`, as constructors of trainers have them.
    """
    if not isinstance(model, ast.Attribute) or not isinstance(model.value, ast.Name):
        return False
    stores = file_of(call).set_attributes.get(model.attr, ())
    if not stores:
        return False
    wrapping, function, places = stores[-1].node, scope_of(call).node, [call]
    if isinstance(function, ast.FunctionDef) and scope_of(wrapping) is not scope_of(call):
        places = [site.call for site in program.evaluation.callers.call_sites(function) or ()]
    line, scope = getattr(wrapping, "lineno", 0), scope_of(wrapping)
    before = [scope_of(each) is scope and each.lineno < line for each in places]
    if not any(before):
        return False
    return True if all(before) else None


def _read(
    program: Program, node: ast.expr, functions: frozenset[ast.AST]
) -> tuple[ast.expr, str | None] | None:
    """The path and key of `torch.load(path)["model"]`, also through names that nobody else gets to see."""
    key = None
    if isinstance(node, ast.Subscript):
        value = program.value(node.slice)
        if not isinstance(value, Constant):
            return None
        key, node = str(value.value), node.value
    if isinstance(node, ast.Name | ast.Attribute) and may_be_changed(program, node, key, functions):
        return None
    found = [each for each in origins(program, node) if not is_empty(each)]
    if len(found) != 1 or found[0] is None:
        return None
    if key is None and isinstance(found[0], ast.Subscript) and found[0] is not node:
        return _read(program, found[0], functions)
    if not isinstance(found[0], ast.Call) or program.qualified(found[0].func) != "torch.load":
        return None
    holder = parent_of(found[0])
    targets = holder.targets if isinstance(holder, ast.Assign) else []
    targets = [holder.target] if isinstance(holder, ast.NamedExpr) else targets
    if any(
        isinstance(each, ast.Name | ast.Attribute) and may_be_changed(program, each, key, functions)
        for each in targets
    ):
        return None
    path = path_of_file(program, argument_of(found[0], "f", 0))
    return None if path is None else (path, key)


class _Prefixes:
    """The prefixes of models that one model is made of, each found once: of a model that is wrapped under a
    condition that of the wrapper, which it has in a distributed run.

    A model that is made of itself (`self.model = self.model.half()`) is known by its other origins.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[ast.expr, str | None] = {}
        self._open: set[ast.expr] = set()

    def prefix_of(self, model: ast.expr) -> str | None:
        """The prefix of a model, None where it is not known."""
        found = origins(self._program, model)
        if len(found) > 1 and any(map(_is_unwrapped, found)):
            return None  # `model.module if hasattr(model, "module") else model`: whatever it is, it is bare.
        prefixes: set[str] = set()
        for origin in found:
            if origin in self._open or (isinstance(origin, ast.Constant) and origin.value is None):
                continue  # What stands there before the model is made.
            prefix = None if origin is None else self._of_origin(origin)
            if prefix is None:
                return None
            prefixes.add(prefix)
        wrapped = {each for each in prefixes if each}
        if len(wrapped) > 1:
            return None
        return wrapped.pop() if wrapped else "" if prefixes else None

    def _of_origin(self, origin: ast.expr) -> str | None:
        if origin not in self._known:
            self._open.add(origin)
            self._known[origin] = self._made(origin)
            self._open.remove(origin)
        return self._known[origin]

    def _made(self, origin: ast.expr) -> str | None:
        if isinstance(origin, ast.Attribute) and _is_unwrapped(origin):
            whole = self.prefix_of(origin.value)
            outer = f"{origin.attr}."
            return whole.removeprefix(outer) if whole is not None and whole.startswith(outer) else None
        if not isinstance(origin, ast.Call):
            return None
        name = self._program.qualified(origin.func) or ""
        if name in _PREFIXES:
            inner = argument_of(origin, _WRAPPED_AS.get(name, "module"), 0)
            below = None if inner is None else self.prefix_of(inner)
            return _PREFIXES[name] + (below or "")
        last = last_name(origin.func) or ""
        if _MODEL_MAKERS.fullmatch(last) and not _WRAPPERS.search(last):
            return ""
        if isinstance(origin.func, ast.Attribute) and origin.func.attr in _SAME_MODEL:
            return self.prefix_of(origin.func.value)
        if name.endswith("convert_sync_batchnorm") and origin.args:
            return self.prefix_of(origin.args[0])
        if name.startswith(_BARE_MODELS):
            return ""
        if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper() and "parallel" not in name:
            return ""
        return "" if isinstance(self._program.value(origin), Made) else None


_MODEL_MAKERS = re.compile(
    r"from_pretrained|from_config|\w*(model|net|bert|gpt|encoder|decoder|unet)(_?cls|_?class)?", re.I
)
"""What is called that makes a model, of a library that is not read here."""
_WRAPPERS = re.compile(r"parallel|ddp|fsdp|wrap|engine|distrib|prepare|setup|compile|load|save|init", re.I)


def _is_unwrapped(model: ast.expr | None) -> bool:
    """Whether an expression takes a model out of its wrapper."""
    return isinstance(model, ast.Attribute) and f"{model.attr}." in _PREFIXES.values()


_BARE_BY_NAME = re.compile(r"without|unwrap|^raw_|^bare_")


@finds(Stage.SCRIPT, checkpoints.UNEXPECTED_KEY_PREFIX)
def bare_models_are_bare(program: Program) -> Iterator[Finding]:
    """A state of what is named as the model without its wrapper, and is the wrapper.

    Its keys begin with `module.`, and who loads them into the bare model, such as a fine-tuning, gets nothing
    of it where that is tolerated, or an error. Silent where it is taken out of the wrapper in any case.

    Bad: `model_without_ddp = model` behind `model = DDP(model)`. Good: `model_without_ddp = model.module`.
    Source: discuss.pytorch.org topic 494.
    """
    for file in program.files:
        for call in file.calls_of.get("state_dict", ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if owner is None or not _BARE_BY_NAME.search(last_name(owner) or ""):
                continue
            made = origins(program, owner)
            wrapped = [
                each for each in made if isinstance(each, ast.Call) and program.qualified(each.func) == DDP
            ]
            if wrapped and not any(map(_is_unwrapped, made)):
                yield finding_at(
                    checkpoints.UNEXPECTED_KEY_PREFIX,
                    call,
                    f"`{ast.unparse(owner)}` is the wrapped model here: its keys begin with `module.` and do "
                    "not load into the bare model",
                    severity=Severity.WARNING,
                    related=[related_at(wrapped[0], "wrapped here")],
                )


STATE_KEY_RULES = (
    keys_are_not_cut_by_partition,
    states_are_loaded_as_they_are_saved,
    bare_models_are_bare,
)
