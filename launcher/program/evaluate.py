"""The evaluation of expressions: through imports, assignments, attributes, calls, results and parameters.

The order of statements counts within a function (a later assignment replaces an earlier one where it surely
runs); between functions all assignments count. Parameters have what every call gives them; an environment
of known arguments, where one is given, goes before.

`Evaluation` is one recursion in parts: an attribute may be of an object (`AttributeEvaluator`), a call may
give a rank, an object of a library or the result of a function of the program (`CallEvaluator`).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from functools import cached_property

from launcher.program.bindings import (
    CallGraph,
    FieldBindings,
    ParameterEvaluator,
    WrittenArguments,
    bind_arguments,
    is_data_class,
    like,
    reaching_definitions,
)
from launcher.program.index import (
    Binding,
    BindingKind,
    FileIndex,
    FunctionNode,
    ProgramFiles,
    Scope,
    ancestors,
    default_of,
    dotted_name,
    file_of,
    function_of_parameter,
    is_static,
    last_name,
    parameters_of,
    positional_of,
    scope_of,
)
from launcher.program.values import (
    LIBRARY_TABLES,
    RANK_ATTRIBUTES,
    RANK_VARIABLES,
    RANKS,
    UNKNOWN,
    Constant,
    Defined,
    Either,
    Environment,
    External,
    Instance,
    Keyed,
    Made,
    ModuleOf,
    Nothing,
    RankKind,
    RankValue,
    Several,
    Value,
    WorldSize,
    alternatives,
    canonical_name,
    joined,
    library_names,
)

_DEEPEST_EXPRESSION = 40
"""So many steps from an expression to its source; what lies deeper is unknown."""

_MOST_STEPS = 1000
"""So many expressions are looked at for one; what needs more is unknown. A sound program needs a tenth."""

_KNOWN_BY_TABLES = library_names("known_by_tables")
"""What the tables of ranks and collectives tell all of, also where the library's source is in the program.

Its own examples and tests import it so, and its thousands of lines would have to be followed to the same end.
"""

_GROUP_RANK_CALLS = library_names("group_rank_calls")
"""What gives the rank within a group where it is called with one."""

_BUILTINS = frozenset(dir(builtins))


class Evaluation:
    """The expressions of one program; everything is found out once."""

    def __init__(self, files: ProgramFiles) -> None:
        """Nothing is evaluated before somebody asks."""
        self.files = files
        self.being_evaluated: set[ast.AST] = set()
        """What is being found out: it depends on itself where somebody asks again."""
        self._arguments = WrittenArguments(self.value, self.items_of)
        self.written_out = self._arguments.written_out
        self.callers = self._arguments.callers = CallGraph(files, self.value, self.written_out)
        self.fields = FieldBindings(self.callers)
        self.attributes = AttributeEvaluator(self)
        self.calls = CallEvaluator(self)
        self.parameters = ParameterEvaluator(self.callers, self.value, self.being_evaluated)
        self._known: dict[ast.AST, Value] = {}
        self._libraries: dict[Binding, Value] = {}
        self._depth = 0
        self._steps = 0

    def value(self, node: ast.expr, environment: Environment | None = None) -> Value:
        """What an expression is, in a call with these arguments, or in every call."""
        if environment and _is_in_function_of(environment, node):
            return self._evaluated(node, environment)
        found = self._known.get(node)
        if found is None:
            if node in self.being_evaluated:
                return Nothing.ITSELF
            self.being_evaluated.add(node)
            try:
                found = self._evaluated(node, None)
            finally:
                self.being_evaluated.discard(node)
            if found is not Nothing.ITSELF:
                self._known[node] = found
        return found

    def _evaluated(self, node: ast.expr, environment: Environment | None) -> Value:
        if self._depth == 0:
            self._steps = 0
        self._steps += 1
        if self._depth >= _DEEPEST_EXPRESSION or self._steps > _MOST_STEPS:
            return UNKNOWN
        self._depth += 1
        try:
            return self._by_kind(node, environment)
        finally:
            self._depth -= 1

    def _by_kind(self, node: ast.expr, environment: Environment | None) -> Value:
        match node:
            case ast.Name():
                return self._name(node, environment)
            case ast.Attribute():
                return self.attributes.value(node, environment)
            case ast.Call():
                return self.calls.value(node, environment)
            case ast.Constant(value=None | bool() | int() | float() | str() as value):
                return Constant(value)
            case ast.Tuple() | ast.List():
                return Several(node)
            case ast.Dict():
                return Keyed(node)
            case ast.JoinedStr():
                return self._formatted(node, environment)
            case ast.Lambda():
                return Defined(node)
            case ast.Subscript():
                return self._subscript(node, environment)
            case ast.IfExp():
                return joined(self.value(each, environment) for each in (node.body, node.orelse))
            case ast.BoolOp():
                return joined(self.value(each, environment) for each in node.values)
            case ast.BinOp():
                left, right = self.value(node.left, environment), self.value(node.right, environment)
                return _place_on_host(node.op, left, right) or _calculated_from(left, right)
            case ast.UnaryOp():
                return self._unary(node, environment)
            case ast.NamedExpr():
                return self.value(node.value, environment)
        return UNKNOWN

    def sources(self, node: ast.expr) -> list[Binding]:
        """Where a name or attribute that is used here may have got its value; empty where that is unknown."""
        if isinstance(node, ast.Name):
            holder = scope_of(node).holder_of(node.id)
            return [] if holder is None else reaching_definitions(holder, node)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if isinstance(owner, Made):
                return self.attributes.bindings_in_class(owner.definition, node.attr)
            if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
                return self.attributes.bindings_of_class(owner.node, node.attr)
            if isinstance(owner, ModuleOf):
                return owner.file.module.bindings.get(node.attr, [])
            return list(self.attributes.stores(node, owner))
        return []

    # Names

    def _name(self, node: ast.Name, environment: Environment | None) -> Value:
        holder = scope_of(node).holder_of(node.id)
        if holder is None:
            return self._unbound_name(node)
        bindings = reaching_definitions(holder, node)
        imports = [each for each in bindings if each.kind is BindingKind.IMPORTED]
        if len(imports) > 1 and (len(imports) == len(bindings) or len({each.module for each in imports}) > 1):
            # The same again, or alternatives of a try statement: the first that there is.
            bindings = imports[:1]
        return self.any_of(bindings, environment)

    def any_of(self, bindings: Sequence[Binding], environment: Environment | None) -> Value:
        """What a name is that may have got its value from any of these.

        A number that is changed is none, and a rank on the host to which something is added is another rank.
        """
        value = joined(self.value_of_binding(each, environment) for each in bindings)
        if not any(each.kind is BindingKind.CHANGED for each in bindings):
            return value
        if isinstance(value, RankValue) and value.kind is RankKind.LOCAL:
            return RankValue(RankKind.DERIVED, value.source)
        return UNKNOWN if isinstance(value, Constant) else value

    def _unbound_name(self, node: ast.Name) -> Value:
        """A name that is bound nowhere in its file: a builtin, or from a `import *`."""
        file = file_of(node)
        for star in file.stars:
            module = self.files.module(star, file)
            if module is not None and node.id in module.module.bindings:
                return self.member(module.module, node.id)
        if node.id in _BUILTINS:
            return External(node.id)
        foreign = [star for star in file.stars if self.files.module(star, file) is None]
        if len(foreign) == 1 and not foreign[0].startswith("."):
            return self._external(f"{foreign[0]}.{node.id}")
        return UNKNOWN

    def member(self, scope: Scope, name: str) -> Value:
        """What a name of a module or class is, seen from outside."""
        return self.any_of(scope.bindings.get(name, ()), None)

    def value_of_binding(self, binding: Binding, environment: Environment | None) -> Value:
        """What one binding gives its name."""
        if binding.kind is BindingKind.IMPORTED:
            return self._imported(binding)
        if binding.kind is BindingKind.DEFINED:
            node = binding.node
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            return Defined(node)
        if binding.kind is BindingKind.PARAMETER:
            return self.parameters.value(binding.node, environment)
        if binding.kind is BindingKind.CHANGED and binding.value is not None:
            return _calculated_from(Nothing.ITSELF, self.value(binding.value, environment))
        if binding.kind is BindingKind.ENTERED and binding.value is not None and binding.item is None:
            entered = self.value(binding.value, environment)
            return entered if isinstance(entered, Instance) else UNKNOWN
        if binding.kind is BindingKind.LOOPED and isinstance(getattr(binding.node, "target", None), ast.Name):
            return self._looped(binding.value, environment)
        if binding.kind is BindingKind.ASSIGNED and binding.value is not None:
            whole = self.value(binding.value, environment)
            return whole if binding.item is None else self._item_of(whole, binding.item, environment)
        return UNKNOWN

    def _item_of(self, whole: Value, item: int, environment: Environment | None) -> Value:
        if isinstance(whole, Several) and item < len(whole.node.elts):
            return self.value(whole.node.elts[item], environment)
        if isinstance(whole, Instance) and whole.item is None:
            return Instance(whole.name, whole.call, item)
        if isinstance(whole, Either):  # Such as the results of a function with several returns.
            return joined(self._item_of(each, item, environment) for each in whole.values)
        return UNKNOWN

    def _looped(self, iterable: ast.expr | None, environment: Environment | None) -> Value:
        """Each of the objects in a list that is written out, and gets no others."""
        if isinstance(iterable, ast.Call) and last_name(iterable.func) in _LIST_COPIES and iterable.args:
            iterable = iterable.args[0]
        value = UNKNOWN if iterable is None else self.value(iterable, environment)
        if iterable is None or not isinstance(value, Several) or self.files.grows(last_name(iterable)):
            return UNKNOWN
        found = joined(self.value(each, environment) for each in value.node.elts)
        return UNKNOWN if isinstance(found, Constant) else found

    def _imported(self, binding: Binding) -> Value:
        known = self._libraries.get(binding)
        if known is None:
            known = self._of_import(binding)
            if isinstance(known, External):  # What is the program's own is known where it is bound.
                self._libraries[binding] = known
        return known

    def _of_import(self, binding: Binding) -> Value:
        name = binding.module or ""
        if canonical_name(name) in _KNOWN_BY_TABLES:
            return self._external(name)
        file = file_of(binding.node)
        module = self.files.module(name, file)
        package, _, last = name.rpartition(".")
        if last and name.startswith(".") and not package.strip("."):
            package = name[: len(name) - len(last)]
        holder = self.files.module(package, file) if last else None
        held = holder is not None and holder is not file and last in holder.module.bindings
        if holder is not None and held and (module is None or isinstance(binding.node, ast.ImportFrom)):
            return self.member(holder.module, last)
        if module is not None:
            return ModuleOf(module)
        if holder is not None and holder is not file:
            return self._through_star(holder, last)
        return UNKNOWN if name.startswith(".") else self._external(name)

    def _through_star(self, file: FileIndex, name: str) -> Value:
        for star in file.stars:
            module = self.files.module(star, file)
            if module is not None and name in module.module.bindings:
                return self.member(module.module, name)
        return UNKNOWN

    def _external(self, name: str) -> Value:
        name = canonical_name(name)
        return RANKS[name] if name.endswith("COMM_WORLD.rank") and name in RANKS else External(name)

    # Other expressions

    def _subscript(self, node: ast.Subscript, environment: Environment | None) -> Value:
        owner = self.value(node.value, environment)
        if owner == External("os.environ"):
            return self.calls.variable(node.slice, environment)
        index = self.value(node.slice, environment)
        if isinstance(index, Constant) and isinstance(index.value, str):
            return joined(self._under_key(each, index.value, node) for each in alternatives(owner))
        if isinstance(index, Constant) and isinstance(index.value, int) and index.value >= 0:
            return self._item_of(owner, index.value, environment)
        return UNKNOWN

    def _under_key(self, owner: Value, key: str, node: ast.Subscript) -> Value:
        """What a dictionary that is written out holds under a key, or gets there later."""
        items = self.items_of(owner)
        if items is None or items.get(key) is None:
            return UNKNOWN
        found = [self.value(items[key])]
        for each in self.files.items_set_on(last_name(node.value)):
            if each.name in (key, "*"):
                found.append(self.value_of_binding(each, None) if each.name == key else UNKNOWN)
        return joined(found)

    def items_of(self, value: Value) -> dict[str, ast.expr] | None:
        """The items of a dictionary that is written out, or a call of `dict`; None where some are unknown."""
        if isinstance(value, Instance) and value.name == "dict":
            return self._items_of_call(value.call)
        if not isinstance(value, Keyed):
            return None
        found: dict[str, ast.expr] = {}
        for key, item in zip(value.node.keys, value.node.values, strict=True):
            name = None if key is None else self.value(key)
            inner = self.items_of(self.value(item)) if key is None else None
            if isinstance(name, Constant) and isinstance(name.value, str):
                found[name.value] = item
            elif inner is not None:
                found |= inner
            else:
                return None
        return found

    def _items_of_call(self, call: ast.Call) -> dict[str, ast.expr] | None:
        """`dict(base, lr=0.1)`."""
        call = self.written_out(call)
        given = self.items_of(self.value(call.args[0])) if len(call.args) == 1 else {}
        if given is None or len(call.args) > 1 or any(each.arg is None for each in call.keywords):
            return None
        return given | {each.arg: each.value for each in call.keywords if each.arg is not None}

    def _formatted(self, node: ast.JoinedStr, environment: Environment | None) -> Value:
        """A text whose parts are all known."""
        parts = []
        for each in node.values:
            inner = each.value if isinstance(each, ast.FormattedValue) else each
            plain = not isinstance(each, ast.FormattedValue) or (
                each.conversion == -1 and not each.format_spec
            )
            part = self.value(inner, environment) if plain else UNKNOWN
            if not isinstance(part, Constant):
                return UNKNOWN
            parts.append(str(part.value))
        return Constant("".join(parts))

    def _unary(self, node: ast.UnaryOp, environment: Environment | None) -> Value:
        value = self.value(node.operand, environment)
        if (
            isinstance(node.op, ast.USub)
            and isinstance(value, Constant)
            and isinstance(value.value, int | float)
        ):
            return Constant(-value.value)
        return UNKNOWN


def _is_in_function_of(environment: Environment, node: ast.expr) -> bool:
    """Whether a node stands in the function whose parameters the environment holds."""
    function = function_of_parameter(next(iter(environment)))
    scope = scope_of(node).function
    while scope is not None and scope.node is not function:
        scope = None if scope.parent is None else scope.parent.function
    return scope is not None


def _calculated_from(left: Value, right: Value) -> Value:
    """What is calculated from two values."""
    ranks = [each for each in (left, right) if isinstance(each, RankValue)]
    if ranks:
        return RankValue(RankKind.DERIVED, ranks[0].source)
    if Nothing.ITSELF in (left, right):
        return Nothing.ITSELF
    sizes = [each for each in (left, right) if isinstance(each, WorldSize)]
    if sizes and all(isinstance(each, WorldSize | Constant) for each in (left, right)):
        return sizes[0]
    return UNKNOWN


_HOST_SIZES = library_names("host_sizes")


def _place_on_host(operator: ast.operator, rank: Value, size: Value) -> Value | None:
    """The number of a rank's host and its place there: `rank // gpus`, `rank % gpus`."""
    if not isinstance(rank, RankValue) or rank.kind is not RankKind.GLOBAL:
        return None
    if not isinstance(size, WorldSize) or size.source not in _HOST_SIZES:
        return None
    if isinstance(operator, ast.FloorDiv):
        return RankValue(RankKind.NODE, rank.source)
    return RankValue(RankKind.LOCAL, rank.source) if isinstance(operator, ast.Mod) else None


_LIST_COPIES = frozenset({"list", "tuple", "reversed"})
"""What gives the elements of its argument, for our purposes."""

_IDENTITY_CALLS = frozenset({"int", "str", "float", "torch.tensor", "typing.cast"})
"""Calls that give their first argument back, for our purposes."""

_FIELDS = frozenset({"dataclasses.field", "attr.field", "attrs.field", "pydantic.Field"})
"""What describes a field of a class of data."""

_ENVIRONMENT_READERS = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop"})


class CallEvaluator:
    """The results of one program's calls."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._results: dict[object, Value] = {}

    def value(self, node: ast.Call, environment: Environment | None) -> Value:
        """What a call gives."""
        node = self.evaluation.written_out(node)
        called = self.evaluation.value(node.func, environment)
        return joined(self._called(each, node, environment) for each in alternatives(called))

    def _called(self, called: Value, node: ast.Call, environment: Environment | None) -> Value:
        if isinstance(called, External):
            return self._library_call(called.name, node, environment)
        if isinstance(called, Defined):
            if isinstance(called.node, ast.ClassDef):
                return Made(called.node)
            return self.result(called.node, self.environment_of(called, node, environment))
        return UNKNOWN

    def _library_call(self, name: str, node: ast.Call, environment: Environment | None) -> Value:
        if name in _ENVIRONMENT_READERS:
            return self.variable(node.args[0] if node.args else None, environment)
        if name in _FIELDS:
            return self._field(node, environment)
        if name in _IDENTITY_CALLS and node.args:
            return self.evaluation.value(node.args[-1 if name == "typing.cast" else 0], environment)
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            return self._read_by_getattr(node, environment)
        found = RANKS.get(name)
        if found is not None:
            grouped = bool(node.args or node.keywords) and name in _GROUP_RANK_CALLS
            return RankValue(RankKind.COORDINATE, name) if grouped else found
        return Instance(name, node)

    def _field(self, node: ast.Call, environment: Environment | None) -> Value:
        """The default of `field(default=0)`, `field(default_factory=make)`."""
        given = {each.arg: each.value for each in node.keywords}
        made = given.get("default_factory")
        if made is None:
            default = given.get("default")
            return UNKNOWN if default is None else self.evaluation.value(default, environment)
        return self.value(like(node, ast.Call(made, [], [])), environment)

    def _read_by_getattr(self, node: ast.Call, environment: Environment | None) -> Value:
        """`getattr(args, "rank", 0)`."""
        name = node.args[1]
        assert isinstance(name, ast.Constant)
        attribute = like(node, ast.Attribute(node.args[0], str(name.value), ast.Load()), placed=False)
        found = self.evaluation.attributes.value(attribute, environment)
        if len(node.args) == 3:
            return joined((found, self.evaluation.value(node.args[2], environment)))
        return found

    def variable(self, name: ast.expr | None, environment: Environment | None) -> Value:
        """What an environment variable of this name holds."""
        value = UNKNOWN if name is None else self.evaluation.value(name, environment)
        if isinstance(value, Constant):
            return RANK_VARIABLES.get(str(value.value), UNKNOWN)
        return self._first_variable(name) if isinstance(name, ast.Name) else UNKNOWN

    def _first_variable(self, name: ast.Name) -> Value:
        """`for name in ("LOCAL_RANK", "RANK"): if name in os.environ: return os.environ[name]`."""
        loops = [each.node for each in self.evaluation.sources(name) if each.kind is BindingKind.LOOPED]
        loop = loops[0] if len(loops) == 1 else None
        ends = isinstance(loop, ast.comprehension) or loop in file_of(name).leaving_statements
        listed = (
            self.evaluation.value(loop.iter) if isinstance(loop, ast.For | ast.comprehension) else UNKNOWN
        )
        names = listed.node.elts if ends and isinstance(listed, Several) else []
        texts = [str(each.value) for each in map(self.evaluation.value, names) if isinstance(each, Constant)]
        own = [each for each in texts if not each.startswith(tuple(LIBRARY_TABLES["launcher_variables"]))]
        return RANK_VARIABLES.get((own or texts or [""])[0], UNKNOWN)

    def environment_of(
        self, called: Defined, node: ast.Call, environment: Environment | None
    ) -> Environment | None:
        """What the parameters of a called function are in this call."""
        function = called.node
        if isinstance(function, ast.ClassDef):
            return None
        arguments = bind_arguments(function, node, called.owner is not None)
        if arguments is None:
            return None
        parameters = parameters_of(function)
        found: dict[ast.AST, Value] = {}
        for each in parameters:
            given = arguments.get(each.arg)
            if given is not None:
                found[each] = self.evaluation.value(given, environment)
            elif (default := default_of(function, each.arg)) is not None:
                found[each] = self.evaluation.value(default)
        if called.owner is not None and parameters and not is_static(function):
            found[parameters[0]] = Made(called.owner)
        return {each: value for each, value in found.items() if value is not UNKNOWN}

    def result(self, function: FunctionNode, environment: Environment | None) -> Value:
        """What a function gives back."""
        if isinstance(function, ast.Lambda):
            return self.evaluation.value(function.body, environment)
        key = (function, frozenset((environment or {}).items()))
        if key in self._results:
            return self._results[key]
        if function in self.evaluation.being_evaluated:
            return Nothing.ITSELF
        self.evaluation.being_evaluated.add(function)
        try:
            returns = file_of(function).returns_of.get(function, [])
            found = joined(
                Constant(None) if each.value is None else self.evaluation.value(each.value, environment)
                for each in returns
            )
        finally:
            self.evaluation.being_evaluated.discard(function)
        if found is not Nothing.ITSELF:
            self._results[key] = found
        return found


class AttributeEvaluator:
    """The attributes of one program."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._stores: dict[tuple[str, str], list[Binding]] = {}

    def value(self, node: ast.Attribute, environment: Environment | None) -> Value:
        """What an attribute is that is read here."""
        owner = self.evaluation.value(node.value, environment)
        return joined(self._attribute_of(each, node) for each in alternatives(owner))

    def _attribute_of(self, owner: Value, node: ast.Attribute) -> Value:
        name = node.attr
        if isinstance(owner, External):
            whole = canonical_name(f"{owner.name}.{name}")
            known = (
                RANKS.get(whole) if owner.name.endswith("COMM_WORLD") and name in ("rank", "size") else None
            )
            return known or External(whole)
        if isinstance(owner, Instance):
            made = _class_of_result(owner)
            whole = canonical_name(f"{made}.{name}")
            stored = self._stored(node, owner)
            if stored is not UNKNOWN:
                return stored
            option = self._optional(node) if made.startswith("argparse.") else UNKNOWN
            return option if option is not UNKNOWN else RANK_ATTRIBUTES.get(whole) or External(whole)
        if isinstance(owner, ModuleOf):
            if name in owner.file.module.bindings:
                return self.evaluation.member(owner.file.module, name)
            inner = self.evaluation.files.modules.get(
                f"{self.evaluation.files.module_name(owner.file)}.{name}"
            )
            return ModuleOf(inner) if inner is not None else UNKNOWN
        if isinstance(owner, Made):
            return self._of_object(owner.definition, name, 0)
        if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
            return self._of_object(owner.node, name, 0, bound=False)
        found = self._stored(node, owner)
        return self._optional(node) if found is UNKNOWN else found

    def _stored(self, node: ast.Attribute, owner: Value | None) -> Value:
        """What the program sets an attribute to, that others may set as well: an option, a configuration.

        A literal alone does not tell: `args.local_rank = 0`, in a run of one process, goes over an option.
        """
        found = self.evaluation.any_of(list(self.stores(node, owner)), None)
        return UNKNOWN if isinstance(found, Constant) else found

    def stores(self, node: ast.Attribute, owner: Value | None) -> Iterator[Binding]:
        """Where the program sets this attribute on a variable of the same name: `args.rank = ...`."""
        if isinstance(owner, External | Made | Defined | ModuleOf):
            return
        last = last_name(node.value)
        if last is None:
            return
        found = self._stores.get((last, node.attr))
        if found is None:
            found = self._stores[last, node.attr] = [
                binding
                for file in self.evaluation.files.mentioning(node.attr)
                for binding in file.set_attributes.get(node.attr, ())
                if binding.name.split(".")[-2] == last
            ]
        yield from (each for each in found if not _is_set_later(each.node, node))

    def _of_object(self, definition: ast.ClassDef, name: str, depth: int, bound: bool = True) -> Value:
        """An attribute of an object of a class of the program: set by a method, a method, or inherited."""
        found_here = self.bindings_in_class(definition, name)
        if not found_here:
            return self._inherited(definition, name, depth)
        found = self.evaluation.any_of(found_here, None)
        if isinstance(found, Defined) and isinstance(found.node, ast.FunctionDef) and bound:
            if any(last_name(each) in ("property", "cached_property") for each in found.node.decorator_list):
                return self.evaluation.calls.result(found.node, None)
            return Defined(found.node, definition)
        return found

    def bindings_in_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class gives its objects this attribute: in its body, or in a method on `self`.

        Where it gives only literals, they may be mere defaults: then also where others set it on an object.
        """
        file = file_of(definition)
        found = list(file.scopes[definition].bindings.get(name, []))
        if is_data_class(definition):
            found = self.evaluation.fields.bindings(definition, name, found)
        for binding in file.set_attributes.get(name, ()):
            method = _method_of(binding.node, definition)
            if (
                method is not None
                and isinstance(binding.node, ast.Attribute)
                and _is_attribute_of_self(binding.node, method)
            ):
                found.append(binding)
        if found and (
            is_data_class(definition) or all(isinstance(each.value, ast.Constant) for each in found)
        ):
            found += self._set_from_outside(definition, name)
        return found

    def bindings_of_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class that is used without an object, as configurations are, gets this attribute."""
        found = list(file_of(definition).scopes[definition].bindings.get(name, []))
        return [*found, *self._set_from_outside(definition, name)] if found else []

    def _set_from_outside(self, definition: ast.ClassDef, name: str) -> Iterator[Binding]:
        """Where others set this attribute on an object or the class: `learner.is_master = rank == 0`."""
        for file in self.evaluation.files.mentioning(name):
            for binding in file.set_attributes.get(name, ()):
                node = binding.node
                if isinstance(node, ast.Attribute) and binding.name.split(".")[-2] not in ("self", "cls"):
                    owners = alternatives(self.evaluation.value(node.value))
                    if Made(definition) in owners or Defined(definition) in owners:
                        yield binding

    def _inherited(self, definition: ast.ClassDef, name: str, depth: int) -> Value:
        for base in definition.bases:
            parent = self.evaluation.value(base)
            if isinstance(parent, Defined) and isinstance(parent.node, ast.ClassDef) and depth < 10:
                found = self._of_object(parent.node, name, depth + 1)
                if found is not UNKNOWN:
                    return found
            if isinstance(parent, External):
                whole = canonical_name(f"{parent.name}.{name}")
                return RANK_ATTRIBUTES.get(whole) or External(whole)
        return UNKNOWN

    def _optional(self, node: ast.Attribute) -> Value:
        """`args.local_rank` where a launcher hands `--local_rank` to the script's parser."""
        if node.attr == "local_rank" and self.takes_local_rank and not self._is_set_otherwise:
            return RankValue(RankKind.LOCAL, "--local_rank")
        written = dotted_name(node)
        if written is not None and written in self.evaluation.callers.declared_ranks:
            return RankValue(RankKind.GLOBAL, "rank of init_process_group")
        return UNKNOWN

    @cached_property
    def _is_set_otherwise(self) -> bool:
        """Whether an option `local_rank` may become another rank: the ranks of the hosts before are added."""
        return any(
            binding.kind is BindingKind.CHANGED or not self._keeps_local(binding)
            for file in self.evaluation.files.mentioning("local_rank")
            for binding in file.set_attributes.get("local_rank", ())
        )

    def _keeps_local(self, binding: Binding) -> bool:
        """Whether what an attribute is set to is the rank on the host, or a literal."""
        if isinstance(binding.value, ast.Attribute) and binding.value.attr == "local_rank":
            return True  # `self.local_rank = args.local_rank`.
        value = self.evaluation.value_of_binding(binding, None)
        return isinstance(value, Constant) or (isinstance(value, RankValue) and value.kind is RankKind.LOCAL)

    @cached_property
    def takes_local_rank(self) -> bool:
        """Whether a parser of the program has the option that launchers hand over."""
        return any(
            isinstance(argument, ast.Constant) and argument.value in LIBRARY_TABLES["local_rank_options"]
            for file in self.evaluation.files.mentioning("add_argument")
            for call in file.calls_of.get("add_argument", ())
            for argument in call.args
        )


def _class_of_result(made: Instance) -> str:
    """The class of what a function gives, or of one part of it; that of an object otherwise."""
    name = made.name if made.item is None else f"{made.name}[{made.item}]"
    found: str = LIBRARY_TABLES["results"].get(name, made.name)
    return found


def _is_set_later(store: ast.AST, use: ast.Attribute) -> bool:
    """Whether an attribute is set behind its use: `set_device(args.gpu); args.gpu = get_rank()`.

    In the function that makes the variable whose attribute it is, with no loop around both.
    """
    scope = scope_of(use)
    if scope_of(store) is not scope or not isinstance(use.value, ast.Name) or not hasattr(use, "lineno"):
        return False  # What `getattr` reads has no place of its own.
    made = scope.bindings.get(use.value.id, ())
    if not made or any(each.kind is not BindingKind.ASSIGNED for each in made):
        return False
    end = (use.end_lineno or use.lineno, use.end_col_offset or 0)
    if (getattr(store, "lineno", 0), getattr(store, "col_offset", 0)) <= end:
        return False
    loops = {each for each in ancestors(use) if isinstance(each, ast.For | ast.AsyncFor | ast.While)}
    return loops.isdisjoint(ancestors(store))


def _method_of(node: ast.AST, definition: ast.ClassDef) -> FunctionNode | None:
    """The method of a class in whose own code a node stands."""
    scope = scope_of(node).function
    if scope is None or scope.parent is None or scope.parent.node is not definition:
        return None
    return scope.node if isinstance(scope.node, FunctionNode) else None


def _is_attribute_of_self(attribute: ast.Attribute, method: FunctionNode) -> bool:
    """Whether an attribute is one of the method's own object."""
    positional = positional_of(method)
    return (
        bool(positional) and isinstance(attribute.value, ast.Name) and attribute.value.id == positional[0].arg
    )
