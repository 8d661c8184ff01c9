"""Which expressions have the same value on every rank.

An expression is uniform where paths, counts, options and configurations without a rank make it; it differs
where a rank, a clock or another thing of the process goes into it. Of most expressions neither is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    has_star_arguments,
    origins,
    origins_of_binding,
    parts_of,
)
from launcher.program.index import (
    Binding,
    BindingKind,
    file_of,
    function_of_parameter,
    is_property,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.values import (
    PROGRESS_BARS,
    RANK_VARIABLES,
    UNKNOWN,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    ModuleOf,
    RankValue,
    Value,
    WorldSize,
    alternatives,
    is_path,
)

_PARSED_OPTIONS = (".parse_args", ".parse_known_args", ".parse_args_into_dataclasses")
"""How the names end of what gives the options of the command line, which all ranks are started with."""

PURE_CALLS = frozenset(
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
        "glob.glob",
        "pathlib.Path.glob",
        "sorted",
        "vars",
        "str",
        "int",
        "float",
        "len",
        "min",
        "max",
        "sum",
        "range",
        "round",
        "dict",
        "type",
        "copy.copy",
        "copy.deepcopy",
        "argparse.Namespace",
        "types.SimpleNamespace",
        "configparser.ConfigParser",
        *("easydict.EasyDict", "addict.Dict", "box.Box", "dotmap.DotMap", "munch.Munch", "munch.munchify"),
        *("ml_collections.ConfigDict", "mmcv.Config.fromfile", "mmengine.config.Config.fromfile"),
        *(f"omegaconf.OmegaConf.{name}" for name in ("load", "create", "merge", "to_container")),
    }
)
"""What gives the same for the same arguments, among it what makes objects of configurations."""

_COUNTING = ("range", "tqdm.trange")
_FILE_LOADERS = frozenset(
    {
        "torch.load",
        "torch.hub.load_state_dict_from_url",
        "json.load",
        "json.loads",
        *(f"yaml.{name}" for name in ("safe_load", "load", "full_load", "unsafe_load")),
        *("toml.load", "tomli.load", "tomllib.load"),
    }
)
"""What gives the same for the same file, wherever it is put (`map_location=f"cuda:{rank}"`)."""

PURE_METHODS = frozenset(
    {"format", "replace", "strip", "lower", "upper", "joinpath", "with_suffix", "with_name", "join", "zfill"}
    | {"split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "startswith", "endswith"}
    | {"open", "read", "read_text", "get"}
)
_VARIABLE_READERS = frozenset({"os.environ.get", "os.getenv"})
_PROCESS_VARIABLES = ("RANK", "HOST", "NODE", "ID", "PORT", "LOCAL")
"""In the names of variables that may differ between processes."""

_PROCESS_ENTRIES = ("rank", "gpu", "device", "local", "node", "host", "proc", "worker")
"""In the names of what a launcher may put into the configuration of each process."""

_SETTING = ("setattr", "__dict__", "__getattr__")
"""By what a class gives its objects attributes that are written nowhere."""


class Uniformity:
    """What the ranks of one program agree on. What is not surely alike is not."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self._known: dict[ast.AST, bool] = {}

    def is_uniform(self, node: ast.expr | None) -> bool:
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
            if not self._is_set_alike(node.value, node.slice):
                return False
            if node not in (made := origins(self.program, node)) and None not in made:
                return all(map(self.is_uniform, made))
            return self.is_uniform(node.value) and self.is_uniform(node.slice)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._parts(node)

    def _parts(self, node: ast.expr) -> bool:
        """Whether all parts of an operation, a text or a written list are alike."""
        kinds = ast.JoinedStr | ast.FormattedValue | ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Compare
        if not isinstance(node, kinds | ast.IfExp | ast.Tuple | ast.List | ast.Dict):
            return False
        return all(self.is_uniform(each) for each in children_of(node) if isinstance(each, ast.expr))

    def _is_set_alike(self, owner: ast.expr, key: ast.expr | None) -> bool:
        """Whether all that the program puts below a key of a table is alike, and no rank by its name."""
        name = key.value if isinstance(key, ast.Constant) else None
        if not isinstance(name, str):
            return True
        stored = (
            binding
            for file in self.program.mentioning(name)
            for binding in file.set_items.get(name, ())
            if binding.name == last_name(owner)
        )
        return not _is_of_a_process(name) and all(self._bound(each, name) for each in stored)

    def _attribute(self, node: ast.Attribute, value: Value | None) -> bool:
        owner = self.program.value(node.value)
        names = [each.name if isinstance(each, Instance) else "" for each in alternatives(owner)]
        parsed = all(each.endswith(_PARSED_OPTIONS) for each in names)
        bindings = self.program.evaluation.sources(node)
        if parsed:
            return all(self._bound(each, node.attr) for each in bindings)
        if isinstance(owner, ModuleOf):
            bindings = [*bindings, *self._set_on_module(owner, node.attr)]
        is_class = isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef)
        if is_class or isinstance(owner, Made | ModuleOf):
            if bindings or not isinstance(owner, Made):
                return bool(bindings) and all(self._bound(each, node.attr) for each in bindings)
        elif is_path(owner):
            return self.is_uniform(node.value)
        elif isinstance(owner, External):
            return isinstance(value, External)
        # An entry of a configuration, which is alike where the whole is.
        if node.attr == "__name__" and self.program.qualified(getattr(node.value, "func", node)) == "type":
            return True  # `type(model).__name__`, of whatever model.
        if _is_of_a_process(node.attr) or not all(self._bound(each, node.attr) for each in bindings):
            return False
        return self.is_uniform(node.value)

    def _set_on_module(self, owner: ModuleOf, name: str) -> Iterator[Binding]:
        """Where the program sets a variable of one of its modules from outside: `config.OUT = path`."""
        for file in self.program.mentioning(name):
            for binding in file.set_attributes.get(name, ()):
                on = binding.node.value if isinstance(binding.node, ast.Attribute) else None
                if on is not None and self.program.value(on) == owner:
                    yield binding

    def _call(self, node: ast.Call) -> bool:
        name = self.program.qualified(node.func)
        if (name or "").endswith(_PARSED_OPTIONS):
            return True
        if name in _VARIABLE_READERS:
            return self._variable(node.args[0] if node.args else None)
        given = all_arguments(node)
        method = isinstance(node.func, ast.Attribute) and node.func.attr in PURE_METHODS
        if name in _FILE_LOADERS:
            return bool(node.args) and self.is_uniform(node.args[0])
        if name in PURE_CALLS:
            return all(self.is_uniform(each) for each in given)
        if method and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if node.func.attr == "get" and not self._is_set_alike(owner, argument_of(node, "key", 0)):
                return False
            return self.is_uniform(owner) and all(self.is_uniform(each) for each in given)
        called = self.program.value(node.func)
        if isinstance(called, Defined) and isinstance(called.node, ast.ClassDef):
            # An object whose attributes are those of a table that it is given.
            words = {each for part in walk(called.node) for each in (_name_of(part),)}
            return not words.isdisjoint(_SETTING) and all(map(self.is_uniform, given))
        return isinstance(called, Defined) and self._returned(called.node)

    def _returned(self, function: ast.AST) -> bool:
        """Whether a function always comes to one `return`, of what is alike."""
        given = _only_result(function)
        if given is None or any(isinstance(each, ast.If) for each in walk(function)):
            return False
        return self.is_uniform(given)

    def _variable(self, name: ast.expr | None) -> bool:
        """Whether an environment variable is one that all processes of a run have alike."""
        value = None if name is None else self.program.value(name)
        if (
            not isinstance(value, Constant)
            or not isinstance(value.value, str)
            or value.value in RANK_VARIABLES
        ):
            return False
        return not any(each in value.value.upper() for each in _PROCESS_VARIABLES)

    def _all_bound(self, node: ast.Name) -> bool:
        bindings = self.program.evaluation.sources(node)
        return bool(bindings) and all(self._bound(each, node.id) for each in bindings)

    def _bound(self, binding: Binding, name: str) -> bool:
        if binding.kind is BindingKind.PARAMETER:
            return self._parameter(binding.node)
        if binding.kind is BindingKind.LOOPED:
            target = isinstance(binding.node, ast.Attribute)
            loop = parent_of(binding.node) if target else binding.node
            return self._counted(loop, name) or self._listed(loop, name)
        if binding.kind is BindingKind.DEFINED:
            return is_property(binding.node) and self._returned(binding.node)
        if binding.kind is BindingKind.ASSIGNED and binding.item is not None:
            return self._result_at(binding)
        kinds = (BindingKind.ASSIGNED, BindingKind.CHANGED, BindingKind.ENTERED)
        if binding.kind in kinds and binding.value is not None:
            return binding.item is None and self.is_uniform(binding.value)
        # A field of a record that a parser makes, or of options: `Config(**vars(parser.parse_args()))`.
        made = binding.node if binding.kind is BindingKind.OTHER else None
        given = all_arguments(made) if isinstance(made, ast.Call) else []
        return isinstance(made, ast.Call | ast.ClassDef) and all(map(self.is_uniform, given))

    def _result_at(self, binding: Binding) -> bool:
        """Whether one of several results is alike: of a function that always comes to one `return`, or of a
        library, as in `args, rest = parser.parse_known_args()`."""
        called = self.program.value(binding.value.func) if isinstance(binding.value, ast.Call) else None
        if isinstance(called, External):
            return self.is_uniform(binding.value)
        if isinstance(called, Defined) and _only_result(called.node) is None:
            return False
        made = origins_of_binding(self.program, binding)
        return bool(made) and None not in made and all(map(self.is_uniform, made))

    def _parameter(self, parameter: ast.AST) -> bool:
        function = function_of_parameter(parameter)
        for each in getattr(function, "decorator_list", ()):
            if self.program.qualified(each.func if isinstance(each, ast.Call) else each) == "hydra.main":
                return True  # The configuration, which hydra reads from files and the command line.
        sites = self.program.evaluation.callers.call_sites_giving(parameter)
        if not sites or not isinstance(parameter, ast.arg):
            return False
        for site in sites:
            given = None if parameter.arg in site.values else site.given_or_default(parameter)
            if given is None or not self.is_uniform(given):
                return False
        return True

    def _counted(self, loop: ast.AST | None, name: str) -> bool:
        """Whether a loop's variable counts: `for epoch in range(n)`, `for step, batch in enumerate(...)`."""
        if not isinstance(loop, ast.For | ast.comprehension):
            return False
        made = origins(self.program, loop.iter)
        return all(self._counts(loop.target, each, name) for each in made)

    def _counts(self, counter: ast.expr, over: ast.expr | None, name: str) -> bool:
        """Whether what a loop goes through counts, also where a bar shows how far it is."""
        if isinstance(over, ast.Call) and self.program.qualified(over.func) in PROGRESS_BARS and over.args:
            over = over.args[0]
        if not isinstance(over, ast.Call):
            return False
        called = self.program.qualified(over.func)
        if called == "reversed" and over.args and isinstance(over.args[0], ast.Call):
            over = over.args[0]
            called = self.program.qualified(over.func)
        if called == "enumerate" and isinstance(counter, ast.Tuple) and counter.elts:
            counter = counter.elts[0]
            return isinstance(counter, ast.Name) and counter.id == name
        if (
            called not in _COUNTING
            or not isinstance(counter, ast.Name | ast.Attribute)
            or has_star_arguments(over)
        ):
            return False
        # Where it ends says how many rounds there are, not which number this one has.
        starts = over.args[:1] if len(over.args) > 1 else []
        return all(self._begins_alike(each) for each in starts) and all(map(self.is_uniform, over.args[2:]))

    def _begins_alike(self, start: ast.expr) -> bool:
        """Whether counting starts where it does on all ranks: at an epoch that no rank is part of."""
        if self.is_uniform(start):
            return True
        made = origins(self.program, start)
        parts = [part for each in made if each is not None for part in parts_of(self.program, each)]
        return None not in made and not any(
            isinstance(self.program.value(each), RankValue)
            or (isinstance(each, ast.Call) and self.program.value(each.func) is UNKNOWN)
            for each in parts
            if isinstance(each, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        )

    def _listed(self, loop: ast.AST | None, name: str) -> bool:
        """Whether a loop goes through a list that is written out here and grows by what all ranks have:
        `for path in paths` after `paths = [last]` and `paths.append(best)`."""
        if not isinstance(loop, ast.For | ast.comprehension) or not isinstance(loop.target, ast.Name):
            return False
        listed = loop.iter
        if loop.target.id != name:
            return False
        if isinstance(listed, ast.Tuple | ast.List):
            return self.is_uniform(listed)
        if not isinstance(listed, ast.Name):
            return False
        bindings = self.program.evaluation.sources(listed)
        if not bindings or not all(
            each.kind is BindingKind.ASSIGNED
            and isinstance(each.value, ast.List)
            and self.is_uniform(each.value)
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
            is_call = isinstance(call, ast.Call) and call.func is user and user.attr in ("append", "extend")
            return is_call and all(map(self.is_uniform, getattr(call, "args", ())))
        return isinstance(user, ast.For | ast.comprehension) and user.iter is use


_OF_A_MOMENT = (
    *("datetime.", "getpass.", "mlflow.", "numpy.random.", "os.", "platform.", "random.", "secrets."),
    *("shortuuid.", "socket.", "subprocess.", "tempfile.", "time.", "torch.", "uuid.", "wandb."),
)
"""Modules of which functions may give another thing each time, or on each host, whatever they are given."""


class OpenUniformity(Uniformity):
    """What the ranks have alike as far as anybody sees: entries and fields of what comes from where nobody
    does, such as a configuration, where no name in them hints at a process. What is calculated, drawn or
    asked of a clock is not alike because nobody sees how."""

    def _attribute(self, node: ast.Attribute, value: Value | None) -> bool:
        if isinstance(value, RankValue) or _is_of_a_process(node.attr):
            return False
        if super()._attribute(node, value):
            return True
        bindings, owner = self.program.evaluation.sources(node), self.program.value(node.value)
        if bindings:
            return all(self._bound(each, node.attr) for each in bindings)
        return owner is UNKNOWN and isinstance(node.value, ast.Name | ast.Attribute)

    def _parameter(self, parameter: ast.AST) -> bool:
        if not isinstance(parameter, ast.arg) or _is_of_a_process(parameter.arg):
            return False
        function = function_of_parameter(parameter)
        callers = self.program.evaluation.callers
        seen = [] if function is None else callers.possible_sites(function)
        given = [each.given_or_default(parameter) for each in seen if parameter.arg not in each.values]
        return len(given) == len(seen) and all(each is None or self.is_uniform(each) for each in given)

    def _call(self, node: ast.Call) -> bool:
        if super()._call(node):
            return True
        called, given = self.program.value(node.func), all_arguments(node)
        by_library = isinstance(called, External) and not called.name.startswith(_OF_A_MOMENT)
        return by_library and bool(given) and all(map(self.is_uniform, given))

    def _listed(self, loop: ast.AST | None, name: str) -> bool:
        return isinstance(loop, ast.For | ast.comprehension) and self.is_uniform(loop.iter)

    def _returned(self, function: ast.AST) -> bool:
        found = file_of(function).returns_of.get(function, ())
        return bool(found) and all(self.is_uniform(each.value) for each in found)


def _is_of_a_process(name: str) -> bool:
    """Whether something may be each process's own, by its name."""
    return any(each in name.lower() for each in _PROCESS_ENTRIES)


def _name_of(part: ast.AST) -> str | None:
    return part.id if isinstance(part, ast.Name) else getattr(part, "attr", getattr(part, "name", None))


def _only_result(function: ast.AST) -> ast.expr | None:
    """What a function gives that always comes to one `return`."""
    found = [*file_of(function).returns_of.get(function, ())]
    if len(found) != 1:
        return None
    outer = parent_of(found[0])
    while isinstance(outer, ast.With):
        outer = parent_of(outer)
    return found[0].value if outer is function else None
