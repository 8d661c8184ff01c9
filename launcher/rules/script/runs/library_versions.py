"""What ends every rank of a job early as a library or Python has another version than the program was written
for: names and arguments that are gone, and what newer versions refuse."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.expressions import SLICED
from launcher.program.execution.objects import (
    MODULE_MISSING,
    RECORD_MADE,
    CallMade,
    Class,
    Object,
    Raised,
    Symbol,
    is_known,
    truth_of,
)
from launcher.program.execution.ranks import removal_of
from launcher.program.execution.training_libraries import PACKAGE_BY_VERSION
from launcher.program.execution.written_trees import place_of
from launcher.program.index import ancestors, last_name
from launcher.program.objects.nodes import walk
from launcher.program.values import LIBRARY_TABLES
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import (
    RankRuns,
    end_of,
    settings_of,
    sure_events,
    tests_before,
)

_REFUSED: dict[str, list[tuple[str, str, int | str]]] = LIBRARY_TABLES["refused_arguments"]
"""By the name of a function: the package, the version since which, and what it no longer takes."""


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def names_are_still_there(runs: RankRuns) -> Iterator[Finding]:
    """A name that every rank reads and that the image's version of its library no longer has.

    Each rank ends there, with an ImportError or AttributeError. Silent within a `try`, where a test of the
    version passes over it, and where the code's requirements bring or may bring an older one.

    Bad: `from torch._six import inf` with PyTorch 2. Good: `from math import inf`. Source: the release
    notes of the libraries, and what their wheels hold (`launcher/program/libraries`).
    """
    told: set[str] = set()
    for event in sure_events(runs):
        removal = removal_of(event.name)
        version = None if removal is None else runs.packages.has_since(*removal)
        if removal is None or version is None or event.name in told:
            continue
        package, since = removal
        told.add(event.name)
        by_line: dict[tuple[str, int | None], Related] = {}
        for each in (each for each in sure_events(runs) if each.name == event.name):
            note = related_at(each.node, "read here, too")
            by_line.setdefault((note.location.file, note.location.line), note)
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"{package} {version} has no {event.name.replace('()', '')}, which is gone since {since}: "
            f"{end_of(event)}",
            severity=None if event.is_sure else Severity.WARNING,
            remedy=f"Use what {package} has in its place, or {_older(runs, package, since)}.",
            related=[*by_line.values()][1:],
        )


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED, training_script.ENTRY_POINT_MISSING)
def arguments_are_still_taken(runs: RankRuns) -> Iterator[Finding]:
    """A call that every rank makes and that the image's version of the library refuses, by its arguments.

    Each rank ends there: a keyword is gone, has become required, or arguments have to be named; also where
    HfArgumentParser takes it of the job's words. Silent within a `try`, where nobody can tell the arguments,
    and where the version may be an older one.

    Bad: `librosa.filters.mel(22050, 1024)`. Good: `librosa.filters.mel(sr=22050, n_fft=1024)`. Source: the
    release notes of the libraries, and the signatures in their wheels (`launcher/program/libraries`).
    """
    told: set[ast.AST] = set()
    for event in (each for each in sure_events(runs) if each.name in _REFUSED):
        for package, since, argument in _REFUSED[event.name] if event.node not in told else ():
            version = runs.packages.has_since(package, since)
            said = None if version is None else _refusal(event, argument)
            if said is None:
                continue
            by_words = last_name(event.node.func) == "HfArgumentParser"
            if by_words and _is_a_field(runs, str(argument)):
                continue
            told.add(event.node)
            yield finding_at(
                training_script.ENTRY_POINT_MISSING if by_words else training_script.SCRIPT_RAISED,
                event.node,
                f"{event.name} of {package} {version} {said[0]} (since {since}): {end_of(event)}",
                severity=None if event.is_sure else Severity.WARNING,
                remedy=f"{said[1]}, or {_older(runs, package, since)}.",
            )
            break


def _is_a_field(runs: RankRuns, name: str) -> bool:
    fields = (each.target for file in runs.program.files for each in file.nodes(ast.AnnAssign))
    return any(isinstance(each, ast.Name) and each.id == name for each in fields)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def defaults_of_dataclasses_can_be_shared(runs: RankRuns) -> Iterator[Finding]:
    """A dataclass with a default that its objects would change for all: every rank ends where it is made.

    Python refuses lists, dictionaries and sets, and from 3.11 on all that has no hash, as the objects of
    other dataclasses that are compared by their fields and are not frozen.

    Bad: `block: Block = Block()`. Good: `block: Block = field(default_factory=Block)`. Source: Python's
    documentation, dataclasses, mutable default values; what is new in Python 3.11.
    """
    is_new = runs.packages.has_since("Python", _HASHES_ASKED_SINCE) is not None
    since = f" (since {_HASHES_ASKED_SINCE})"
    for event in (each for each in sure_events(runs) if each.name == RECORD_MADE):
        (made,) = event.args
        for each in made.node.body:
            if not isinstance(each, ast.AnnAssign) or "ClassVar" in ast.unparse(each.annotation):
                continue
            default = made.fields.get(getattr(each.target, "id", ""))
            is_unhashable = is_new and _is_without_hash(default)
            if each.value is not None and (type(default) in (list, dict, set) or is_unhashable):
                yield finding_at(
                    training_script.SCRIPT_RAISED,
                    place_of(each),
                    f"Python refuses `{ast.unparse(each.value)}` as the default of a dataclass, as all "
                    f"objects would share it{since if is_unhashable else ''}: {end_of(event)} with "
                    "a ValueError",
                    remedy="Write `field(default_factory=...)`.",
                )


def _is_without_hash(value: object) -> bool:
    """Whether Python has no hash of a value: of an array of numpy's, of an object whose class says what it is
    equal to, and of a dataclass that is compared by its fields and may be changed."""
    if isinstance(value, Symbol):
        return value.name in _ARRAYS
    for each in value.kind.line() if isinstance(value, Object) else ():
        if "__hash__" in each.fields:
            return False
        if "__eq__" in each.fields:
            return True
        if _OF_DATACLASS.search(_decorators(each)):
            return not _HASHED.search(_decorators(each))
    return False


def _decorators(kind: Class) -> str:
    return " ".join(map(ast.unparse, kind.node.decorator_list))


_ARRAYS = frozenset(
    f"numpy.{each}()"
    for each in ("array", "zeros", "ones", "arange", "asarray", "empty", "full", "linspace", "eye")
)
_HASHES_ASKED_SINCE = "3.11"
"""The version of Python from which on dataclasses refuse defaults without a hash."""
_OF_DATACLASS = re.compile(r"\bdataclass\b")
_HASHED = re.compile(r"\b(frozen|unsafe_hash)=True|\beq=False")

_EXITS = ("sys.exit", "builtins.exit", "builtins.quit", "os._exit")


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def versions_are_accepted(runs: RankRuns) -> Iterator[Finding]:
    """A test of a library's version by which a program ends, and which the job's version does not pass.

    It takes older versions alone, or compares texts, by which "0.21" comes before "0.3".

    Bad: `if torchvision.__version__ < "0.3.0": sys.exit(-1)`. Good: the same with
    `packaging.version.Version(torchvision.__version__)`. Source: Python's comparison of texts.
    """
    for end in _ends_of(runs):
        test = (
            end.test
            if isinstance(end, ast.Assert)
            else next((each.test for each in ancestors(end) if isinstance(each, ast.If)), None)
        )
        package = None if test is None else _package_asked_for(runs, test)
        version = None if package is None else runs.packages.version_of(package)
        if test is not None and package is not None and version is not None:
            of_image = package in runs.packages.of_image
            source = "the job's image has" if of_image else "pip installs"
            remedy = "Ask in the requirements for a version that it accepts, or let it accept this one."
            if of_image:
                older = _older(runs, package, version)
                remedy = f"Compare versions as such (`packaging.version.Version(...)`), or {older}."
            yield finding_at(
                training_script.SCRIPT_RAISED,
                test,
                f"every rank ends by this test with {package} {version}, which {source}",
                remedy=remedy,
                related=[related_at(end, "ends here")],
            )
            return


def _package_asked_for(runs: RankRuns, test: ast.expr) -> str | None:
    """The library for whose version a test asks: by its `__version__`, whatever that is called here."""
    for each in walk(test):
        if isinstance(each, ast.Name | ast.Attribute):
            package = PACKAGE_BY_VERSION.get(runs.program.qualified(each) or "")
            if package is not None:
                return package
    return None


def _ends_of(runs: RankRuns) -> Iterator[ast.AST]:
    """Where the first rank surely ends itself."""
    for run in runs.begun[:1]:
        if isinstance(run.ended_by, Raised) and run.ended_by.node is not None:
            yield place_of(run.ended_by.node)
        yield from (each.node for each in run.calls(*_EXITS) if each.is_sure and not each.is_tried)


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def optional_modules_are_there(runs: RankRuns) -> Iterator[Finding]:
    """An assertion or refusal by which a program ends, as a module is missing whose import it had tried.

    The options of the job ask for what needs it, and neither the image nor the requirements bring it.

    Bad: `assert amp is not None` behind `except ImportError: amp = None`, with `--amp-opt-level O1` and no
    apex. Good: the same with `--amp-opt-level O0`. Source: what AWS's images hold (`image_packages.json`).
    """
    told: set[str] = set()
    for event in (each for each in sure_events(runs) if each.name == MODULE_MISSING):
        (module,) = event.args
        if module in told:
            continue
        told.add(module)
        tests = [event.node, *tests_before(event)][:2]
        is_compiled = module.rpartition(".")[2] in runs.packages.extensions
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"{module} is compiled by the source's setup.py, which this job does not run: {end_of(event)}"
            if is_compiled
            else f"{module} is neither in the image nor in the requirements: {end_of(event)}",
            severity=None if event.is_sure else Severity.WARNING,
            remedy="Let the requirements install the folder with setup.py (`./`), or do without it."
            if is_compiled
            else f"Choose the options that do without {module}, or install it.",
            related=settings_of(runs.begun[0], tests),
        )


_TRANSPOSED = re.compile(r"\.(t|transpose)\(\)\.(eq|ne|gt|lt|ge|le)\(\)(\[\])?\.view$")
_REFUSED_VIEWS_SINCE = "1.7"
"""The version of torch from which on what is calculated of a transposed tensor is laid out as that is.

Source: its release notes."""


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def views_are_of_tensors_in_one_piece(runs: RankRuns) -> Iterator[Finding]:
    """`view` of rows of what is compared with a transposed tensor, as old measures of accuracy have it.

    The rows are not laid out in one piece: torch raises a RuntimeError at the first batch that is measured.
    Silent where one row alone is taken, and within a `try`.

    Bad: `correct = pred.t().eq(target)`, `correct[:5].view(-1)`. Good: `correct[:5].reshape(-1)`. Source: the
    release notes of torch 1.7; torch.Tensor.view.
    """
    version = runs.packages.has_since("torch", _REFUSED_VIEWS_SINCE)
    if version is None or runs.first is None:
        return
    made = [each for each in runs.first.events if _TRANSPOSED.search(each.name) and not each.is_tried]
    for event in made:
        rows = _rows_of(event.owner)
        if rows is None:  # As of a loop over (1, 5): one of several is more than one.
            rows = sum(each.node is event.node and each.callers == event.callers for each in made)
        if event.args[:1] == (-1,) and rows > 1:
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                "these rows are of a transposed tensor and not in one piece: view raises a RuntimeError in "
                f"torch {version} (since {_REFUSED_VIEWS_SINCE}), and every rank ends here",
                remedy="Write `reshape` in place of `view`.",
            )
            return


_SHUFFLING = {
    "torch.utils.data.DataLoader": ("shuffle", 2, False),
    "torch.utils.data.RandomSampler": (None, None, True),
    "torch.utils.data.DistributedSampler": ("shuffle", 3, True),
    "torch.utils.data.random_split": (None, None, True),
}
"""What draws an order with a generator of the CPU's unless it is given one: by which argument, its place, and
its default. Source: torch 2.10, utils/data."""
_DEFAULT_DEVICES = ("torch.set_default_tensor_type", "torch.set_default_device")
_OWN_GENERATOR_SINCE = "1.9"


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def generators_are_of_the_default_device(runs: RankRuns) -> Iterator[Finding]:
    """A loader that shuffles while new tensors are made on the GPU.

    torch.randperm makes its numbers there and is given a generator of the CPU: a RuntimeError ends every rank
    at the first batch. Silent where the loader is given a generator, and where the default is changed back.

    Bad: `torch.set_default_tensor_type("torch.cuda.FloatTensor")`, then `DataLoader(data, shuffle=True)`.
    Good: the same with `generator=torch.Generator("cuda")`. Source: torch 2.10, utils/data/sampler.py.
    """
    version = runs.packages.has_since("torch", _OWN_GENERATOR_SINCE)
    if version is None or runs.first is None:
        return
    defaults = list(runs.first.calls(*_DEFAULT_DEVICES))
    if not defaults or not all(each.is_sure and not each.is_tried and _is_of_gpu(each) for each in defaults):
        return
    for event in runs.first.calls(*_SHUFFLING):
        name, place, shuffles = _SHUFFLING[event.name]
        asked = None if name is None else event.argument(name, place)
        shuffles = shuffles if asked is None else truth_of(asked) is True
        if shuffles and event.is_sure and not event.is_tried and _is_of_cpu(_generator_of(event)):
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                "new tensors are made on the GPU, and the order is drawn here by a generator of the CPU: "
                f"torch {version} raises a RuntimeError, and every rank ends here",
                remedy='Give it `generator=torch.Generator("cuda")`, or leave the default where it is.',
                related=[related_at(defaults[0].node, "the default is set here")],
            )
            return


def _generator_of(event: CallMade) -> object:
    return event.argument("generator", 2 if event.name.endswith("random_split") else None)


def _is_of_cpu(generator: object) -> bool:
    """Whether a generator is one of the CPU's: none is given, or one that is made for no other device."""
    if generator is None:
        return True
    made = generator.made_by if isinstance(generator, Symbol) else None
    while made is not None and isinstance(made.owner, Symbol) and made.owner.made_by is not None:
        made = made.owner.made_by
    return made is not None and made.name == "torch.Generator" and made.argument("device", 0) in (None, "cpu")


def _is_of_gpu(setting: CallMade) -> bool:
    """Whether a call makes the GPU the device of new tensors."""
    given = setting.argument("device" if setting.name.endswith("device") else "t", 0)
    if isinstance(given, Symbol) and given.made_by is not None and given.name == "torch.device()":
        given = given.made_by.argument("device", 0)
    named = given.name if isinstance(given, Symbol) else given
    return isinstance(named, str) and re.match(r"(torch\.)?cuda\b", named) is not None


_MAKING_ARRAYS = {"numpy.array": "object", "numpy.asarray": "a", "numpy.stack": "arrays"}
_CHOOSING = re.compile(
    r"numpy\.random\.((default_rng|RandomState|Generator)\(\)\.)?(?P<what>choice|permutation|permuted)"
)
"""What makes an array of what it is given: the name of the argument; of what chooses, it is `a` or `x`."""
_RAGGED_SINCE = "1.24"


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def arrays_have_equal_rows(runs: RankRuns) -> Iterator[Finding]:
    """An array of rows of several lengths, or of rows and single values, as old augmentations choose of such.

    numpy raises a ValueError where the call is come to. Silent with `dtype=object`, and where the rows are
    not written out.

    Bad: `numpy.random.choice((None, (0.1, None), (0.3, 0.7)))`. Good: `random.choice(...)` of Python's own.
    Source: the release notes of numpy 1.24.
    """
    version = runs.packages.has_since("numpy", _RAGGED_SINCE)
    if version is None or runs.first is None:
        return
    for event in (*runs.first.events, *runs.first.sampling):
        rows = _rows_given(event)
        if not event.is_tried and _is_ragged(rows):
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"the rows of this array are of several lengths: numpy {version} raises a ValueError (since "
                f"{_RAGGED_SINCE}), and a rank that comes here ends",
                severity=None if event.is_sure else Severity.WARNING,
                remedy="Choose by Python's own `random`, or give `dtype=object`.",
            )
            return


def _rows_given(event: CallMade) -> object:
    """What a call makes an array of; None of other calls, and where it says of which type."""
    chosen = _CHOOSING.fullmatch(event.name)
    if chosen is not None:
        return event.argument("a" if chosen["what"] == "choice" else "x", 0)
    if event.name not in _MAKING_ARRAYS or _makes_objects(event):
        return None
    return event.argument(_MAKING_ARRAYS[event.name], 0)


def _makes_objects(event: CallMade) -> bool:
    """Whether an array is told to be of objects, or of what nobody knows."""
    kind = event.argument("dtype", 1)
    name = getattr(kind, "name", kind)
    return kind is not None and (not isinstance(name, str) or name in ("", "O") or "object" in name)


def _is_ragged(rows: object) -> bool:
    """Whether rows that are known have several lengths, or stand beside single values."""
    if not isinstance(rows, list | tuple) or not all(map(_is_plain, rows)):
        return False
    return len({len(each) if isinstance(each, list | tuple) else None for each in rows}) > 1


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or (isinstance(value, int | float | str) and is_known(value))


def _rows_of(part: object) -> int | None:
    """How many rows a part of a tensor has that `topk` made, None where nobody can tell."""
    ends = part.attributes.get(SLICED) if isinstance(part, Symbol) else None
    if isinstance(ends, list) and ends[1] is not None:
        return ends[1] if isinstance(ends[1], int) else None
    while isinstance(part, Symbol):
        call = part.made_by
        if call is not None and call.name.rpartition(".")[2] == "topk":
            most = call.argument("k", 1 if call.name == "torch.topk" else 0)
            return most if isinstance(most, int) else None
        part = part.owner if call is None else call.owner
    return None


def _refusal(event: CallMade, argument: int | str) -> tuple[str, str] | None:
    """What a function says to a call of which it no longer takes an argument, and what to do about it."""
    is_open = any(isinstance(each, ast.Starred) for each in event.node.args)
    if isinstance(argument, int):
        given = len(event.args)
        if is_open or given <= argument:
            return None
        most = "no argument" if argument == 0 else f"{argument} argument{'s' if argument > 1 else ''} at most"
        return f"takes {most} without its name, and {given} are given", "Name the arguments"
    if argument == "*":
        own = event.args[1:] if event.name.endswith(".__init__") else event.args
        is_given = bool(own or event.keywords) and not is_open
        return ("takes no argument any more, and some are given", "Leave them out") if is_given else None
    name, equals, place = argument.partition("=")
    if not equals:
        return (f"no longer takes `{name}`", f"Leave out `{name}`") if name in event.keywords else None
    if is_open or event.argument(name, int(place)) is not None:
        return None
    return f"requires `{name}`, which is not given", f"Give `{name}`"


def _older(runs: RankRuns, package: str, since: str) -> str:
    """How the job gets a version of a package that is older than one."""
    if package in ("torch", "torchvision", "Python"):
        return "name an older image (`framework.version`)"
    return f"ask for `{package}<{since}` in the requirements, if the image's Python has a wheel of it"


_BUILDERS = ("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline")
_OLD_STANDARD = re.compile(r"[-/]{1,2}std[=:](c|gnu)\+\+(0x|0?3|98|1[14y])")


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def extensions_ask_for_new_standard(runs: RankRuns) -> Iterator[Finding]:
    """An extension that a rank compiles by a standard of C++ older than the headers of its torch.

    The compiler stops at them, as the last standard that it is given holds, and every rank ends there.

    Bad: `load(name, sources, extra_cflags=["-std=c++14"])` with PyTorch 2.1. Good: the same without it.
    Source: ATen/ATen.h of torch 2.1 and newer, which asks for C++17.
    """
    version = runs.packages.has_since("torch", "2.1")
    compiled = (each for each in sure_events(runs) if version is not None and each.name in _BUILDERS)
    built = [(event, flag) for event in compiled if (flag := _old_standard(event)) is not None]
    for event, flag in built[:1]:
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"`{flag}` compiles this extension, and the headers of torch {version} need C++17: "
            f"{end_of(event)}",
            severity=None if event.is_sure else Severity.WARNING,
            remedy="Leave the flag out: torch gives the standard that it needs.",
            related=[related_at(each.node, "so here, too") for each, _ in built[1:]],
        )


def _old_standard(event: CallMade) -> str | None:
    """The flag by which an extension is compiled, where it names a standard older than C++17."""
    given = [event.argument(name) for name in ("extra_cflags", "extra_cuda_cflags")]
    flags = [str(flag) for each in given if isinstance(each, list | tuple) for flag in each]
    return next((each for each in flags if _OLD_STANDARD.fullmatch(each)), None)


LIBRARY_RUN_RULES = (
    names_are_still_there,
    arguments_are_still_taken,
    defaults_of_dataclasses_can_be_shared,
    versions_are_accepted,
    optional_modules_are_there,
    views_are_of_tensors_in_one_piece,
    generators_are_of_the_default_device,
    arrays_have_equal_rows,
    extensions_ask_for_new_standard,
)
