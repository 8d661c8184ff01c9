"""Which ranks run a statement, and all that a program says of how a value is made.

A statement is run by every rank or by some: by the guards around it, before it, and around its callers
(`Participants`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from launcher.program.dataflow import all_arguments, argument_of, origins
from launcher.program.index import (
    SCOPE,
    BindingKind,
    FunctionNode,
    ancestors,
    file_of,
    is_main_guard,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.empty_methods import does_nothing
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.guards import (
    Guards,
    branches_leaving_before,
    branches_left_in_both_arms,
    is_in_body,
)
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.truths import Guard, Truth, narrowest, negate
from launcher.program.ranks.uniformity import Uniformity
from launcher.program.surroundings.trainer_hooks import is_called_while_training
from launcher.program.values import (
    MAIN_PROCESS_DECORATORS,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    RankKind,
    alternatives,
    library_names,
)

_RANK_WORDS = ("rank", "main", "master", "primary", "chief", "lead", "root", "node", "host")
"""In the names of what may be true on one rank alone, and also differ between hosts as an option."""

_MAYBE_RANK_WORDS = ("zero", "proc", "save", "writer")
"""In the names of what may be true on one rank alone, unless it is known to be alike on all.

Both only silence: where nobody knows, nothing is said. `epoch % args.save_every == 0` is known.
"""

_PROCESS_WORDS = ("gpu", "device", "local", "single", "distrib", "ddp", "parallel", "multi")
"""In the names of what may be a rank, or tell a run of one process from one of several: `args.gpu == 0`.

What stands under the name itself, `if args.distributed:`, is run by several processes.
"""


_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OF_A_PROCESS = (*_RANK_WORDS, *_MAYBE_RANK_WORDS, *_PROCESS_WORDS)


class Participants:
    """Who runs the statements of one program."""

    _unseen: Truth = None
    """Who may call from where nobody sees."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self.uniformity = program.analysis(Uniformity)
        self._functions: dict[ast.AST, Truth] = {}
        self.early: list[ast.expr] = []  # Tests that were answered before there was a group.

    @cached_property
    def _starting(self) -> frozenset[tuple[str, bool]]:
        """The tests under which alone the program joins others, as written, and whether they hold."""
        return self._tests_around(call for call, _ in joining_calls(self.program))

    @cached_property
    def _spawning(self) -> frozenset[ast.Call]:
        """The calls by which the program starts its ranks itself."""
        calls = [call for call, _ in self.program.calls(*library_names("rank_starters"))]
        calls += filter(self._makes_ranks, self._processes())
        return frozenset(filter(self.program.analysis(Reachability).reaches, calls))

    def _normal_form(self, test: ast.expr, holds: bool) -> tuple[str, bool]:
        """A test without its `not`, and whether it holds; of an option by what it is, under whatever name."""
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        value = self.program.value(test) if isinstance(test, ast.Name | ast.Attribute) else None
        return value.name if isinstance(value, External) else ast.unparse(test), holds

    def _tests_around(self, calls: Iterable[ast.AST]) -> frozenset[tuple[str, bool]]:
        """The tests under which alone all of these calls are come to, and whether they hold."""
        found: frozenset[tuple[str, bool]] | None = None
        for call in calls:
            around = set[tuple[str, bool]]()
            inner: ast.AST = call
            for outer in ancestors(call):
                if isinstance(outer, ast.If) and inner is not outer.test:
                    around.add(self._normal_form(outer.test, inner in outer.body))
                inner = outer
            found = frozenset(around) if found is None else found & around
        return found or frozenset()

    @cached_property
    def _switches(self) -> frozenset[str]:
        """The options, as written, under each of which alone the program starts its ranks itself."""
        under = self._tests_around(self._spawning)
        return frozenset(text for text, holds in under if holds and text.replace(".", "").isidentifier())

    def _processes(self) -> Iterator[ast.Call]:
        """The calls that make a process of a function."""
        for file in self.program.files:
            for call in file.calls_of.get("Process", ()):
                if any(each.arg == "target" for each in call.keywords):
                    yield call

    def _makes_ranks(self, process: ast.Call) -> bool:
        """Whether the function of a process joins the others itself; others serve logs and load data."""
        target = argument_of(process, "target", 1)
        value = None if target is None else self.program.value(target)
        joining = [call for call, _ in joining_calls(self.program)]
        return isinstance(value, Defined) and any(value.node in ancestors(call) for call in joining)

    def ranks_running(self, node: ast.AST) -> Truth:
        """True: every rank; a Guard: those ranks at most; False: none when distributed; None: unknown."""
        inner = node
        found: Truth = True
        for outer in ancestors(node):
            if isinstance(outer, ast.ExceptHandler | ast.ClassDef):
                return None
            found = _intersect(found, self._ranks_past_those_before(outer, inner))
            if isinstance(outer, FunctionNode):
                return _intersect(found, self._ranks_entering(outer))
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
                in_body = inner in outer.body if isinstance(outer, ast.If) else inner is outer.body
                found = _intersect(found, self._ranks_in_arm(outer.test, in_body))
            elif isinstance(outer, ast.BoolOp) and inner is not outer.values[0]:
                return None
            inner = outer
        # What stands in no function is run by the process that starts the ranks, before there are any.
        return found if found is not True or not self._spawning else None

    def _ranks_past_those_before(self, outer: ast.AST, inner: ast.AST) -> Truth:
        """Who comes to a statement past those before it in its block: `if rank != 0: return`."""
        found: Truth = True
        for before in branches_leaving_before(outer, inner):
            found = _intersect(found, self._ranks_in_arm(before.test, in_body=False))
        for arms in branches_left_in_both_arms(outer, inner):
            one, other = ([self._ranks_in_arm(each.test, in_body=False) for each in arm] for arm in arms)
            if isinstance(one[0], Guard) and isinstance(other[0], Guard) and one[0].same_ranks(other[0]):
                found = _intersect(found, one[0])
        return found

    def _ranks_in_arm(self, test: ast.expr, in_body: bool) -> Truth:
        """Who comes into one arm of a test, or past one whose body leaves."""
        if isinstance(test, ast.BoolOp) and in_body is isinstance(test.op, ast.And):
            found: Truth = True
            for each in test.values:
                found = _intersect(found, self._ranks_in_arm(each, in_body))
            return found
        if isinstance(test, ast.BoolOp) and in_body:
            # In the ranks that the program starts, `not args.spawn or (args.spawn and rank % gpus == 0)`.
            left = [each for each in test.values if not self._is_without_ranks(each)]
            if len(left) == 1:
                return self._ranks_in_arm(left[0], in_body)
        if self._normal_form(test, not in_body) in self._starting:
            return False
        truth = self.program.analysis(Guards).truth(test)
        if isinstance(truth, Guard):
            if truth.kind is RankKind.GLOBAL and _is_answered_too_early(self.program, test):
                self.early.append(test)
                return (truth if in_body else truth.opposite()).allows(frozenset({0}))
            if in_body:
                return truth
            return truth.opposite() if truth.exact else None
        if truth is not None:
            return truth if in_body else negate(truth)
        if is_main_guard(test) and file_of(test) is not self.program.entry:
            return not in_body  # The module is imported.
        # Where all ranks agree, or nothing hints at a rank, all come here or none.
        plain = is_main_guard(test) or not self._hints_at_rank(test)
        if in_body and isinstance(test, ast.Name | ast.Attribute):
            return True if plain else None
        return True if plain and not _names_a_process(test) else None

    def _is_without_ranks(self, test: ast.expr) -> bool:
        """Whether a test holds only where the program starts no ranks itself."""
        text, holds = self._normal_form(test, True)
        return not holds and text in self._switches

    def _hints_at_rank(self, test: ast.expr) -> bool:
        """Whether a test asks what may be true on one rank alone, by its names, and nobody knows better."""
        counts = filter(_counts_rounds, walk(test))
        counted = {part for each in counts for part in walk(each)}
        for node in walk(test):
            if isinstance(node, ast.Call) and (last_name(node.func) or "").startswith(("is_", "should_")):
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                word = (node.id if isinstance(node, ast.Name) else node.attr).lower()
                if any(each in word for each in _RANK_WORDS):
                    return True
                hints = word.startswith(("is_", "should_")) or any(each in word for each in _MAYBE_RANK_WORDS)
                if (
                    hints
                    and node not in counted
                    and not (self.uniformity.is_uniform(node) or self._compares_no_rank(node))
                ):
                    return True
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                key = str(node.slice.value).lower()
                if any(each in key for each in (*_RANK_WORDS, *_MAYBE_RANK_WORDS)):
                    return True
        return False

    def _compares_no_rank(self, name: ast.Name | ast.Attribute) -> bool:
        """Whether a name says alone what is larger, of what is no rank: `is_best = score > best`."""
        made = origins(self.program, name)
        tests = [each for each in made if isinstance(each, ast.Compare) and isinstance(each.ops[0], _ORDERS)]
        words = [
            word.lower()
            for each in tests
            for part in walk(each)
            if isinstance(part, ast.Name | ast.Attribute | ast.Constant)
            and isinstance(
                word := getattr(part, "value", None) if isinstance(part, ast.Constant) else last_name(part),
                str,
            )
        ]
        known = all(
            each in tests or (isinstance(each, ast.Constant) and each.value in (True, False)) for each in made
        )
        return bool(tests) and known and not any(hint in word for hint in _OF_A_PROCESS for word in words)

    def keeps_every_rank(self, decorator: ast.expr) -> bool:
        """Whether a decorated function is still run by every rank that calls it."""
        value = self.program.value(decorator)
        if isinstance(value, External | Instance):  # A library's, but one that says for which rank it is.
            last = value.name.rpartition(".")[2].lower()
            words = () if last == "main" else _RANK_WORDS
            return value.name not in MAIN_PROCESS_DECORATORS and not any(each in last for each in words)
        return self.program.analysis(Guards).lets_all_call(decorator)

    def _ranks_entering(self, function: FunctionNode) -> Truth:
        if function not in self._functions:
            self._functions[function] = None  # Where it is called by itself alone.
            found = self._ranks_calling(function)
            plain = found is None and not getattr(function, "decorator_list", ())
            by_trainer = plain and is_called_while_training(self.program, function)
            self._functions[function] = True if by_trainer else found
        return self._functions[function]

    def _ranks_calling(self, function: FunctionNode) -> Truth:
        guard = self.program.analysis(Guards).decorator_guard(function)
        if guard is not None:
            return guard
        for decorator in getattr(function, "decorator_list", ()):
            if not self.keeps_every_rank(decorator):
                return None
        callers = self.program.evaluation.callers
        sites = callers.call_sites(function)
        seen = callers.possible_sites(function) if sites is None and self._unseen else sites or []
        seen = [each for each in seen if each.is_sure] or seen
        calls = self._makers_of_field(function) or [site.call for site in seen]
        if not calls:
            return self._unseen if sites is None else None
        found = [True if call in self._spawning else self.ranks_running(call) for call in calls]
        taking = self._ranks_taking(function, [site.call for site in seen])
        if taking is not None:
            found = [_intersect(each, taking) for each in found]
        elif any(each.is_chosen and self._may_be_nothing(each.call) for each in seen):
            return None  # The others have a function that does nothing, by a test that nobody sees.
        if True in found:
            return True
        guards = [each for each in found if isinstance(each, Guard)]
        if None in found or not guards:
            return None
        return guards[0]

    def _may_be_nothing(self, call: ast.Call) -> bool:
        """Whether what is called may as well be a function that does nothing."""
        functions = (getattr(each, "node", None) for each in alternatives(self.program.value(call.func)))
        return any(isinstance(each, FunctionNode) and does_nothing(each) for each in functions)

    def _ranks_taking(self, function: FunctionNode, calls: Iterable[ast.Call]) -> Guard | None:
        """The ranks on which alone a function is made, or given to what calls it by another name, as in
        `save = write if rank == 0 else skip`."""
        name = getattr(function, "name", "")
        inner = isinstance(function, ast.Lambda) or scope_of(function).function is not None
        uses: list[ast.AST] = [function] if inner else []
        if not uses and any(last_name(each.func) != name for each in calls):
            files = self.program.mentioning(name)
            named = [each.get(name, ()) for file in files for each in (file.names, file.attributes)]
            uses = [use for some in named for use in some if getattr(parent_of(use), "func", None) is not use]
        truth = self.program.analysis(Guards).truth
        keys = [each.func.slice for each in calls if isinstance(each.func, ast.Subscript)]
        found = [self.ranks_running(each) for each in uses] + [truth(each) for each in keys]
        guards = [each for each in found if isinstance(each, Guard)]
        return guards[0] if guards and len(guards) >= max(len(uses), 1) else None

    def _makers_of_field(self, factory: FunctionNode) -> list[ast.Call]:
        """The calls of dataclasses that run the factory of a field, where it is handed to nothing else."""
        uses: list[ast.expr] = [factory] if isinstance(factory, ast.Lambda) else []
        for file in self.program.mentioning(factory.name) if not isinstance(factory, ast.Lambda) else ():
            names = file.names.get(getattr(factory, "name", ""), ())
            uses += [each for each in names if self.program.value(each) == Defined(factory)]
        keywords = [parent_of(each) for each in uses]
        if not all(isinstance(each, ast.keyword) and each.arg == "default_factory" for each in keywords):
            return []
        holders = [
            next((one for one in ancestors(each) if isinstance(one, ast.ClassDef)), None) for each in uses
        ]
        constructions = self.program.evaluation.callers.constructions
        return [call for each in holders if each is not None for call in constructions(each)]


class OpenParticipants(Participants):
    """The same where every rank comes to what may be called from where nobody sees: methods of a trainer
    that something unknown runs. What some ranks run is what those run who may be its callers."""

    _unseen = True


def _intersect(one: Truth, other: Truth) -> Truth:
    """Who runs what stands under both."""
    if one is False or other is False:
        return False
    guards = [each for each in (one, other) if isinstance(each, Guard)]
    if guards and None in (one, other) and guards[0].kind is not RankKind.GLOBAL:
        return None  # `local_rank == 0 and self.is_first_host`: nobody knows whether it is one rank of all.
    if guards:
        return narrowest(guards)
    return True if one is True and other is True else None


def _counts_rounds(test: ast.AST) -> bool:
    """Whether a comparison asks for every so many rounds: `step % save_every == 0`."""
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for each in sides)


def conditions_of(
    program: Program, node: ast.AST, given: Mapping[str, ast.expr] | None = None
) -> frozenset[tuple[str, bool]]:
    """The tests, as written, under which a node is come to in its function or its loop's round, and whether
    they hold; with what a call gives the parameters, as the caller writes it."""
    found = set[tuple[str, bool]]()
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            found |= _conditions_in(program, outer.test, is_in_body(outer, inner), given or {})
        for before in branches_leaving_before(outer, inner):
            found |= _conditions_in(program, before.test, False, given or {})
        if isinstance(outer, FunctionNode | ast.For | ast.While):
            break
        inner = outer
    return frozenset(found)


def entered_under(program: Program, call: ast.Call) -> Iterator[tuple[ast.Call, frozenset[tuple[str, bool]]]]:
    """Where a context is entered, and under which conditions: by its call, or by calls of what returns it."""
    function = scope_of(call).node
    returned = file_of(call).returns_of.get(function, ())
    yields = file_of(call).yields_of.get(function, ())
    yields_within = any(parent_of(call) in _items_around(each) for each in yields)
    is_returned = any(call in walk(each) for each in returned)
    if not isinstance(function, ast.FunctionDef) or yields_within or not is_returned:
        yield call, conditions_of(program, call)
    if isinstance(function, ast.FunctionDef) and (yields_within or is_returned):
        for site in program.evaluation.callers.call_sites(function) or ():
            owner = site.call.func.value if isinstance(site.call.func, ast.Attribute) else None
            given = {**({"self": owner} if owner else {}), **(site.arguments or {})}
            under = conditions_of(program, site.call) if yields_within else frozenset()
            yield site.call, under | conditions_of(program, call, given)


def _items_around(node: ast.AST) -> list[ast.withitem]:
    """The contexts in which a node stands."""
    return [item for outer in ancestors(node) if isinstance(outer, ast.With) for item in outer.items]


def shared_conditions(program: Program, one: ast.AST, other: ast.AST) -> frozenset[tuple[str, bool]]:
    """The conditions under which the block is come to that holds two places."""
    around, top = set(ancestors(other)), one
    while (outer := parent_of(top)) is not None and outer not in around:
        top = outer
    return conditions_of(program, top)


def _conditions_in(
    program: Program, test: ast.expr, holds: bool, given: Mapping[str, ast.expr], depth: int = 4
) -> set[tuple[str, bool]]:
    """What holds where a test does: through `not`, `and`, `!=`, and the name of a test."""
    if isinstance(test, ast.NamedExpr):
        test = test.value
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.BoolOp) and holds is isinstance(test.op, ast.And):
        return {each for part in test.values for each in _conditions_in(program, part, holds, given, depth)}
    sources = program.evaluation.sources(test) if isinstance(test, ast.Name) and depth else []
    if (
        len(sources) == 1
        and sources[0].kind is BindingKind.ASSIGNED
        and isinstance(
            made := sources[0].value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.NamedExpr | ast.Call
        )
    ):
        return _conditions_in(program, made, holds, given, depth - 1)
    copied = ast.parse(ast.unparse(test), mode="eval")
    for each in walk(copied):
        if isinstance(each, ast.Name) and each.id in given:
            each.id = ast.unparse(given[each.id])
        if isinstance(each, ast.Compare) and each is copied.body and isinstance(each.ops[0], ast.NotEq):
            each.ops[0], holds = ast.Eq(), not holds
    return {(ast.unparse(copied), holds)}


def _names_a_process(test: ast.expr) -> bool:
    """Whether a test asks which process this is, or whether it is the only one, by its names."""
    words = [
        (each.id if isinstance(each, ast.Name) else each.attr).lower()
        for each in walk(test)
        if isinstance(each, ast.Name | ast.Attribute)
    ]
    return any(hint in word for hint in _PROCESS_WORDS for word in words)


# All that a program says of how a value is made: for rules that must not speak of what they do not know.

_MOST = 200
"""So many expressions, functions and classes are looked into."""

_SPLITTING = (
    *("rank", "world", "shard", "replica", "num_processes", "process_index", "process_count"),
    *("split_dataset", "num_hosts", "local_examples", "sampler", "stream"),
)
"""Parts of identifiers where data may differ between the ranks already: they only silence a rule."""

_DRAWING = frozenset({"rand", "randn", "randint", "random_sample", "normal", "uniform"})
"""What makes data up, as each rank does by itself."""

_READING = frozenset(
    {
        *(
            "open",
            "load",
            "loads",
            "read",
            "readlines",
            "imread",
            "listdir",
            "glob",
            "rglob",
            "iterdir",
            "memmap",
        ),
        *(
            "fromfile",
            "read_csv",
            "read_json",
            "read_parquet",
            "read_image",
            "load_dataset",
            "load_from_disk",
        ),
        *("File", "ImageFolder", "loadmat", "loadtxt", "wavfile"),
    }
)
"""What reads data, of which a dataset then draws crops and the like."""

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

_DERIVING = frozenset(
    {
        *("map", "filter", "select", "shuffle", "sort", "train_test_split", "with_transform", "with_format"),
        *("remove_columns", "rename_column", "rename_columns", "select_columns", "cast_column"),
    }
)
"""Methods of such a dataset, and of a table of them, which make another one (datasets, Dataset)."""


class Closure:
    """The expressions, functions and classes of the program from which a value is made.

    `is_known` is False where the value, or what it holds on to, comes from where nobody sees. Arguments of
    the program's own functions and classes count only by the identifiers with which they are made.
    """

    def __init__(self, program: Program, node: ast.expr | ast.ClassDef) -> None:
        """Follow the value, or what a class does, to its sources."""
        self.program = program
        self.parts: list[ast.AST] = []
        self.is_known = True
        self._seen: set[ast.AST] = set()
        self._waiting: list[tuple[ast.AST, bool]] = [(node, True)]
        while self._waiting and len(self.parts) <= _MOST:
            part, must = self._waiting.pop()
            if part not in self._seen:
                self._seen.add(part)
                self.parts.append(part)
                known = self._follow(part, must)
                self.is_known = self.is_known and (known or not must)
        self.is_known = self.is_known and not self._waiting

    def _follow(self, part: ast.AST, must: bool) -> bool:
        """Put what a part is made of on the list; False where that is not known."""
        if isinstance(part, ast.Name | ast.Attribute | ast.Subscript):
            literals = alternatives(self.program.value(part))
            if all(isinstance(each, Constant) for each in literals):  # Not of what else stands beside it.
                self.parts += [ast.Constant(each.value) for each in literals if isinstance(each, Constant)]
                return True
        if isinstance(part, ast.Name | ast.Attribute):
            return self._source(part, must)
        if isinstance(part, ast.Call):
            return self._called(part, must)
        if isinstance(part, ast.Subscript):
            made = alternatives(self.program.value(part))
            calls = [each.call for each in made if isinstance(each, Instance) and SCOPE in each.call.__dict__]
            known: list[tuple[ast.AST, bool]] = [(each, must) for each in calls if len(calls) == len(made)]
            self._waiting += [*(known or [(part.value, must)]), (part.slice, False)]
            return True
        if isinstance(part, ast.IfExp | ast.Lambda):
            arms = [part.body, part.orelse] if isinstance(part, ast.IfExp) else [part.body]
            self._waiting += [(each, must) for each in arms]
            return True
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            self._inside(part)
            return True
        for each in children_of(part):
            inner = each.iter if isinstance(each, ast.comprehension) else each
            self._waiting += [(inner, False)] if isinstance(inner, ast.expr) else []
        return isinstance(part, ast.Constant | ast.List | ast.Tuple)

    def _source(self, name: ast.Name | ast.Attribute, must: bool) -> bool:
        bindings = self.program.evaluation.sources(name)
        value = self.program.value(name)
        self._waiting += [(each.definition, must) for each in alternatives(value) if isinstance(each, Made)]
        known = bool(bindings) or isinstance(value, Made)
        grows = f"{ast.unparse(name)}.append"
        for call in file_of(name).calls_of.get("append", ()):
            if scope_of(call) is scope_of(name) and ast.unparse(call.func) == grows:
                loops = [each.iter for each in ancestors(call) if isinstance(each, ast.For)]
                self._waiting += [(each, False) for each in (*call.args, *loops)]
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
        sites = self.program.evaluation.callers.call_sites_giving(parameter)
        if not sites or not isinstance(parameter, ast.arg):
            return False
        given = [each for site in sites if (each := site.given(parameter)) is not None]
        self._waiting += [(each, must) for each in given]
        return len(given) == len(sites)

    def _called(self, call: ast.Call, must: bool) -> bool:
        arguments, known, made = all_arguments(call), True, alternatives(self.program.value(call.func))
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        # Of `splits["train"].map(encode)` it is known whose samples they are.
        derived = owner is not None and last_name(call.func) in _DERIVING
        derived = derived and not any(isinstance(each, Defined) for each in made)
        for each in made:
            self._waiting += [(given, False) for given in arguments]
            if isinstance(each, Defined):
                self._waiting.append((each.node, must))
            elif not isinstance(each, External) or not each.name.startswith(PLAIN_DATASETS):
                known = derived
        if owner is not None:
            self._waiting.append((owner, must and derived))
        return known

    def _inside(self, part: ast.FunctionDef | ast.ClassDef) -> None:
        """What the statements of a function or class call of the program's own."""
        for node in walk(part):
            if isinstance(node, ast.Call):
                for each in alternatives(self.program.value(node.func)):
                    if isinstance(each, Defined):
                        self._waiting.append((each.node, False))

    def identifiers(self) -> Iterator[str]:
        """Every name, attribute, keyword and text of one word in it, but for what only describes it."""
        for part in self.parts:
            for node in walk(part):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.Attribute):
                    yield node.attr
                elif isinstance(node, ast.arg | ast.keyword) and node.arg:
                    yield node.arg
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                    yield node.value

    @property
    def may_differ(self) -> bool:
        """Whether anything in it hints at what differs between the ranks: a part of the data, or data that is
        drawn and not read."""
        words = {*self.identifiers()}
        if any(part in each.lower().replace("ranking", "") for each in words for part in _SPLITTING):
            return True
        return not words.isdisjoint(_DRAWING) and words.isdisjoint(_READING)

    @property
    def is_cut_nowhere(self) -> bool:
        """Whether all of it is known, and no word in it is one of those of parts of ranks; draws may be."""
        words = {each.lower() for each in self.identifiers()}
        parts = ["distributed", *(each for each in _SPLITTING if each != "sampler")]
        return self.is_known and not any(part in word for word in words for part in parts)

    @property
    def is_the_same_everywhere(self) -> bool:
        """Whether all of it is known, and nothing in it can differ between the ranks."""
        return self.is_known and not self.may_differ


_LOCKING = ("mkdir", "makedirs", "open", "symlink", "link")
"""What makes a folder or file that is not there yet, and fails for all but one."""


def is_behind_lock(call: ast.Call) -> bool:
    """Whether a function leaves before a call where it could not make a folder or file, which one alone can:
    `try: os.mkdir(lock)`, `except FileExistsError: return`."""
    function = next((each for each in ancestors(call) if isinstance(each, FunctionNode)), None)
    tries = [each for each in walk(function) if isinstance(each, ast.Try)] if function else []
    return any(
        each.lineno < call.lineno
        and any(isinstance(handler.body[-1], ast.Return | ast.Raise) for handler in each.handlers)
        and any(isinstance(one, ast.Call) and last_name(one.func) in _LOCKING for one in walk(each))
        for each in tries
    )


# What asks for the rank before there is a group, and so takes each process for the first one.


def _is_answered_too_early(program: Program, test: ast.expr, depth: int = 4) -> bool:
    """Whether a test is of a name that was given what holds without a group, before the group is made.

    `IS_MAIN = not dist.is_initialized() or dist.get_rank() == 0` at the top of a module is true everywhere.
    """
    if isinstance(test, ast.UnaryOp | ast.Compare):
        inner = test.operand if isinstance(test, ast.UnaryOp) else test.left
        return _is_answered_too_early(program, inner, depth)
    sources = program.evaluation.sources(test) if isinstance(test, ast.Name | ast.Attribute) else []
    made = sources[0].value if len(sources) == 1 else None
    if made is None or not depth or program.unread:
        return False
    if not _is_main_without_a_group(program, made):
        return _is_answered_too_early(program, made, depth - 1)
    joining = [call for call, _ in joining_calls(program)]
    return bool(joining) and all(_comes_behind(program, each, made) for each in joining)


def _is_main_without_a_group(program: Program, made: ast.expr | None) -> bool:
    """Whether an expression asks whether there is a group, and is 0 or true where there is none."""
    match made:
        case ast.BoolOp(op=ast.Or(), values=[ast.UnaryOp(op=ast.Not(), operand=asked), *_]):
            return _asks_for_a_group(program, asked)
        case ast.IfExp():
            other = made.body if isinstance(made.test, ast.UnaryOp) else made.orelse
            return _asks_for_a_group(program, made.test) and _is_of_the_first(other)
        case ast.Compare(left=inner, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return _is_main_without_a_group(program, inner)
        case ast.Call():
            called = program.value(made.func)
            node = called.node if isinstance(called, Defined) else made
            results = [each.value for each in file_of(node).returns_of.get(node, ())]
            plain = any(map(_is_of_the_first, results)) and _asks_for_a_group(program, node)
            return plain or any(_is_main_without_a_group(program, each) for each in results)
    return False


def _is_of_the_first(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value in (0, True) and value.value is not False


def _asks_for_a_group(program: Program, within: ast.AST) -> bool:
    calls = (each for each in walk(within) if isinstance(each, ast.Call))
    return any(program.qualified(each.func) == "torch.distributed.is_initialized" for each in calls)


def _comes_behind(program: Program, call: ast.Call, early: ast.expr, depth: int = 6) -> bool:
    """Whether each run of a call comes behind that of an expression, by where they or their callers stand:
    the modules that an entry imports run before what is behind its imports."""
    scope, other = scope_of(call).function, scope_of(early).function
    if scope is other and file_of(call) is file_of(early):
        return call.lineno > early.lineno
    if scope is None:
        imports = [each for file in program.files for each in file.imports]
        inner = [each for each in imports if scope_of(each.node).function is not None]
        late = any(file_of(early).path.stem in (each.module or "").split(".") for each in inner)
        own = [each.node.__dict__["lineno"] for each in program.entry.imports if each not in inner]
        in_entry = other is None and file_of(call) is program.entry
        return in_entry and not late and all(call.lineno > each for each in own)
    function = scope.node if isinstance(scope.node, FunctionNode) and depth else None
    sites = program.evaluation.callers.call_sites(function) if function else None
    return bool(sites) and all(_comes_behind(program, each.call, early, depth - 1) for each in sites or ())
