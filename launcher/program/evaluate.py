"""The evaluation of expressions: through imports, assignments, attributes, calls, results and parameters.

The order of statements counts within a function (a later assignment replaces an earlier one where it surely
runs); between functions all assignments count. Parameters have what every call gives them; an environment
of known arguments, where one is given, goes before.
`Evaluation` is one recursion in parts: calls (`CallEvaluator`), tables, attributes (`AttributeEvaluator`).
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial

from launcher.program.bindings import (
    branch_arms,
    fills_in,
    reaching_definitions,
    returns_taken,
    without_placeholders,
)
from launcher.program.call_graph import CallGraph, ParameterEvaluator
from launcher.program.evaluators.arithmetic import (
    FUNCTIONS,
    TEXT_METHODS,
    calculated,
    called_with,
    chosen,
    compared,
    of_text,
    one_of,
    turned_round,
)
from launcher.program.evaluators.attributes import AttributeEvaluator
from launcher.program.evaluators.tables import TableEvaluator
from launcher.program.index import (
    Binding,
    BindingKind,
    FunctionNode,
    ProgramFiles,
    Scope,
    ancestors_in_function,
    attribute_of_getattr,
    default_of,
    file_of,
    holder_name,
    is_class_method,
    is_static,
    last_name,
    parameters_of,
    scope_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.handed_back import (
    HOLDING_CONTEXTS,
    handed_back,
    is_context_manager,
    yielded,
    yields_each_once,
)
from launcher.program.objects.imported_names import ImportedNames, external
from launcher.program.objects.nodes import walk
from launcher.program.records import FIELD_MAKERS, default_of_field
from launcher.program.surroundings.loader_classes import class_extended, name_of_object
from launcher.program.texts import JOINING, text_of
from launcher.program.values import (
    CHOSEN_FROM,
    LIBRARY_TABLES,
    METHODS_OF_WRITTEN,
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
    element_at,
    elements_of,
    function_of,
    is_in_function_of,
    joined,
    library_names,
    like,
    names_given,
    object_parsed,
    spread,
)

_DEEPEST_EXPRESSION = 40
"""So many steps from an expression to its source; what lies deeper is unknown."""

_MOST_APART = 8
"""So often expressions are looked at for one as if nothing else were evaluated."""
_MOST_STEPS = 1000
"""So many expressions are looked at for one; what needs more is unknown. A sound program needs a tenth."""

_GROUP_RANK_CALLS = library_names("group_rank_calls")
"""What gives the rank within a group where it is called with one."""

_BUILTINS = frozenset(dir(builtins))


class Evaluation:
    """The expressions of one program; everything is found out once."""

    def __init__(
        self,
        files: ProgramFiles,
        callers: CallGraph | None = None,
        assumed: Callable[[ast.expr, Environment | None], Value | None] | None = None,
    ) -> None:
        """Nothing is evaluated before somebody asks. `assumed` says what the surroundings of a run give an
        expression, with the call graph of the evaluation that assumes nothing."""
        self.files = files
        self.assumed = assumed
        self.imports = ImportedNames(files, self.any_of)
        self.being_evaluated: set[ast.AST] = set()
        """What is being found out: it depends on itself where somebody asks again."""
        self._too_deep = 0
        self.callers = callers or CallGraph(files, self.value, self._value_apart, lambda: self._too_deep)
        self.attributes = AttributeEvaluator(self)
        self.calls = CallEvaluator(self)
        self.tables = TableEvaluator(self)
        self.written = WrittenTables(lambda record: self.attributes.records.fields_of(record))
        depths = self.being_evaluated, lambda: self.given_up
        self.parameters = ParameterEvaluator(self.callers, self.value, *depths)
        self._known: dict[ast.AST, Value] = {}
        self._reached: dict[ast.Name, list[Binding]] = {}
        self._in_calls: dict[tuple[ast.expr, int], Value] = {}
        self._kept: dict[int, Environment] = {}
        """The arguments of calls, by where they lie in memory: kept, so that no others come to lie there."""
        self._environments: dict[frozenset[tuple[ast.AST, Value]], Environment] = {}
        """The one object for each set of arguments."""
        self._lost: dict[object, tuple[int, Value]] = {}
        self._apart = 0
        self._depth = 0
        self._steps = 0

    def value(self, node: ast.expr, environment: Environment | None = None) -> Value:
        """What an expression is, in a call with these arguments, or in every call."""
        if environment and is_in_function_of(environment, node):
            return self._value_in_call(node, environment)
        found = self._known.get(node)
        if found is None:
            if node in self.being_evaluated:
                return Nothing.ITSELF
            if (lost := self.lost_before(node)) is not None:
                return lost
            self.being_evaluated.add(node)
            given_up = self.given_up
            try:
                found = self._evaluated(node, None)
            finally:
                self.being_evaluated.discard(node)
            if found is not Nothing.ITSELF and (given_up == self.given_up or self._depth == 0):
                self._known[node] = found
            elif found is not Nothing.ITSELF:
                self.lose(node, found)
        return found

    def _value_in_call(self, node: ast.expr, environment: Environment) -> Value:
        """What an expression is in one call; once for all that ask of the same call."""
        key = (node, id(environment))
        found = self._in_calls.get(key)
        if found is None:
            if (lost := self.lost_before(key)) is not None:
                return lost
            given_up = self.given_up
            found = self._evaluated(node, environment)
            self._kept[id(environment)] = environment
            if found is not Nothing.ITSELF and given_up == self.given_up:
                self._in_calls[key] = found
            elif found is not Nothing.ITSELF:
                self.lose(key, found)
        return found

    def one_environment(self, environment: Environment) -> Environment:
        """The one object for all calls with these arguments, so that they share what is known of them."""
        return self._environments.setdefault(frozenset(environment.items()), environment)

    def lose(self, key: object, found: Value) -> None:
        """Keep what was found where a part of it lay too deep."""
        self._lost[key] = self._depth, found

    def lost_before(self, key: object) -> Value | None:
        """What was found of the same from no deeper, of which a part lay too deep: it would do so again."""
        depth, found = self._lost.get(key, (_DEEPEST_EXPRESSION, None))
        if found is None or depth > self._depth:
            return None
        self._too_deep += 1
        return found

    def _value_apart(self, node: ast.expr) -> Value:
        """What an expression is, with as many steps as if nothing else were evaluated now; so often only, as
        each of them may ask for others."""
        if self._apart >= _MOST_APART:
            return self.value(node)
        depth, steps = self._depth, self._steps
        self._depth, self._steps, self._apart = min(depth, 1), 0, self._apart + 1
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
            self._steps = self._apart = 0
        self._steps += 1
        if self._depth >= _DEEPEST_EXPRESSION or self._steps > _MOST_STEPS:
            self._too_deep += 1
            return UNKNOWN
        self._depth += 1
        try:
            given = self.assumed(node, environment) if self.assumed else None
            return self._by_kind(node, environment) if given is None else given
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
                return one_of(node, partial(self.value, environment=environment))
            case ast.Compare():
                return compared(node, partial(self.value, environment=environment))
            case ast.BinOp():
                evaluated = partial(self.value, environment=environment)
                left, right = evaluated(node.left), evaluated(node.right)
                made = self.written.of_union(node, left, right)
                made = text_of(node, evaluated) if made is UNKNOWN else made
                made = calculated(node.op, left, right) if made is UNKNOWN else made
                return calculated_from(node.op, left, right) if made is UNKNOWN else made
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self.written.of_comprehension(node, partial(self.value, environment=environment))
            case ast.UnaryOp():
                return turned_round(node.op, self.value(node.operand, environment))
            case ast.NamedExpr() | ast.Await() | ast.FormattedValue(conversion=-1, format_spec=None):
                return self.value(node.value, environment)
        return UNKNOWN

    def sources(self, node: ast.expr) -> list[Binding]:
        """Where a name or attribute that is used here may have got its value; empty where that is unknown."""
        if isinstance(node, ast.Name):
            holder = scope_of(node).holder_of(node.id)
            found = [] if holder is None else self._reaching(holder, node)
            alone = len(found) == 1 and found[0].kind is BindingKind.IMPORTED
            return self.imports.held_elsewhere(found[0])[1] or found if alone else found
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if isinstance(owner, Instance) and owner.name == "tap.Tap.parse_args":  # It gives itself back.
                owner = self.value(getattr(owner.call.func, "value", node.value))
            if isinstance(owner, Made):
                found = self.attributes.bindings_in_class(owner.definition, node.attr)
                is_open = not found and self.attributes.is_open_record(owner.definition)
                return list(self.attributes.stores(node, None)) if is_open else found
            if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
                return self.attributes.bindings_of_class(owner.node, node.attr)
            if isinstance(owner, ModuleOf):
                return owner.file.module.bindings.get(node.attr, [])
            return list(self.attributes.stores(node, owner))
        return []

    @cached_property
    def _handed_on(self) -> set[str | None]:
        """The last names of what is given to a call, which may add to it."""
        calls = (call for file in self.files.files for call in file.calls)
        return {last_name(each) for call in calls for each in call.args} - {None}

    def _reaching(self, holder: Scope, node: ast.Name) -> list[Binding]:
        """The definitions that reach a name, found out once unless something else is being found out."""
        if (found := self._reached.get(node)) is None:
            found = reaching_definitions(holder, node, self.value)
            if not self.being_evaluated:
                self._reached[node] = found
        return found

    # Names
    def _name(self, node: ast.Name, environment: Environment | None) -> Value:
        holder = scope_of(node).holder_of(node.id)
        if holder is None:
            return self._unbound_name(node)
        bindings = reaching_definitions(holder, node, partial(self.value, environment=environment))
        imports = [each for each in bindings if each.kind is BindingKind.IMPORTED]
        if len(imports) > 1 and (len(imports) == len(bindings) or len({each.module for each in imports}) > 1):
            # The same again, or alternatives of a try statement: the first that there is.
            bindings = imports[:1]
        return self.any_of(bindings, environment)

    def any_of(self, bindings: Sequence[Binding], environment: Environment | None) -> Value:
        """What a name is that may have got its value from any of these: a number that is changed is none, and
        a rank on the host to which something is added is another rank."""
        if len(bindings) == 1 and bindings[0].kind is not BindingKind.CHANGED:
            return joined((self.value_of_binding(bindings[0], environment),))
        values = [self.value_of_binding(each, environment) for each in bindings]
        value = joined(without_placeholders(bindings, values))
        if not any(each.kind is BindingKind.CHANGED for each in bindings):
            return value
        if isinstance(value, Constant) and (added := self._added(bindings, environment)) is not UNKNOWN:
            return added
        if isinstance(value, RankValue) and value.kind is RankKind.LOCAL:
            return RankValue(RankKind.DERIVED, value.source)
        return UNKNOWN if isinstance(value, Constant) else value

    def _added(self, bindings: Sequence[Binding], environment: Environment | None) -> Value:
        """What a number or text is after all that surely changes it, one after the other."""
        found = self.value_of_binding(bindings[0], environment)
        for each in bindings[1:]:
            node = each.node
            looped = any(isinstance(outer, ast.For | ast.While) for outer in ancestors_in_function(node))
            if not isinstance(node, ast.AugAssign) or branch_arms(node) or looped:
                return UNKNOWN
            by = self.value(node.value, environment)
            whole = isinstance(found, Constant) and isinstance(by, Constant)
            texts = whole and isinstance(found.value, str) and isinstance(by.value, str)  # type: ignore[union-attr]
            if texts and isinstance(node.op, ast.Add):
                found = Constant(str(found.value) + str(by.value))  # type: ignore[union-attr]
            else:
                found = calculated(node.op, found, by)
        return found

    def filled(self, first: Binding, stores: Sequence[Binding]) -> Value:
        """What something is that others may set later, or only where it is None."""
        if not all(map(fills_in, stores)):
            return UNKNOWN
        given = self.value_of_binding(first, None)
        return given if given != Constant(None) else self.any_of(stores, None)

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
        if isinstance(whole, Made):
            names = [*self.attributes.records.fields_of(whole.definition)]
            place = item if item >= 0 else item + len(names)
            return (
                self.attributes.member_of(whole.definition, names[place])
                if 0 <= place < len(names)
                else UNKNOWN
            )
        if isinstance(whole, Several):
            part = element_at(whole, item)
            return UNKNOWN if part is None else self.value(part, environment)
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
        value = self.calls.yielded(listed) if value is UNKNOWN and isinstance(listed, ast.Call) else value
        later = [] if listed is None else self.files.grown.get(holder_name(listed), [])
        if not isinstance(target, ast.expr) or (None in later and not any(later)):
            return UNKNOWN
        written = value.node.elts if isinstance(value, Several) else []
        rounds = [names_given(target, each, self.value) for each in (*written, *later) if each]
        parts = [None if each is None else each.get(binding.name) for each in rounds]
        found = joined(UNKNOWN if each is None else self.value(each, environment) for each in parts)
        handed_on = listed is not None and last_name(listed) in self._handed_on
        is_whole = isinstance(value, Several) and None not in later and not handed_on
        return found if is_whole or not isinstance(found, Constant) else UNKNOWN

    # Other expressions

    def _subscript(self, node: ast.Subscript, environment: Environment | None) -> Value:
        owner = self.value(node.value, environment)
        if self.attributes.have(owner, "__getitem__"):
            return self.calls.of_special(node, "__getitem__", [node.slice], environment)
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


_IDENTITY_CALLS = frozenset(
    {"int", "str", "float", "bool", "torch.tensor", "typing.cast", "dataclasses.replace"}
    | {"copy.copy", "copy.deepcopy", "asyncio.run", "asyncio.create_task", "asyncio.wait_for"}
)
"""Calls that give their first argument back, or what that will give, for our purposes."""

_TABLES = library_names("tables")
_COPIES = frozenset({"dict", "copy.copy", "copy.deepcopy", "os.environ.copy"})
_ENVIRONMENT_READERS = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop"})


_LONGEST_JSON = 20_000


class CallEvaluator:
    """The results of one program's calls."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._results: dict[object, Value] = {}
        self._applications: dict[ast.Call, ast.Call] = {}
        self._special: dict[tuple[ast.expr, str], ast.Call] = {}

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
        elif isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_METHODS:
            made = self._of_text(node, evaluated(node.func.value), evaluated)
        if made is not UNKNOWN:
            return made
        bare = node.args and last_name(node.func) == "__new__"  # Of the class that it is given.
        called = evaluated(node.args[0] if bare else node.func)
        return joined(self._called(each, node, environment) for each in alternatives(called))

    def _of_text(self, node: ast.Call, owner: Value, evaluated: Evaluated) -> Value:
        """`"A B".split()`, `"nccl".upper()`."""
        assert isinstance(node.func, ast.Attribute)
        text = owner.value if isinstance(owner, Constant) else None
        given = [each.value for each in map(evaluated, node.args) if isinstance(each, Constant)]
        if not isinstance(text, str) or len(given) < len(node.args) or node.keywords:
            return UNKNOWN
        found = of_text(text, node.func.attr, given)
        if found is None or isinstance(found, bool | int | str):
            return UNKNOWN if found is None else Constant(found)
        return self.evaluation.written.of_words(node, found)

    def _of_json(self, node: ast.expr, environment: Environment | None) -> Value:
        """What is written as JSON, or was: a table."""
        whole = self.evaluation.value(node, environment)
        if isinstance(whole, Constant) and isinstance(whole.value, str):
            with suppress(ValueError, SyntaxError, RecursionError):
                written = ast.parse(repr(json.loads(whole.value[:_LONGEST_JSON])), mode="eval").body
                for each in walk(written):
                    if isinstance(each, ast.expr):
                        like(node, each)
                return self.evaluation.value(written)
        return whole if isinstance(whole, Dictionary | Several) else UNKNOWN

    def yielded(self, node: ast.Call) -> Value:
        """What a call of a generator of the program gives one after the other, as a list."""
        called = self.evaluation.value(node.func)
        if not isinstance(called, Defined) or isinstance(called.node, ast.ClassDef):
            return UNKNOWN
        given = yielded(called.node)
        return UNKNOWN if given is None else Several(given)

    def _called(self, called: Value, node: ast.Call, environment: Environment | None) -> Value:
        if isinstance(called, External):
            return self._library_call(called.name, node, environment)
        if isinstance(called, Defined):
            if isinstance(called.node, ast.ClassDef):
                return Dictionary(node) if self._is_table(called.node) else Made(called.node)
            if isinstance(made := self._by_decorator(called.node), Instance):
                return made
            return self.result(called.node, self.environment_of(called, node, environment))
        if isinstance(called, Made):
            method = self.evaluation.attributes.member_of(called.definition, "__call__")
            return self._called(method, node, environment) if isinstance(method, Defined) else UNKNOWN
        if isinstance(called, Instance) and called.name == "functools.partial" and called.call.args:
            return self.evaluation.value(self._application(called.call, node), environment)
        return self.evaluation.written.of_record(called, node)

    def _is_table(self, definition: ast.ClassDef) -> bool:
        """Whether a class is a dictionary whose entries are read as attributes, and no more."""
        bases = [self.evaluation.value(each) for each in definition.bases]
        own = file_of(definition).scopes[definition].bindings
        read = "__getattr__" in own and "__init__" not in own
        return read and any(isinstance(each, External) and each.name in _TABLES for each in bases)

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
        if name == "collections.ChainMap":  # The first that has an entry is taken.
            return self.evaluation.written.of_tables(node, [*reversed(node.args)])
        if name in ("json.loads", "json.dumps") and node.args:
            return self._of_json(node.args[0], environment)
        if name in _COPIES and External("os.environ") in map(self.evaluation.value, copied):
            return External("os.environ")
        if name.rpartition(".")[2] in FIELD_MAKERS and scope_of(node).node.__class__ is ast.ClassDef:
            return UNKNOWN if (default := default_of_field(node)) is None else self.evaluation.value(default)
        if name in _TABLES:
            return Dictionary(node)
        if name in SAME_MODEL and isinstance(node.func, ast.Attribute):
            return self.evaluation.value(node.func.value, environment)
        evaluated = partial(self.evaluation.value, environment=environment)
        if name in FUNCTIONS:
            calculated_value = called_with(name, [*map(evaluated, node.args)], evaluated)
            if calculated_value is not UNKNOWN:
                return calculated_value
        if name == "next" and node.args:
            return self._first_of(node.args[0], evaluated)
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
        made = self.evaluation.written.of_call(name, node, evaluated)
        return (
            object_parsed(Instance(name_of_object(name, node), node), evaluated) if made is UNKNOWN else made
        )

    def of_special(
        self, node: ast.expr, name: str, given: list[ast.expr], environment: Environment | None
    ) -> Value:
        """What a method of an object gives that Python calls for an expression: `__getitem__`."""
        assert isinstance(node, ast.Subscript | ast.Attribute)
        if (node, name) not in self._special:
            method = like(node, ast.Attribute(node.value, name, ast.Load()))
            self._special[node, name] = like(node, ast.Call(method, given, []))
        return self.evaluation.value(self._special[node, name], environment)

    def _first_of(self, node: ast.expr, evaluated: Evaluated) -> Value:
        """What `next` gives first of a list that is written out, or of a generator."""
        listed = evaluated(node)
        if isinstance(node, ast.Call) and not isinstance(listed, Several):
            listed = self.yielded(node)
        elements = elements_of(listed, evaluated, node)
        return evaluated(elements[0]) if elements else UNKNOWN

    def _read_by_getattr(self, node: ast.Call, environment: Environment | None) -> Value:
        """`getattr(args, "rank", 0)`."""
        name = self.evaluation.value(node.args[1], environment)
        attribute = attribute_of_getattr(node, name.value if isinstance(name, Constant) else None)
        if attribute is None:  # Any class of these that an option names is used alike.
            owner = getattr(self.evaluation.value(node.args[0], environment), "name", "")
            return External(f"{owner}.?") if owner in CHOSEN_FROM else UNKNOWN
        found = self.evaluation.attributes.value(attribute, environment)
        owner_value = self.evaluation.value(node.args[0], environment)
        if (
            len(node.args) == 3
            and found is UNKNOWN
            and self.evaluation.attributes.lacks(owner_value, attribute.attr)
        ):
            return self.evaluation.value(node.args[2], environment)
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
        for each in (*parameters, *filter(None, [function.args.vararg, function.args.kwarg])):
            given = arguments.get(each.arg)
            if given is not None:
                found[each] = self.evaluation.value(given, environment)
            elif (default := default_of(function, each.arg)) is not None:
                found[each] = self.evaluation.value(default)
        if called.owner is not None and parameters and not is_static(function):
            by_class = is_class_method(function)
            found[parameters[0]] = Defined(called.owner) if by_class else Made(called.owner)
        return self.evaluation.one_environment({each: it for each, it in found.items() if it is not UNKNOWN})

    def result(self, function: FunctionNode, environment: Environment | None) -> Value:
        """What a function gives back."""
        if isinstance(function, ast.Lambda):
            return self.evaluation.value(function.body, environment)
        key = (function, frozenset((environment or {}).items()))
        if key in self._results:
            return self._results[key]
        if function in self.evaluation.being_evaluated:
            return Nothing.ITSELF
        if (lost := self.evaluation.lost_before(key)) is not None:
            return lost
        self.evaluation.being_evaluated.add(function)
        given_up = self.evaluation.given_up
        try:
            value = partial(self.evaluation.value, environment=environment)
            returns = returns_taken(function, value)
            found = joined(value(each.value) if each.value else Constant(None) for each in returns)
            if not returns and yields_each_once(function) and not is_context_manager(function):
                given = yielded(function)
                found = found if given is None else Several(given)
        finally:
            self.evaluation.being_evaluated.discard(function)
        if found is not Nothing.ITSELF and given_up == self.evaluation.given_up:
            self._results[key] = found
        elif found is not Nothing.ITSELF:
            self.evaluation.lose(key, found)
        return found
