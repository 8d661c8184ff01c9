"""The evaluation of expressions: through imports, assignments, attributes, calls, results and parameters.

The order of statements counts within a function (a later assignment replaces an earlier one where it surely
runs); between functions all assignments count. Parameters have what every call gives them; an environment
of known arguments, where one is given, goes before.
`Evaluation` is one recursion in parts: calls (`CallEvaluator`), tables, attributes (`AttributeEvaluator`).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from launcher.program.bindings import reaching_definitions, returns_taken
from launcher.program.call_graph import CallGraph, ParameterEvaluator, bind_arguments
from launcher.program.index import (
    Binding,
    BindingKind,
    FunctionNode,
    ProgramFiles,
    attribute_of_getattr,
    default_of,
    dotted_name,
    file_of,
    holder_name,
    is_class_method,
    is_set_later,
    is_static,
    last_name,
    parameters_of,
    scope_of,
)
from launcher.program.objects.handed_back import (
    HOLDING_CONTEXTS,
    handed_back,
    is_context_manager,
    plain_yields,
)
from launcher.program.objects.imported_names import ImportedNames, external
from launcher.program.objects.members import ClassMembers, class_extended
from launcher.program.records import ParserOptions
from launcher.program.texts import JOINING, text_of
from launcher.program.values import (
    CHOSEN_FROM,
    LIBRARY_TABLES,
    METHODS_OF_WRITTEN,
    PATH,
    RANK_ATTRIBUTES,
    RANK_VARIABLES,
    RANKS,
    SAME_MODEL,
    UNKNOWN,
    Constant,
    Defined,
    Dictionary,
    Either,
    Environment,
    Evaluated,
    External,
    Instance,
    Made,
    ModuleOf,
    Nothing,
    RankKind,
    RankValue,
    Several,
    Value,
    WrittenTables,
    alternatives,
    applied,
    calculated_from,
    canonical_name,
    chosen,
    class_of_result,
    compared,
    default_of_field,
    entries_of,
    function_of,
    is_in_function_of,
    joined,
    library_names,
    model_within,
    names_given,
    negated,
    object_parsed,
    pairs_of,
    spread,
)

_DEEPEST_EXPRESSION = 40
"""So many steps from an expression to its source; what lies deeper is unknown."""

_MOST_STEPS = 1000
"""So many expressions are looked at for one; what needs more is unknown. A sound program needs a tenth."""

_GROUP_RANK_CALLS = library_names("group_rank_calls")
"""What gives the rank within a group where it is called with one."""

_BUILTINS = frozenset(dir(builtins))


class Evaluation:
    """The expressions of one program; everything is found out once."""

    def __init__(self, files: ProgramFiles) -> None:
        """Nothing is evaluated before somebody asks."""
        self.files = files
        self.imports = ImportedNames(files, self.any_of)
        self.being_evaluated: set[ast.AST] = set()
        """What is being found out: it depends on itself where somebody asks again."""
        self.callers = CallGraph(files, self.value, self._value_apart)
        self.calls = CallEvaluator(self)
        self.attributes = AttributeEvaluator(self)
        self.tables = TableEvaluator(self)
        self.written = WrittenTables(lambda record: self.attributes.records.fields_of(record))
        depths = self.being_evaluated, lambda: self.given_up
        self.parameters = ParameterEvaluator(self.callers, self.value, *depths)
        self._known: dict[ast.AST, Value] = {}
        self._too_deep = 0
        self._depth = 0
        self._steps = 0

    def value(self, node: ast.expr, environment: Environment | None = None) -> Value:
        """What an expression is, in a call with these arguments, or in every call."""
        if environment and is_in_function_of(environment, node):
            return self._evaluated(node, environment)
        found = self._known.get(node)
        if found is None:
            if node in self.being_evaluated:
                return Nothing.ITSELF
            self.being_evaluated.add(node)
            given_up = self.given_up
            try:
                found = self._evaluated(node, None)
            finally:
                self.being_evaluated.discard(node)
            if found is not Nothing.ITSELF and (given_up == self.given_up or self._depth == 0):
                self._known[node] = found
        return found

    def _value_apart(self, node: ast.expr) -> Value:
        """What an expression is, with as many steps as if nothing else were evaluated now."""
        depth, steps = self._depth, self._steps
        self._depth, self._steps = min(depth, 1), 0
        try:
            return self.value(node)
        finally:
            self._depth, self._steps = depth, steps

    @property
    def given_up(self) -> int:
        """How often something lay too deep, or was not found out yet: what was found out meanwhile is no
        answer for others."""
        return self._too_deep + self.callers.given_up

    def _evaluated(self, node: ast.expr, environment: Environment | None) -> Value:
        if self._depth == 0:
            self._steps = 0
        self._steps += 1
        if self._depth >= _DEEPEST_EXPRESSION or self._steps > _MOST_STEPS:
            self._too_deep += 1
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
                return Dictionary(node)
            case ast.JoinedStr():
                return text_of(node, partial(self.value, environment=environment))
            case ast.Lambda():
                return Defined(node)
            case ast.Subscript():
                return self._subscript(node, environment)
            case ast.IfExp():
                taken = chosen(node, self.value(node.test, environment))
                return joined(self.value(each, environment) for each in taken)
            case ast.BoolOp():
                return joined(self.value(each, environment) for each in node.values)
            case ast.Compare():
                return compared(node, partial(self.value, environment=environment))
            case ast.BinOp():
                evaluated = partial(self.value, environment=environment)
                left, right = evaluated(node.left), evaluated(node.right)
                made = self.written.of_union(node, left, right)
                made = text_of(node, evaluated) if made is UNKNOWN else made
                return calculated_from(node.op, left, right) if made is UNKNOWN else made
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self.written.of_comprehension(node, partial(self.value, environment=environment))
            case ast.UnaryOp():
                return negated(node.op, self.value(node.operand, environment))
            case ast.NamedExpr() | ast.Await():
                return self.value(node.value, environment)
        return UNKNOWN

    def result(self, function: FunctionNode, environment: Environment | None) -> Value:
        """What a function gives back, in a call with these arguments or in every call."""
        return self.calls.result(function, environment)

    def rounds_of(
        self, entry: ast.expr, key: ast.expr, value: ast.expr, evaluated: Evaluated
    ) -> Mapping[str, ast.expr]:
        """What is set below each name in the rounds of the loop around an entry that is set."""
        return self.written.rounds_of(entry, key, value, evaluated)

    def sources(self, node: ast.expr) -> list[Binding]:
        """Where a name or attribute that is used here may have got its value; empty where that is unknown."""
        if isinstance(node, ast.Name):
            holder = scope_of(node).holder_of(node.id)
            found = [] if holder is None else reaching_definitions(holder, node)
            alone = len(found) == 1 and found[0].kind is BindingKind.IMPORTED
            return self.imports.held_elsewhere(found[0])[1] or found if alone else found
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if isinstance(owner, Instance) and owner.name == "tap.Tap.parse_args":  # It gives itself back.
                owner = self.value(getattr(owner.call.func, "value", node.value))
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
        """What a name is that may have got its value from any of these: a number that is changed is none, and
        a rank on the host to which something is added is another rank."""
        value = joined(self.value_of_binding(each, environment) for each in bindings)
        if not any(each.kind is BindingKind.CHANGED for each in bindings):
            return value
        if isinstance(value, RankValue) and value.kind is RankKind.LOCAL:
            return RankValue(RankKind.DERIVED, value.source)
        return UNKNOWN if isinstance(value, Constant) else value

    def _unbound_name(self, node: ast.Name) -> Value:
        """A name that is bound nowhere in its file: a builtin, or from a `import *`."""
        file = file_of(node)
        if (found := self.imports.through_star(file, node.id)) is not UNKNOWN or node.id in _BUILTINS:
            return External(node.id) if found is UNKNOWN else found
        foreign = [star for star in file.stars if self.files.module(star, file) is None]
        if len(foreign) == 1 and not foreign[0].startswith("."):
            return external(f"{foreign[0]}.{node.id}")
        return UNKNOWN

    def value_of_binding(self, binding: Binding, environment: Environment | None) -> Value:
        """What one binding gives its name."""
        if binding.kind is BindingKind.IMPORTED:
            return self.imports.value(binding)
        if binding.kind is BindingKind.DEFINED:
            assert isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            return class_extended(binding.node, self.value) or Defined(binding.node)
        if binding.kind is BindingKind.PARAMETER:
            return self.parameters.value(binding.node, environment)
        if binding.kind is BindingKind.CHANGED and binding.value is not None:
            return calculated_from(ast.Add(), Nothing.ITSELF, self.value(binding.value, environment))
        if binding.kind is BindingKind.ENTERED and binding.value is not None:
            whole = self.entered(binding.value, environment)
        elif binding.kind is BindingKind.LOOPED:
            return self._looped(binding, environment)
        elif binding.kind is BindingKind.ASSIGNED and binding.value is not None:
            whole = self.value(binding.value, environment)
        else:
            return UNKNOWN
        return whole if binding.item is None else self._item_of(whole, binding.item, environment)

    def entered(self, manager: ast.expr, environment: Environment | None) -> Value:
        """What `with` gives a name: an object of a library, what a manager yields or `__enter__` returns."""
        value = self.value(manager, environment)
        if isinstance(value, Instance):
            held = value.call.args[:1] if value.name in HOLDING_CONTEXTS else []
            return self.value(held[0]) if held else value
        if isinstance(value, Made):
            for each in self.attributes.bindings_in_class(value.definition, "__enter__"):
                if isinstance(each.node, ast.FunctionDef):
                    return self.calls.result(each.node, None)
        called = self.value(manager.func) if isinstance(manager, ast.Call) else UNKNOWN
        if not isinstance(called, Defined) or not isinstance(manager, ast.Call):
            return UNKNOWN
        inside = self.calls.environment_of(called, manager, environment)
        return joined(
            UNKNOWN if each.value is None else self.value(each.value, inside)
            for each in file_of(called.node).yields_of.get(called.node, ())
        )

    def _item_of(self, whole: Value, item: int, environment: Environment | None) -> Value:
        if isinstance(whole, Several) and -len(whole.node.elts) <= item < len(whole.node.elts):
            return self.value(whole.node.elts[item], environment)
        if isinstance(whole, Instance) and whole.item is None and item >= 0:
            return object_parsed(Instance(whole.name, whole.call, item), self.value)
        if isinstance(whole, Either):  # Such as the results of a function with several returns.
            return joined(self._item_of(each, item, environment) for each in whole.values)
        return UNKNOWN

    def any_element(self, listed: ast.expr, value: Value) -> Value:
        """One of the objects of a list, as it is written or grows."""
        later = [*filter(None, self.files.grown.get(holder_name(listed), []))]
        if isinstance(listed, ast.Name):  # Others have lists of that name, too.
            holder = scope_of(listed).holder_of(listed.id)
            own = [each for each in later if scope_of(each).holder_of(listed.id) is holder]
            later = own or later
        elements = [*(value.node.elts if isinstance(value, Several) else []), *later]
        found = joined(map(self.value, elements))
        return UNKNOWN if isinstance(found, Constant) else found

    def _looped(self, binding: Binding, environment: Environment | None) -> Value:
        """Each object in a list that is written out, and what is appended to it, or its part of each."""
        listed, target = getattr(binding.node, "iter", None), getattr(binding.node, "target", None)
        value = UNKNOWN if listed is None else self.value(listed, environment)
        later = [] if listed is None else self.files.grown.get(holder_name(listed), [])
        written = value.node.elts if isinstance(value, Several) else []
        if not isinstance(target, ast.expr) or (None in later and not any(later)):
            return UNKNOWN
        rounds = [names_given(target, each, self.value) for each in (*written, *later) if each]
        parts = [None if each is None else each.get(binding.name) for each in rounds]
        found = joined(UNKNOWN if each is None else self.value(each, environment) for each in parts)
        return UNKNOWN if isinstance(found, Constant) else found

    # Other expressions

    def _subscript(self, node: ast.Subscript, environment: Environment | None) -> Value:
        owner = self.value(node.value, environment)
        if owner == External("os.environ"):
            return self.calls.variable(node.slice, environment)
        if isinstance(node.slice, ast.Slice):
            return self.written.of_slice(node, owner, partial(self.value, environment=environment))
        index = self.value(node.slice, environment)
        if isinstance(index, Constant) and isinstance(index.value, str):
            return self.tables.item(node.value, index.value, environment)
        if isinstance(index, Constant) and isinstance(index.value, int):
            found = self._item_of(owner, index.value, environment)
            return self.any_element(node.value, owner) if found is UNKNOWN else found
        return self.tables.any_item(node.value, owner, environment)


_IDENTITY_CALLS = frozenset({"int", "str", "float", "torch.tensor", "typing.cast", "dataclasses.replace"})
"""Calls that give their first argument back, for our purposes."""

_TABLES = library_names("tables")
_COPIES = frozenset({"dict", "copy.copy", "copy.deepcopy", "os.environ.copy"})
_ENVIRONMENT_READERS = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop"})


class CallEvaluator:
    """The results of one program's calls."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._results: dict[object, Value] = {}
        self._applications: dict[ast.Call, ast.Call] = {}

    def value(self, node: ast.Call, environment: Environment | None) -> Value:
        """What a call gives."""
        if (read := self.evaluation.tables.read(node, environment)) is not None:
            return read
        evaluated = partial(self.evaluation.value, environment=environment)
        made: Value = UNKNOWN
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS_OF_WRITTEN:
            made = self.evaluation.written.of_method(node, evaluated(node.func.value), evaluated)
        elif last_name(node.func) in JOINING:
            made = text_of(node, evaluated, self.evaluation.files.grown)
        if made is not UNKNOWN:
            return made
        bare = node.args and last_name(node.func) == "__new__"  # Of the class that it is given.
        called = evaluated(node.args[0] if bare else node.func)
        return joined(self._called(each, node, environment) for each in alternatives(called))

    def _called(self, called: Value, node: ast.Call, environment: Environment | None) -> Value:
        if isinstance(called, External):
            return self._library_call(called.name, node, environment)
        if isinstance(called, Defined):
            if isinstance(called.node, ast.ClassDef):
                return Made(called.node)
            if isinstance(made := self._by_decorator(called.node), Instance):
                return made
            return self.result(called.node, self.environment_of(called, node, environment))
        if isinstance(called, Made):
            method = self.evaluation.attributes.member_of(called.definition, "__call__")
            return self._called(method, node, environment) if isinstance(method, Defined) else UNKNOWN
        if isinstance(called, Instance) and called.name == "functools.partial" and called.call.args:
            return self.evaluation.value(self._application(called.call, node), environment)
        return self.evaluation.written.of_record(called, node)

    def _by_decorator(self, function: FunctionNode) -> Value:
        """What a function gives through a decorator of the program, which makes an object of it."""
        decorators = () if isinstance(function, ast.Lambda) else function.decorator_list
        decorator = function_of(self.evaluation.value(decorators[0])) if decorators else None
        made = function_of(self.result(decorator, None)) if decorator else None
        return self.result(made, None) if made else UNKNOWN

    def _application(self, partial: ast.Call, node: ast.Call) -> ast.Call:
        """The call of the function that a partial application stands for, in the place of its own call."""
        if node not in self._applications:
            self._applications[node] = applied(partial, node)
        return self._applications[node]

    def _library_call(self, name: str, node: ast.Call, environment: Environment | None) -> Value:
        if name in _ENVIRONMENT_READERS:
            return self.variable(node.args[0] if node.args else None, environment)
        copied = node.args[:1] or ([node.func.value] if isinstance(node.func, ast.Attribute) else [])
        if name in _COPIES and External("os.environ") in map(self.evaluation.value, copied):
            return External("os.environ")
        if name == "dataclasses.field":
            return UNKNOWN if (default := default_of_field(node)) is None else self.evaluation.value(default)
        if name in _TABLES:
            return Dictionary(node)
        if name in SAME_MODEL and isinstance(node.func, ast.Attribute):
            return self.evaluation.value(node.func.value, environment)
        if (given := handed_back(name, node, self.evaluation.value)) is not None:
            return self.evaluation.value(given, environment)
        if name in _IDENTITY_CALLS and node.args:
            return self.evaluation.value(node.args[-1 if name == "typing.cast" else 0], environment)
        if name == "getattr" and len(node.args) >= 2:
            return self._read_by_getattr(node, environment)
        if name.endswith("ExitStack.enter_context") and node.args:
            return self.evaluation.entered(node.args[0], environment)
        if name == "types.MethodType" and len(node.args) == 2:
            method, owner = map(self.evaluation.value, node.args)
            if isinstance(method, Defined) and isinstance(owner, Made):
                return Defined(method.node, owner.definition)
            return method
        if name == "importlib.import_module":
            return self._module_named(node)
        if (found := RANKS.get(name)) is not None:
            grouped = bool(node.args or node.keywords) and name in _GROUP_RANK_CALLS
            return RankValue(RankKind.COORDINATE, name) if grouped else found
        evaluated = partial(self.evaluation.value, environment=environment)
        made = self.evaluation.written.of_call(name, node, evaluated)
        return object_parsed(Instance(name, node), evaluated) if made is UNKNOWN else made

    def _read_by_getattr(self, node: ast.Call, environment: Environment | None) -> Value:
        """`getattr(args, "rank", 0)`."""
        name = self.evaluation.value(node.args[1], environment)
        attribute = attribute_of_getattr(node, name.value if isinstance(name, Constant) else None)
        if attribute is None:  # Any class of these that an option names is used alike.
            owner = getattr(self.evaluation.value(node.args[0], environment), "name", "")
            return External(f"{owner}.?") if owner in CHOSEN_FROM else UNKNOWN
        found = self.evaluation.attributes.value(attribute, environment)
        if len(node.args) == 3 and not isinstance(found, Constant):
            return joined((found, self.evaluation.value(node.args[2], environment)))
        return found

    def _module_named(self, node: ast.Call) -> Value:
        """The module of the program that `import_module("steps.first")` gives."""
        name = self.evaluation.value(node.args[0]) if node.args else UNKNOWN
        if not isinstance(name, Constant) or not isinstance(name.value, str):
            return UNKNOWN
        module = self.evaluation.files.module(name.value, file_of(node))
        return ModuleOf(module) if module is not None else external(name.value)

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
        over = loop.iter if ends and isinstance(loop, ast.For | ast.comprehension) else None
        listed = UNKNOWN if over is None else self.evaluation.value(over)
        names = map(self.evaluation.value, listed.node.elts if isinstance(listed, Several) else [])
        texts = [str(each.value) for each in names if isinstance(each, Constant)]
        own = [each for each in texts if not each.startswith(tuple(LIBRARY_TABLES["launcher_variables"]))]
        return RANK_VARIABLES.get((own or texts or [""])[0], UNKNOWN)

    def environment_of(
        self, called: Defined, node: ast.Call, environment: Environment | None
    ) -> Environment | None:
        """What the parameters of a called function are in this call."""
        function = called.node
        if isinstance(function, ast.ClassDef):
            return None
        call = spread(node, partial(self.evaluation.value, environment=environment))
        arguments = bind_arguments(function, call, called.owner is not None)
        if arguments is None:
            return None
        parameters = parameters_of(function)
        found: dict[ast.AST, Value] = {}
        for each in (*parameters, *filter(None, [function.args.vararg])):
            given = arguments.get(each.arg)
            if given is not None:
                found[each] = self.evaluation.value(given, environment)
            elif (default := default_of(function, each.arg)) is not None:
                found[each] = self.evaluation.value(default)
        if function.args.kwarg is not None and function.args.kwarg.arg in arguments:
            extra = arguments[function.args.kwarg.arg]
            found[function.args.kwarg] = self.evaluation.value(extra, environment)
        if called.owner is not None and parameters and not is_static(function):
            by_class = is_class_method(function)
            found[parameters[0]] = Defined(called.owner) if by_class else Made(called.owner)
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
        given_up = self.evaluation.given_up
        try:
            value = partial(self.evaluation.value, environment=environment)
            returns = returns_taken(function, value)
            found = joined(value(each.value) if each.value else Constant(None) for each in returns)
            if not returns and (given := plain_yields(function)) and not is_context_manager(function):
                found = Several(given)
        finally:
            self.evaluation.being_evaluated.discard(function)
        if found is not Nothing.ITSELF and given_up == self.evaluation.given_up:
            self._results[key] = found
        return found


def _are_objects(values: Sequence[Value]) -> bool:
    """Whether all of these are functions, classes or objects."""
    kinds = Defined | Made | Instance | External
    return all(isinstance(part, kinds) for each in values for part in alternatives(each))


class TableEvaluator:
    """The entries of one program's dictionaries, and of objects that are made of dictionaries."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._set_on: dict[str, list[Binding]] | None = None

    def item(self, owner: ast.expr, key: str, environment: Environment | None) -> Value:
        """What `owner[key]` is: as the dictionary is written, or as it is set on a variable of that name."""
        whole = alternatives(self.evaluation.value(owner, environment))
        entries = [self.entry(each, key, environment) for each in whole]
        later = [
            self.evaluation.value_of_binding(binding, None)
            for file in self.evaluation.files.mentioning(key)
            for binding in file.set_items.get(key, ())
            if binding.name == last_name(owner) or self._is_one_of(binding.node, whole)
        ]
        stored = joined(later + self.evaluation.written.set_in_rounds(whole, key, self.evaluation.value))
        known = [each for each in entries if each is not None and each is not UNKNOWN]
        if not known:
            stored = self._objects_set(owner) if stored is UNKNOWN else stored
            return UNKNOWN if isinstance(stored, Constant) else stored
        if None in entries or UNKNOWN in entries:
            known.append(UNKNOWN)
        found = joined(known if stored is UNKNOWN else [*known, stored])
        replaced = (later and stored is UNKNOWN) or last_name(owner) in self.evaluation.files.updated
        return UNKNOWN if replaced and isinstance(found, Constant) else found

    def _is_one_of(self, entry: ast.AST, tables: Sequence[Value]) -> bool:
        """Whether an entry is set on one of these tables, by another name of it."""
        owner = isinstance(entry, ast.Subscript) and self.evaluation.value(entry.value)
        return isinstance(owner, Dictionary) and owner in tables

    def any_item(self, owner: ast.expr, whole: Value, environment: Environment | None) -> Value:
        """One of the entries of a table, by a key that is not known."""
        if isinstance(whole, Made):
            return self._of_own_table(whole.definition, None)
        pairs = pairs_of(whole, self.evaluation.value) if isinstance(whole, Dictionary) else None
        values = [self.evaluation.value(each, environment) for _, each in pairs or ()]
        if pairs and last_name(owner) not in self.evaluation.files.grown:
            return joined(values)
        return joined([*values, self._objects_set(owner)]) if _are_objects(values) else UNKNOWN

    def _objects_set(self, owner: ast.expr) -> Value:
        """The functions and objects that a table of this name gets below calculated keys."""
        if self._set_on is None:
            self._set_on = {}
            for file in self.evaluation.files.files:
                for binding in file.set_items.get("", ()):
                    self._set_on.setdefault(binding.name, []).append(binding)
        stored = self._set_on.get(last_name(owner) or "", ())
        values = [self.evaluation.value_of_binding(each, None) for each in stored]
        return joined(values) if _are_objects(values) else UNKNOWN

    def _of_own_table(self, definition: ast.ClassDef, key: str | None) -> Value:
        """What `__getitem__` of a class of the program gives for a key."""
        for each in self.evaluation.attributes.bindings_in_class(definition, "__getitem__"):
            if isinstance(each.node, ast.FunctionDef) and len(each.node.args.args) > 1:
                given: Environment = {} if key is None else {each.node.args.args[1]: Constant(key)}
                return self.evaluation.result(each.node, given)
        return UNKNOWN

    def read(self, call: ast.Call, environment: Environment | None) -> Value | None:
        """What `table.get(key, default)` gives; None for all other calls."""
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("get", "pop", "setdefault"):
            return None
        key = self.evaluation.value(call.args[0], environment) if call.args else UNKNOWN
        owner = self.evaluation.value(function.value, environment)
        name = key.value if isinstance(key, Constant) else None
        if isinstance(owner, Several) and function.attr == "pop":
            return self.evaluation.any_element(function.value, owner)
        if isinstance(owner, Dictionary) and call.args and function.attr == "get" and name is None:
            found = self.any_item(function.value, owner, environment)
            return None if found is UNKNOWN else found
        if not isinstance(owner, Dictionary) or not isinstance(name, str):
            return None
        found = self.item(function.value, name, environment)
        if found is UNKNOWN and self.entry(owner, name, environment) is None:
            return self.evaluation.value(call.args[1], environment) if len(call.args) > 1 else Constant(None)
        return found

    def entry(self, owner: Value, key: str, environment: Environment | None) -> Value | None:
        """What an object holds below a key, as it is made; None where it surely has no such entry."""
        if owner == External("os.environ"):
            return RANK_VARIABLES.get(key, UNKNOWN)
        if isinstance(owner, Made):
            own = self._of_own_table(owner.definition, key)
            return self.evaluation.attributes.member_of(owner.definition, key) if own is UNKNOWN else own
        if isinstance(owner, Instance) and owner.name == "globals":
            return self.evaluation.any_of(file_of(owner.call).module.bindings.get(key, ()), None)
        if isinstance(owner, Several) and (pairs := pairs_of(owner, self.evaluation.value)) is not None:
            return self.evaluation.value(dict(pairs)[key], environment) if key in dict(pairs) else None
        being_evaluated = self.evaluation.being_evaluated
        if not isinstance(owner, Dictionary) or owner.node in being_evaluated:
            return UNKNOWN  # Such as `options = {**options}` in a loop, which has its entries from itself.
        being_evaluated.add(owner.node)
        try:
            return self._written(owner, key, environment)
        finally:
            being_evaluated.discard(owner.node)

    def _written(self, owner: Dictionary, key: str, environment: Environment | None) -> Value | None:
        for name, value in reversed(entries_of(owner.node)):
            if name is None:
                parts = alternatives(self.evaluation.value(value, environment))
                inner = [self.entry(each, key, environment) for each in parts]
                if inner != [None]:
                    return joined(UNKNOWN if each is None else each for each in inner)
            elif not isinstance(known := self.evaluation.value(name, environment), Constant):
                return UNKNOWN
            elif known.value == key:
                return self.evaluation.value(value, environment)
        return None


class AttributeEvaluator(ClassMembers):
    """The attributes of one program."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        values = evaluation.value, evaluation.any_of, evaluation.result, evaluation.rounds_of
        super().__init__(evaluation.files, evaluation.callers, *values)
        self.evaluation = evaluation
        self.options = ParserOptions(evaluation.files, evaluation.value, evaluation.value_of_binding)
        self._stores: dict[tuple[str, str, Instance | None], list[Binding]] = {}

    def value(self, node: ast.Attribute, environment: Environment | None) -> Value:
        """What an attribute is that is read here."""
        owners = alternatives(self.evaluation.value(node.value, environment))
        having = (each for each in owners if len(owners) == 1 or not self._lacks(each, node.attr))
        return joined(self._attribute_of(each, node) for each in having)

    def _lacks(self, owner: Value, name: str) -> bool:
        """Whether an object of the program surely has no such attribute, as a hook has not each method."""
        if not isinstance(owner, Made) or owner.definition.bases:
            return False
        return not any(self.bindings_in_class(owner.definition, each) for each in (name, "__getattr__"))

    def _attribute_of(self, owner: Value, node: ast.Attribute) -> Value:
        name = node.attr
        if isinstance(owner, External):
            return external(f"{owner.name}.{name}")
        if isinstance(owner, Instance) and owner.name == "super":
            return self.of_super(node, name)
        if isinstance(owner, Instance):
            whole = canonical_name(f"{(made := class_of_result(owner))}.{name}")
            if whole == f"{PATH}.parent":
                return owner
            if (held := model_within(owner, whole)) is not None:
                return self.evaluation.value(held)
            if (stored := self._stored(node, owner)) is not UNKNOWN:
                return stored
            option = self._optional(node) if made.startswith("argparse.") else UNKNOWN
            return option if option is not UNKNOWN else RANK_ATTRIBUTES.get(whole) or External(whole)
        if isinstance(owner, Dictionary):
            entry = self.evaluation.tables.entry(owner, name, None)
            return self._stored(node, None) if entry is None or entry is UNKNOWN else entry
        if isinstance(owner, ModuleOf):
            if name in owner.file.module.bindings:
                return self.evaluation.any_of(owner.file.module.bindings.get(name, ()), None)
            whole = f"{self.evaluation.files.module_name(owner.file)}.{name}"
            inner = self.evaluation.files.modules.get(whole)
            return (
                ModuleOf(inner)
                if inner is not None
                else self.evaluation.imports.through_star(owner.file, name)
            )
        if isinstance(owner, Made):
            return self.member_of(owner.definition, name)
        if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
            return self.member_of(owner.node, name, bound=False)
        found = self._stored(node, owner)
        return self._optional(node) if found is UNKNOWN else found

    def _stored(self, node: ast.Attribute, owner: Value | None) -> Value:
        """What the program sets an attribute to. A literal alone does not tell: `args.local_rank = 0`, in a
        run of one process, goes over an option."""
        found = self.evaluation.any_of([*self.stores(node, owner)], None)
        return UNKNOWN if isinstance(found, Constant) else found

    def stores(self, node: ast.Attribute, owner: Value | None) -> Iterator[Binding]:
        """Where the program sets this attribute on what has its name, or is the same object of a library."""
        if isinstance(owner, External | Made | Defined | ModuleOf) or not (last := last_name(node.value)):
            return
        made = owner if isinstance(owner, Instance) else None
        if (found := self._stores.get((last, node.attr, made))) is None:
            found = self._stores[last, node.attr, made] = [
                binding
                for file in self.evaluation.files.mentioning(node.attr)
                for binding in file.set_attributes.get(node.attr, ())
                if binding.name.split(".")[-2] == last
                or (made and self.evaluation.value(getattr(binding.node, "value", node)) == made)
            ]
        yield from (each for each in found if not is_set_later(each.node, node))

    def _optional(self, node: ast.Attribute) -> Value:
        """What an option of the script's own parser is by its launcher or its default, `args.local_rank`."""
        found = self.options.value_of_option(node.attr)
        if found is UNKNOWN and dotted_name(node) in self.evaluation.callers.declared_ranks:
            return RankValue(RankKind.GLOBAL, "rank of init_process_group")
        return found
