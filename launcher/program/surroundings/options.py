"""The options that a script's parser declares: which of them an expression is, its default, and what that
chooses.

Of a program that a job starts, what the job gives an option counts in place of the default.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import zip_longest

from launcher.frozen import frozen
from launcher.program.dataflow import (
    argument_of,
    constant_argument,
    is_parsed_field,
    origins,
    text_beginning,
    text_parts,
)
from launcher.program.index import ancestors, default_of, function_of_parameter, last_name, parent_of
from launcher.program.objects.nodes import walk
from launcher.program.process_starts import Valued
from launcher.program.program import Program
from launcher.program.ranks.reachability import COMMAND_LINE_RUNNERS, Reachability, never_runs
from launcher.program.values import (
    Constant,
    Defined,
    Dictionary,
    Instance,
    Made,
    Several,
    library_names,
    like,
    name_of_table,
    spread,
)

SET_ANYWAY = re.compile(
    r"(SM|SAGEMAKER|AWS|TRAINING|NCCL|FI|CUDA|NVIDIA|LD|PYTHON|TORCH|PYTORCH|MASTER|SLIPWAY|OMP|MKL|HF|LC|XLA|PJRT)"
    r"[A-Z]*(_.*)?|PATH|HOME|HOST(NAME)?|USER|PWD|LANG|SHELL|TERM|TMPDIR|DEBIAN_FRONTEND"
)
"""The names of variables that an image, the service or a launcher may set."""


def as_attribute(option: str) -> str:
    """`--num-workers` as argparse names it: `num_workers`."""
    return option.lstrip("-").replace("-", "_")


@frozen
class DeclaredOption:
    """An option, by `add_argument` or as the field of a class or the parameter of a function that a parser
    is given, with its default, or what the program is started with (`is_given`); `value` is that where it is
    a literal, None where what is given is open."""

    name: str
    value: bool | int | float | str | None
    node: ast.AST
    default: ast.expr
    is_given: bool = False

    @property
    def written(self) -> str:
        """How a command line gives it."""
        words = self.node.args if isinstance(self.node, ast.Call) else []
        texts = [str(each.value) for each in words if isinstance(each, ast.Constant)]
        return next((each for each in texts if each.startswith("--")), f"--{self.name}")


def default_of_option(program: Program, node: ast.expr) -> DeclaredOption | None:
    """The option that `args.workers` is, where a literal is its default."""
    found = option_of(program, node)
    return None if found is None or found.value is None else found


def option_of(program: Program, node: ast.expr) -> DeclaredOption | None:
    """The option that `args.workers` is; None where it is none, is declared twice, or set by the program."""
    found = _option_by_default(program, node)
    return None if found is None else _in_run(program, found)


def declared_option(program: Program, call: ast.Call, name: str) -> DeclaredOption | None:
    """The option that a call declares by a name, with what the program is started with; None where it has no
    default and is not given, or is declared by another name."""
    found = _declared(program, call, name)
    return None if found is None else _in_run(program, found)


def _in_run(program: Program, option: DeclaredOption) -> DeclaredOption:
    given = given_in_words(program.words or (), option.name, option.node)
    return option if given is None else _started_with(option, given)


def given_in_words(words: Sequence[str], name: str, declared: ast.AST | None = None) -> str | None:
    """What a command line gives an option: an empty text to a mere switch, None where it does not give it.
    `declared` is the call that declares the option, which may have short names too."""
    written = declared.args if isinstance(declared, ast.Call) else []
    short = {each.value for each in written if isinstance(each, ast.Constant)}
    given: str | None = None
    for key, value in _words_in_pairs(words):
        if key in short or (key.startswith("--") and as_attribute(key) == name):
            given = value
    return given


def options_in_words(words: Sequence[str]) -> dict[str, str]:
    """What a command line gives the options that it names, by their names as attributes: an empty text to a
    mere switch."""
    return {as_attribute(key): value for key, value in _words_in_pairs(words) if key.startswith("--")}


def _words_in_pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The words of a command line, each with what stands behind it or its equals sign."""
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        key, sign, value = word.partition("=")
        yield key, value if sign else "" if following.startswith("--") else following


def _started_with(option: DeclaredOption, given: str) -> DeclaredOption:
    """An option with what a parser makes of a text, by its type or that of its default; one that it would
    not make anything of is open."""
    call = option.node if isinstance(option.node, ast.Call) else None
    action = getattr(argument_of(call, "action"), "value", None) if call else None
    kind = argument_of(call, "type") if call else None
    of_default = None if option.value is None else type(option.value).__name__
    name = (last_name(kind) if kind else of_default) or "str"
    value: bool | int | float | str | None = None
    if action in ("store_true", "store_false"):
        value = action == "store_true" if not given else None
    elif action not in (None, "store") or (call and argument_of(call, "nargs") is not None):
        value = None  # One of several, or a switch of the script's own.
    elif (name == "bool" or isinstance(option.value, bool)) and given.lower() in _SWITCHED:
        value = _SWITCHED[given.lower()]
    elif name in ("int", "float"):
        number = re.fullmatch(r"[+-]?\d+" if name == "int" else r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", given)
        value = None if number is None else int(given) if name == "int" else float(given)
    elif name == "str":
        value = given
    return replace(option, value=value, default=like(option.default, ast.Constant(value)), is_given=True)


_SWITCHED = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
"""What parsers take for a switch that has a value."""


def _option_by_default(program: Program, node: ast.expr) -> DeclaredOption | None:
    if isinstance(node, ast.Name):
        default = _default_by_command_line(program, node)
        return None if default is None else _option_with(node.id, default, default)
    if not isinstance(node, ast.Attribute):
        return None
    owner = program.value(node.value)
    is_other = isinstance(owner, Instance) and "pars" not in owner.name.lower()
    if is_other or isinstance(owner, Dictionary) or _is_set_by_program(program, node):
        return None
    fields = program.evaluation.sources(node)
    declared = declared_in_run(program, node.attr)
    if any(map(is_parsed_field, fields)) and not declared:
        given = [each.value for each in fields if each.value is not None]
        return _option_with(node.attr, given[0], given[0]) if len(given) == 1 else None
    found = [option for call in declared if (option := _declared(program, call, node.attr)) is not None]
    return found[0] if len(found) == 1 else None


def _default_by_command_line(program: Program, node: ast.Name) -> ast.expr | None:
    """The default of the option that click, typer or fire make of a parameter of the function they run."""
    sources = program.evaluation.sources(node)
    parameter = sources[0].node if len(sources) == 1 else None
    function = function_of_parameter(parameter) if isinstance(parameter, ast.arg) else None
    if not isinstance(function, ast.FunctionDef):
        return None
    for each in function.decorator_list:
        words = [str(getattr(word, "value", "")) for word in each.args] if isinstance(each, ast.Call) else []
        names = [word.partition("/")[0].lstrip("-").replace("-", "_") for word in words]
        if isinstance(each, ast.Call) and node.id in names and program.qualified(each.func) == "click.option":
            is_switch = any(one.arg == "is_flag" for one in each.keywords) or any("/" in one for one in words)
            off = like(each, ast.Constant(False)) if is_switch else None
            return next((one.value for one in each.keywords if one.arg == "default"), off)
    default = default_of(function, node.id)
    by = [program.qualified(getattr(each, "func", each)) for each in function.decorator_list]
    if isinstance(default, ast.Call) and program.qualified(default.func) == "typer.Option":
        return next(iter(default.args), None)
    if "typer.Typer.command" in by:
        return default
    runs = program.calls(*COMMAND_LINE_RUNNERS) if default is not None else ()
    is_run = any(program.value(each) == Defined(function) for call, _ in runs for each in call.args)
    return default if is_run else None


def declared_in_run(program: Program, name: str) -> list[ast.Call]:
    """The calls that declare an option, of several those to which the program comes."""
    declared = [*program.evaluation.attributes.options.declared.get(name, ())]
    if len(declared) == 1:
        return declared
    code = program.analysis(Reachability)
    return [each for each in declared if code.reaches(each) and not code.is_named_nowhere(each)]


def _is_set_by_program(program: Program, option: ast.Attribute) -> bool:
    """Whether an option may be set, by whatever name; `cfg.out = args.out` sets that of another object."""
    owner = program.value(option.value)
    stores = (each.node for file in program.files for each in file.set_attributes.get(option.attr, ()))
    values = (program.value(each.value) for each in stores if isinstance(each, ast.Attribute))
    others = Instance | Dictionary | Made if isinstance(owner, Instance) else Instance | Dictionary
    return any(each == owner or not isinstance(each, others) for each in values)


def _declared(program: Program, call: ast.Call, name: str) -> DeclaredOption | None:
    names = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    dest = argument_of(call, "dest")
    is_named = any(as_attribute(each) == name for each in names if each.startswith("-"))
    if not (isinstance(dest, ast.Constant) and dest.value == name) and (dest is not None or not is_named):
        return None
    default = _set_by_parser(program, name) or argument_of(call, "default")
    action = getattr(argument_of(call, "action"), "value", None)
    if default is None and action in ("store_true", "store_false"):
        default = like(call, ast.Constant(action == "store_false"))
    elif default is None and (
        not any(each.arg in ("action", "required", None) for each in call.keywords)
        or given_in_words(program.words or (), name, call) is not None
    ):
        default = like(call, ast.Constant(None))
    return None if default is None else _option_with(name, call, default)


def _set_by_parser(program: Program, name: str) -> ast.expr | None:
    """What `parser.set_defaults` gives an option in place of its own default."""
    calls = (
        call for file in program.mentioning("set_defaults") for call in file.calls_of.get("set_defaults", ())
    )
    spelled = (spread(call, program.value) for call in calls)
    given = [each.value for call in spelled for each in call.keywords if each.arg == name]
    return given[-1] if given else None


def _option_with(name: str, node: ast.AST, default: ast.expr) -> DeclaredOption:
    literal = default.value if isinstance(default, ast.Constant) else None
    value = literal if isinstance(literal, bool | int | float | str) else None
    return DeclaredOption(name, value, node, default)


def constant_by_default(program: Program, node: ast.expr) -> Constant | None:
    """The literal that an expression is in a run without options; None where that is open."""
    known = constant_argument(program, node)
    option = _option_behind(program, node) if known is None else None
    return known if option is None or option.value is None else Constant(option.value)


def _option_behind(program: Program, node: ast.expr, depth: int = 4) -> DeclaredOption | None:
    """The option that an expression is, by whatever name; of a field that a parser sets by its own default
    too."""
    if isinstance(node, ast.Name) and (found := option_of(program, node) or _handed_on(program, node, depth)):
        return found
    made = origins(program, node)
    for each in made:
        option = None if each is None else option_of(program, each)
        if option is not None and each is not None:
            fields = program.evaluation.sources(each) if isinstance(each, ast.Attribute) else []
            own = [one.value for one in fields] if any(map(is_parsed_field, fields)) else []
            return option if all(one is each or one in own for one in made) else None
    return None


def text_by_default(program: Program, node: ast.expr, depth: int = 8) -> str | None:
    """What a text or path is in a run without options, and without the variables that it asks for with a
    default, where nobody else may set them; None where that is open."""
    known = text_beginning(program, node)
    if (known and known[1]) or not depth:
        return known[0] if known else None
    option = _option_behind(program, node)
    if option is not None and option.value is not None:
        return option.value if isinstance(option.value, str) else None
    made = origins(program, node)
    only = made[0] if len(made) == 1 else None
    if only is None:
        return None
    if isinstance(only, ast.Call) and program.qualified(only.func) in ("os.environ.get", "os.getenv"):
        name = constant_argument(program, only.args[0]) if len(only.args) == 2 else None
        unset = name is not None and SET_ANYWAY.fullmatch(str(name.value)) is None
        return text_by_default(program, only.args[1], depth - 1) if unset else None
    parts, between = text_parts(program, only)
    texts = [text_by_default(program, each, depth - 1) for each in parts]
    return between.join(map(str, texts)) if texts and None not in texts else None


def truth_by_default(program: Program, test: ast.expr) -> bool | None:
    """What a test of an option is in a run without any; None where that is open."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        sign, right = test.ops[0], test.comparators[0]
        one, other = constant_by_default(program, test.left), constant_by_default(program, right)
        listed = program.value(right) if isinstance(sign, ast.In | ast.NotIn) else None
        if isinstance(listed, Several) and one is not None:
            named = [constant_argument(program, each) for each in listed.node.elts]
            return None if None in named else (one in named) is isinstance(sign, ast.In)
        if one is None or other is None or not isinstance(sign, _SAME | _OTHER):
            return None
        return (one == other) is isinstance(sign, _SAME)
    found = constant_by_default(program, test)
    return None if found is None else bool(found.value)


_SAME, _OTHER = ast.Eq | ast.Is, ast.NotEq | ast.IsNot


def _handed_on(program: Program, node: ast.Name, depth: int) -> DeclaredOption | None:
    """The option of a command that a function is handed, as a parameter of the command's function."""
    bound = [each.node for each in program.evaluation.sources(node)] if depth else []
    parameter = bound[0] if len(bound) == 1 else None
    sites = (
        program.evaluation.callers.call_sites_giving(parameter) if isinstance(parameter, ast.arg) else None
    )
    given = [site.given(parameter) for site in sites or () if isinstance(parameter, ast.arg)]
    found = [
        _option_behind(program, each, depth - 1) if isinstance(each, ast.Name) else None for each in given
    ]
    first = found[0] if found else None
    return first if all(each is not None and first and each.node is first.node for each in found) else None


class DefaultRun:
    """What the tests of a program are in a run without options, or with those that it is started with."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program

    def truth(self, test: ast.expr) -> bool | None:
        """What a test is; None where that is open, also where such a run is one process alone."""
        return truth_by_default(self.program, test) if self.is_of_several else None

    def leaves_out(self, node: ast.AST) -> bool:
        """Whether such a run never comes to a node when it trains; False where it is one process alone."""
        return self.is_of_several and never_runs(self.program, node, self._in_training)

    def is_left_to_options(self, node: ast.AST) -> bool:
        """Whether options may let a run come to a node."""
        return not never_runs(self.program, node, self._has_a_group)

    def _in_training(self, test: ast.expr) -> bool | None:
        grouped = self._has_a_group(test)
        return self.truth(test) if grouped is None else grouped

    def _has_a_group(self, test: ast.expr) -> bool | None:
        """True of a test for the group, which a training has made; None of all others."""
        asked = isinstance(test, ast.Call) and self.program.qualified(test.func)
        return True if asked == "torch.distributed.is_initialized" else None

    @cached_property
    def is_of_several(self) -> bool:
        """Whether a run without options may join others and wrap its model for them."""
        known = partial(truth_by_default, self.program)
        for names in (library_names("joining_calls"), library_names("model_wrappers")):
            calls = [call for call, _ in self.program.calls(*names)]
            if calls and all(never_runs(self.program, each, known) for each in calls):
                return False
        return True


def is_taken(program: Program, entry: ast.AST, known: Valued | None = None, depth: int = 4) -> bool:
    """Whether what is written in a table is taken, by what somebody knows of a run, or by the defaults: not
    what stands below another key than `PROFILES[args.profile]` chooses, nor what is taken out again."""
    known, inner = known or partial(constant_by_default, program), entry
    for outer in ancestors(entry):
        if isinstance(outer, ast.stmt):
            break
        if isinstance(outer, ast.Dict):
            named = zip(outer.keys, outer.values, strict=True)
            key = constant_argument(program, next((key for key, value in named if value is inner), None))
            name = name_of_table(outer)
            uses = list(_reads_of(program, name)) if name else []
            if key is not None and not _is_key_taken(uses, key, known, _is_table(program, inner)):
                return False
            if depth and uses and not any(is_taken(program, each, known, depth - 1) for each in uses):
                return False
        inner = outer
    return True


def _is_table(program: Program, node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and isinstance(program.value(node), Dictionary)


def _is_key_taken(uses: list[ast.expr], key: Constant, known: Valued, of_tables: bool) -> bool:
    """Whether the uses of a table take what stands below a key; of a table of tables each takes one, so that
    what is chosen by nobody knows what is not surely taken."""
    taken: list[bool] = []
    for use in uses:
        read = parent_of(use)
        asked = parent_of(read) if isinstance(read, ast.Attribute) else None
        method = last_name(read) if isinstance(asked, ast.Call) and asked.func is read else None
        chosen: ast.expr | None = None
        if isinstance(read, ast.Subscript) and read.value is use:
            chosen = read.slice
        elif isinstance(asked, ast.Call) and method in ("get", "pop") and asked.args:
            chosen = asked.args[0]
        wanted = None if chosen is None else known(chosen)
        if wanted == key and (method == "pop" or isinstance(getattr(read, "ctx", None), ast.Del)):
            return False
        if wanted is not None or (chosen is not None and of_tables):
            taken.append(wanted == key)
        elif not of_tables:
            taken.append(True)
    return True in taken or not taken


def is_registered_and_not_taken(program: Program, node: ast.AST) -> bool:
    """Whether a node stands in a class or function that a table gets by its name, as of hooks, and of which
    nobody takes that name in a run without options: `HOOKS[each] for each in args.hooks.split(",")`."""
    definitions = [each for each in ancestors(node) if isinstance(each, ast.ClassDef | ast.FunctionDef)]
    for definition in definitions:
        kept = _registration(program, definition)
        named = any(definition.name in {*file.names, *file.attributes} for file in program.files)
        if kept is not None and not named:
            taken = [_names_taken(program, use) for use in _reads_of(program, kept[0])]
            return None not in taken and not any(kept[1] in (each or ()) for each in taken)
    return False


def _registration(program: Program, definition: ast.ClassDef | ast.FunctionDef) -> tuple[str, str] | None:
    """The last name of the table that keeps a class or function, and its name there: by a decorator of the
    program, `@hook("seeder")`, or by the base class, `class Seeder(Hook, name="seeder")`."""
    ways: list[tuple[ast.AST, ast.expr | None]] = []
    for each in definition.decorator_list if len(definition.decorator_list) == 1 else ():
        called = program.value(each.func) if isinstance(each, ast.Call) and len(each.args) == 1 else None
        if isinstance(called, Defined) and isinstance(each, ast.Call):
            ways.append((called.node, each.args[0]))
    if isinstance(definition, ast.ClassDef) and len(definition.keywords) == 1:
        for base in map(program.value, definition.bases):
            member = isinstance(base, Defined) and isinstance(base.node, ast.ClassDef) and base.node
            found = (
                program.evaluation.attributes.bindings_of_class(member, "__init_subclass__") if member else []
            )
            ways += [(each.node, definition.keywords[0].value) for each in found]
    for function, given in ways:
        name = constant_argument(program, given)
        stores = [each for each in walk(function) if isinstance(each, ast.Assign)]
        targets = [each.targets[0] for each in stores if isinstance(each.value, ast.Name)]
        tables = [last_name(each.value) for each in targets if isinstance(each, ast.Subscript)]
        if name is not None and len(tables) == 1 and tables[0] is not None:
            return tables[0], str(name.value)
    return None


def _reads_of(program: Program, table: str) -> Iterator[ast.expr]:
    """Where a table is read by its last name, and not only given an entry."""
    for file in program.mentioning(table):
        for alias in {table, *file.imported_as.get(table, ())}:
            for use in (*file.names.get(alias, ()), *file.attributes.get(alias, ())):
                entry = parent_of(use)
                stored = isinstance(entry, ast.Subscript) and isinstance(entry.ctx, ast.Store)
                if isinstance(use.ctx, ast.Load) and not stored:
                    yield use


def _names_taken(program: Program, use: ast.expr) -> list[str] | None:
    """The names by which a use of a table takes entries in a run without options; None where that is open."""
    entry = parent_of(use)
    if isinstance(entry, ast.Compare):
        return []
    if not isinstance(entry, ast.Subscript) or entry.value is not use:
        return None
    known = constant_by_default(program, entry.slice)
    if known is not None:
        return [str(known.value)]
    bindings = program.evaluation.sources(entry.slice) if isinstance(entry.slice, ast.Name) else []
    listed = getattr(bindings[0].node, "iter", None) if len(bindings) == 1 else None
    match listed:
        case ast.Call(func=ast.Attribute(value=text, attr="split"), args=[ast.Constant(value=str() as mark)]):
            whole = text_by_default(program, text)
            return None if whole is None else [each.strip() for each in whole.split(mark)]
        case ast.expr():
            option = option_of(program, listed)
            value = program.value(listed if option is None else option.default)
            named = value.node.elts if isinstance(value, Several) else [None]
            names = [constant_argument(program, each) for each in named]
            return None if None in names else [str(each.value) for each in names if each]
    return None
