"""What a program that is run on its syntax tree calculates with: Python's own values, and these classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from launcher.program.index import FileIndex
from launcher.program.surroundings.options import SET_ANYWAY

OPEN = "\0"
"""Stands in a text for what is not known of it, and is the same in every process, such as a counter."""
OWN = "\1"
"""Stands in a text for what is not known of it, and is each process's own, such as a clock."""

MOST_CHARACTERS = 4096
MOST_ITEMS = 512
MOST_CHOICES = 8
STARS = "**"
"""What a function of ours is given among its named arguments where nobody knows whether there are others."""
READ_UNSET = "os.environ.__getitem__"
"""Stands among the calls where a variable is read that is not set."""
READ_UNBOUND = "builtins.globals.__getitem__"
"""Stands among the calls where a name is read to which nothing gives a value."""
NAME_MISSING = "builtins.ImportError.raised"
"""Stands among the calls where a name is imported that a module of the program lacks, with both names."""
MODULE_MISSING = "builtins.ModuleNotFoundError.raised"
"""Stands among the calls where a program ends by a test of a module that is missing, with its name."""
RECORD_MADE = "dataclasses.dataclass.made"
"""Stands among the calls where a class becomes a dataclass, with the class."""
UNMET = "builtins.AssertionError.raised"
"""Stands among the calls where an assertion on numbers does not hold, with its test."""
_MOST_BITS = 128

SCALARS = (bool, int, float, str, bytes, type(None), PurePosixPath)


@dataclass(frozen=True)
class RankWorld:
    """What a launcher and a job tell one process: which of the ranks it is, its words and its variables.

    `strategy` is the job's way of starting processes; with mpirun it is MPI that tells the ranks.
    `version_of` tells the version of a package, None where nobody knows it; `child` which of the processes is
    followed that a program starts itself by torch.multiprocessing.
    """

    rank: int
    local_rank: int
    size: int
    processes_per_host: int
    devices: int
    words: tuple[str, ...]
    environment: Mapping[str, str]
    strategy: str
    version_of: Callable[[str], str | None] = lambda package: None
    child: int = 0


class Symbol:
    """Something of a library, by its dotted name, or something that nobody knows, without a name.

    `torch.optim.Adam` is the class, `torch.optim.Adam()` what a call of it makes, `torch.optim.Adam().step` a
    method of that. `made_by` is the call that made it, `owner` what the attribute was read of.
    """

    __slots__ = ("attributes", "is_own", "made_by", "name", "owner", "period")

    def __init__(
        self,
        name: str = "",
        made_by: CallMade | None = None,
        owner: object = None,
        *,
        is_own: bool = False,
    ) -> None:
        """Where it `is_own`, each process has another one."""
        self.name, self.made_by, self.owner, self.is_own = name, made_by, owner, is_own
        self.attributes: dict[str, object] = {}
        self.period = 0
        """What a counter is divided by, where this is the rest or a test of it: `step % 8 == 0`."""

    def __repr__(self) -> str:
        return f"<{self.name or '?'}>"


class OneOf(Symbol):
    """One of several known things, of which nobody can tell which: an entry of a table by an open key."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[object]) -> None:
        """Of these."""
        super().__init__()
        self.entries = entries


@dataclass(eq=False)
class CallMade:
    """A call of something of a library, as a rank makes it.

    `callers` are the calls of the program's own functions in which it stands, the outermost first, `tests`
    those around it of which nobody can tell what they are.
    """

    name: str
    node: ast.Call
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    owner: object
    tests: tuple[ast.AST, ...]
    callers: tuple[ast.Call, ...]
    is_tried: bool = False
    """Whether a `try` is around it, which may catch what it raises."""
    period: int = 0
    """In how many turns of a loop it is made once, by a test of a counter; 0 where no such test is around."""
    turns: int = 0
    """How many turns the innermost loop around it makes; 0 where nobody counts them."""
    folder: str = ""
    """The folder in which the process runs, of which relative paths are taken."""

    @property
    def is_sure(self) -> bool:
        """Whether no test that nobody can tell decides about it."""
        return not self.tests

    def argument(self, name: str, place: int | None = None) -> Any:
        """An argument by its name or its place, None where it is not given; open where it may be."""
        if name in self.keywords:
            return self.keywords[name]
        if place is not None and place < len(self.args):
            return self.args[place]
        return Symbol() if isinstance(self.keywords, OpenDictionary) else None


class RunScope:
    """The variables of a module, class or function that runs, and the scope around it."""

    __slots__ = ("declared", "file", "is_class", "outer", "results", "variables")

    def __init__(self, file: FileIndex, outer: RunScope | None, *, is_class: bool = False) -> None:
        """Without an outer scope it is that of a module."""
        self.file, self.outer, self.is_class = file, outer, is_class
        self.variables: dict[str, Any] = {}
        self.declared: dict[str, RunScope] = {}
        self.results: list[object] = []

    @property
    def module(self) -> RunScope:
        """The scope of its module."""
        return self if self.outer is None else self.outer.module

    @property
    def outside_of_class(self) -> RunScope:
        """The scope in which the names of a method are looked for."""
        return self.outer.outside_of_class if self.is_class and self.outer is not None else self

    def holder(self, name: str) -> RunScope | None:
        """The scope that holds a name that is read here."""
        if name in self.declared:
            declared = self.declared[name]
            return declared if name in declared.variables else None
        if name in self.variables:
            return self
        around = self.outer
        while around is not None and around.is_class:
            around = around.outer
        return None if around is None else around.holder(name)


@dataclass(eq=False)
class Module:
    """A module of the program, or a folder of them; its variables where it has a file."""

    name: str
    scope: RunScope | None

    @property
    def entries(self) -> ModuleEntries:
        """Its `__dict__`; a branch that is not run may put more into it."""
        return ModuleEntries({} if self.scope is None else self.scope.variables)


@dataclass(eq=False)
class Function:
    """A function of the program, with the defaults that it was defined with."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: RunScope
    defaults: dict[str, object]
    owner: Class | None = None
    kind: str = ""
    """The decorator that says how it is read of an object: property, staticmethod, classmethod."""
    is_context: bool = False
    """Whether what it gives is a context manager, which runs it when it is entered."""
    attributes: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As it is defined."""
        return getattr(self.node, "name", "<lambda>")


@dataclass(eq=False)
class BoundCall:
    """A function of the program with its first argument, or a partial application of anything."""

    function: object
    args: tuple[object, ...]
    keywords: dict[str, object] = field(default_factory=dict)


@dataclass(eq=False)
class Suspended:
    """The call of a function that is a context manager: it runs when it is entered, around what is in it."""

    function: Function
    args: list[Any]
    keywords: dict[str, Any]
    node: ast.Call


class Turns(list[Any]):
    """What a generator or `iter` gives, of which `next` takes one after the other."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    taken = 0


class Defaulting(dict[Any, Any]):
    """A dictionary that makes what it lacks."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, make: Callable[[], object]) -> None:
        """By a function without arguments."""
        super().__init__()
        self.make = make

    def missing(self, key: Any) -> object:
        """Make an entry."""
        self[key] = self.make()
        return self[key]


@dataclass(eq=False)
class Native:
    """What Python or a library does, as a function of this interpreter: of positional and named arguments."""

    name: str
    call: Callable[..., object]


_IS_PLAIN = re.compile(r"builtins\.object|abc\.ABC|typing\.(Generic|Protocol|NamedTuple)")
"""The bases that have nothing of their own."""


@dataclass(eq=False)
class Class:
    """A class of the program, with what it is derived from."""

    node: ast.ClassDef
    scope: RunScope
    bases: tuple[object, ...]
    fields: dict[str, object] = field(default_factory=dict)
    is_record: bool = False
    """Whether its annotated fields are the parameters of its constructor."""
    _above: list[Class] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Put what is above it in order, of several ways to a class the last one."""
        lines = [other for each in self.bases if isinstance(each, Class) for other in each.line()]
        self._above = list(dict.fromkeys(reversed(lines)))[::-1]

    def line(self) -> list[Class]:
        """Itself and the program's classes above it, in the order in which attributes are looked for."""
        return [self, *self._above]

    def library_base(self) -> str | None:
        """The name of the first class of a library that it is derived from."""
        for each in self.line():
            for base in each.bases:
                if isinstance(base, Native):
                    return f"builtins.{base.name}"
                if isinstance(base, Symbol) and base.name and not _IS_PLAIN.match(base.name):
                    return base.name
        return None

    @property
    def is_tuple(self) -> bool:
        """Whether its objects are tuples of their fields."""
        bases = (base for each in self.line() for base in each.bases)
        return any(isinstance(each, Symbol) and each.name == "typing.NamedTuple" for each in bases)

    def find(self, name: str) -> object | None:
        """What the class or one above it has of this name."""
        return next((each.fields[name] for each in self.line() if name in each.fields), None)


@dataclass(eq=False)
class Object:
    """An object of a class of the program; `native` is what of Python or a library is in it."""

    kind: Class
    attributes: dict[str, Any] = field(default_factory=dict)
    native: object = None


class DottedEntries(dict[str, Any]):
    """A configuration: entries that are attributes as well, as of a Namespace or an AttrDict."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class StructuredEntries(DottedEntries):
    """A configuration with the entries of a class of the program, of which objects can be made again."""

    def __init__(self, kind: Class, entries: Mapping[str, Any]) -> None:
        """With entries, of a class."""
        super().__init__(entries)
        self.kind = kind


class RecordEntries(dict[str, Any]):
    """What `vars` gives of a record: a plain dictionary, and what is put into it is put into the record."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, record: DottedEntries) -> None:
        """Of a record as it is now."""
        super().__init__(record)
        self.record = record

    def __setitem__(self, key: str, value: Any) -> None:
        """Put in an entry."""
        super().__setitem__(key, value)
        self.record[key] = value

    def update(self, *others: Any, **entries: Any) -> None:
        """Put in entries."""
        for key, value in dict(*others, **entries).items():
            self[key] = value


class Raised(Exception):
    """An exception of the program: the last names of its class and of those above it in the program."""

    def __init__(self, name: str, node: ast.AST | None = None, above: tuple[str, ...] = ()) -> None:
        """Raised at a place, where that is known."""
        super().__init__(name)
        self.name, self.node, self.above = name, node, above


class ProcessEnded(Exception):
    """The end of the process, by sys.exit or a refusal of its words."""


class FunctionLeft(Exception):
    """The end of a function."""

    def __init__(self, value: object) -> None:
        """With its result."""
        super().__init__()
        self.value = value


class LoopLeft(Exception):
    """A break."""


class TurnEnded(Exception):
    """A continue."""


class OutOfSteps(Exception):
    """More steps than a run may have."""


def is_known(value: object) -> bool:
    """Whether all of a value is known: a number, a text, a switch, or a plain tuple of them."""
    if isinstance(value, str):
        return OPEN not in value and OWN not in value
    if isinstance(value, PurePosixPath):
        return is_known(str(value))
    if isinstance(value, tuple):
        return all(isinstance(each, SCALARS) and is_known(each) for each in value)
    return isinstance(value, SCALARS)


SETTING_OF_GROUPS = "torch.optim.Optimizer.param_groups.__setitem__"


def setter_of(owner: object) -> str:
    """What stands among the calls where an item is set of the environment or of an optimizer's parameter
    groups; nothing of others."""
    if isinstance(owner, Environ):
        return "os.environ.__setitem__"
    is_group = isinstance(owner, Symbol) and owner.name.endswith(".param_groups[]")
    return SETTING_OF_GROUPS if is_group else ""


_OF_NUMPY = re.compile(
    r"numpy\.(?!random\.(?!get_state)|load|save|shape|size|ndim|iterable|testing|dtype|[fi]info|is_?\w*subdtype|"
    r"array_?2?str|base_repr|set|get|err)[\w.]+\(\)(\[\]|\.(mean|sum|max|min|std|copy|astype)\(\))*"
)


def is_of_numpy(value: object) -> bool:
    """Whether something is a number or an array of numpy's."""
    return isinstance(value, Symbol) and _OF_NUMPY.fullmatch(value.name) is not None


def text_of(value: object) -> str:
    """A value within a text: as Python writes it, or what stands for an open one."""
    if isinstance(value, Symbol):
        return OWN if value.is_own else OPEN
    return str(value) if isinstance(value, SCALARS) else OPEN


def known_beginning(text: str) -> str:
    """What is known of a text, up to the first part that is not."""
    return re.split(f"[{OPEN}{OWN}]", text, maxsplit=1)[0]


def bounded(value: object) -> object:
    """A value, or something unknown where it has grown too large to calculate with."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return Symbol()
    if isinstance(value, PurePosixPath) and len(value.parts) > MOST_CHARACTERS // 2:
        return Symbol()
    if isinstance(value, str | bytes) and len(value) > MOST_CHARACTERS:
        return Symbol()
    if isinstance(value, list | tuple | dict | set) and len(value) > MOST_ITEMS:
        return Symbol()
    return value


_MADE_OF_A_CLASS = re.compile(
    r"(torch|torchvision|tensorboardX|timm)\.(\w+\.)*(?!(\w*Tensor|Size|Generator)\()[A-Z]\w*\(\)"
)
"""An object of a class of these libraries, which is true as it is: a writer, a sampler, a transformation."""
_OF_TIME_AND_PLACE = re.compile(
    r"(time\.(strftime|ctime|time|time_ns)|os\.getpid|uuid\.uuid\d|socket\.gethostname|platform\.node|"
    r"(datetime\.)?datetime\.(now|utcnow|today)(\(\)\.(strftime|isoformat|timestamp))?)\(\)"
)
"""What is another one at each start, and never empty or zero."""


def truth_of(value: object) -> bool | None:
    """Whether a value is true, None where nobody can tell."""
    if isinstance(value, Symbol):
        is_true = _MADE_OF_A_CLASS.fullmatch(value.name) or _OF_TIME_AND_PLACE.fullmatch(value.name)
        return True if is_true else None
    if isinstance(value, str) and not is_known(value):
        return True if value.strip(OPEN + OWN) else None
    if isinstance(value, OpenDictionary) and not value:
        return None
    if isinstance(value, (*SCALARS, list, tuple, dict, set, frozenset, range)):
        return bool(value)
    if isinstance(value, Object):
        if isinstance(value.native, list | dict):
            return bool(value.native)
        return True if value.native is None else None
    return True


@dataclass(eq=False)
class Super:
    """What `super()` gives: the classes behind one in the line of an object's class."""

    behind: Class
    owner: object


@dataclass(eq=False)
class OpenedFile:
    """An open file, by its name."""

    name: str
    mode: str = "r"


class OpenDictionary(dict[str, Any]):
    """A dictionary with others in it that nobody knows, as of `{**settings, **unknown}`; or what a call is
    given by such a one."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def holds(self, key: str) -> bool | None:
        """Nobody can tell whether it has what it is not known to have."""
        return None


class ModuleEntries(OpenDictionary):
    """What `globals()` gives: what is put into it is put into the module."""

    __hash__ = object.__hash__

    def __init__(self, variables: dict[str, Any]) -> None:
        """Of a module as it is now."""
        super().__init__(variables)
        self.variables = variables

    def __setitem__(self, key: str, value: Any) -> None:
        """Put in a variable."""
        super().__setitem__(key, value)
        self.variables[key] = value


class Environ(dict[str, Any]):
    """The environment of a process: what its launcher and its job set, and what it sets itself."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def holds(self, key: str) -> bool | None:
        """Whether a variable is set that is not among the known ones."""
        is_open = SET_ANYWAY.fullmatch(key) and not key.startswith(("OMPI_", "MASTER_"))
        return None if is_open else False


def is_member(each: object, value: object) -> bool:
    """Whether something of an enumeration is the member of a value."""
    return isinstance(each, Object) and is_known(value) and each.attributes.get("value") == value


def is_iterable(value: Object) -> bool:
    """Whether a program's object says what a loop over it goes through."""
    is_listed = value.kind.is_tuple or isinstance(value.native, list | dict)
    return is_listed or value.kind.find("__iter__") is not None
