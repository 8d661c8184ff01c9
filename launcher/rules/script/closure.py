"""All that a program says of how a value is made: for rules that must not speak of what they do not know."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.scripts.program import Program
from launcher.scripts.scopes import BindingKind, function_of_parameter
from launcher.scripts.values import Defined, External, Made, alternatives

_MOST = 200
"""So many expressions, functions and classes are looked into."""

_SPLITTING = (
    "rank",
    "world",
    "shard",
    "replica",
    "num_processes",
    "process_index",
    "process_count",
    "split_dataset",
    "num_hosts",
    "local_examples",
    "sampler",
    "stream",
)
"""Parts of identifiers where data may differ between the ranks already: they only silence a rule."""

_DRAWING = frozenset({"rand", "randn", "randint", "random_sample", "normal", "uniform"})
"""What makes data up, as each rank does by itself."""

PLAIN_DATASETS = (
    "torchvision.datasets.",
    "torchaudio.datasets.",
    "torch.utils.data.TensorDataset",
    "torch.utils.data.Subset",
    "torch.utils.data.ConcatDataset",
    "torch.utils.data.random_split",
    "datasets.load_dataset",
    "datasets.load_from_disk",
)
"""Datasets of libraries that hold the same samples on every rank."""


class Closure:
    """The expressions, functions and classes of the program from which a value is made.

    `is_known` is False where the value, or what it holds on to, comes from where nobody sees. Arguments of
    the program's own functions and classes count only by the identifiers with which they are made.
    """

    def __init__(self, program: Program, node: ast.expr) -> None:
        """Follow the value to its sources."""
        self.program = program
        self.parts: list[ast.AST] = []
        self.is_known = True
        self._seen: set[ast.AST] = set()
        self._waiting: list[tuple[ast.AST, bool]] = [(node, True)]
        while self._waiting and self.is_known:
            part, must = self._waiting.pop()
            if part not in self._seen:
                self._seen.add(part)
                self.parts.append(part)
                known = self._follow(part, must)
                self.is_known = (known or not must) and len(self.parts) <= _MOST

    def _follow(self, part: ast.AST, must: bool) -> bool:
        """Put what a part is made of on the list; False where that is not known."""
        if isinstance(part, ast.Name | ast.Attribute):
            return self._source(part, must)
        if isinstance(part, ast.Call):
            return self._called(part, must)
        if isinstance(part, ast.Subscript):
            self._waiting.append((part.value, must))
            return True
        if isinstance(part, ast.IfExp):
            self._waiting += [(part.body, must), (part.orelse, must)]
            return True
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            self._inside(part)
            return True
        return isinstance(part, ast.Constant | ast.List | ast.Tuple)

    def _source(self, name: ast.Name | ast.Attribute, must: bool) -> bool:
        bindings = self.program.evaluation.sources(name)
        value = self.program.value(name)
        self._waiting += [(each.definition, must) for each in alternatives(value) if isinstance(each, Made)]
        known = bool(bindings) or isinstance(value, Made)
        for binding in bindings:
            if binding.kind is BindingKind.PARAMETER:
                known = self._parameter(binding.node, must) and known
            elif binding.kind is BindingKind.DEFINED:
                self._waiting.append((binding.node, must))
            elif binding.value is not None:
                self._waiting.append((binding.value, must))
                known = known and binding.kind is BindingKind.ASSIGNED
            else:
                known = False
        return known

    def _parameter(self, parameter: ast.AST, must: bool) -> bool:
        function = function_of_parameter(parameter)
        sites = None if function is None else self.program.evaluation.callers.of(function)
        if not sites or not isinstance(parameter, ast.arg):
            return False
        known = True
        for site in sites:
            given = None if site.arguments is None else site.arguments.get(parameter.arg)
            if given is None:
                known = False
            else:
                self._waiting.append((given, must))
        return known

    def _called(self, call: ast.Call, must: bool) -> bool:
        arguments = [*call.args, *(each.value for each in call.keywords)]
        known = True
        for each in alternatives(self.program.value(call.func)):
            if isinstance(each, Defined):
                self._waiting.append((each.node, must))
                self._waiting += [(given, False) for given in arguments]
            elif isinstance(each, External) and each.name.startswith(PLAIN_DATASETS):
                self._waiting += [(given, False) for given in arguments]
            else:
                self._waiting += [(given, False) for given in arguments]
                known = False
        return known

    def _inside(self, part: ast.FunctionDef | ast.ClassDef) -> None:
        """What the statements of a function or class call of the program's own."""
        for node in ast.walk(part):
            if isinstance(node, ast.Call):
                for each in alternatives(self.program.value(node.func)):
                    if isinstance(each, Defined):
                        self._waiting.append((each.node, False))

    def identifiers(self) -> Iterator[str]:
        """Every name, attribute, keyword and text in it."""
        for part in self.parts:
            for node in ast.walk(part):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.Attribute):
                    yield node.attr
                elif isinstance(node, ast.arg | ast.keyword) and node.arg:
                    yield node.arg
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value

    @property
    def is_the_same_everywhere(self) -> bool:
        """Whether all of it is known, and nothing in it can differ between the ranks."""
        return self.is_known and not any(
            each in _DRAWING or any(part in each.lower() for part in _SPLITTING)
            for each in self.identifiers()
        )
