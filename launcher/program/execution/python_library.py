"""What the functions of Python's library give, to a program that is run on its syntax tree."""

from __future__ import annotations

import ast
import fnmatch
import functools
import json
import math
import posixpath
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from launcher.program.execution.expressions import chosen, format_value
from launcher.program.execution.objects import (
    MOST_CHARACTERS,
    MOST_ITEMS,
    OPEN,
    OWN,
    BoundCall,
    CallMade,
    Defaulting,
    DottedEntries,
    Environ,
    Function,
    Native,
    Object,
    OpenDictionary,
    OpenedFile,
    Raised,
    StructuredEntries,
    Suspended,
    Symbol,
    is_known,
    text_of,
)
from launcher.program.execution.process import CODE_FOLDER, Process
from launcher.program.execution.python_functions import (
    dictionary_of,
    end_of_process,
    items_of,
    open_file,
    sorted_items,
)

Model = Callable[..., Any]


def document_of(run: Process, name: object) -> Any:
    """What a configuration file of the program holds; without a name, of the only one beside it."""
    text = name.removeprefix(f"{CODE_FOLDER}/") if isinstance(name, str) else ""
    inside = text if text and is_known(text) else None
    found = None if text.startswith("/") else run.documents(inside)
    if inside is not None and found is not None:
        run.read_documents.append(inside)
    return Symbol() if found is None else found


def record_of(value: Any, depth: int = 8) -> Any:
    """A configuration of entries that are attributes as well, with those in it."""
    if isinstance(value, dict) and depth:
        entries = {key: record_of(each, depth - 1) for key, each in value.items()}
        if isinstance(value, StructuredEntries):
            return StructuredEntries(value.kind, entries)
        return DottedEntries(entries)
    return value


def _plain(value: Any, depth: int = 8) -> Any:
    if isinstance(value, dict) and depth:
        return {key: _plain(each, depth - 1) for key, each in value.items()}
    return value


def _document_read(run: Process, event: CallMade) -> object:
    """What a reader of JSON or YAML gives of an open file, or of the text of one."""
    given = event.args[0] if event.args else None
    if isinstance(given, str) and given and is_known(given):
        return _parsed_text(given, is_yaml=event.name.startswith("yaml."))
    file = given.owner if isinstance(given, Symbol) else given
    if not isinstance(file, OpenedFile) and (isinstance(given, Symbol) or not is_known(given)):
        file = run.opened  # A text that was put together of its lines.
    return document_of(run, file.name) if isinstance(file, OpenedFile) else Symbol()


_WORDS_OF_YAML = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
    "null": None,
}
_PLAIN_WORD = re.compile(r"[A-Za-z/.][\w/.@+=-]*")
"""A scalar of YAML that is a text, as of a path or a name."""


def _parsed_text(text: str, *, is_yaml: bool) -> Any:
    """What a text holds that is JSON, such as the names of the hosts, or a word of YAML, as of an option."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    if is_yaml and _PLAIN_WORD.fullmatch(text):
        return _WORDS_OF_YAML.get(text.lower(), text)
    return Symbol()


def literal_of(text: str) -> Any:
    """What a text says as a literal of Python: a number, a list, True; else the text itself."""
    try:
        return record_of(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _evaluated_literal(run: Process, event: CallMade) -> object:
    given = event.args[0] if event.args else None
    if not isinstance(given, str) or not is_known(given):
        return Symbol()
    found = literal_of(given)
    return run.fail("ValueError") if found is given else found


def _file_named(run: Process, event: CallMade) -> object:
    """What a file in Python gives its names, that is run by its path."""
    made = event.args[0].made_by if event.args and isinstance(event.args[0], Symbol) else None
    asked = made or event
    path = text_of(
        asked.argument("location", 1) or asked.argument("path_name", 0) or asked.argument("path", 1)
    )
    return record_of(document_of(run, path)) if path and path.endswith(".py") else Symbol()


def _module_from_loader(run: Process, event: CallMade) -> object:
    made = Symbol(f"{event.name}()", event)
    made.attributes["load_module"] = Native("load_module", lambda *_: _file_named(run, event))
    return made


# Methods of Python's own values.


_UNDECIDED = frozenset(
    ["startswith", "endswith", "find", "rfind", "index", "rindex", "count", "isidentifier"]
    + [f"is{each}" for each in ("digit", "alpha", "numeric", "decimal", "alnum", "space", "upper", "lower")]
)
"""The methods of a text of which nobody knows what they give where a part of it is open."""
_PLAIN_METHODS = {
    str: _UNDECIDED
    | frozenset(["lower", "upper", "title", "capitalize", "casefold", "swapcase", "join", "replace"])
    | frozenset(["strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition"])
    | frozenset(["removeprefix", "removesuffix"]),
    list: frozenset(
        ["append", "extend", "insert", "pop", "remove", "index", "reverse", "copy", "clear", "count", "sort"]
    ),
    dict: frozenset(["get", "items", "keys", "values", "update", "pop", "setdefault", "copy", "clear"])
    | frozenset(["__getitem__", "__setitem__", "__contains__"]),
    set: frozenset(["add", "update", "discard", "remove", "union", "intersection", "difference", "copy"]),
    tuple: frozenset({"index", "count"}),
}


def _method(name: str) -> Model:
    def read(run: Process, owner: Any) -> object:
        kind = next((each for each in _PLAIN_METHODS if isinstance(owner, each)), None)
        if kind is None or name not in _PLAIN_METHODS[kind]:
            return Symbol()
        return Native(name, lambda *args, **keywords: _apply(run, owner, name, args, keywords))

    return read


def _apply(run: Process, owner: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> object:
    if name == "sort":
        owner[:] = sorted_items(run, owner, keywords.get("key"), keywords.get("reverse", False))
        return None
    if isinstance(owner, str):
        if name == "join":
            items = items_of(run, args[0]) if args else []
            return owner.join(map(text_of, items)) if run.is_countable(args[0]) else OPEN
        if not is_known(owner) and name in _UNDECIDED:
            return Symbol()
        if not all(is_known(each) for each in args if not isinstance(each, tuple)):
            return Symbol() if name in _UNDECIDED else OPEN
    if isinstance(owner, Environ) and name in ("get", "setdefault") and args and args[0] not in owner:
        there = owner.holds(args[0]) if isinstance(args[0], str) else None
        default = args[1] if len(args) > 1 else keywords.get("default")
        if name == "setdefault":
            owner[args[0]] = default if there is False else Symbol()
        return default if there is False else Symbol()
    if isinstance(owner, dict):
        if name in ("items", "keys", "values"):
            found = list(getattr(owner, name)())
            return Symbol(owner=found) if type(owner) is OpenDictionary else found
        if name == "update":
            given = {**(args[0] if args and isinstance(args[0], dict) else {}), **keywords}
            if isinstance(owner, Environ):
                _keep_variables(run, given, args)
            owner.update(given)
            return None
        if isinstance(owner, OpenDictionary) and name in ("get", "pop") and args and args[0] not in owner:
            return Symbol()
        if args and not is_known(args[0]):
            return chosen([*owner.values(), *args[1:]]) if name == "get" else Symbol()
        if name == "get" and args and isinstance(args[0], str):
            run.keys.add(args[0])
        if name in ("pop", "__getitem__") and args and args[0] not in owner:
            if isinstance(owner, OpenDictionary):
                return Symbol()
            if len(args) > 1:
                return args[1]
            return run.fail("KeyError")
        if name == "copy":
            return type(owner)(owner)
    if isinstance(owner, list) and name in ("extend", "append") and len(owner) > MOST_ITEMS:
        return None
    if isinstance(owner, list) and name == "extend":
        owner.extend(items_of(run, args[0])[:MOST_ITEMS] if args else [])
        return None
    if isinstance(owner, list) and name in ("remove", "index", "count") and not all(map(is_known, owner)):
        return Symbol()
    return getattr(owner, name)(*args, **keywords)


def _keep_variables(run: Process, given: Mapping[str, object], args: tuple[Any, ...]) -> None:
    """Keep which variables are set; of those that nobody knows, that there are some."""
    if args and not isinstance(args[0], dict):
        run.record("os.environ.update", args, run.at)
    for name, value in given.items():
        run.record("os.environ.__setitem__", (name, value), run.at)


def _format(run: Process, owner: Any) -> object:
    """What `format` makes of a text whose parts are numbered, named or in order."""

    def put_in(*args: Any, **keywords: Any) -> object:
        if not isinstance(owner, str):
            return Symbol()
        number = -1

        def part(found: re.Match[str]) -> str:
            nonlocal number
            key, form = found["key"], found["form"] or ""
            number += not key
            place = key if key else str(number)
            if place.isdigit():
                return format_value(args[int(place)], form) if int(place) < len(args) else OPEN
            first, *rest = re.split(r"[.\[]", place)
            value = keywords.get(first, Symbol())
            for each in rest:
                value = run.attribute(value, each.rstrip("]"), run.at)
            return format_value(value, form)

        return re.sub(r"\{(?P<key>[^{}:!]{0,80})(?:![rsa])?(?::(?P<form>[^{}]{0,20}))?\}", part, owner)[
            :MOST_CHARACTERS
        ]

    return Native("format", put_in)


# The file system.


def joined_path(run: Process, event: CallMade) -> object:
    """The parts of a path put together."""
    # An option that a job leaves out is None, where the program would end, and another value in its own jobs.
    parts = [OPEN if each is None else text_of(each) for each in event.args]
    return posixpath.join(*parts) if parts else Symbol()


def _by_path(change: Callable[[str], Any]) -> Model:
    def model(run: Process, event: CallMade) -> object:
        given = event.args[0] if event.args else Symbol()
        return Symbol() if isinstance(given, Symbol) else change(text_of(given))

    return model


_OF_NUMBERS = (
    math.ceil,
    math.floor,
    math.trunc,
    math.sqrt,
    math.log,
    math.log2,
    math.log10,
    math.exp,
    math.gcd,
)
"""What Python calculates of numbers and ends soon, however large they are."""


def _by_numbers(calculate: Callable[..., Any]) -> Model:
    def model(run: Process, event: CallMade) -> object:
        is_known = all(isinstance(each, int | float) for each in event.args) and not event.keywords
        with suppress(ValueError, OverflowError, TypeError):
            return calculate(*event.args) if is_known else NotImplemented
        return NotImplemented

    return model


def _relative_path(run: Process, event: CallMade) -> object:
    start = event.argument("start", 1)
    if isinstance(start, Symbol):
        return Symbol()
    folder = run.folder if start is None else _absolute(run, text_of(start))
    return _by_path(lambda text: posixpath.relpath(_absolute(run, text), folder))(run, event)


_CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml")


def _is_there(run: Process, event: CallMade) -> object:
    """Whether a file is there: none without a name, and a configuration file of the program."""
    given = event.args[0] if event.args else Symbol()
    if given == "":
        return False
    text = text_of(given).removeprefix(f"{CODE_FOLDER}/") if isinstance(given, str) else ""
    is_inside = text.endswith(_CONFIGURATIONS) and is_known(text) and not text.startswith(("/", "."))
    is_packed = is_inside and run.documents(text) is not None
    return event.name != "os.path.isdir" if is_packed else Symbol()


def _absolute(run: Process, text: str) -> str:
    return posixpath.normpath(posixpath.join(run.folder, text))


def _absolute_path(run: Process, event: CallMade) -> object:
    return _by_path(lambda text: _absolute(run, text))(run, event)


def _folder_changed(run: Process, event: CallMade) -> object:
    given = event.argument("path", 0)
    run.folder = OPEN if isinstance(given, Symbol) else _absolute(run, text_of(given))
    return None


def _path_made(run: Process, event: CallMade) -> object:
    return PurePosixPath(*(text_of(each) for each in event.args))


_PATH_ATTRIBUTES = ("name", "stem", "suffix", "parent", "parents")
_PATH_METHODS = ["joinpath", "with_suffix", "with_name", "resolve", "absolute", "expanduser", "as_posix"]
_PATH_METHODS += ["open", "read_text", "write_text", "write_bytes", "exists", "is_file", "is_dir"]
_PATH_METHODS += ["replace", "rename"]


def _of_path(name: str) -> Model:
    def read(run: Process, owner: Any) -> object:
        if not isinstance(owner, PurePosixPath):
            is_of_texts = any(name in names for names in _PLAIN_METHODS.values())
            return _method(name)(run, owner) if is_of_texts else Symbol()
        if name in _PATH_ATTRIBUTES:
            return list(owner.parents) if name == "parents" else getattr(owner, name)
        return Native(name, lambda *args, **keywords: _path_method(run, owner, name, args))

    return read


def _entries(run: Process, path: object) -> list[str]:
    text = str(path) if isinstance(path, PurePosixPath) else path
    return run.entries(text) if isinstance(text, str) and is_known(text) else []


def _listed(run: Process, event: CallMade) -> object:
    """The files beside the program's modules, of which many make a registry."""
    path = event.argument("path", 0)
    return _entries(run, "." if path is None else path) or NotImplemented


def _scanned(run: Process, event: CallMade) -> object:
    path = event.argument("path", 0)
    found = [
        DottedEntries(
            name=name,
            path=posixpath.join(text_of(path), name),
            is_file=Native("is_file", lambda name=name, **_: "." in name),
            is_dir=Native("is_dir", lambda name=name, **_: "." not in name),
        )
        for name in _entries(run, path)
    ]
    return found or NotImplemented


def _globbed(run: Process, event: CallMade) -> object:
    pattern = event.argument("pathname", 0)
    folder, _, last = pattern.rpartition("/") if isinstance(pattern, str) else ("", "", "")
    found = fnmatch.filter(_entries(run, folder or "."), last)
    return [posixpath.join(folder, each) for each in found] or NotImplemented


def _files_within(run: Process, owner: Any) -> object:
    def list_files(pattern: Any = "*") -> object:
        found = fnmatch.filter(_entries(run, owner), pattern) if isinstance(pattern, str) else []
        return [owner / each for each in found] or Symbol()

    return Native("glob", list_files)


def _folder_made(run: Process, owner: Any) -> object:
    def make(*args: Any, **keywords: Any) -> None:
        if isinstance(owner, PurePosixPath):
            run.record("pathlib.Path.mkdir", (owner, *args), run.at, keywords)

    return Native("mkdir", make)


def _path_method(run: Process, owner: PurePosixPath, name: str, args: tuple[Any, ...]) -> object:
    texts = [text_of(each) for each in args]
    match name:
        case "exists" | "is_file" | "is_dir" | "write_text" | "write_bytes":
            run.record(f"pathlib.Path.{name}", (owner,), run.at)
        case "replace" | "rename":
            run.record(f"pathlib.Path.{name}", (owner, *args), run.at)
        case "joinpath":
            return owner.joinpath(*texts)
        case "with_suffix" | "with_name":
            return getattr(owner, name)(*texts)
        case "resolve" | "absolute":
            return PurePosixPath(_absolute(run, str(owner)))
        case "expanduser":
            return PurePosixPath(_home(str(owner)))
        case "as_posix":
            return str(owner)
        case "open":
            return open_file(run, owner, *args[:1])
        case "read_text":
            return Symbol(owner=OpenedFile(str(owner)))
    return Symbol()


def _home(text: str) -> str:
    return "/root" + text[1:] if text.startswith("~") else text


def _read(run: Process, owner: Any) -> object:
    return Native("read", lambda *_: Symbol(owner=owner))


# The rest of the library.


def _partial(run: Process, event: CallMade) -> object:
    return BoundCall(event.args[0], event.args[1:], event.keywords) if event.args else Symbol()


def _descriptor(kind: str) -> Model:
    """A function of a class that is read of its objects as by a decorator: `size = property(count)`."""

    def model(run: Process, event: CallMade) -> object:
        given = event.args[0] if event.args else None
        return replace(given, kind=kind) if isinstance(given, Function) else NotImplemented

    return model


def _first(run: Process, event: CallMade) -> object:
    """What was given, as of a coroutine, which has run where it was called."""
    return event.args[0] if event.args else Symbol()


def _reduced(run: Process, event: CallMade) -> object:
    if len(event.args) < 2 or not run.is_countable(event.args[1]):
        return Symbol()
    function, items = event.args[0], [*event.args[2:3], *items_of(run, event.args[1])]
    found = items[0] if items else Symbol()
    for each in items[1:]:
        found = run.call(function, [found, each], {}, event.node)
    return found


def _entered(run: Process, event: CallMade) -> object:
    """What a context manager gives that a stack of them enters."""
    given = event.args[0] if event.args else None
    if isinstance(given, Object):
        found = run.call_method(given, "__enter__", [], event.node)
        return given if found is NotImplemented else found
    entered: list[object] = []
    if isinstance(given, Suspended):
        run.enter(given, entered.append)
    return entered[0] if entered else given


def _replaced(run: Process, event: CallMade) -> object:
    given = event.args[0] if event.args else None
    if not isinstance(given, Object):
        return Symbol()
    kept = given.attributes
    if isinstance(event.keywords, OpenDictionary):
        kept = dict.fromkeys(kept, Symbol())
    return Object(given.kind, {**kept, **event.keywords}, given.native)


def _defaulting(run: Process, event: CallMade) -> object:
    factory = event.args[0] if event.args else None
    return Symbol() if factory is None else Defaulting(lambda: run.call(factory, [], {}, event.node))


def own_dictionary(run: Process, args: list[Any], keywords: dict[str, Any]) -> object:
    """What an object of a class of the program has of the dictionary that its base is."""
    found = dictionary_of(tuple(args), keywords)
    return DottedEntries(found) if isinstance(found, dict) else DottedEntries(keywords)


def _own_list(run: Process, args: list[Any], keywords: dict[str, Any]) -> object:
    return items_of(run, args[0]) if args and run.is_countable(args[0]) else []


def _field(run: Process, event: CallMade) -> object:
    factory = event.keywords.get("default_factory")
    if factory is None:
        return event.keywords.get("default", Symbol())
    return BoundCall(factory, (), {"*field": True})


def as_dictionary(run: Process, event: CallMade) -> object:
    """The fields of a dataclass, or the entries of a configuration, as a plain dictionary."""
    given = event.args[0] if event.args else None
    if isinstance(given, Object):
        return dict(given.attributes)
    return _plain(given) if isinstance(given, dict) else Symbol()


def _copied(run: Process, event: CallMade) -> object:
    given = event.args[0] if event.args else Symbol()
    return type(given)(given) if isinstance(given, dict | list) and type(given) in _COPIED else given


_COPIED = (dict, list, DottedEntries)


def _import_module(run: Process, event: CallMade) -> object:
    name = event.args[0] if event.args else None
    known = name if isinstance(name, str) and is_known(name) else None
    if known is None:
        return Symbol()
    if run.module(known) is None and isinstance(
        found := document_of(run, f"{known.replace('.', '/')}.py"), dict
    ):
        return record_of(found)  # A configuration that is imported by its name.
    for each in run.events[::-1] if run.module(known) is None else ():
        if each.name in ("sys.path.insert", "sys.path.append") and each.args:
            inside = posixpath.relpath(_absolute(run, text_of(each.args[-1])), CODE_FOLDER)
            below = run.module(f"{inside.replace('/', '.')}.{known}") if is_known(inside) else None
            if below is not None and below.scope is not None:
                return below
    is_missing = run.module(known) is None and run.module(known.partition(".")[0]) is not None
    if is_missing and run.is_caught("ModuleNotFoundError"):
        raise Raised("ModuleNotFoundError")
    return run.imported(known, event.node)


_PLAIN_PATTERN = re.compile(r"[^(){}*+?|]*(?:[*+?][^(){}*+?|]*)?")
"""Patterns with at most one thing that is repeated, which no text takes long with."""
_LONGEST_SEARCHED = 500


def _substituted(run: Process, event: CallMade) -> object:
    texts = _searched(event, "pattern", "repl", "string")
    try:
        return re.sub(texts[0], texts[1], texts[2]) if texts else Symbol()
    except (re.error, IndexError):
        return Symbol()


def _matched(run: Process, event: CallMade) -> object:
    texts = _searched(event, "pattern", "string")
    search = {"re.match": re.match, "re.search": re.search, "re.fullmatch": re.fullmatch}[event.name]
    try:
        is_there = not texts or search(texts[0], texts[1]) is not None
    except re.error:
        is_there = True
    return Symbol(f"{event.name}()", event) if is_there else None


def _searched(event: CallMade, *names: str) -> tuple[str, ...]:
    """A plain pattern and the texts that it is given with; none where one is not known."""
    given = [event.argument(name, place) for place, name in enumerate(names)]
    texts = tuple(each for each in given if isinstance(each, str) and is_known(each))
    is_plain = (
        bool(texts) and _PLAIN_PATTERN.fullmatch(texts[0]) and max(map(len, texts)) <= _LONGEST_SEARCHED
    )
    return texts if len(texts) == len(names) and is_plain else ()


def _exits(run: Process, event: CallMade) -> object:
    return end_of_process(run, *event.args)


def _environ(run: Process, owner: object) -> object:
    return run.environ


def _get_variable(run: Process, event: CallMade) -> object:
    return _apply(run, run.environ, "get", event.args, event.keywords)


def _own(run: Process, event: CallMade) -> object:
    return Symbol(f"{event.name}()", event, is_own=True)


_OWN_CALLS = (
    *("time.time", "time.strftime", "time.time_ns", "datetime.datetime.now", "datetime.datetime.today"),
    *("datetime.now", "datetime.datetime.utcnow", "uuid.uuid4", "uuid.uuid1", "os.getpid", "os.urandom"),
    *("socket.gethostname", "random.random", "random.randint", "random.choice", "platform.node"),
    "secrets.token_hex",
)


def _registered_for_exit(run: Process, event: CallMade) -> object:
    function, *given = event.args or (None,)
    run.at_exit.append((function, given, dict(event.keywords), event.node))
    return function


PYTHON_MODELS: dict[str, Model] = {
    "atexit.register": _registered_for_exit,
    **{f"math.{each.__name__}": _by_numbers(each) for each in _OF_NUMBERS},
    "os.environ=": _environ,
    "six.string_types=": lambda run, owner: (run.python["str"],),
    "os.getenv": _get_variable,
    **dict.fromkeys(("os.path.join", "blobfile.join"), joined_path),
    "os.path.basename": _by_path(posixpath.basename),
    "os.path.dirname": _by_path(posixpath.dirname),
    **dict.fromkeys(("os.path.abspath", "os.path.realpath"), _absolute_path),
    "os.path.normpath": _by_path(posixpath.normpath),
    "os.path.relpath": _relative_path,
    "os.path.expanduser": _by_path(_home),
    "os.path.splitext": _by_path(lambda text: posixpath.splitext(text)),
    "os.path.isabs": _by_path(posixpath.isabs),
    **dict.fromkeys(("os.path.exists", "os.path.isfile", "os.path.isdir"), _is_there),
    "os.getcwd": lambda run, event: run.folder,
    "os.chdir": _folder_changed,
    **dict.fromkeys(("pathlib.Path", "pathlib.PurePath"), _path_made),
    "pathlib.Path.cwd": lambda run, event: PurePosixPath(run.folder),
    "pathlib.Path.home": lambda run, event: PurePosixPath("/root"),
    **dict.fromkeys(("os.pardir=", "os.path.pardir="), lambda run, owner: ".."),
    **dict.fromkeys(("os.sep=", "os.path.sep="), lambda run, owner: "/"),
    "os.name=": lambda run, owner: "posix",
    "sys.platform=": lambda run, owner: "linux",
    "platform.system": lambda run, event: "Linux",
    "sys.argv=": lambda run, owner: [run.script, *run.words],
    "tempfile.gettempdir": lambda run, event: "/tmp",
    "tempfile.TemporaryDirectory": lambda run, event: [f"/tmp/{OWN}"],
    "tempfile.mkdtemp": lambda run, event: f"{text_of(event.argument('dir', 2) or '/tmp')}/{OWN}",
    **dict.fromkeys(("sys.exit", "os._exit"), _exits),
    "io.open": lambda run, event: open_file(run, *event.args[:2]),
    "ast.literal_eval": _evaluated_literal,
    **dict.fromkeys(("json.loads", "json.load"), _document_read),
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load"), _document_read),
    **dict.fromkeys(("ruamel_yaml.load", "ruamel.yaml.load", "ruamel_yaml.safe_load"), _document_read),
    "functools.partial": _partial,
    "functools.reduce": _reduced,
    "collections.defaultdict": _defaulting,
    "dataclasses.replace": _replaced,
    "contextlib.ExitStack().enter_context": _entered,
    "contextlib.ExitStack.enter_context": _entered,
    "asyncio.run": _first,
    "dataclasses.field": _field,
    "dataclasses.asdict": as_dictionary,
    "collections.OrderedDict": lambda run, event: dictionary_of(event.args, event.keywords),
    "typing.cast": lambda run, event: event.argument("val", 1),
    "copy.copy": _copied,
    "copy.deepcopy": _copied,
    "importlib.import_module": _import_module,
    "re.sub": _substituted,
    **dict.fromkeys(("re.match", "re.search", "re.fullmatch"), _matched),
    **dict.fromkeys(("importlib.util.module_from_spec", "runpy.run_path"), _file_named),
    "importlib.machinery.SourceFileLoader": _module_from_loader,
    **{f"builtins.{each}": _descriptor(each) for each in ("property", "staticmethod", "classmethod")},
    "contextlib.nullcontext": lambda run, event: [event.args[0] if event.args else None],
    **dict.fromkeys(_OWN_CALLS, _own),
    **{f".{name}": _method(name) for kind in _PLAIN_METHODS.values() for name in kind},
    ".format": _format,
    ".read": _read,
    ".mkdir": _folder_made,
    **dict.fromkeys((".glob", ".iterdir"), _files_within),
    "os.listdir": _listed,
    "os.scandir": _scanned,
    **dict.fromkeys(("glob.glob", "glob.iglob"), _globbed),
    **{f".{name}": _of_path(name) for name in (*_PATH_ATTRIBUTES, *_PATH_METHODS)},
    ".clone": lambda run, owner: Native("clone", lambda: owner),
    ".__setattr__": lambda run, owner: Native("__setattr__", functools.partial(run.set_attribute, owner)),
    **{f"{each}:": own_dictionary for each in ("builtins.dict", "collections.OrderedDict")},
    "builtins.list:": _own_list,
}
