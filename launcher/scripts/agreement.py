"""Which expressions have the same value on every rank: paths, counts and options without a rank in them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from launcher.scripts.arguments import is_open
from launcher.scripts.ranks import VARIABLES
from launcher.scripts.scopes import (
    Binding,
    BindingKind,
    default_of,
    file_of,
    function_of_parameter,
    parent_of,
    scope_of,
)
from launcher.scripts.values import Constant, Defined, External, Instance, Made, RankValue, Value, WorldSize

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_PARSED = frozenset(
    {
        "argparse.ArgumentParser.parse_args",
        "transformers.HfArgumentParser.parse_args_into_dataclasses",
    }
)
"""What gives the options of the command line, which all ranks are started with."""

_PURE = frozenset(
    {
        "os.path.join",
        "os.path.abspath",
        "os.path.expanduser",
        "os.path.dirname",
        "os.path.basename",
        "os.path.normpath",
        "os.fspath",
        "open",
        "os.getcwd",
        "pathlib.Path",
        "pathlib.Path.cwd",
        "str",
        "int",
        "float",
        "len",
        "min",
        "max",
        "range",
        "round",
    }
)
"""What gives the same for the same arguments."""

_LOADERS = frozenset(
    {
        "torch.load",
        "torch.hub.load_state_dict_from_url",
        "json.load",
        "yaml.safe_load",
        "yaml.load",
    }
)
"""What gives the same for the same file, wherever it is put (`map_location=f"cuda:{rank}"`)."""

_PURE_METHODS = frozenset({"format", "replace", "strip", "lower", "upper", "joinpath", "with_suffix", "join"})
_READERS = frozenset({"os.environ.get", "os.getenv"})
_OWN_VARIABLES = ("RANK", "HOST", "NODE", "ID", "PORT", "LOCAL")
"""In the names of variables that may differ between processes."""


class Agreement:
    """What the ranks of one program agree on. What is not surely alike is not."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self._known: dict[ast.AST, bool] = {}

    def holds(self, node: ast.expr | None) -> bool:
        """Whether an expression is surely the same on every rank."""
        if node is None:
            return True
        known = self._known.get(node)
        if known is None:
            # What depends on itself, such as a counter, is alike where its other sources are.
            self._known[node] = True
            known = self._known[node] = self._holds(node)
        return known

    def _holds(self, node: ast.expr) -> bool:
        value = self.program.value(node) if isinstance(node, ast.Name | ast.Attribute | ast.Call) else None
        if isinstance(value, RankValue):
            return False
        if isinstance(value, WorldSize | Constant):
            return True
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return isinstance(value, External) or self._all_bound(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, value)
        if isinstance(node, ast.Subscript):
            if self.program.value(node.value) == External("os.environ"):
                return self._variable(node.slice)
            return self.holds(node.value) and self.holds(node.slice)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._parts(node)

    def _parts(self, node: ast.expr) -> bool:
        """Whether all parts of an operation, a text or a written list are alike."""
        kinds = ast.JoinedStr | ast.FormattedValue | ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Compare
        if not isinstance(node, kinds | ast.IfExp | ast.Tuple | ast.List):
            return False
        return all(self.holds(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))

    def _attribute(self, node: ast.Attribute, value: Value | None) -> bool:
        owner = self.program.value(node.value)
        parsed = isinstance(owner, Instance) and owner.name in _PARSED
        bindings = self.program.evaluation.sources(node)
        if parsed:
            return all(self._bound(each, node.attr) for each in bindings)
        if isinstance(owner, Made) or (isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef)):
            return bool(bindings) and all(self._bound(each, node.attr) for each in bindings)
        return isinstance(value, External) and isinstance(owner, External)

    def _call(self, node: ast.Call) -> bool:
        name = self.program.qualified(node.func)
        if name in _PARSED:
            return True
        if name in _READERS:
            return self._variable(node.args[0] if node.args else None)
        given = [*node.args, *(each.value for each in node.keywords)]
        method = isinstance(node.func, ast.Attribute) and node.func.attr in _PURE_METHODS
        if name in _LOADERS:
            return bool(node.args) and self.holds(node.args[0])
        if name in _PURE:
            return all(self.holds(each) for each in given)
        if method and isinstance(node.func, ast.Attribute):
            return self.holds(node.func.value) and all(self.holds(each) for each in given)
        return False

    def _variable(self, name: ast.expr | None) -> bool:
        """Whether an environment variable is one that all processes of a run have alike."""
        value = None if name is None else self.program.value(name)
        if not isinstance(value, Constant) or not isinstance(value.value, str) or value.value in VARIABLES:
            return False
        return not any(each in value.value.upper() for each in _OWN_VARIABLES)

    def _all_bound(self, node: ast.Name) -> bool:
        bindings = self.program.evaluation.sources(node)
        return bool(bindings) and all(self._bound(each, node.id) for each in bindings)

    def _bound(self, binding: Binding, name: str) -> bool:
        if binding.kind is BindingKind.PARAMETER:
            return self._parameter(binding.node)
        if binding.kind is BindingKind.LOOPED:
            return self._counted(binding.node, name) or self._listed(binding.node, name)
        if binding.kind in (BindingKind.ASSIGNED, BindingKind.CHANGED) and binding.value is not None:
            return binding.item is None and self.holds(binding.value)
        return False

    def _parameter(self, parameter: ast.AST) -> bool:
        function = function_of_parameter(parameter)
        sites = None if function is None else self.program.evaluation.callers.of(function)
        if not sites or function is None or not isinstance(parameter, ast.arg):
            return False
        for site in sites:
            if site.arguments is None or parameter.arg in site.values:
                return False
            given = site.arguments.get(parameter.arg) or default_of(function, parameter.arg)
            if given is None or not self.holds(given):
                return False
        return True

    def _counted(self, loop: ast.AST, name: str) -> bool:
        """Whether a loop's variable counts: `for epoch in range(n)`, `for step, batch in enumerate(...)`."""
        if not isinstance(loop, ast.For | ast.comprehension) or not isinstance(loop.iter, ast.Call):
            return False
        counter = loop.target
        called = self.program.qualified(loop.iter.func)
        if called == "enumerate" and isinstance(counter, ast.Tuple) and counter.elts:
            counter = counter.elts[0]
            return isinstance(counter, ast.Name) and counter.id == name
        if called != "range" or not isinstance(counter, ast.Name) or is_open(loop.iter):
            return False
        # Where it ends says how many rounds there are, not which number this one has.
        starts = loop.iter.args[:1] if len(loop.iter.args) > 1 else []
        return all(self.holds(each) for each in (*starts, *loop.iter.args[2:]))

    def _listed(self, loop: ast.AST, name: str) -> bool:
        """Whether a loop goes through a list that is written out here and grows by what all ranks have:
        `for path in paths` after `paths = [last]` and `paths.append(best)`."""
        if not isinstance(loop, ast.For | ast.comprehension) or not isinstance(loop.target, ast.Name):
            return False
        listed = loop.iter
        if loop.target.id != name:
            return False
        if isinstance(listed, ast.Tuple | ast.List):
            return self.holds(listed)
        if not isinstance(listed, ast.Name):
            return False
        bindings = self.program.evaluation.sources(listed)
        if not bindings or not all(
            each.kind is BindingKind.ASSIGNED and isinstance(each.value, ast.List) and self.holds(each.value)
            for each in bindings
        ):
            return False
        holder = scope_of(listed).holder_of(listed.id)
        uses = [
            each
            for each in file_of(listed).names.get(listed.id, ())
            if scope_of(each).holder_of(listed.id) is holder
        ]
        return all(self._leaves_alike(each) for each in uses)

    def _leaves_alike(self, use: ast.Name) -> bool:
        """Whether a list is still the same on all ranks after this use of it."""
        user = parent_of(use)
        if isinstance(user, ast.Attribute):
            call = parent_of(user)
            adding = isinstance(call, ast.Call) and call.func is user and user.attr in ("append", "extend")
            return adding and isinstance(call, ast.Call) and all(map(self.holds, call.args))
        return isinstance(user, ast.For | ast.comprehension) and user.iter is use
