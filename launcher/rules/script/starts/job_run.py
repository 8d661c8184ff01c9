"""What the options of a program and the variables of its environment are in one job, and what it comes to."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from launcher.cluster.instances import instance_facts
from launcher.program.dataflow import (
    constant_argument,
    has_star_arguments,
    origins,
    parts_of,
)
from launcher.program.evaluators.arithmetic import ARITHMETIC, ORDERS
from launcher.program.index import (
    Binding,
    BindingKind,
    ancestors,
    ancestors_in_function,
    last_name,
    scope_of,
    statement_of,
)
from launcher.program.process_environment import changed_variables
from launcher.program.process_starts import count_on_host
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability, never_runs, statements_before
from launcher.program.surroundings.options import (
    SET_ANYWAY,
    declared_in_run,
    declared_option,
    given_in_words,
)
from launcher.program.values import (
    Constant,
    External,
    Instance,
    RankValue,
    Several,
    WorldSize,
    is_set_by_method,
)
from launcher.rules.script.configuration_files import ConfigurationFiles, configured_constant, words_of
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import ScriptSubject

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec

Answer = TypeVar("Answer")
Asked = TypeVar("Asked", bound=ast.AST)


def given_option(job: JobSpec, name: str, declared: ast.AST | None = None) -> str | None:
    """What a job gives an option, as hyperparameter or argument: an empty text to a mere switch, None where
    it does not give it. `declared` is the call that declares the option, which may have short names too."""
    return given_in_words(words_of(job), name, declared)


OTHER_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MV2_", "HOROVOD_")
"""How the variables begin that only their own launcher sets."""

_OF_MPI = ("mpi4py.", "horovod.")
"""How the libraries are called that ask mpirun or horovodrun who they are."""

_OPEN = ast.For | ast.While | ast.Try | ast.ExceptHandler | ast.IfExp | ast.BoolOp
"""What may pass over a part of itself, so that nobody can tell."""

_OF_EACH_PROCESS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"})
"""What torchrun tells each process that it starts."""


_OF_EACH_JOB = frozenset(
    {
        *("SM_HOSTS", "SM_CURRENT_HOST", "SM_NUM_GPUS", "SM_NUM_CPUS", "SM_RESOURCE_CONFIG", "SM_CHANNELS"),
        *("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SM_INPUT_DIR", "SM_TRAINING_ENV", "SM_HPS", "SM_USER_ARGS"),
    }
)
"""What the start of a job on SageMaker tells each of its processes."""


def as_started(program: Program, job: JobSpec) -> Program:
    """A program with the words and the environment variables that a job gives it."""
    # That a secret's value is a text is all that is known of it.
    variables = dict.fromkeys(job.secrets, "a secret")
    variables |= {name: str(value) for name, value in job.environment.items()}
    return replace(program, words=words_of(job), variables=variables)


class JobRun:
    """What the options of a program and the variables of its environment are in one job."""

    def __init__(self, subject: ScriptSubject, *, guesses: bool = False) -> None:
        """Of the job that starts the program. With `guesses` an entry of configuration files of which nobody
        knows which one is read has the value that all of them give it."""
        self._guesses = guesses
        self.program, self.job, self.plan = subject.program, subject.job, subject.plan
        self.strategy = str(subject.job.distribution.strategy)
        self._set = {each.name for each in changed_variables(self.program)}
        self.facts = instance_facts(subject.job.resources.instance_type)
        self._open = dict[ast.AST, int]()
        self._asked_again = sys.maxsize
        self._for_now = dict[tuple[int, ast.AST], object]()
        self._passed = dict[ast.AST, bool]()
        self._truths = dict[ast.expr, bool | None]()

    def lacks(self, name: str) -> bool:
        """Whether a variable is surely not set: of another launcher, or of one where there is none."""
        if name in self.job.environment or name in self._set:
            return False
        if name in _OF_EACH_PROCESS:
            return self.strategy in ("none", "mpi")
        return name.startswith(OTHER_LAUNCHERS) and self.strategy in ("torchrun", "none")

    def holds(self, name: str) -> bool | None:
        """Whether a variable is set in the job's processes; None where nobody can tell."""
        if name in self._set:
            return None
        if name in self.job.environment or self._is_told(name):
            return True
        known = self.lacks(name) or not (name in _OF_EACH_PROCESS or SET_ANYWAY.fullmatch(name))
        return False if known else None

    def _is_told(self, name: str) -> bool:
        """Whether the service or the launcher surely tells each process a variable."""
        if name in _OF_EACH_PROCESS:
            return self.strategy == "torchrun"
        channels = {f"SM_CHANNEL_{each.upper()}" for each in self.job.inputs}
        return self.job.backend == "sagemaker" and (name in _OF_EACH_JOB or name in channels)

    def truth(self, test: ast.expr) -> bool | None:
        """What a test is in this job, of those that ask for an option or a variable."""
        return self._asked_once(self._truths, test, self._truth)

    def _truth(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            sign, right = test.ops[0], test.comparators[0]
            if isinstance(sign, ast.In | ast.NotIn) and self.program.value(right) == External("os.environ"):
                name = constant_argument(self.program, test.left)
                there = None if name is None else self.holds(str(name.value))
                return None if there is None else there is isinstance(sign, ast.In)
            if isinstance(sign, ast.In | ast.NotIn):
                held = self._is_in(test.left, right)
                return None if held is None else held is isinstance(sign, ast.In)
            one, other = self.value(test.left), self.value(right)
            order = ORDERS.get(type(sign))
            if one is None or other is None:
                return None
            if order is not None and isinstance(one.value, int) and isinstance(other.value, int):
                return order(one.value, other.value)
            alike = isinstance(sign, ast.Eq | ast.Is)
            return (one == other) is alike if alike or isinstance(sign, ast.NotEq | ast.IsNot) else None
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            parts, decides = [self.truth(each) for each in test.values], isinstance(test.op, ast.Or)
            return decides if decides in parts else None if None in parts else not decides
        found = self.value(test)
        if found is not None:
            return bool(found.value)
        if isinstance(test, ast.Name | ast.Attribute) and (source := self._only_source(test)) is not None:
            return self._within(source, self.truth)
        made = origins(self.program, test) if isinstance(test, ast.Call) else ()
        result = made[0] if len(made) == 1 and made[0] is not test else None
        return None if result is None else self._within(result, self.truth)

    def value(self, node: ast.expr) -> Constant | None:
        """The text, number or switch that an expression is in this job."""
        found = self.program.value(node)
        if isinstance(found, Constant):
            return found
        if isinstance(found, RankValue | WorldSize) and found.source.startswith(_OF_MPI):
            derived = isinstance(node, ast.BinOp | ast.Call) and bool(getattr(node, "args", True))
            if self.strategy == "torchrun" and not derived:  # For them it is a world of one.
                return Constant(int(isinstance(found, WorldSize)))
        if isinstance(node, ast.Attribute) and (option := self._option(node)) is not None:
            return option
        named = isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
        if named and (source := self._only_source(node)) is not None:
            return self._within(source, self.value)
        if isinstance(node, ast.Name) and (given := self._given_everywhere(node)) is not None:
            return given
        if isinstance(node, ast.Attribute | ast.Subscript):
            files = self.program.analysis(ConfigurationFiles)
            found_in_file = configured_constant(files.entry(node, words_of(self.job)), guesses=self._guesses)
            held = self._entry_of(node) if isinstance(node, ast.Subscript) else None
            return found_in_file if held is None or found_in_file else self._within(held, self.value)
        if isinstance(node, ast.NamedExpr | ast.FormattedValue):
            return self.value(node.value)
        if isinstance(node, ast.JoinedStr):
            told = [self.value(each) for each in node.values]
            return None if None in told else Constant("".join(str(each.value) for each in told if each))
        if isinstance(node, ast.BinOp) and (operation := ARITHMETIC.get(type(node.op))) is not None:
            one, other = (getattr(self.value(each), "value", None) for each in (node.left, node.right))
            return Constant(operation(one, other)) if type(one) is type(other) is int and other else None
        if isinstance(node, ast.IfExp):
            holds = self.truth(node.test)
            return None if holds is None else self.value(node.body if holds else node.orelse)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            parts = [self.value(each) for each in node.values]
            return None if None in parts else next((each for each in parts if each and each.value), parts[-1])
        if isinstance(node, ast.Call):
            name = self.program.qualified(node.func)
            if name in ("os.environ.get", "os.getenv") and node.args:
                return self._variable(node)
            if name == "torch.cuda.is_available":
                return Constant(True) if self.facts is not None and self.facts.has_gpus else None
            if name in _ASKING_FOR_FILES and node.args:
                place = self.value(node.args[0])  # Nothing has an empty name.
                return Constant(False) if place is not None and not place.value else None
            inner = self.value(node.args[0]) if name in ("int", "str", "bool") and node.args else None
            if inner is not None and name == "int":
                return _whole_number(str(inner.value))
            if inner is not None:
                return Constant(str(inner.value) if name == "str" else bool(inner.value))
        return default_constant(self.program, node)

    def _entry_of(self, node: ast.Subscript, depth: int = 4) -> ast.expr | None:
        """What a table that is written holds by a key of this job: `SIZES[os.environ.get("SIZE", "big")]`."""
        key = self.value(node.slice)
        table: ast.expr | None = node.value
        if isinstance(table, ast.Subscript) and depth:
            table = self._entry_of(table, depth - 1)
        elif isinstance(table, ast.Name | ast.Attribute):
            table = self._only_source(table)
        if key is None or not isinstance(table, ast.Dict):
            return None
        known = [None if each is None else self.value(each) for each in table.keys]
        return None if None in known else dict(zip(known, table.values, strict=True)).get(key)

    def count_listed(self, node: ast.expr, depth: int = 5) -> int | None:
        """How many a list or range has, or a text with commas: `"0,1"`, `",".join(map(str, range(2)))`."""
        found, made = self.value(node), origins(self.program, node)
        listed = self.program.value(node)
        only = made[0] if len(made) == 1 else None
        if found is not None and isinstance(found.value, str):
            return sum(1 for each in found.value.split(",") if each.strip())
        if isinstance(listed, Several):
            grows = any(isinstance(each, ast.Starred) for each in listed.node.elts)
            return None if grows or last_name(node) in self.program.grown else len(listed.node.elts)
        if isinstance(only, ast.ListComp | ast.GeneratorExp) and depth:
            first = only.generators[0]
            return None if first.ifs or only.generators[1:] else self.count_listed(first.iter, depth - 1)
        if not isinstance(only, ast.Call) or not only.args or not depth:
            return None
        name = self.program.qualified(only.func)
        if name == "range":
            processes = self.plan.processes_per_host or 1
            ends = [count_on_host(self.program, each, processes, self.value) for each in only.args]
            known = [each for each in ends if each is not None]
            return len(range(*known)) if known == ends and 0 not in known[2:] else None
        text = only.func.value if isinstance(only.func, ast.Attribute) and only.func.attr == "join" else None
        joins = text is not None and self.program.value(text) == Constant(",")
        kept = name in ("list", "tuple", "sorted") or (name == "map" and len(only.args) == 2)
        return self.count_listed(only.args[-1], depth - 1) if joins or kept else None

    def _within(self, node: Asked, ask: Callable[[Asked], Answer | None]) -> Answer | None:
        if node in self._open:
            self._asked_again = min(self._asked_again, self._open[node])
            return None
        self._open[node] = len(self._open)
        try:
            return ask(node)
        finally:
            del self._open[node]

    def _asked_once(
        self, answers: dict[Asked, Answer], node: Asked, ask: Callable[[Asked], Answer]
    ) -> Answer:
        """An answer, kept as long as the run unless it stayed open because it asks for what is being asked:
        then until the outermost question is answered."""
        if node in answers:
            return answers[node]
        if (key := (id(answers), node)) in self._for_now:
            # An answer that was left open leaves open what is made of it.
            self._asked_again = min(self._asked_again, 0)
            return cast(Answer, self._for_now[key])
        around, self._asked_again = self._asked_again, sys.maxsize
        answer, asked = ask(node), self._asked_again
        self._asked_again = min(around, asked)
        if asked < len(self._open):
            self._for_now[key] = answer
        else:
            answers[node] = answer
        if not self._open:
            self._for_now.clear()
        return answer

    def _only_source(self, node: ast.expr) -> ast.expr | None:
        bindings = self._that_hold(node, self.program.evaluation.sources(node))
        only = bindings[0] if len(bindings) == 1 else None
        if only and only.kind is BindingKind.ASSIGNED and only.item is None and only.value is not None:
            return only.value
        made = origins(self.program, node)
        return made[0] if len(made) == 1 and made[0] is not node else None

    def _that_hold(self, node: ast.expr, bindings: Sequence[Binding]) -> Sequence[Binding]:
        """Of what a name or attribute is given, that which it may be in this job where it is read: nothing
        that stands behind it, or where the job never comes; what surely comes last alone."""
        if len(bindings) < 2 and not any(isinstance(each.node, ast.Attribute) for each in bindings):
            return bindings
        loops = any(isinstance(each, ast.For | ast.While) for each in ancestors_in_function(node))
        read, here = _line(statement_of(node)), None if loops else scope_of(node)
        left = [
            each
            for each in bindings
            if not (scope_of(each.node) is here and _line(each.node) > read) and not self._passes(each.node)
        ]
        last = max(left, key=lambda each: _line(each.node), default=None)
        beside = all(scope_of(each.node) is here for each in left)
        return [last] if last is not None and beside and self._is_come_to(last.node) else left

    def _passes(self, node: ast.AST) -> bool:
        """Whether this job surely never comes to a statement."""
        return self._asked_once(self._passed, node, self._never_runs)

    def _never_runs(self, node: ast.AST) -> bool:
        return bool(self._within(node, lambda each: never_runs(self.program, each, self.truth)))

    def _is_come_to(self, node: ast.AST) -> bool:
        """Whether this job surely comes to a statement wherever it comes to the others of its function."""
        inner = node
        for outer in ancestors_in_function(node):
            if isinstance(outer, ast.If) and inner is not outer.test:
                if self._within(outer.test, self.truth) is not any(each is inner for each in outer.body):
                    return False
            elif isinstance(outer, _OPEN):
                return False
            inner = outer
        return True

    def _given_everywhere(self, name: ast.Name) -> Constant | None:
        """What a parameter is by all calls that give it something, where they agree."""
        found = {
            None if each is None or each is name else self._within(each, self.value)
            for each in origins(self.program, name)
        }
        return found.pop() if len(found) == 1 else None

    def _variable(self, call: ast.Call) -> Constant | None:
        """What `os.environ.get` gives: the job's value, or the default where nobody sets the variable."""
        name = constant_argument(self.program, call.args[0])
        held = None if name is None else self.holds(str(name.value))
        if name is None or held is None:
            return None
        if held:
            given = self.job.environment.get(str(name.value))
            return None if given is None else Constant(str(given))
        return self.value(call.args[1]) if len(call.args) > 1 else Constant(None)

    def _option(self, node: ast.Attribute) -> Constant | None:
        """What the job gives an option of the program's only parser, or its default."""
        # What a parser makes is no object with methods of its own.
        is_parsed = isinstance(self.program.value(node.value), Instance)
        stores = self._that_hold(node, self._stores_of_option(node.attr, is_parsed))
        if (
            len(stores) == 1
            and scope_of(stores[0].node) is scope_of(node)
            and self._is_come_to(stores[0].node)
        ):
            only = stores[0].value if stores[0].kind is BindingKind.ASSIGNED else None
            return None if only is None or stores[0].item is not None else self._within(only, self.value)
        return None if stores else self._declared_option(node.attr)

    def _stores_of_option(self, name: str, is_parsed: bool) -> list[Binding]:
        stores = (each for file in self.program.files for each in file.set_attributes.get(name, ()))
        return [each for each in stores if not (is_parsed and is_set_by_method(each))]

    def option(self, name: str, is_parsed: bool = True) -> Constant | None:
        """What the job gives an option by its name, or its default; None where the program sets it itself."""
        stores = self._stores_of_option(name, is_parsed)
        return None if not all(self._passes(each.node) for each in stores) else self._declared_option(name)

    def _declared_option(self, name: str) -> Constant | None:
        calls = declared_in_run(self.program, name)
        if len(calls) != 1 or has_star_arguments(calls[0]):
            return None
        option = declared_option(self.program, calls[0], name)
        if option is None or (option.is_given and option.value is None):
            return None
        return self.value(option.default) if option.value is None else Constant(option.value)

    def _is_in(self, item: ast.expr, whole: ast.expr) -> bool | None:
        """Whether a text holds another, or what is listed holds a value: `"None" not in args.load`."""
        one, other = self.value(item), self.value(whole)
        if one is not None and isinstance(whole, ast.Tuple | ast.List | ast.Set):
            listed = [self.value(each) for each in whole.elts]
            return True if one in listed else None if None in listed else False
        texts = [each.value for each in (one, other) if each is not None and isinstance(each.value, str)]
        return texts[0] in texts[1] if len(texts) == 2 else None

    def options_leaving_out(self, call: ast.Call) -> list[ast.Call]:
        """Where `--local_rank` is declared, if no process comes to a call because of a test of that: only
        launchers before torchrun hand it over."""

        def known_besides(test: ast.expr) -> bool | None:
            parts = (each for each in parts_of(self.program, test) if isinstance(each, ast.expr))
            asked = (self.program.value(each) for each in parts)
            by_option = any(isinstance(each, RankValue) and each.source == "--local_rank" for each in asked)
            return None if by_option else self.truth(test)

        left_out = self.strategy == "torchrun" and never_runs(self.program, call, self.truth)
        by_option = left_out and not never_runs(self.program, call, known_besides)
        return self.program.evaluation.attributes.options.handed_over if by_option else []


def may_run(run: JobRun, node: ast.expr, deepest: int = 4) -> bool:
    """Whether an expression is reached: no test that never holds around it or around the function's calls.

    A function whose callers are not all seen is called where its name is; one that nobody names, by a hook.
    """
    program = run.program
    if not program.analysis(Reachability).reaches(node) or never_runs(program, node, run.truth):
        return False
    function = next((each for each in ancestors(node) if isinstance(each, ast.FunctionDef)), None)
    if function is None or deepest == 0:
        return True
    sites = program.evaluation.callers.call_sites(function)
    if sites == []:
        return bool(function.decorator_list)
    named = [each for file in program.files for each in file.calls_of.get(function.name, ())]
    calls = named if sites is None else [site.call for site in sites]
    calls = [each for each in calls if function not in ancestors(each)]  # Not by itself.
    return not calls or any(may_run(run, each, deepest - 1) for each in calls)


def failing_tests(
    program: Program,
    truth: Callable[[ast.expr], bool | None],
    call: ast.AST,
    deepest: int = 3,
) -> list[tuple[ast.AST, ast.expr]]:
    """The tests that keep a call or statement from running, by what they are in a job: around it, of what
    leaves before it, or around the calls of its function; each with what it is around."""
    inner: ast.AST = call
    for outer in ancestors(call):
        body = outer.body if isinstance(outer, ast.If) else [getattr(outer, "body", None)]
        test = outer.test if isinstance(outer, ast.If | ast.IfExp) else None
        if test is not None and inner is not test and truth(test) is (inner not in body):
            return [(call, test)]
        for each in statements_before(outer, inner) if isinstance(inner, ast.stmt) else ():
            if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return) and truth(each.test):
                return [(call, each.test)]
        if isinstance(outer, ast.FunctionDef):
            sites = program.evaluation.callers.possible_sites(outer) if deepest else []
            within = (failing_tests(program, truth, site.call, deepest - 1) for site in sites)
            return [each for one in within for each in one]
        inner = outer
    return []


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


_ASKING_FOR_FILES = ("os.path.exists", "os.path.isfile", "os.path.isdir")


def _whole_number(text: str) -> Constant | None:
    """What `int` makes of a text such as `-1`; None where it is no number."""
    return Constant(int(text)) if text.removeprefix("-").isdecimal() else None
