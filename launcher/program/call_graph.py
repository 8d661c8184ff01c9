"""The calls of a program from the side of who is called, and what they give to parameters.

Parameters have what every call of their function gives them; where it may be called from where nobody sees,
nothing is known of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import product

from launcher.frozen import frozen_by_identity
from launcher.program.index import (
    PARENT,
    WRITTEN_OUT,
    Binding,
    BindingKind,
    FileIndex,
    FunctionNode,
    ProgramFiles,
    Scope,
    ancestors,
    class_of,
    default_of,
    dotted_name,
    file_of,
    function_of_parameter,
    is_class_method,
    is_property,
    is_static,
    last_name,
    parameters_of,
    parent_of,
    positional_of,
    scope_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.called_values import calls_of_values
from launcher.program.objects.empty_methods import does_nothing
from launcher.program.objects.hooks import handed_to_hook
from launcher.program.values import (
    UNKNOWN,
    Constant,
    Defined,
    Environment,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Value,
    alternatives,
    joined,
    library_names,
    like,
    spread,
)


def read_as_call(use: ast.Attribute) -> ast.Call:
    """The read of a property as the call that it is, which stands where the read does: also as a test."""
    call = like(use, ast.Call(use, [], []))
    call.__dict__[PARENT] = use
    return call


_RANK_STARTERS = library_names("rank_starters")
_CALLING_EACH = ("map", "imap", "imap_unordered", "apply_async", "starmap")
_CALLING_WITH = ("submit", "to_thread", "run_in_executor", "register", "call_soon", "start_soon")
"""What calls a function with what stands behind it."""

_PROCESSES = frozenset({"multiprocessing.Process", "threading.Thread"})
_ASKING = tuple(map(External, ("isinstance", "issubclass", "type", "super")))
_SPAWNED = RankValue(RankKind.LOCAL, "spawn")
_DEEPEST_CLASS = 5  # So many classes that derive from one another.


@frozen_by_identity
class CallSite:
    """One call of a function: the expressions of its arguments by parameter, None where that cannot be said.

    `values` are what is known without an expression, such as the index that spawn gives; `is_sure` is False
    where it may be a call of something else, `is_chosen` True where it is of one of several functions.
    """

    call: ast.Call
    arguments: Mapping[str, ast.expr] | None
    values: Mapping[str, Value] = field(default_factory=dict)
    is_sure: bool = True
    is_chosen: bool = False

    def given(self, parameter: ast.arg) -> ast.expr | None:
        """What the call itself gives a parameter; None where that cannot be said, too."""
        return None if self.arguments is None else self.arguments.get(parameter.arg)

    def given_or_default(self, parameter: ast.arg) -> ast.expr | None:
        """What a parameter is in the call, by its default where the call does not give it."""
        function = function_of_parameter(parameter)
        if self.arguments is None or function is None or parameter.arg in self.values:
            return None
        return self.arguments.get(parameter.arg) or default_of(function, parameter.arg)


class CallGraph:
    """The calls of one program, from the side of who is called."""

    def __init__(
        self,
        files: ProgramFiles,
        value: Callable[[ast.expr], Value],
        value_apart: Callable[[ast.expr], Value],
        too_deep: Callable[[], int],
    ) -> None:
        """Nothing is looked for before somebody asks; `value` says what an expression is, `value_apart` so
        that it does not count for what is evaluated now, `too_deep` how often one lay too deep until now."""
        self.files = files
        self.value, self.value_apart, self.too_deep = value, value_apart, too_deep
        self._found: dict[ast.AST, list[CallSite] | None] = {}
        self._deriving: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        self._classes_above: dict[ast.ClassDef, frozenset[ast.ClassDef]] = {}
        self._members: dict[ast.ClassDef, set[str] | None] = {}
        self._kept: dict[ast.AST, list[tuple[ast.Call, bool, bool]]] = {}
        self._kept_classes: dict[str, list[ast.Call]] = {}
        self._waiting: list[ast.Call] | None = None
        self._is_looking = self._is_incomplete = False
        self.given_up = 0
        """How often somebody asked what was still looked for."""
        self._asked: dict[FileIndex, Mapping[str, list[ast.Attribute]]] = {}

    def constructions(self, definition: ast.ClassDef) -> list[ast.Call]:
        """The calls that make an object of a class by its own name."""
        files = self.files.mentioning(definition.name)
        calls = (call for file in files for call in file.calls_of.get(definition.name, ()))
        return [each for each in calls if self.value(each.func) == Defined(definition)]

    def call_sites(self, function: FunctionNode) -> list[CallSite] | None:
        """All calls of a function; None where it may be called from where nobody sees."""
        if function in self._found:
            return self._found[function]
        self._found[function] = None  # While we look, others wait in vain.
        outer, self._is_incomplete = self._is_incomplete, False
        sites = [*self._sites(function)]
        is_incomplete, self._is_incomplete = self._is_incomplete, outer
        if is_incomplete:  # Who asks from less deep is told all of them.
            del self._found[function]
            return None
        found = [each for each in sites if each is not None]
        handed = len(found) < len(sites)
        if handed or self._is_registered(function):  # Which then is called under other names.
            kept = self._called_as_kept(function)
            if kept is None:
                del self._found[function]
            if kept is None or (handed and not kept):
                return None
            found += [each for each in kept if all(each.call is not one.call for one in found)]
        if not all(each.is_sure for each in found):
            return None
        self._found[function] = found
        return found

    def calls_as_kept(self, function: FunctionNode) -> list[ast.Call]:
        """The calls of a function under other names than its own."""
        return [each.call for each in self._called_as_kept(function) or ()]

    def calls_of_kept_classes(
        self, names: Iterable[str], but: Collection[str]
    ) -> Iterator[tuple[ast.Call, str]]:
        """The calls of classes of libraries under other last names: `kind(data)`, `KINDS[name](data)`."""
        for name in sorted(names):
            last = name.rpartition(".")[2]
            files = self.files.mentioning(last)
            known = {last, *(each for file in files for each in file.aliases.get(last, ()))}
            read = [kept for file in files for kept in (file.names, file.attributes)]
            uses = (use for kept in read for each in known for use in kept.get(each, ()) if _hands_on(use))
            if any(External(name) in alternatives(self.value(use)) for use in uses):
                self._look_at_what_is_kept()
                calls = self._kept_classes.get(name, ())
                yield from ((each, name) for each in calls if last_name(each.func) not in but)

    def _look_at_what_is_kept(self) -> bool:
        """Find out what the calls are of what is kept; False for who asks meanwhile."""
        if self._is_looking:
            self.given_up += 1
            return False
        self._is_looking = True
        waiting = self.calls_of_what_is_kept if self._waiting is None else self._waiting
        self._waiting = []
        for call in waiting:
            given_up, found = self.given_up, alternatives(self.value_apart(call.func))
            if Nothing.ITSELF in found or given_up != self.given_up:  # It is what somebody asks just now.
                self._waiting.append(call)
                continue
            looped = {each.kind for each in self._bound(call.func)} == {BindingKind.LOOPED}
            for each in found:
                if isinstance(each, Defined) and not isinstance(each.node, ast.ClassDef):
                    kept = call, each.owner is not None, len(found) > 1 and not looped
                    self._kept.setdefault(each.node, []).append(kept)
                elif isinstance(each, External):
                    self._kept_classes.setdefault(each.name, []).append(call)
        self._is_looking = False
        return True

    def _is_registered(self, function: FunctionNode) -> bool:
        """Whether a decorator of the program gets a function, which may keep it."""
        return any(isinstance(self.value(by), Defined) for by in getattr(function, "decorator_list", ()))

    def _called_as_kept(self, function: FunctionNode) -> list[CallSite] | None:
        """The calls of what a function is kept as: `self.hook(x)`, `TABLE[key](x)`, `for f in steps: f(x)`.

        None for who asks while they are looked for."""
        if not self._look_at_what_is_kept():
            return None
        if self._waiting and function not in self._kept:
            self.given_up += 1
            return None
        wrapping = {getattr(self.value(by), "node", None) for by in getattr(function, "decorator_list", ())}
        return [
            replace(_site_of(function, call, spread(call, self.value), bound), is_chosen=chosen)
            for call, bound, chosen in self._kept.get(function, ())
            if not wrapping or wrapping.isdisjoint(ancestors(call))
        ]

    def possible_sites(self, function: FunctionNode) -> list[CallSite]:
        """The calls that are of a function, or of a method of its name of which nobody knows whose it is."""
        sites = [*self._sites(function)]
        return [*filter(None, (*sites, *((None in sites and self._called_as_kept(function)) or ())))]

    def call_sites_giving(self, parameter: ast.AST) -> list[CallSite] | None:
        """The calls that give a parameter its value: all of its function, as `call_sites` has them."""
        function = function_of_parameter(parameter)
        return self.call_sites(function) if function else None

    def implementing(self, method: FunctionNode, definition: ast.ClassDef) -> list[ast.ClassDef]:
        """The classes derived from one whose own method runs in the place of one that only raises, or does
        nothing, or is of a class of which no object is made."""
        below = [
            each
            for each in self.deriving(definition)
            if getattr(method, "name", "") in file_of(each).scopes[each].bindings
        ]
        return below if not below or does_nothing(method) or not self.constructions(definition) else []

    def deriving(self, definition: ast.ClassDef) -> list[ast.ClassDef]:
        """The classes of the program that are derived from one."""
        if definition not in self._deriving:
            self._deriving[definition] = [
                each
                for file in self.files.files
                for each in file.classes
                if each is not definition and each.bases and definition in self._above(each)
            ]
        return self._deriving[definition]

    def _above(self, definition: ast.ClassDef, depth: int = _DEEPEST_CLASS) -> frozenset[ast.ClassDef]:
        """The classes of the program that one is derived from."""
        if definition in self._classes_above:
            return self._classes_above[definition]
        nodes = [getattr(self.value(each), "node", None) for each in definition.bases]
        bases = [each for each in nodes if isinstance(each, ast.ClassDef)]
        found = frozenset(bases).union(*(self._above(each, depth - 1) for each in bases if depth))
        if depth == _DEEPEST_CLASS:  # Of one that is come to from below, some above it may be left out.
            self._classes_above[definition] = found
        return found

    @cached_property
    def declared_ranks(self) -> frozenset[str]:
        """What is handed to init_process_group as `rank`, as written: `args.rank`."""
        files = self.files.mentioning("init_process_group")
        calls = (each for file in files for each in file.calls_of.get("init_process_group", ()))
        given = (dotted_name(each.value) for call in calls for each in call.keywords if each.arg == "rank")
        return frozenset(each for each in given if each is not None and "." in each)

    def _sites(self, function: FunctionNode) -> Iterator[CallSite | None]:
        owner, name = scope_of(function).node, getattr(function, "name", "")
        for by in getattr(function, "decorator_list", ()):
            made = by.func if isinstance(by, ast.Call) else by
            if last_name(made) == "command" and not isinstance(self.value(made), Defined):
                yield CallSite(_site_of_decorator(function, by, False).call, None)  # click, typer.
        if isinstance(function, ast.Lambda):
            yield from self._use(function, function, bound=False)
        elif isinstance(owner, ast.ClassDef) and name == "__init__":
            yield from self._named(owner.name, owner, function, bound=True)
        elif isinstance(owner, ast.ClassDef) and name == "__post_init__":
            made = self._named(owner.name, owner, function, bound=True)
            yield from (each and replace(each, arguments=None) for each in made)
            yield from self._methods(name, function)
        elif isinstance(owner, ast.ClassDef):
            yield from self._methods(name, function)
        else:
            yield from self._named(name, function, function, bound=False)

    def _named(
        self, name: str, wanted: ast.AST, function: FunctionNode, bound: bool
    ) -> Iterator[CallSite | None]:
        """What every use of a function's or class's name says; from other modules also as an attribute, and
        in a class's own methods as `cls`."""
        files, own = self.files.mentioning(name), file_of(wanted)
        for file in files if own in files else (*files, own):
            itself = {"cls"} if file is own and isinstance(wanted, ast.ClassDef) else set[str]()
            for alias in {name, *file.imported_as.get(name, ()), *itself}:
                for use in (*file.names.get(alias, ()), *file.attributes.get(alias, ())):
                    if _is_of_own_parameter(use, function):
                        continue  # What `optimizer.step` is in `def step(optimizer)`, its calls tell first.
                    too_deep, value = self.too_deep(), self.value(use)
                    self._is_incomplete |= value is UNKNOWN and self.too_deep() > too_deep
                    if isinstance(value, Defined) and value.node is wanted:
                        yield from self._use(use, function, bound)

    def _methods(self, name: str, function: FunctionNode) -> Iterator[CallSite | None]:
        if is_property(function):
            yield from self._reads_of_property(name, function)
            return
        if name == "__call__":
            yield from self._calls_of_objects(function)
        elif name == "__enter__":
            yield from self._entries_of_objects(function)
        for file in self.files.mentioning(name, "getattr"):
            for use in file.attributes.get(name, ()):
                for value in alternatives(self.value(use)):
                    if isinstance(value, Defined):
                        if value.node is function:
                            bound = value.owner is not None or is_class_method(function)
                            yield from self._use(use, function, bound)
                    elif not isinstance(value, External) and self._may_be(use, function):
                        yield self._perhaps(use, function)
            yield from self._read_by_getattr(file, function)

    def _perhaps(self, use: ast.expr, method: FunctionNode) -> CallSite | None:
        """The call of an attribute that may be a method; None where it is handed on."""
        call = parent_of(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            return None
        return CallSite(call, bind_arguments(method, call, not is_static(method)), is_sure=False)

    def _may_be(self, use: ast.expr, method: FunctionNode) -> bool:
        """Whether an attribute of which nobody knows what it is may be a method of this name.

        Not one that an object of the program keeps for itself, and not what is called without an argument
        that the method needs: of `def train(self, epoch)`, a `model.train()` is another one.
        """
        owner = self.value(use.value) if isinstance(use, ast.Attribute) else UNKNOWN
        if isinstance(owner, Made) and UNKNOWN not in map(self.value, owner.definition.bases):
            return False
        if isinstance(use, ast.Attribute) and self._is_asked_for_more(use, method):
            return False
        call, bound = parent_of(use), not is_static(method)
        # A decorator may give it more than is written.
        changed = bound and not isinstance(method, ast.Lambda) and bool(method.decorator_list)
        if changed or not isinstance(call, ast.Call) or call.func is not use:
            return True
        given, owned = bind_arguments(method, call, bound), positional_of(method)[int(bound) :]
        needed = owned[: len(owned) - min(len(owned), len(method.args.defaults))]
        return given is None or all(each.arg in given for each in needed)

    def _is_asked_for_more(self, use: ast.Attribute, method: FunctionNode) -> bool:
        """Whether what has an attribute is asked for others beside it that no object of the method's class
        has: of `self.model.train()` beside `self.model.parameters()` the model is no trainer."""
        own, owner = class_of(method), dotted_name(use.value)
        if own is not None and own not in self._members:
            self._members[own] = self._members_of(own)
        members = None if own is None else self._members[own]
        asked = self._asked_of(file_of(use)).get(owner, ()) if owner and members is not None else ()
        return any(each.attr not in (members or ()) and _place_of(each) is _place_of(use) for each in asked)

    def _asked_of(self, file: FileIndex) -> Mapping[str, list[ast.Attribute]]:
        """The attributes that a file reads, by what they are read of, as written."""
        if file not in self._asked:
            found: dict[str, list[ast.Attribute]] = {}
            for reads in file.attributes.values():
                for each in reads:
                    owner = dotted_name(each.value) if isinstance(each, ast.Attribute) else None
                    if owner is not None:
                        found.setdefault(owner, []).append(each)
            self._asked[file] = found
        return self._asked[file]

    def _members_of(self, definition: ast.ClassDef, depth: int = _DEEPEST_CLASS) -> set[str] | None:
        """The names of all that objects of a class have; None where they may have others."""
        file = file_of(definition)
        names = {*file.scopes[definition].bindings, *file.set_attributes, "__class__", "__dict__"}
        if not depth or names & {"__getattr__", "__getattribute__"} or definition.keywords:
            return None
        for base in map(self.value, definition.bases):
            node = base.node if isinstance(base, Defined) else None
            above = self._members_of(node, depth - 1) if isinstance(node, ast.ClassDef) else None
            if above is None and base not in (External("object"), External("abc.ABC")):
                return None
            names |= above or set()
        for each in self.deriving(definition) if depth == _DEEPEST_CLASS else ():
            names |= {*file_of(each).scopes[each].bindings, *file_of(each).set_attributes}
        return names

    def _reads_of_property(self, name: str, method: FunctionNode) -> Iterator[CallSite | None]:
        """Where a property of objects of its class is read, which runs it, surely or maybe."""
        for file in self.files.mentioning(name):
            for use in file.attributes.get(name, ()):
                if self._is_object(use.value, method):
                    yield CallSite(read_as_call(use), {})
                elif getattr(parent_of(use), "func", None) is not use and any(
                    isinstance(each, Nothing) or str(getattr(each, "name", "")).startswith(_CONTAINERS)
                    for each in alternatives(self.value(use.value))
                ):
                    yield CallSite(read_as_call(use), {}, is_sure=False)

    def _calls_of_objects(self, method: FunctionNode) -> Iterator[CallSite | None]:
        """The calls `saver(model)` of objects of a method's class; None where there seem to be none."""
        made = class_of(method)
        calls = self.calls_of_what_is_kept if made is not None and self._is_named(made) else ()
        found = [each for each in calls if self._is_object(each.func, method)]
        yield from [CallSite(each, bind_arguments(method, each, True)) for each in found] or (None,)

    def _is_named(self, made: ast.ClassDef) -> bool:
        """Whether anything but an import names a class, without which the program makes no object of it."""
        names = self.files.known_as({made.name})
        return bool(made.decorator_list) or any(
            name in file.names or name in file.attributes
            for name in names
            for file in self.files.mentioning(name)
        )

    @cached_property
    def calls_of_what_is_kept(self) -> list[ast.Call]:
        """The calls of what may be an object, or a function under another name than its own."""
        return calls_of_values(self.files)

    def _entries_of_objects(self, method: FunctionNode) -> Iterator[CallSite]:
        """Where `with` enters an object of a method's class."""
        opened = (each for file in self.files.files for each in file.nodes(ast.With))
        for manager in (each.context_expr for one in opened for each in one.items):
            if self._is_object(manager, method):
                entry = like(manager, ast.Attribute(manager, "__enter__", ast.Load()))
                yield CallSite(like(manager, ast.Call(entry, [], [])), {})

    def _is_object(self, node: ast.expr, method: FunctionNode) -> bool:
        """Whether something may be an object of a method's class."""
        found = alternatives(self.value(node))
        return any(isinstance(each, Made) and each.definition is class_of(method) for each in found)

    def _read_by_getattr(self, file: FileIndex, method: FunctionNode) -> Iterator[CallSite]:
        """The calls `getattr(hook, event)(...)` of objects of a method's class, also by a name for it."""
        own = getattr(method, "name", "")
        for read in file.calls_of.get("getattr", ()):
            if len(read.args) > 1 and self._is_object(read.args[0], method):
                names = self.names_asked_for(read.args[1])
                if names is None or own in names:
                    yield from (
                        _site_of(method, each, each, True) for each in self._calls_of(read, method) if each
                    )

    def names_asked_for(self, name: ast.expr, depth: int = 4) -> set[str] | None:
        """All that a text may be which is a literal in the end, as that of an event is in each call of
        `fire(event)`; None where that is not known."""
        value = self.value(name)
        if isinstance(value, Constant):
            return {str(value.value)}
        if isinstance(name, ast.JoinedStr) and depth:
            parts = [each.value if isinstance(each, ast.FormattedValue) else each for each in name.values]
            asked = [self.names_asked_for(each, depth - 1) for each in parts]
            known = [each for each in asked if each is not None]
            return {"".join(each) for each in product(*known)} if len(known) == len(asked) else None
        bound = self._bound(name) if isinstance(name, ast.Name) else []
        parameter = bound[0].node if len(bound) == 1 else None
        sites = self.call_sites_giving(parameter) if isinstance(parameter, ast.arg) and depth else None
        found = set[str]()
        for site in sites or ():
            given = site.given_or_default(parameter) if isinstance(parameter, ast.arg) else None
            names = None if given is None else self.names_asked_for(given, depth - 1)
            if names is None:
                return None
            found |= names
        return found or None

    def _calls_of(self, use: ast.expr, of: FunctionNode, depth: int = 3) -> Iterator[ast.Call | None]:
        """The calls of a function that an expression is: its own, by a name for it, and where a loop goes
        through a list of such; None where it is handed on."""
        user = parent_of(use)
        user = parent_of(user) if isinstance(user, ast.ListComp | ast.GeneratorExp) else user
        target = user.targets[0] if isinstance(user, ast.Assign) else getattr(user, "target", None)
        tests = ast.Compare | ast.If | ast.UnaryOp
        if isinstance(user, ast.Call) and user.func is use:
            yield user
        elif isinstance(target, ast.Name) and depth:
            for each in self._uses_of(target.id, scope_of(target).holder_of(target.id)):
                yield from self._calls_of(each, of, depth - 1)
        elif not isinstance(user, tests) and last_name(getattr(user, "func", use)) != "callable":
            yield None

    def _uses_of(self, name: str, holder: Scope | None) -> Iterator[ast.Name]:
        """Where a name of a scope is read."""
        for use in () if holder is None else file_of(holder.node).names.get(name, ()):
            if scope_of(use).holder_of(name) is holder and isinstance(use.ctx, ast.Load):
                yield use

    def _use(self, use: ast.expr, function: FunctionNode, bound: bool) -> Iterator[CallSite | None]:
        parent = parent_of(use)
        call = parent_of(parent) if isinstance(parent, ast.keyword) else parent
        handed = call if isinstance(call, ast.Call) and call.func is not use else None
        called = self.value(handed.func) if handed and WRITTEN_OUT not in handed.__dict__ else UNKNOWN
        if isinstance(parent, ast.Return):
            yield from self._decorating(use, function)
        elif isinstance(parent, ast.ClassDef):
            yield from self._inherited(parent, function)
        elif use in getattr(parent, "decorator_list", ()):
            yield _site_of_decorator(function, use, bound)
        elif isinstance(parent, ast.Attribute) or (handed and WRITTEN_OUT in handed.__dict__):
            return  # A member of a class; a partial application: its calls are calls of the function.
        elif called in _ASKING:
            return
        elif handed and called == External("functools.partial") and handed.args[:1] == [use]:
            rest = [*handed.args[1:], ast.Starred(use)]  # Whoever calls it gives it.
            yield _site_of(function, handed, ast.Call(use, rest, handed.keywords), bound)
        elif handed and isinstance(called, External):
            yield self._started(called.name, handed, function, bound)
        else:
            for each in self._calls_of(use, function):
                yield _site_of(function, each, spread(each, self.value), bound) if each else None

    def _decorating(self, use: ast.expr, function: FunctionNode) -> Iterator[CallSite | None]:
        """The calls of the functions that a decorator puts another one in the place of, which it returns; or
        of a decorator itself that `register(name)` returns."""
        outer = scope_of(use).function
        made = outer and [(each, by, getattr(self.value(by), "node", None)) for each, by in self._decorated]
        decorated = [each for each, _, node in made or () if outer and node is outer.node]
        for each in decorated:
            bound = isinstance(scope_of(each).node, ast.ClassDef)
            sites = None if isinstance(each, ast.ClassDef) else self.call_sites(each)
            for site in (None,) if sites is None else sites:
                seen = site and site.arguments is not None and positional_of(function)
                given = bind_arguments(function, site.call, bound) if site and seen else None
                yield CallSite(site.call, given) if site else None
        applied = [_site_of_decorator(function, by, False) for _, by, node in made or () if node is function]
        yield from applied
        if not decorated and not applied:
            yield None

    @cached_property
    def _decorated(self) -> list[tuple[FunctionNode | ast.ClassDef, ast.expr]]:
        made = (each for file in self.files.files for each in (*file.functions, *file.classes))
        return [(each, by) for each in made for by in each.decorator_list]

    def _inherited(self, definition: ast.ClassDef, function: FunctionNode) -> Iterator[CallSite | None]:
        """The calls of an initialiser by a class that inherits it, or by one that extends it."""
        own = file_of(definition).scopes[definition].bindings.get("__init__", [])
        if not own:
            yield from self._named(definition.name, definition, function, bound=True)
            return
        for call in file_of(definition).calls_of.get("__init__", ()):
            above = call.func.value if isinstance(call.func, ast.Attribute) else None
            by_super = isinstance(above, ast.Call) and last_name(above.func) == "super"
            if by_super and scope_of(call).node is own[-1].node:
                yield _site_of(function, call, spread(call, self.value), True)

    def _started(self, name: str, call: ast.Call, function: FunctionNode, bound: bool) -> CallSite | None:
        """A function that is handed to what starts processes with it."""
        last = name.rpartition(".")[2]
        if last in _CALLING_EACH:
            return CallSite(call, None)
        place = next((number for number, each in enumerate(call.args) if self._is(each, function)), None)
        if last in _CALLING_WITH and place is not None:
            return _site_of(function, call, ast.Call(call.func, call.args[place + 1 :], call.keywords), bound)
        given = next((each.value for each in call.keywords if each.arg == "args"), None)
        if name in _RANK_STARTERS:
            given = call.args[1] if given is None and len(call.args) > 1 else given
            return _spawned_site(call, function, [None, *_elements(given)], _SPAWNED, bound)
        if name in _PROCESSES:
            elements = _elements(given)
            first = elements[0] if elements else None
            if isinstance(first, ast.Name) and self._counts(first):
                return _spawned_site(call, function, [None, *elements[1:]], _SPAWNED, bound)
            return _spawned_site(call, function, [*elements], None, bound)
        # What is kept of it, as of torch.compile, is called elsewhere; a signal may never come.
        runs = isinstance(parent_of(call), ast.Expr | ast.Call) and name != "signal.signal"
        return CallSite(call, None) if runs else None

    def _is(self, node: ast.expr, function: FunctionNode) -> bool:
        """Whether an expression is a function."""
        value = self.value(node)
        return isinstance(value, Defined) and value.node is function

    def _counts(self, name: ast.Name) -> bool:
        """Whether a name is the variable of a loop over range."""
        found = self._bound(name)
        over = [each.value for each in found if each.kind is BindingKind.LOOPED]
        ranges = [each for each in over if isinstance(each, ast.Call) and last_name(each.func) == "range"]
        return bool(found) and len(ranges) == len(found)

    def _bound(self, name: ast.expr) -> list[Binding]:
        """What binds a name, wherever that is."""
        holder = scope_of(name).holder_of(name.id) if isinstance(name, ast.Name) else None
        return [] if holder is None else holder.bindings[getattr(name, "id", "")]


def _hands_on(use: ast.expr) -> bool:
    """Whether a use of a class gives it to something, and does not call, extend or ask for it."""
    holder = parent_of(use)
    if isinstance(holder, ast.Call):
        return holder.func is not use and last_name(holder.func) not in ("isinstance", "issubclass")
    return not isinstance(holder, ast.Attribute | ast.ClassDef | ast.arg | ast.AnnAssign | ast.Compare)


def _place_of(node: ast.AST) -> ast.AST | None:
    """The class of the method in which a node stands, or its function."""
    within = scope_of(node).function
    return None if within is None else class_of(within.node) or within.node


def is_launched(function: FunctionNode) -> bool:
    """Whether a function is what the launcher of torch_xla calls, with the number of the worker."""
    at_top = isinstance(scope_of(function).node, ast.Module)
    return at_top and not isinstance(function, ast.Lambda) and function.name == "_mp_fn"


def _is_of_own_parameter(use: ast.expr, function: FunctionNode) -> bool:
    """Whether something is an attribute of what a function itself is given."""
    owner = use.value if isinstance(use, ast.Attribute) else None
    names = {each.arg for each in parameters_of(function)}
    return isinstance(owner, ast.Name) and owner.id in names and scope_of(use).node is function


def _site_of_decorator(function: FunctionNode, decorator: ast.expr, bound: bool) -> CallSite:
    """The call that a decorator is, with what it decorates; it runs where that is defined."""
    decorated = parent_of(decorator)
    name = like(decorator, ast.Name(getattr(decorated, "name", ""), ast.Load()))
    call = like(decorator, ast.Call(decorator, [name], []))
    call.__dict__[PARENT] = None if decorated is None else parent_of(decorated)
    return CallSite(call, bind_arguments(function, call, bound))


_CONTAINERS = ("dict.", "list.", "collections.")
"""How the names begin of what is in a table or list of Python's own, of which nothing else is known."""


def _site_of(function: FunctionNode, call: ast.Call, spelled: ast.Call, bound: bool) -> CallSite:
    """A call of a function; where stars hide the rest, what stands before is known all the same."""
    stars = [number for number, each in enumerate(spelled.args) if isinstance(each, ast.Starred)]
    named = [each for each in spelled.keywords if each.arg is not None]
    if not (stars or named != spelled.keywords) or function.args.vararg or function.args.kwarg:
        return CallSite(call, bind_arguments(function, spelled, bound))
    shown = ast.Call(call.func, spelled.args[: stars[0]] if stars else spelled.args, named)
    found = bind_arguments(function, shown, bound) or {}
    hidden = [each.arg for each in parameters_of(function) if each.arg not in found]
    tables = [each.value for each in spelled.keywords if each.arg is None]
    if not stars and len(tables) == 1 and _is_of_options(tables[0]):
        read = {name: like(call, ast.Constant(name)) for name in hidden[int(bound) :]}
        found |= {name: like(call, ast.Subscript(tables[0], key, ast.Load())) for name, key in read.items()}
        hidden = hidden[: int(bound)]
    return CallSite(call, found, dict.fromkeys(hidden, UNKNOWN))


def _is_of_options(table: ast.expr) -> bool:
    """Whether a table has all that a parser has read: `vars(args)`."""
    asks = isinstance(table, ast.Call) and last_name(table.func) == "vars" and len(table.args) == 1
    return asks or last_name(table) == "__dict__"


def _spawned_site(
    call: ast.Call, function: FunctionNode, given: list[ast.expr | None], first: Value | None, bound: bool
) -> CallSite:
    positional = [each.arg for each in positional_of(function)][int(bound) :]
    arguments = {name: value for name, value in zip(positional, given, strict=False) if value is not None}
    values: dict[str, Value] = {positional[0]: first} if first is not None and positional else {}
    return CallSite(call, arguments, values)


def _elements(node: ast.expr | None) -> list[ast.expr | None]:
    return [*node.elts] if isinstance(node, ast.Tuple | ast.List) else []


class ParameterEvaluator:
    """The parameters of one program's functions."""

    def __init__(
        self,
        callers: CallGraph,
        value: Callable[[ast.expr], Value],
        being_evaluated: set[ast.AST],
        given_up: Callable[[], int],
    ) -> None:
        """Nothing is evaluated before somebody asks; `being_evaluated` is what others are finding out, and
        `given_up` how often something lay too deep for them."""
        self.callers = callers
        self.value_of = value
        self.being_evaluated = being_evaluated
        self.given_up = given_up
        self._known: dict[ast.AST, Value] = {}

    def value(self, parameter: ast.AST, environment: Environment | None) -> Value:
        """What a parameter is in a call with these arguments, or in every call."""
        if environment is not None and parameter in environment:
            return environment[parameter]
        known = self._known.get(parameter)
        if known is not None:
            return known
        if parameter in self.being_evaluated:
            return Nothing.ITSELF
        self.being_evaluated.add(parameter)
        given_up = self.given_up()
        try:
            found = self._of_every_call(parameter)
        finally:
            self.being_evaluated.discard(parameter)
        if found is not Nothing.ITSELF and given_up == self.given_up():
            self._known[parameter] = found
        return found

    def _of_every_call(self, parameter: ast.AST) -> Value:
        assert isinstance(parameter, ast.arg)
        function = function_of_parameter(parameter)
        if function is None:
            return UNKNOWN
        declared = self._annotated(parameter)
        owner = scope_of(function).node
        if isinstance(owner, ast.ClassDef) and not is_static(function):
            positional = positional_of(function)
            if positional and positional[0] is parameter:
                return Defined(owner) if is_class_method(function) else Made(owner)
        if is_launched(function) and positional_of(function)[:1] == [parameter]:
            return _SPAWNED
        if not (calls := self.callers.call_sites(function)):
            return handed_to_hook(function, parameter, self.value_of) if declared is UNKNOWN else declared
        found = joined(
            call.values[parameter.arg] if parameter.arg in call.values else self._given(call, parameter)
            for call in calls
        )
        return declared if found is UNKNOWN else found

    def _given(self, call: CallSite, parameter: ast.arg) -> Value:
        given = call.given_or_default(parameter)
        return UNKNOWN if given is None else self.value_of(given)

    def _annotated(self, parameter: ast.arg) -> Value:
        """An object of the class that the parameter's annotation names."""
        annotation = parameter.annotation
        if isinstance(annotation, ast.BinOp):  # Such as `Accelerator | None`.
            annotation = annotation.left
        if not isinstance(annotation, ast.Name | ast.Attribute):
            return UNKNOWN
        named = self.value_of(annotation)
        if isinstance(named, Defined) and isinstance(named.node, ast.ClassDef):
            return Made(named.node)
        if isinstance(named, External) and named.name.rpartition(".")[2][:1].isupper():
            return Instance(named.name, ast.Call(annotation, [], []))
        return UNKNOWN
