"""Where values of a program come from, and where they go.

The arguments of a call, what made an object, and what is never used. A `Value` is what an
expression surely is. Where a model is wrapped under `if distributed:`, rules ask here what it may be
(`origins`, `calls_that_may_make`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping

from launcher.program.bindings import branch_arms, unwrapped
from launcher.program.evaluators.arithmetic import ARITHMETIC
from launcher.program.index import (
    SCOPE,
    Binding,
    BindingKind,
    FunctionNode,
    ancestors,
    default_of,
    file_of,
    function_of_parameter,
    is_property,
    last_name,
    parent_of,
    scope_of,
    statement_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.texts import filled_text
from launcher.program.values import (
    DDP,
    SAME_MODEL,
    UNKNOWN,
    Constant,
    Defined,
    Dictionary,
    Either,
    External,
    Instance,
    Made,
    Several,
    Value,
    alternatives,
    entries_of,
    is_path,
    like,
)


def has_star_arguments(call: ast.Call) -> bool:
    """Whether `*` or `**` may give a call arguments that nobody sees."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )


def all_arguments(call: ast.Call) -> list[ast.expr]:
    """What a call is given, by position and by keyword."""
    return [*call.args, *(each.value for each in call.keywords)]


def argument_of(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call gives a parameter; None where it does not, or where `*` hides which argument is which."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        return None
    return call.args[position] if position < len(call.args) else None


def unpacked_argument(program: Program, call: ast.Call, name: str) -> ast.expr | None:
    """What a call is given by `**options["loader"]` or `**vars(config.loader)`: the entry or field of it."""
    for keyword in call.keywords:
        whole = keyword.value
        if keyword.arg is not None:
            continue
        if isinstance(whole, ast.Call) and program.qualified(whole.func) in _AS_TABLES and whole.args:
            owner = program.value(whole.args[0])
            fields = program.evaluation.attributes.records
            if isinstance(owner, Made) and fields.bindings(owner.definition, name):
                return like(whole, ast.Attribute(whole.args[0], name, ast.Load()))
        table = program.value(whole)
        if isinstance(table, Dictionary) and any(
            isinstance(key, ast.Constant) and key.value == name for key, _ in entries_of(table.node)
        ):
            return like(whole, ast.Subscript(whole, ast.Constant(name), ast.Load()))
    return None


_AS_TABLES = ("vars", "dataclasses.asdict")


def given_argument(program: Program, call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives a parameter by its name, also by an entry or field of what it unpacks."""
    given = argument_of(call, name)
    return unpacked_argument(program, call, name) if given is None else given


def constant_argument(program: Program, node: ast.expr | None) -> Constant | None:
    """The literal that an expression surely is."""
    value = None if node is None else program.value(node)
    return value if isinstance(value, Constant) else None


def calls_that_made(value: Value, *names: str) -> frozenset[ast.Call] | None:
    """The calls of these names that gave a value; None where it may come from anything else."""
    found = set[ast.Call]()
    for each in alternatives(value):
        # What an annotation says stands in no file: it is not known how such an object was made.
        if not isinstance(each, Instance) or each.name not in names or SCOPE not in each.call.__dict__:
            return None
        found.add(each.call)
    return frozenset(found)


_DEEPEST_ORIGIN = 12
"""So many names behind each other; what lies deeper is unknown."""

_MOST_ORIGINS = 2000
"""So many steps are taken to the origins of one expression: where lists hold lists of others, the ways to
them are without number. What needs more is unknown; a sound program needs some tens."""


class _OriginSteps:
    """How many steps are left for the expression whose origins are looked for now."""

    def __init__(self, program: Program) -> None:
        self.left = _MOST_ORIGINS


def origins(program: Program, node: ast.expr) -> tuple[ast.expr | None, ...]:
    """The expressions, no names any more, that may have made this one; None for what is unknown.

    Through assignments, parameters, properties, items of what is written out, and the results of functions;
    where these end, by what the value is.
    """
    program.analysis(_OriginSteps).left = _MOST_ORIGINS
    found = dict.fromkeys(_origins(program, node, frozenset(), _DEEPEST_ORIGIN))
    known: dict[ast.expr | None, None] = {}
    for each in found:
        made = _calls_by_value(program, node if each is None else each)
        known |= dict.fromkeys(made) if made else {each: None}
    return tuple(known)


def _calls_by_value(program: Program, node: ast.expr) -> list[ast.Call]:
    """The calls of libraries that made an object which comes to an expression by another way."""
    if isinstance(node, ast.Call) and program.qualified(node.func) in (*SAME_MODEL, "str", "int", "float"):
        return []
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.BoolOp):
        return []
    values = [each for each in alternatives(program.value(node)) if each != Constant(None)]
    made = [each.call for each in values if isinstance(each, Instance) and each.item is None]
    if made and is_path(program.value(node)):
        return []  # Of which it is only a part.
    return made if len(made) == len(values) and all(SCOPE in each.__dict__ for each in made) else []


def _origins(
    program: Program, node: ast.expr, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    steps = program.analysis(_OriginSteps)
    steps.left -= 1
    if steps.left < 0:
        yield None
    elif isinstance(node := unwrapped(node) or node, ast.IfExp):
        yield from _origins(program, node.body, seen, depth)
        yield from _origins(program, node.orelse, seen, depth)
    elif isinstance(node, ast.NamedExpr | ast.Await):
        yield from _origins(program, node.value, seen, depth)
    elif isinstance(node, ast.Name | ast.Attribute):
        bindings = program.evaluation.sources(node) if depth else []
        if not bindings and isinstance(node, ast.Attribute) and depth:
            yield from _origins_of_item(program, node, node.attr, seen, depth)
        elif not bindings:
            yield node if isinstance(node, ast.Attribute) else None
        for binding in bindings:
            if is_parsed_field(binding):
                yield node
            elif binding.node not in seen:
                yield from _origins_of_binding(program, binding, seen | {binding.node}, depth - 1)
    elif isinstance(node, ast.Call) and depth and (function := _function_of_call(program, node)) is not None:
        if function not in seen:
            yield from _origins_of_results(program, function, None, seen, depth)
    elif isinstance(node, ast.Call) and depth and (default := _default_of_field(program, node)) is not None:
        yield from _origins(program, default, seen, depth - 1)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and depth:
        yield from _origins_of_item(program, node, node.slice.value, seen, depth)
    else:
        yield node


def is_parsed_field(binding: Binding) -> bool:
    """Whether a parser may give a field another value than its default."""
    return binding.kind is BindingKind.OTHER and isinstance(binding.node, ast.ClassDef)


def _default_of_field(program: Program, call: ast.Call) -> ast.expr | None:
    """What `dataclasses.field` gives a field by its default, or by a call of its factory."""
    if program.qualified(call.func) != "dataclasses.field":
        return None
    factory = argument_of(call, "default_factory")
    if factory is None:
        return argument_of(call, "default")
    return factory.body if isinstance(factory, ast.Lambda) else like(call, ast.Call(factory, [], []))


def _function_of_call(program: Program, call: ast.Call) -> ast.FunctionDef | None:
    """The function of the program that a call runs to its end; None where it is another, or gives nothing."""
    called: Value | None = program.value(call.func)
    if isinstance(called, Made):
        called = program.evaluation.attributes.member_of(called.definition, "__call__")
    if not isinstance(called, Defined) or not isinstance(called.node, ast.FunctionDef):
        return None
    return called.node if called.node in file_of(called.node).returns_of else None


def _origins_of_results(
    program: Program, function: ast.FunctionDef, item: int | None, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    """What a function gives back, or what it gives at a position of a tuple."""
    for each in file_of(function).returns_of.get(function, ()):
        given = each.value
        if given is not None and item is not None:
            long = isinstance(given, ast.Tuple | ast.List) and item < len(given.elts)
            given = given.elts[item] if long and isinstance(given, ast.Tuple | ast.List) else None
        if given is None:
            yield None if item is not None else ast.Constant(None)
        else:
            yield from _origins(program, given, seen | {function}, depth - 1)


def _origins_of_item(
    program: Program, node: ast.Subscript | ast.Attribute, key: object, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    """What stands below a literal key or position, where the whole is written out; else the item itself."""
    if isinstance(node, ast.Attribute) and not isinstance(program.value(node.value), Dictionary):
        yield node
        return
    for whole in _origins(program, node.value, seen, depth - 1):
        found: list[ast.expr] = []
        if isinstance(whole, ast.Dict):
            named = zip(whole.keys, whole.values, strict=True)
            found = [value for name, value in named if isinstance(name, ast.Constant) and name.value == key]
        elif isinstance(whole, ast.Call) and isinstance(program.value(whole), Dictionary):
            found = [each.value for each in whole.keywords if each.arg == key]
        elif isinstance(whole, ast.Tuple | ast.List) and isinstance(key, int) and key < len(whole.elts):
            found = [whole.elts[key]]
        if found and _is_replaced(program, node, found[-1]):
            yield node
        elif found:
            yield from _origins(program, found[-1], seen, depth - 1)
        else:
            yield node


def _is_replaced(program: Program, item: ast.expr, written: ast.expr) -> bool:
    """Whether an entry is something else by now than what its table was made with."""
    known = program.value(written)
    return isinstance(known, Constant) and program.value(item) != known


def _origins_of_binding(
    program: Program, binding: Binding, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
        for given in _given_by_every_call(program, binding.node):
            if given is None:
                yield None
            else:
                yield from _origins(program, given, seen, depth)
    elif binding.kind is BindingKind.ASSIGNED and binding.value is not None:
        function = _function_of_call(program, binding.value) if isinstance(binding.value, ast.Call) else None
        if binding.item is None:
            yield from _origins(program, binding.value, seen, depth)
        elif function is not None:
            yield from _origins_of_results(program, function, binding.item, seen, depth)
        elif isinstance(binding.value, ast.Tuple | ast.List) and binding.item < len(binding.value.elts):
            yield from _origins(program, binding.value.elts[binding.item], seen, depth)
        else:
            yield None
    elif binding.kind is BindingKind.DEFINED and is_property(binding.node):
        assert isinstance(binding.node, ast.FunctionDef)
        yield from _origins_of_results(program, binding.node, None, seen, depth)
    elif binding.kind is BindingKind.LOOPED:
        yield from _origins_of_elements(program, binding, seen, depth)
    else:
        yield None


def origins_of_binding(program: Program, binding: Binding) -> tuple[ast.expr | None, ...]:
    """The expressions, no names any more, that one binding may give its name."""
    program.analysis(_OriginSteps).left = _MOST_ORIGINS
    return tuple(_origins_of_binding(program, binding, frozenset(), _DEEPEST_ORIGIN))


def _origins_of_elements(
    program: Program, binding: Binding, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    """What a loop's variable may be: each element, or part of one, of the lists that are written out, and
    what they get."""
    listed, target = getattr(binding.node, "iter", None), getattr(binding.node, "target", None)
    names = [getattr(each, "id", None) for each in getattr(target, "elts", [target])]
    if listed is None or binding.name not in names:
        yield None
        return
    whole = program.value(listed)
    lists = (whole.node,) if isinstance(whole, Several) else _origins(program, listed, seen, depth)
    elements = [each for one in lists for each in getattr(one, "elts", (None,))]
    elements += program.grown.get(last_name(listed), ())
    place = None if isinstance(target, ast.Name) else names.index(binding.name)
    for each in elements:
        if each is not None and place is None:
            yield from _origins(program, each, seen, depth)
        elif isinstance(each, ast.Tuple | ast.List) and len(each.elts) == len(names):
            yield from _origins(program, each.elts[place or 0], seen, depth)
        else:
            yield None


def _given_by_every_call(program: Program, parameter: ast.arg) -> Iterator[ast.expr | None]:
    """What every call gives a parameter; its default where the script has a function for others."""
    sites = program.evaluation.callers.call_sites_giving(parameter)
    function = function_of_parameter(parameter)
    if sites == [] and function is not None and file_of(function) is program.entry:
        yield default_of(function, parameter.arg)
    else:
        yield from (site.given_or_default(parameter) for site in sites) if sites else (None,)


def calls_that_may_make(program: Program, node: ast.expr, *names: str) -> list[ast.Call]:
    """The calls of these functions or classes of libraries that may have made what an expression is."""
    found: list[ast.Call] = []
    for origin in origins(program, node):
        if isinstance(origin, ast.Call) and program.qualified(origin.func) in names:
            found.append(origin)
    value = program.value(node)
    if not found and isinstance(value, Instance) and value.name in names and value.item is None:
        found.append(value.call)
    return found


_MOST_PARTS = 400
"""So many expressions are looked at for one value."""


def parts_of(program: Program, node: ast.expr) -> Iterator[ast.AST]:
    """Every expression that a value may be calculated from: through variables, parameters, and the results of
    the program's functions; the loops whose variables are in it, and the statements that add to these."""
    waiting: list[ast.expr] = [node]
    seen = set[ast.AST]()
    while waiting:
        whole = waiting.pop()
        for part in () if whole in seen else walk(whole):
            if len(seen) > _MOST_PARTS:
                return
            if part in seen:
                continue
            seen.add(part)
            yield part
            if isinstance(part, ast.Call):
                called, member_of = program.value(part.func), program.evaluation.attributes.member_of
                called = member_of(called.definition, "__call__") if isinstance(called, Made) else called
                waiting += returned_expressions(called.node) if isinstance(called, Defined) else []
                waiting += filter(None, [_default_of_field(program, part)])
            elif isinstance(part, ast.Name | ast.Attribute | ast.Subscript):
                for binding in program.evaluation.sources(part):
                    if binding.kind is BindingKind.LOOPED:
                        yield binding.node
                    elif binding.kind is BindingKind.CHANGED:
                        yield statement_of(binding.node)
                    if isinstance(binding.node, ast.arg):
                        given = _given_by_every_call(program, binding.node)
                        waiting += [each for each in given if each is not None]
                    elif binding.value is not None:
                        waiting.append(binding.value)
                    elif binding.kind is BindingKind.DEFINED and is_property(binding.node):
                        waiting += returned_expressions(binding.node)


# What a calculation gives, where everything in it is known.


_OF_NUMBERS: Mapping[str | None, Callable[..., float]] = {
    "int": int,
    "float": float,
    "round": round,
    "max": max,
    "min": min,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
}

Known = Callable[[ast.expr], "float | ast.expr | None"]
"""What somebody knows of an expression: its number, or the expression that it stands for."""


def calculate_number(program: Program, node: ast.expr, known: Known, depth: int = 12) -> float | None:
    """The number that an expression surely is: by literals, arithmetic, and what is `known`."""
    told = known(node)
    if isinstance(told, int | float):
        return told
    value = program.value(node)
    number = value.value if isinstance(value, Constant) and not isinstance(value.value, bool) else None
    if isinstance(number, int | float):
        return number
    made = origins(program, node) if depth else ()
    found = {_number_of(program, each, known, depth - 1) for each in made}
    return found.pop() if len(found) == 1 else None


def _number_of(program: Program, node: ast.expr | None, known: Known, depth: int) -> float | None:
    if node is None or isinstance(node, ast.Constant):
        number = None if node is None else node.value
        return number if isinstance(number, int | float) and not isinstance(number, bool) else None
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        first = program.value(node.values[0])
        empty = isinstance(first, Constant) and not first.value
        return calculate_number(program, node.values[1 if empty else 0], known, depth) or None
    if isinstance(node, ast.BinOp):
        left = calculate_number(program, node.left, known, depth)
        right = calculate_number(program, node.right, known, depth)
        operation = ARITHMETIC.get(type(node.op))
        if left is None or right is None or operation is None:
            return None
        return operation(left, right) if right or isinstance(node.op, ast.Add | ast.Sub | ast.Mult) else None
    told = known(node)
    if told is not None:
        return calculate_number(program, told, known, depth) if isinstance(told, ast.expr) else told
    if not isinstance(node, ast.Call):
        return None
    function = _OF_NUMBERS.get(program.qualified(node.func))
    if function is not None and node.args and not has_star_arguments(node):
        numbers = [calculate_number(program, each, known, depth) for each in node.args]
        given = [each for each in numbers if each is not None]
        return function(*given) if len(given) == len(numbers) else None
    return None


_SEPARATORS = frozenset({"os.sep", "os.path.sep", "posixpath.sep"})
_JOINING_PATHS = frozenset(
    {"os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "timm.utils.get_outdir"}
)
_KEEPING_PATHS = frozenset(
    {"str", "os.fspath", "os.path.abspath", "os.path.realpath", "os.path.normpath", "os.path.expanduser"}
)
_KEEPING_METHODS = frozenset({"as_posix", "resolve", "absolute", "expanduser"})


def text_parts(program: Program, node: ast.expr | None) -> tuple[list[ast.expr], str]:
    """The parts that an expression puts together to a text or path, and what is between; else none."""
    filled = None if node is None else filled_text(node, program.value)
    if filled is not None:
        return [each.value if isinstance(each, ast.FormattedValue) else each for each in filled.values], ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
        return [node.left, node.right], "/" if isinstance(node.op, ast.Div) else ""
    if not isinstance(node, ast.Call):
        return [], ""
    name = program.qualified(node.func)
    if name in _KEEPING_PATHS:
        return node.args[:1], "/"
    if isinstance(node.func, ast.Attribute) and node.func.attr in (*_KEEPING_METHODS, "joinpath"):
        return [node.func.value, *node.args], "/"
    if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and len(node.args) == 1:
        between = program.value(node.func.value)
        by_slash = between == Constant("/") or program.qualified(node.func.value) in _SEPARATORS
        if by_slash and isinstance(node.args[0], ast.List | ast.Tuple):
            return node.args[0].elts, "/"
    return node.args if name in _JOINING_PATHS else [], "/"


def text_beginning(program: Program, node: ast.expr, depth: int = _DEEPEST_ORIGIN) -> tuple[str, bool] | None:
    """What a text or path begins with, as far as it is written in the program, and whether that is all."""
    value = program.value(node)
    if isinstance(value, Constant) or depth == 0:
        return (value.value, True) if isinstance(value, Constant) and isinstance(value.value, str) else None
    parts, between = text_parts(program, node)
    if not parts:
        made, *others = origins(program, node)
        return None if made is None or made is node or others else text_beginning(program, made, depth - 1)
    text = ""
    for number, part in enumerate(parts):
        known = text_beginning(program, part, depth - 1)
        if known is None:
            return (text, False) if number else None
        whole = between == "/" and known[0].startswith("/")
        text = (
            known[0] if whole else f"{text.rstrip('/')}/{known[0]}" if between and number else text + known[0]
        )
        if not known[1]:
            return text, False
    return text, True


def calls_surely_run(program: Program, call: ast.Call, depth: int = 3) -> Iterator[ast.Call]:
    """A call, and what the function of the program that it calls runs whatever a test says."""
    yield call
    called = program.value(call.func) if depth else UNKNOWN
    if isinstance(called, Defined) and isinstance(called.node, ast.FunctionDef):
        for each in file_of(called.node).calls_in_scope.get(called.node, ()):
            if not branch_arms(each):
                yield from calls_surely_run(program, each, depth - 1)


def makes_no_gradients(node: ast.AST) -> bool:
    """Whether a node stands under `torch.no_grad()`, of a `with` or of its function's decorators."""
    makers: list[ast.expr] = []
    for outer in ancestors(node):
        if isinstance(outer, ast.With):
            makers += [each.context_expr for each in outer.items]
        elif isinstance(outer, ast.FunctionDef):
            makers += outer.decorator_list
    names = [last_name(each.func if isinstance(each, ast.Call) else each) for each in makers]
    return any(each in _WITHOUT_GRADIENTS for each in names)


_WITHOUT_GRADIENTS = ("no_grad", "inference_mode")


def unmoved(node: ast.expr) -> ast.expr:
    """What makes a model: `Model()` of `Model().to(device)` and of `convert_sync_batchnorm(Model())`."""
    while isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in ("to", "cuda", "train") and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif name in ("convert_sync_batchnorm", "compile") and node.args:
            node = node.args[0]
        else:
            break
    return node


def may_run_wrapped_model(program: Program) -> bool:
    """Whether a model that DDP wraps may be called, or handed to what may call it."""
    for call in (each for file in program.files for each in file.calls):
        value = program.value(call.func)
        given = (
            []
            if last_name(call.func) in ("isinstance", "hasattr", "getattr", "print")
            else all_arguments(call)
        )
        kinds = alternatives(value) if isinstance(value, Either) else ()
        if External(DDP) in (*kinds, *map(program.value, given)):
            return True  # The class itself is handed on, and may wrap another model.
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        used = [call.func, *([owner] if last_name(call.func) == "forward" else [])]
        for each in (*used, *(() if isinstance(value, Defined) else given)):
            named = isinstance(each, ast.Name | ast.Attribute | ast.Subscript)
            if named and calls_that_may_make(program, each, DDP) and not makes_no_gradients(call):
                return True
    return False


def returned_expressions(function: ast.AST) -> list[ast.expr]:
    """What the `return` statements of a function give."""
    found = file_of(function).returns_of.get(function, ())
    return [each.value for each in found if each.value is not None]


# Where a sampler goes: through variables, results and attributes, to what takes it, or to nothing.


_LEAVES = frozenset({"set_epoch", "state_dict", "load_state_dict", "num_samples", "total_size"})
"""What is asked of a sampler without drawing from it."""

_DEEPEST_USE = 5
"""So many variables and results behind each other; what goes further may be used."""


def goes_nowhere(program: Program, node: ast.expr, deepest: int = _DEEPEST_USE) -> bool:
    """Whether nothing ever draws from the sampler that an expression is: it is given to no call, looped over
    nowhere, and kept nowhere where nobody sees."""
    parent = parent_of(node)
    if deepest == 0 or parent is None:
        return False
    if isinstance(parent, ast.IfExp) and node is not parent.test:
        return goes_nowhere(program, parent, deepest - 1)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return _kept_unused(program, parent.targets[0], deepest - 1)
    if isinstance(parent, ast.Return):
        return _returned_unused(program, parent, None, deepest - 1)
    if isinstance(parent, ast.Tuple) and isinstance(outer := parent_of(parent), ast.Return):
        return _returned_unused(program, outer, parent.elts.index(node), deepest - 1)
    return is_only_asked(node)


def is_only_asked(use: ast.expr) -> bool:
    """Whether a use tells or asks something of the sampler, and no more."""
    parent = parent_of(use)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _LEAVES
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        return parent.func.id in ("len", "isinstance", "hasattr") and use is not parent.func
    if isinstance(parent, ast.Compare):
        return True
    return isinstance(parent, ast.If | ast.IfExp) and parent.test is use


def _kept_unused(program: Program, target: ast.expr, deepest: int) -> bool:
    if isinstance(target, ast.Name):
        statement = parent_of(target)
        while not isinstance(statement, ast.stmt) and statement is not None:
            statement = parent_of(statement)
        bindings = scope_of(target).bindings.get(target.id, [])
        binding = next((each for each in bindings if each.node is statement), None)
        uses = None if binding is None else list(uses_of(program, binding))
    elif isinstance(target, ast.Attribute):
        read = [each for file in program.files for each in file.attributes.get(target.attr, ())]
        uses = [each for each in read if isinstance(getattr(each, "ctx", None), ast.Load)]
    else:
        uses = None
    return uses is not None and all(goes_nowhere(program, each, deepest) for each in uses)


def _returned_unused(program: Program, statement: ast.Return, item: int | None, deepest: int) -> bool:
    """Whether no call of the function that gives a sampler back, alone or with other results, uses it."""
    function = scope_of(statement).function
    sites = None
    if function is not None and isinstance(function.node, FunctionNode):
        sites = program.evaluation.callers.call_sites(function.node)
    if not sites:
        return False
    for site in sites:
        if item is None:
            if not goes_nowhere(program, site.call, deepest):
                return False
            continue
        taken = parent_of(site.call)
        if not isinstance(taken, ast.Assign) or len(taken.targets) != 1:
            return False
        (target,) = taken.targets
        if not isinstance(target, ast.Tuple) or any(isinstance(each, ast.Starred) for each in target.elts):
            return False
        if item >= len(target.elts) or not _kept_unused(program, target.elts[item], deepest):
            return False
    return True


def uses_of(program: Program, binding: Binding) -> Iterator[ast.expr]:
    """Where a variable is read: also by other files where it is a module's."""
    file, scope = file_of(binding.node), scope_of(binding.node)
    for use in file.names.get(binding.name, ()):
        if scope_of(use).holder_of(binding.name) is scope:
            yield use
    if isinstance(scope.node, ast.Module | ast.ClassDef):
        for other in program.files:
            yield from other.attributes.get(binding.name, ())
            if other is not file:
                yield from other.names.get(binding.name, ())
