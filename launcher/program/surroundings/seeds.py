"""What seeds the random numbers of a process, by whatever library, and what numbers Python salts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, origins
from launcher.program.program import Program
from launcher.program.surroundings.options import option_of
from launcher.program.values import Constant, External, Instance, alternatives

SEEDED_BY = {"random": "random.seed", "numpy.random": "numpy.random.seed", "torch": "torch.manual_seed"}
"""What seeds the random numbers of a module for the whole process."""

_HANDING_BACK = (
    "lightning.seed_everything",
    "lightning.pytorch.seed_everything",
    "lightning.pytorch.utilities.seed.seed_everything",
    "lightning.fabric.seed_everything",
    "lightning.fabric.utilities.seed.seed_everything",
)
"""What seeds all three, and gives the seed back (lightning/fabric/utilities/seed.py)."""

_SEEDING_ALL = (
    *_HANDING_BACK,
    "accelerate.utils.set_seed",
    "accelerate.utils.random.set_seed",
    "transformers.set_seed",
    "transformers.trainer_utils.set_seed",
    "ignite.utils.manual_seed",
)
"""What seeds all three by its first argument."""

_OF_EACH_PROCESS = "device_specific"
"""By what Accelerate is told to add the number of the process (accelerate/utils/random.py)."""


@frozen
class Seeding:
    """A seed that a call sets for a module; `adds_rank` where the call adds the number of the process."""

    call: ast.Call
    seed: ast.expr | None
    adds_rank: bool = False


def seedings_of(program: Program, module: str) -> Iterator[Seeding]:
    """What the program seeds the random numbers of a module by."""
    for call, _ in program.calls(SEEDED_BY[module]):
        yield Seeding(call, argument_of(call, "seed", 0))
    for call, name in program.calls(*_SEEDING_ALL):
        told = argument_of(call, _OF_EACH_PROCESS, 1) if name.startswith("accelerate.") else None
        yield Seeding(
            call, argument_of(call, "seed", 0), told is not None and program.value(told) == Constant(True)
        )


def seed_handed_back(program: Program, call: ast.Call) -> ast.expr | None:
    """The seed that a call of a library sets and gives back."""
    return argument_of(call, "seed", 0) if program.qualified(call.func) in _HANDING_BACK else None


_SALT = "PYTHONHASHSEED"


def is_salted(program: Program, call: ast.Call) -> bool:
    """Whether a call gives another number in each process: the address of an object, or the hash of a text,
    unless the program has to do with the variable that sets its salt."""
    called = program.value(call.func)
    if called == External("id"):
        return True
    if called != External("hash") or not call.args or any(_SALT in file.text for file in program.files):
        return False
    hashed = call.args[0]
    made = origins(program, hashed)
    known = bool(made) and all(each is not None and _is_text(program, each) for each in made)
    return known or _is_text(program, hashed)


def is_unseeded(program: Program, generator: ast.expr) -> bool:
    """Whether a generator of random numbers is surely made without a seed."""
    made = alternatives(program.value(generator))
    return bool(made) and all(
        isinstance(each, Instance) and not each.call.args and not each.call.keywords for each in made
    )


_TEXTS = (
    *("str", "repr", "format", "input", "os.environ.get", "os.getenv", "os.getcwd", "socket.gethostname"),
    *("os.path.join", "os.path.basename", "os.path.abspath", "os.path.dirname", "json.dumps"),
)


def _is_text(program: Program, node: ast.expr) -> bool:
    """Whether an expression is surely a text, or a tuple that holds one."""
    if isinstance(node, ast.Tuple):
        return any(_is_text(program, each) for each in node.elts)
    value = program.value(node)
    if isinstance(value, Constant):
        return isinstance(value.value, str | bytes)
    if isinstance(node, ast.Subscript):
        return program.value(node.value) == External("os.environ")
    if isinstance(node, ast.Call):
        by_method = isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS
        return by_method or program.qualified(node.func) in _TEXTS
    if isinstance(node, ast.Name):
        bound = [getattr(each.node, "annotation", None) for each in program.evaluation.sources(node)]
        if bound and all(isinstance(each, ast.Name) and each.id == "str" for each in bound):
            return True
    option = option_of(program, node)
    return isinstance(node, ast.JoinedStr) or (option is not None and isinstance(option.value, str))


_TEXT_METHODS = frozenset({"encode", "hexdigest", "lower", "upper", "as_posix"})
