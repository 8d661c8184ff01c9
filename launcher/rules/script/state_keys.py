"""Keys of saved states: those of a wrapper do not load into the bare model, nor the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.arguments import argument
from launcher.scripts.distributed import DDP
from launcher.scripts.origins import origins
from launcher.scripts.program import Program
from launcher.scripts.scopes import file_of, last_name, scope_of
from launcher.scripts.values import Constant, Made

_PREFIXES = {
    DDP: "module.",
    "torch.nn.parallel.DataParallel": "module.",
    "torch.compile": "_orig_mod.",
}
_SAME_MODEL = frozenset({"to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "float"})


@dataclass(frozen=True, slots=True)
class _State:
    """A model's state in a file: where it is saved or loaded, under which key, and with which prefix."""

    call: ast.Call
    path: ast.expr
    key: str | None
    prefix: str


@finds(Stage.SCRIPT, checkpoints.UNEXPECTED_KEY_PREFIX)
def states_are_loaded_as_they_are_saved(program: Program) -> Iterator[Finding]:
    """A state saved from a wrapper and loaded into the bare model, or the other way round, by one path.

    The keys do not match: load_state_dict raises, or with strict=False loads nothing. Both ends must be in
    the program, with the same path and key as written, and the model's way to its wrapper must be known; what
    happens to the keys between says nothing.

    Bad: `torch.save(ddp.state_dict(), path)` and `model.load_state_dict(torch.load(path))`. Good:
    `torch.save(ddp.module.state_dict(), path)`. Source: discuss.pytorch.org topic 494.
    """
    saved = list(_saved(program))
    for loaded in _loaded(program):
        place = _place(program, loaded.path)
        same = [each for each in saved if each.key == loaded.key and _place(program, each.path) == place]
        if not same or any(each.prefix == loaded.prefix for each in same):
            continue
        save, path = same[0], ast.unparse(loaded.path)
        yield found(
            checkpoints.UNEXPECTED_KEY_PREFIX,
            loaded.call,
            f"the keys saved to `{path}` {_begin(save.prefix)}, and the model that loads them has keys "
            f"that {_begin(loaded.prefix)}: load_state_dict raises, or with strict=False loads nothing",
            related=[note(save.call, "saved here")],
        )


def _place(program: Program, path: ast.expr) -> tuple[object, ...]:
    """What tells a path from others: its text where that is known, else how and of which names it is made."""
    value = program.value(path)
    if isinstance(value, Constant):
        return (value,)
    names = [each for each in ast.walk(path) if isinstance(each, ast.Name)]
    return (ast.unparse(path), *(id(scope_of(each).holder_of(each.id)) for each in names))


def _begin(prefix: str) -> str:
    return f"begin with `{prefix}`" if prefix else "have no prefix"


def _saved(program: Program) -> Iterator[_State]:
    for call, _ in program.calls("torch.save"):
        path, what = argument(call, "f", 1), argument(call, "obj", 0)
        if path is None or what is None:
            continue
        (whole, *others) = origins(program, what) or (None,)
        if whole is None or others:
            continue
        parts: list[tuple[str | None, ast.expr]] = [(None, whole)]
        if isinstance(whole, ast.Dict):
            named = zip(whole.keys, whole.values, strict=True)
            parts = [(str(k.value), v) for k, v in named if isinstance(k, ast.Constant)]
        for key, value in parts:
            prefix = _prefix_of_state(program, value)
            if prefix is not None:
                yield _State(call, path, key, prefix)


def _prefix_of_state(program: Program, node: ast.expr) -> str | None:
    """The prefix of the keys of `model.state_dict()`; None for other things and for models not known."""
    if (
        not isinstance(node, ast.Call)
        or node.args
        or node.keywords
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    return _prefix(program, node.func.value) if node.func.attr == "state_dict" else None


def _loaded(program: Program) -> Iterator[_State]:
    for file in program.files:
        for call in file.calls_of.get("load_state_dict", ()):
            state = argument(call, "state_dict", 0)
            if state is None or not isinstance(call.func, ast.Attribute):
                continue
            read = _read(program, state)
            prefix = _prefix(program, call.func.value)
            if read is not None and prefix is not None:
                yield _State(call, read[0], read[1], prefix)


def _read(program: Program, node: ast.expr) -> tuple[ast.expr, str | None] | None:
    """The path and key of `torch.load(path)["model"]`, also through a name that nobody else gets to see."""
    key = None
    if isinstance(node, ast.Subscript):
        value = program.value(node.slice)
        if not isinstance(value, Constant):
            return None
        key, node = str(value.value), node.value
    if isinstance(node, ast.Name):
        if _may_be_changed(node):
            return None
        bindings = program.evaluation.sources(node)
        if len(bindings) != 1 or bindings[0].value is None or bindings[0].item is not None:
            return None
        if key is None and isinstance(bindings[0].value, ast.Subscript):
            return _read(program, bindings[0].value)
        node = bindings[0].value
    if isinstance(node, ast.Call) and program.qualified(node.func) == "torch.load":
        path = argument(node, "f", 0)
        return None if path is None else (path, key)
    return None


def _may_be_changed(name: ast.Name) -> bool:
    """Whether a loaded state is handed to anything but load_state_dict, or set in part."""
    scope = scope_of(name)
    for call in file_of(name).calls:
        if scope_of(call) is not scope or last_name(call.func) == "load_state_dict":
            continue
        given = [*call.args, *(each.value for each in call.keywords)]
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if any(isinstance(each, ast.Name) and each.id == name.id for each in (*given, owner)):
            return True
    return False


def _prefix(program: Program, model: ast.expr) -> str | None:
    """What the keys of a model begin with, by what wraps it here; None where that is not known.

    A model that is wrapped under a condition counts as wrapped, which it is in a distributed run.
    """
    return _Prefixes(program).of(model)


class _Prefixes:
    """The prefixes of models that one model is made of, each found once.

    A model that is made of itself (`self.model = self.model.half()`) is known by its other origins.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[ast.expr, str | None] = {}
        self._open: set[ast.expr] = set()

    def of(self, model: ast.expr) -> str | None:
        """The prefix of a model, None where it is not known."""
        if isinstance(model, ast.Attribute) and model.attr in ("module", "_orig_mod"):
            return None
        prefixes: set[str] = set()
        for origin in origins(self._program, model):
            if origin in self._open:
                continue
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
        if not isinstance(origin, ast.Call):
            return None
        name = self._program.qualified(origin.func) or ""
        if name in _PREFIXES:
            inner = argument(origin, "module" if name != "torch.compile" else "model", 0)
            below = None if inner is None else self.of(inner)
            return None if below is None else _PREFIXES[name] + below
        if isinstance(origin.func, ast.Attribute) and origin.func.attr in _SAME_MODEL:
            return self.of(origin.func.value)
        if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper() and "parallel" not in name:
            return ""
        return "" if isinstance(self._program.value(origin), Made) else None


RULES = (states_are_loaded_as_they_are_saved,)
