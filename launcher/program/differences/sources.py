"""What each process has of its own, so that what is calculated from it differs between the ranks: clocks,
random numbers and their seeds, names of the process and the host."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    origins,
    parts_of,
    text_parts,
)
from launcher.program.differences.clocks import is_filled_in_coarsely, is_made_coarse, tells_seconds
from launcher.program.index import (
    SCOPE,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.training_loops import makes_ranks_agree, shares_its_result
from launcher.program.ranks.uniformity import PURE_CALLS, PURE_METHODS
from launcher.program.surroundings.seeds import (
    SEEDED_BY,
    is_salted,
    is_unseeded,
    seed_handed_back,
    seedings_of,
)
from launcher.program.values import (
    Defined,
    Instance,
    RankValue,
    alternatives,
)

GENERATORS = (
    "random.Random",
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "numpy.random.Generator",
)
"""What draws random numbers from a seed of its own."""


def seeds_of(program: Program, call: ast.Call, name: str) -> Iterator[ast.expr | None]:
    """What seeds the numbers by which a call shuffles: its generator's seeds, or those of its module."""
    generator = argument_of(call, "generator")
    if generator is None and name.startswith(GENERATORS) and isinstance(call.func, ast.Attribute):
        generator = call.func.value
    if generator is None:
        module = name.rpartition(".")[0]
        seeding = SEEDED_BY.get(module, f"{module}.seed")
        yield from (argument_of(each, "seed", 0) for each, _ in program.calls(seeding))
        return
    for made in alternatives(program.value(generator)):
        if not isinstance(made, Instance) or SCOPE not in made.call.__dict__:
            yield None
        elif made.name == "torch.Generator":
            for each, _ in program.calls("torch.Generator.manual_seed"):
                assert isinstance(each.func, ast.Attribute)
                if program.value(each.func.value) == made:
                    yield argument_of(each, "seed", 0)
        else:
            yield argument_of(made.call, "seed", 0)


def is_seeded(program: Program) -> bool:
    """Whether anything that a program calls or sets has to do with a seed."""
    return any(
        "seed" in name.lower()
        for file in program.files
        for names in (file.calls_of, file.names, file.attributes, file.set_attributes)
        for name in names
    )


def may_be_seeded(program: Program, module: str) -> bool:
    """Whether anything that the program comes to may set a seed of the random numbers of this module: its own
    call, or one that is called a seed and is not known to be another module's."""
    others = {*SEEDED_BY.values(), "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"}
    others -= {SEEDED_BY[module]}
    reaches = program.analysis(Reachability).reaches
    for file in program.files:
        for name, calls in file.calls_of.items():
            if "seed" not in name.lower():
                continue
            for call in calls:
                known = (
                    isinstance(program.value(call.func), Defined) or program.qualified(call.func) in others
                )
                if not known and reaches(call):
                    return True
        if any(_is_told_a_seed(program, call) for call in file.calls):
            return True
    return False


def _is_told_a_seed(program: Program, call: ast.Call) -> bool:
    """Whether a function that is not known is given something called a seed, which it may set for all."""
    names = [each.arg or "" for each in call.keywords] + [
        last_name(each) or "" for each in all_arguments(call)
    ]
    if not any("seed" in each.lower() for each in names):
        return False
    whole = program.qualified(call.func) or ""
    return not isinstance(program.value(call.func), Defined) and not whole.startswith(_WITH_OWN_SEEDS)


_WITH_OWN_SEEDS = ("torch.", "numpy.", "random.", "int", "str", "print")
"""How the names begin of what is told a seed and sets none for other modules."""


_OWN = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.perf_counter",
        "time.strftime",
        "time.ctime",
        "time.asctime",
        "time.localtime",
        "time.gmtime",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "os.getpid",
        "os.urandom",
        "uuid.uuid1",
        "uuid.uuid4",
        "secrets.choice",
        "secrets.randbits",
        "secrets.randbelow",
        "secrets.token_bytes",
        "secrets.token_hex",
        "secrets.token_urlsafe",
        "torch.seed",
        "torch.random.seed",
        "torch.Generator.seed",
        "socket.gethostname",
        "platform.node",
        *("tempfile.mkdtemp", "tempfile.mktemp", "tempfile.TemporaryDirectory"),
        *("wandb.util.generate_id", "coolname.generate_slug", "shortuuid.uuid", "nanoid.generate"),
    }
)
"""Calls that each process answers in its own way."""

_DRAWN = frozenset(
    f"{module}.{name}"
    for module in ("random", "numpy.random")
    for name in ("randint", "randrange", "random", "getrandbits", "choice", "choices", "sample", "uniform")
) | {"torch.randint", "torch.initial_seed"}
"""Calls that do so unless the program gives them a seed."""


def source_of_difference(
    program: Program,
    node: ast.expr,
    drawn_before: frozenset[ast.Call] = frozenset(),
    leaves_out: Callable[[ast.AST], bool] = lambda node: False,
) -> str | None:
    """By what an expression surely differs between the ranks: a rank, or what each process has of its own.

    None where they agree on a part of it, or a rank is taken off again. `drawn_before` are drawings of whose
    seeds it is a part; `leaves_out` says which calls no process comes to.
    """
    value = program.value(node)
    parts = list(parts_of(program, node))
    calls = [each for each in parts if isinstance(each, ast.Call) and not leaves_out(each)]
    if _may_be_shared(program, parts):
        return None
    if isinstance(value, RankValue):
        return value.source
    added = (
        program.value(each)
        for each in parts
        if isinstance(each, ast.Name | ast.Attribute | ast.Call)
        and isinstance(parent_of(each), ast.AugAssign)
    )
    drawn = [_source_of_drawing(program, each, drawn_before) for each in calls]
    chosen = [program.value(each.slice) for each in parts if isinstance(each, ast.Subscript)]
    ranks = [each.source for each in (*chosen, *added) if isinstance(each, RankValue)]
    ranks += [each for each in drawn if each is not None]
    handed_back = (seed for each in calls if (seed := seed_handed_back(program, each)) is not None)
    ranks += [each.source for seed in handed_back if isinstance(each := program.value(seed), RankValue)]
    own = [(each, name) for each in calls if (name := _own_to_a_process(program, each))]
    calculated_with = _calls_calculated_with(program, node) if own else set[ast.Call]()
    names = (name for each, name in own if each in calculated_with)
    return next(iter([*ranks, *names]), None)


def ranks_on_the_way(program: Program, node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """What an expression is made of on one of several ways, where that differs by a rank, with its name."""
    if _may_be_shared(program, list(parts_of(program, node))):
        return
    for each in origins(program, node):
        value = None if each is None else program.value(each)
        if each is not None and isinstance(value, RankValue):
            yield each, value.source


def _may_be_shared(program: Program, parts: list[ast.AST]) -> bool:
    """Whether the ranks may agree on what is made of these parts, or a rank is taken off again."""
    taken_off = (
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and isinstance(program.value(each.right), RankValue)
        for each in parts
    )
    if any(isinstance(each, ast.Call) and makes_ranks_agree(each) for each in parts):
        return True
    scopes = {scope_of(each) for each in parts if SCOPE in each.__dict__}
    return any(taken_off) or _is_agreed_on(parts) or any(shares_its_result(program, each) for each in scopes)


def _calls_calculated_with(program: Program, node: ast.expr, deepest: int = 12) -> set[ast.Call]:
    """The calls whose results go into a value, by arithmetic, tests and what writes them in another way: not
    those in a table of which it is another entry, or that a loop before it went through."""
    found, waiting, seen = set[ast.Call](), [(node, deepest)], set[ast.AST]()
    while waiting:
        whole, depth = waiting.pop()
        if whole in seen or not depth:
            continue
        seen.add(whole)
        waiting += [(each, depth - 1) for each in origins(program, whole) if each is not None]
        match whole:
            case ast.Call():
                found.add(whole)
                owner = [whole.func.value] if isinstance(whole.func, ast.Attribute) else []
                inner = [*all_arguments(whole), *owner]
            case ast.Attribute() | ast.Subscript() | ast.Starred() | ast.FormattedValue() | ast.Await():
                inner = [whole.value]
            case ast.Dict() | ast.Lambda() | ast.Constant() | ast.Name():
                inner = []
            case _:
                inner = [each for each in children_of(whole) if isinstance(each, ast.expr)]
        waiting += [(each, depth - 1) for each in inner]
    return found


def own_calls(program: Program, node: ast.expr) -> Iterator[ast.Call]:
    """The calls of which a value is made that each process answers in its own way."""
    for part in parts_of(program, node):
        if isinstance(part, ast.Call) and _own_to_a_process(program, part):
            yield part


def _own_to_a_process(program: Program, call: ast.Call) -> str | None:
    """The name of a call that each process answers in its own way, if it is one."""
    name = program.qualified(call.func) or ""
    if name.startswith("random.SystemRandom."):
        return name
    if is_salted(program, call):
        return f"{name}, which Python gives another number in each process"
    if name in _DRAWN:
        return None if may_be_seeded(program, name.rpartition(".")[0]) else name
    if name not in _OWN:
        return None
    return name if tells_seconds(program, call, name) else None


_TELLING = frozenset(
    {"strftime", "isoformat", "ctime", "timestamp", "encode", "decode", "hex", "digest", "hexdigest"}
    | {"choice", "choices"}
)
"""Methods that give another one where their object is another."""


def surely_differs(
    program: Program,
    node: ast.expr,
    default_of: Callable[[ast.expr], ast.expr | None] = lambda _: None,
    depth: int = 12,
) -> bool:
    """Whether a text or path holds on every way what each process that makes it has of its own.

    A clock by the second, or a random name; on all ways that it may be made, and as a part of the text.
    `default_of` says what an expression is made of that the program leaves to its surroundings.
    """
    if not depth or isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.Call) and _own_to_a_process(program, node):
        return True
    if is_made_coarse(program, node, own_calls):
        return False
    if (told := default_of(node)) is not None:
        return surely_differs(program, told, default_of, depth - 1)
    inner = [each for each in text_parts(program, node)[0] if not is_filled_in_coarsely(each)]
    made = origins(program, node)
    if not inner and made != (node,):
        return all(each is not None and surely_differs(program, each, default_of, depth - 1) for each in made)
    if isinstance(node, ast.Call):
        method = isinstance(node.func, ast.Attribute) and node.func.attr in {*PURE_METHODS, *_TELLING}
        name = program.qualified(node.func) or ""
        if method or name in PURE_CALLS or name.startswith("hashlib."):
            owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            given = [] if last_name(node.func) == "get" else all_arguments(node)  # Nobody need ask for these.
            inner += [*owner, *given]
    elif isinstance(node, ast.Attribute | ast.Subscript | ast.FormattedValue):
        inner.append(node.value)
    elif isinstance(node, ast.GeneratorExp | ast.ListComp):
        inner.append(node.elt)
    elif isinstance(node, ast.BinOp):
        inner += [node.left, node.right]
    return any(surely_differs(program, each, default_of, depth - 1) for each in inner)


def _source_of_drawing(program: Program, call: ast.Call, before: frozenset[ast.Call]) -> str | None:
    """By what the seed of the random numbers differs that a call of a library draws, or asks for.

    A number that becomes the only seed, as of `random.seed(random.randint(1, 10000))`, was drawn without one.
    """
    if call in before:
        return None
    before |= {call}
    name = program.qualified(call.func) or ""
    module, _, last = name.rpartition(".")
    if name.startswith(GENERATORS) and last in _DRAWING:
        if isinstance(call.func, ast.Attribute) and is_unseeded(program, call.func.value):
            return name
        seeds = [*seeds_of(program, call, name)]
        sources = [None if each is None else source_of_difference(program, each, before) for each in seeds]
        return next(filter(None, sources), None) if None not in seeds else None
    if module not in SEEDED_BY or last in ("seed", "manual_seed"):
        return None
    if last not in (
        "initial_seed",
        "randint",
        "randperm",
        "rand",
        *(each.rpartition(".")[2] for each in _DRAWN),
    ):
        return None
    seedings = [*seedings_of(program, module)]
    later = [each for each in seedings if each.seed is not None and call in parts_of(program, each.seed)]
    if later and len(later) == len(seedings):
        return name
    sources = [
        program.qualified(each.call.func)
        if each.adds_rank
        else None
        if each.seed is None
        else source_of_difference(program, each.seed, before)
        for each in seedings
    ]
    return sources[0] if sources and None not in sources else None


_DRAWING = frozenset({"integers", *(each.rpartition(".")[2] for each in _DRAWN)})


def _is_agreed_on(parts: list[ast.AST]) -> bool:
    """Whether the ranks agree on one of these variables: `dist.broadcast(seed, 0)`."""
    scopes = {(each.id, scope_of(each)) for each in parts if isinstance(each, ast.Name)}
    return any(
        isinstance(given, ast.Name) and (given.id, scope_of(given)) in scopes
        for file in {scope.file for _, scope in scopes}
        for call in file.calls
        if makes_ranks_agree(call)
        for one in all_arguments(call)
        for given in walk(one)
    )
