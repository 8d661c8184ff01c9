"""The one walk over a file's tree, which fills its index.

It is iterative, so that no nesting reaches Python's recursion limit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.scripts.scopes import (
    COMPREHENSIONS,
    PARENT,
    SCOPE,
    Binding,
    BindingKind,
    FunctionNode,
    Scope,
    dotted_name,
    parameters_of,
)

if TYPE_CHECKING:
    from launcher.scripts.index import FileIndex


def walk(index: FileIndex) -> None:
    """Fill an index from its tree."""
    _Walk(index).run()


class _Walk:
    """The one walk over a tree, which fills a FileIndex."""

    def __init__(self, index: FileIndex) -> None:
        self.index = index
        self.stack: list[tuple[ast.AST, ast.AST | None, Scope]] = [(index.tree, None, index.module)]
        self.handlers = {
            ast.Name: self.name,
            ast.Attribute: self.attribute,
            ast.Call: self.call,
            ast.Assign: self.assign,
            ast.AnnAssign: self.annotated,
            ast.AugAssign: self.augmented,
            ast.NamedExpr: self.walrus,
            ast.For: self.loop,
            ast.AsyncFor: self.loop,
            ast.comprehension: self.loop,
            ast.withitem: self.entered,
            ast.Import: self.imported,
            ast.ImportFrom: self.imported_from,
            ast.FunctionDef: self.function,
            ast.AsyncFunctionDef: self.function,
            ast.Lambda: self.function,
            ast.ClassDef: self.class_definition,
            ast.Global: self.handed_over,
            ast.Nonlocal: self.handed_over,
            ast.ExceptHandler: self.named,
            ast.MatchAs: self.named,
            ast.MatchStar: self.named,
            ast.Yield: self.yields,
            ast.YieldFrom: self.yields,
        }

    def run(self) -> None:
        stack, handlers, statements = self.stack, self.handlers, self.index.statements
        while stack:
            node, parent, scope = stack.pop()
            attributes = node.__dict__
            attributes[PARENT], attributes[SCOPE] = parent, scope
            kind = node.__class__
            if isinstance(node, ast.stmt):
                statements.setdefault(kind, []).append(node)  # type: ignore[arg-type]
            handler = handlers.get(kind)
            # What opens a scope pushes its own children.
            if handler is not None and handler(node, scope):  # type: ignore[operator]
                continue
            if kind in COMPREHENSIONS:
                scope = self.index.scopes[node] = Scope(self.index, node, scope)
            fields = _FIELDS.get(kind)
            if fields is None:
                fields = _fields_of(kind)
            if fields:
                self.push(node, fields, scope)

    def push(self, node: ast.AST, fields: tuple[str, ...], scope: Scope) -> None:
        """Put the children of these fields on the stack, so that they come in source order."""
        stack, attributes = self.stack, node.__dict__
        for name in reversed(fields):
            value = attributes.get(name)
            if value.__class__ is list:
                for each in reversed(value):
                    if isinstance(each, ast.AST):
                        stack.append((each, node, scope))
            elif isinstance(value, ast.AST):
                stack.append((value, node, scope))

    def bind(self, scope: Scope, binding: Binding) -> None:
        holder = scope.elsewhere.get(binding.name, scope)
        holder.bindings.setdefault(binding.name, []).append(binding)

    def name(self, node: ast.Name, scope: Scope) -> None:
        if node.ctx.__class__ is ast.Load:
            self.index.names.setdefault(node.id, []).append(node)
        elif node.ctx.__class__ is ast.Del:
            self.bind(scope, Binding(node.id, BindingKind.OTHER, node))

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        if node.ctx.__class__ is ast.Load:
            self.index.attributes.setdefault(node.attr, []).append(node)

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.index.calls.append(node)

    def target(
        self, target: ast.expr, kind: BindingKind, node: ast.AST, value: ast.expr | None, scope: Scope
    ) -> None:
        """Bind what stands left of a `=`; names side by side get their own part of a written tuple."""
        pending: list[tuple[ast.expr, ast.expr | None, int | None]] = [(target, value, None)]
        while pending:
            each, given, item = pending.pop()
            if isinstance(each, ast.Name):
                self.bind(scope, Binding(each.id, kind, node, given, item))
            elif isinstance(each, ast.Attribute):
                written = dotted_name(each) or f"?.{each.attr}"
                found = self.index.set_attributes.setdefault(each.attr, [])
                found.append(Binding(written, kind, each, given, item))
            elif isinstance(each, ast.Starred):
                pending.append((each.value, None, None))
            elif isinstance(each, ast.Tuple | ast.List):
                pending.extend(self.parts(each, given, item, kind))

    def parts(
        self, target: ast.Tuple | ast.List, value: ast.expr | None, item: int | None, kind: BindingKind
    ) -> Iterator[tuple[ast.expr, ast.expr | None, int | None]]:
        star = next((n for n, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
        if item is not None or kind is BindingKind.LOOPED:
            # Which part of which value that is, is not worth knowing.
            yield from ((each, None, None) for each in target.elts)
        elif star is not None:
            for number, each in enumerate(target.elts):
                yield (each, value, number) if number < star else (each, None, None)
        elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            yield from ((each, given, None) for each, given in zip(target.elts, value.elts, strict=True))
        else:
            yield from ((each, value, number) for number, each in enumerate(target.elts))

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self.target(target, BindingKind.ASSIGNED, node, node.value, scope)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.target(node.target, BindingKind.ASSIGNED, node, node.value, scope)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self.target(node.target, BindingKind.CHANGED, node, node.value, scope)

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        self.target(node.target, BindingKind.ASSIGNED, node, node.value, scope)

    def loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
        self.target(node.target, BindingKind.LOOPED, node, node.iter, scope)

    def entered(self, node: ast.withitem, scope: Scope) -> None:
        if node.optional_vars is not None:
            self.target(node.optional_vars, BindingKind.ENTERED, node, node.context_expr, scope)

    def imported(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            whole = Binding(name, BindingKind.IMPORTED, node, module=alias.name)
            self.index.imports.append(whole)
            # `import a.b` binds `a` alone.
            bound = whole if alias.asname else Binding(name, BindingKind.IMPORTED, node, module=name)
            self.bind(scope, bound)

    def imported_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.index.stars.append(module)
                self.index.imports.append(Binding("*", BindingKind.IMPORTED, node, module=module))
                continue
            whole = module + ("" if module.endswith(".") else ".") + alias.name
            binding = Binding(alias.asname or alias.name, BindingKind.IMPORTED, node, module=whole)
            self.index.imports.append(binding)
            self.bind(scope, binding)

    def function(self, node: FunctionNode, scope: Scope) -> bool:
        if not isinstance(node, ast.Lambda):
            self.bind(scope, Binding(node.name, BindingKind.DEFINED, node))
            self.index.functions.append(node)
        inner = self.index.scopes[node] = Scope(self.index, node, scope)
        arguments = node.args
        for each in (*parameters_of(node), arguments.vararg, arguments.kwarg):
            if each is not None:
                self.bind(inner, Binding(each.arg, BindingKind.PARAMETER, each))
        self.push(node, ("body",), inner)
        self.push(node, ("decorator_list", "args", "returns"), scope)
        return True

    def class_definition(self, node: ast.ClassDef, scope: Scope) -> bool:
        self.bind(scope, Binding(node.name, BindingKind.DEFINED, node))
        self.index.classes.append(node)
        inner = self.index.scopes[node] = Scope(self.index, node, scope)
        self.push(node, ("body",), inner)
        self.push(node, ("decorator_list", "bases", "keywords"), scope)
        return True

    def handed_over(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        for name in node.names:
            holder = self.index.module
            if isinstance(node, ast.Nonlocal) and scope.parent is not None:
                holder = scope.parent.holder_of(name) or holder
            if holder is not scope:
                scope.elsewhere[name] = holder

    def named(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            self.bind(scope, Binding(node.name, BindingKind.OTHER, node))

    def yields(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
        if scope.function is not None:
            self.index.generators.add(scope.function.node)


_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_WITHOUT_NODES = frozenset({"ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment"})


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold nodes; operators and contexts are shared, and none."""
    literal = kind is ast.Constant
    found = () if literal else tuple(each for each in kind._fields if each not in _WITHOUT_NODES)
    _FIELDS[kind] = found
    return found
