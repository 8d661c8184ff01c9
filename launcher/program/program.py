"""A program: a script and the files that it imports, read once and bounded, and what its expressions are.

What cannot be read (no Python of this version, null bytes, too large, no permission) becomes an `Unread`
with its reason; the other files are still there.
"""

from __future__ import annotations

import ast
import gc
import io
import os
import re
import sys
import tokenize
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

from launcher.program.bindings import branch_arms
from launcher.program.evaluate import Evaluation
from launcher.program.index import (
    FileIndex,
    FunctionNode,
    ProgramFiles,
    Unread,
    absolute_module_name,
    dotted_name,
    file_of,
    function_of_parameter,
    is_package,
    last_name,
    parameters_of,
    scope_of,
)
from launcher.program.objects.forwarding import write_out_forwarded
from launcher.program.objects.written_out import CHANGING, write_out
from launcher.program.texts import adds_folders, folders_added, folders_between
from launcher.program.values import (
    External,
    Instance,
    Pair,
    Value,
    alternatives,
    canonical_name,
    is_import_of,
    library_names,
    like,
    pairs_of,
)

Analysis = TypeVar("Analysis")


class Program(ProgramFiles):
    """A program's files, what their expressions are, and what the analyses found out about them."""

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the expressions of the program are, where calls through others stand as calls of these."""
        first = Evaluation(self)
        return Evaluation(self) if write_out_forwarded(first.callers) else first

    @cached_property
    def _analyses(self) -> dict[Callable[[Program], object], object]:
        return {}

    def analysis(self, kind: Callable[[Program], Analysis]) -> Analysis:
        """The analysis of this kind, such as `Guards`: made when somebody first asks for it, and kept."""
        if kind not in self._analyses:
            self._analyses[kind] = kind(self)
        return cast(Analysis, self._analyses[kind])

    def load(self, name: str) -> FileIndex | None:
        """The file of a module by its name, also where only a run knows that it is imported, as one that an
        option names: such a file is none of `files`."""
        found = self.modules.get(name) or self.find(name)
        if found is not None:
            self._names.setdefault(found, name)
        return found

    def value(self, node: ast.expr) -> Value:
        """What an expression is, wherever its function is called from; UNKNOWN where that is not sure."""
        return self.evaluation.value(node)

    def qualified(self, node: ast.expr) -> str | None:
        """The one dotted name of what an expression of a library is, through imports and assignments.

        `torch.distributed.barrier` for `dist.barrier`; for an attribute of an object its class goes first:
        `torch.utils.data.DistributedSampler.set_epoch`; for a call the name of what was called. None of the
        program's own things and of what is unknown. `torch.optim.?.step` where it may be of several classes.
        """
        value = self.value(node)
        known = self._qualified.get(node)
        if known is None or known[0] is not value:
            names = {_library_name(each) for each in alternatives(value)}
            name = names.pop() if len(names) == 1 else _name_of_several(names)
            known = self._qualified[node] = value, name
        return known[1]

    @cached_property
    def _qualified(self) -> dict[ast.expr, tuple[Value, str | None]]:
        return {}

    def calls(self, *names: str) -> Iterator[tuple[ast.Call, str]]:
        """The calls of the program whose callee has one of these qualified names, with that name."""
        wanted = {canonical_name(name) for name in names}
        lasts = self.known_as({name.rpartition(".")[2] for name in wanted})
        for file in self.mentioning(*lasts):
            for last in sorted(lasts):
                for call in file.calls_of.get(last, ()):
                    if (name := self.qualified(call.func)) in wanted:
                        write_out_unpacked(self, call)
                        yield call, name
        yield from self.evaluation.callers.calls_of_kept_classes(wanted, lasts)


def calls_as_given(program: Program, *names: str) -> Iterator[tuple[ast.Call, str]]:
    """The same calls; one that hands on what its function is given, `torch.save(*args, **kwargs)`, as each
    caller of the function gives it. It stands in the helper, and its arguments where they are written."""
    for call, name in program.calls(*names):
        yield from ((each, name) for each in _as_given(program, call))


def _as_given(program: Program, call: ast.Call) -> Iterator[ast.Call]:
    stars = [each.value for each in call.args if isinstance(each, ast.Starred)]
    stars += [each.value for each in call.keywords if each.arg is None]
    scope = scope_of(call).function
    function = None if scope is None else scope.node
    if not stars or not isinstance(function, FunctionNode):
        yield call
        return
    own = {each.arg for each in (function.args.vararg, function.args.kwarg) if each}
    if not all(isinstance(each, ast.Name) and each.id in own for each in stars):
        yield call
        return
    for site in program.evaluation.callers.call_sites(function) or ():
        if site.arguments is None:
            continue
        row = site.arguments.get(function.args.vararg.arg if function.args.vararg else "")
        rest = row.elts if isinstance(row, ast.Tuple) else []
        args = [one for each in call.args for one in (rest if isinstance(each, ast.Starred) else [each])]
        extra = extra_keywords(function, site.call)
        keywords = [one for each in call.keywords for one in (extra if each.arg is None else [each])]
        yield like(call, ast.Call(call.func, args, keywords))


def extra_keywords(function: FunctionNode, call: ast.Call) -> list[ast.keyword]:
    """What a call gives to the `**options` of a function, as far as it shows."""
    names = {None, *(each.arg for each in parameters_of(function))}
    return [each for each in call.keywords if each.arg not in names]


def joining_calls(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The calls by which a program joins others."""
    return program.calls(*library_names("joining_calls"))


def _name_of_several(names: set[str | None]) -> str | None:
    """The name of what is one of several, which differ in one part of their names alone."""
    rows = [each.split(".") for each in names if each]
    if len(rows) < len(names) or len({len(each) for each in rows}) != 1:
        return None
    parts = [each[0] if len(set(each)) == 1 else "?" for each in zip(*rows, strict=True)]
    return ".".join(parts) if parts.count("?") == 1 and parts[0] != "?" else None


def _library_name(value: Value) -> str | None:
    return value.name if isinstance(value, External | Instance) else None


MOST_FILES = 400
"""So many files of a program are read, those nearest to the entry first."""

MOST_FOLDERS = 400
"""So many folders are looked at for a module that lies in none of those in which Python looks."""

MOST_BYTES = 4_000_000
"""A larger file is data in the clothes of a program."""

MOST_WORDS = 900_000
"""Names, numbers, marks and lines of one file, whose nodes take up to 0.9 KB each: 50,000 lines of code have
some 600,000."""

MOST_PARTS = 40
"""A module's name of more parts is no path: each part would be looked for by itself."""

MOST_BYTES_TOGETHER = 6_000_000
"""Of all files of one program."""

MOST_BYTES_KEPT = 10_000_000
"""So much text is kept read for the next program: its trees take some 40 times that, measured on timm."""

MOST_BYTES_FORGOTTEN = 4_000_000
"""So much text is forgotten before its memory is given back."""
_WORD = re.compile(r"\w+|[^\w\s]|\n")
NO_CHANGED_FILES: Mapping[str, bytes] = MappingProxyType({})


class FileCache:
    """The files read so far, so that programs with a common helper read it once."""

    def __init__(
        self, changed: Mapping[str, bytes] = NO_CHANGED_FILES, program: Program | None = None
    ) -> None:
        """Start empty, or with the files of a program for one that lies beside it. `changed` holds bytes that
        are taken for those of files, by their real paths."""
        files = () if program is None else program.files
        self._read: dict[str, FileIndex | Unread] = {os.path.realpath(each.path): each for each in files}
        self._program: tuple[tuple[Path, ...], Program] | None = None
        self._size = 0
        self._dropped = 0
        self._changed = changed

    def read(self, path: Path) -> FileIndex | Unread:
        """The index of a file, or why there is none; each real file is read once."""
        real = os.path.realpath(path)
        found = self._read.get(real)
        if found is None:
            data = self._changed.get(real)
            found = _read(path) if data is None else read_source(data, path)
            self._keep(real, found)
        return found

    def _keep(self, real: str, found: FileIndex | Unread) -> None:
        """Keep what was read; a program that needs what goes for it has it still."""
        size = _size(found)
        if self._size + size > MOST_BYTES_KEPT:
            self._read.clear()
            self._program = None
            self._dropped += self._size
            self._size = 0
        self._read[real] = found
        self._size += size

    def forget(self, path: Path) -> None:
        """Read a file anew when it is asked for again: few scripts are imported by others."""
        self._program = None
        found = self._read.pop(os.path.realpath(path), None)
        if found is not None:
            self._size -= _size(found)
            self._dropped += _size(found)

    def program(self, places: tuple[Path, ...]) -> Program | None:
        """The program that was read last, with all that its analyses found, where it is this one: by its
        script, its root and the other folders of its modules."""
        kept = self._program
        return kept[1] if kept is not None and kept[0] == places else None

    def keep_program(self, places: tuple[Path, ...], program: Program) -> None:
        """Keep a program for who asks for the same one next, such as a job that is judged for two places."""
        self._program = (places, program)

    def collect(self) -> None:
        """Give the memory of forgotten files back, where that is worth the look through all objects.

        Nodes and what holds them refer to each other, so that only the garbage collector finds them.
        """
        if self._dropped > MOST_BYTES_FORGOTTEN:
            self._dropped = 0
            gc.collect()


def _size(found: FileIndex | Unread) -> int:
    return 0 if isinstance(found, Unread) else len(found.text)


def read_program(
    entry: Path, root: Path | None = None, cache: FileCache | None = None, import_folders: Sequence[str] = ()
) -> Program | Unread:
    """The program that a script starts; what it imports is looked for beside it and below `root`, where
    `import_folders` are those that PYTHONPATH names, from there.

    An `Unread` where the script itself cannot be read. Files outside of `root` (the script's own folder
    unless given) are not followed into, nor through links. What is in neither may be in a folder between.
    """
    cache = cache or FileCache()
    folder, root = entry.parent, root or entry.parent
    added = tuple(root / each for each in import_folders)
    if (kept := cache.program((entry, root, *added))) is not None:
        return kept
    with collection_paused():
        first = cache.read(entry)
        if isinstance(first, Unread):
            return first
        places: dict[str, Path] = {}
        for each in (folder, *added, root):
            places.setdefault(os.path.realpath(each), each)
        program = _ImportChain(first, root, tuple(places.values()), cache).program()
    cache.keep_program((entry, root, *added), program)
    return program


@contextmanager
def collection_paused() -> Iterator[None]:
    """Without garbage collection, but for `FileCache.collect`.

    Trees are many objects that stay: looking through them again and again, as more are made, takes as long
    as reading and judging a program of some hundred files.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _ImportChain:
    """From the entry along its imports, breadth first."""

    def __init__(self, entry: FileIndex, root: Path, folders: tuple[Path, ...], cache: FileCache) -> None:
        self.entry, self.root, self.folders, self.cache = entry, root, folders, cache
        self.between = folders_between(folders[0], root)
        self.real_root = os.path.realpath(root)
        self.modules: dict[str, FileIndex] = {}
        self.unread: dict[Path, Unread] = {}
        self.tried: set[str] = set()
        self.tops: dict[str, bool] = {}
        self.bytes = len(entry.text)
        self.adds_folders = False
        """Whether a file adds folders to those in which Python looks for modules."""

    def program(self) -> Program:
        files = {self.entry: self._name_of_entry()}
        self.modules[files[self.entry]] = self.entry
        waiting = deque(files.items())
        while waiting:
            file, name = waiting.popleft()
            if not self.adds_folders and adds_folders(file):
                self.adds_folders, self.tried = True, self.tried & set(self.modules)
                waiting.extend((each, named) for each, named in files.items() if each is not file)
            for folder in folders_added(file, self.folders, self.root):
                self.folders, self.tried = (*self.folders, folder), self.tried & set(self.modules)
                self.tops.clear()
                # What was not found before may lie there, as behind `import _init_paths`.
                waiting.extend((each, named) for each, named in files.items() if each is not file)
            for module in _imported_modules(file, name):
                found = self._module(module)
                if found is not None and found not in files:
                    if len(files) >= MOST_FILES or self.bytes > MOST_BYTES_TOGETHER:
                        return self._made(files)
                    self.bytes += len(found.text)
                    files[found] = module
                    waiting.append((found, module))
        return self._made(files)

    def _made(self, files: dict[FileIndex, str]) -> Program:
        unread, modules = tuple(self.unread.values()), dict(self.modules)
        return Program(
            self.entry, self.root, tuple(files), unread, modules, find=self._module, entries=self._entries
        )

    def _name_of_entry(self) -> str:
        """By its place below the root, so that relative imports of an entry in a package are found."""
        parts = [self.entry.path.stem]
        folder = self.entry.path.parent
        while (
            (folder / "__init__.py").is_file() and os.path.realpath(folder) != self.real_root and folder.name
        ):
            parts.insert(0, folder.name)
            folder = folder.parent
        if len(parts) > 1 and folder not in self.folders:
            self.folders = (*self.folders, folder)
        return ".".join(parts)

    def _module(self, name: str) -> FileIndex | None:
        if name not in self.tried:
            self.tried.add(name)
            holder = self.modules.get(name.rpartition(".")[0])
            # What a module that is no package holds is no file of its own.
            for path in self._candidates(name) if holder is None or is_package(holder) else ():
                read = self.cache.read(path)
                if isinstance(read, Unread):
                    self.unread.setdefault(path, read)
                else:
                    self.modules[name] = read
                break
        return self.modules.get(name)

    def _entries(self, folder: str) -> list[str]:
        """The names in a folder below the root that has modules of the program; none of any other."""
        place = os.path.realpath(self.root / folder)
        if f"{place}{os.sep}".startswith(self.real_root + os.sep):
            with suppress(OSError, ValueError):
                names = sorted(each.name for each in islice(Path(place).iterdir(), MOST_FILES))
                return names if any(each.endswith(".py") for each in names) else []
        return []

    def _candidates(self, name: str) -> Iterator[Path]:
        """The files that an absolute name may mean, the first that Python would take first."""
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return
        if self._has_top(parts[0]):
            yield from self._files_of(parts, *self.folders, *(() if is_of_a_library(name) else self.between))
        elif self.adds_folders and not is_of_a_library(name):
            # Which folder is added may be what only a run knows: there is one alone that has the module, and
            # it is not known by another name.
            found = [*self._files_of(parts, *self._folders_with.get(parts[0], ()))]
            known = {os.path.realpath(each.path) for each in self.modules.values()}
            if len(found) == 1 and os.path.realpath(found[0]) not in known:
                yield found[0]

    def _files_of(self, parts: Sequence[str], *folders: Path) -> Iterator[Path]:
        for folder in folders:
            place = folder.joinpath(*parts)
            for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
                if self._is_ours(path):
                    yield path

    @cached_property
    def _folders_with(self) -> dict[str, list[Path]]:
        """The folders below the root, as many as are looked at, by the names of the modules in them."""
        folders, found = [self.root], dict[str, list[Path]]()
        for folder in folders:  # They grow while they are read.
            with suppress(OSError), os.scandir(folder) as scanned:
                inside = sorted(scanned, key=lambda each: each.name)
                for name in dict.fromkeys(each.name.removesuffix(".py") for each in inside):
                    found.setdefault(name, []).append(folder)
                below = [each for each in inside if each.is_dir(follow_symlinks=False)]
                folders += [
                    folder / each.name
                    for each in below
                    if each.name[0] not in "._" and len(folders) < MOST_FOLDERS
                ]
        return found

    def _has_top(self, name: str) -> bool:
        """Whether a topmost module or package of this name may be in one of the folders: most imports are of
        libraries, and of those no file is looked for."""
        if name not in self.tops:
            places = [each / file for each in (*self.folders, *self.between) for file in (name, f"{name}.py")]
            try:
                self.tops[name] = any(each.exists() for each in places)
            except (OSError, ValueError):  # No file has so long a name.
                self.tops[name] = False
        return self.tops[name]

    def _is_ours(self, path: Path) -> bool:
        try:
            return path.is_file() and os.path.realpath(path).startswith(self.real_root + os.sep)
        except (OSError, ValueError):
            return False


def _imported_modules(file: FileIndex, name: str) -> Iterator[str]:
    """The modules that a file's imports may name, packages before what lies in them."""
    for binding in file.imports:
        whole = absolute_module_name(binding.module or "", name, is_package(file))
        parts = whole.split(".")
        for length in range(1, min(len(parts), MOST_PARTS) + 1):
            yield ".".join(parts[:length])


def _read(path: Path) -> FileIndex | Unread:
    try:
        if not path.is_file():
            return Unread(path, "it is a folder" if path.is_dir() else "there is no such file")
        if path.stat().st_size > MOST_BYTES:
            return Unread(path, f"it has more than {MOST_BYTES / 1e6:.0f} MB")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        return Unread(path, f"it cannot be read: {getattr(error, 'strerror', None) or error}")
    return read_source(data, path)


OLD_ASYNC = "asinc"
"""What a file is read with where it names an argument `async`, as torch's `cuda(async=True)` was written: a
word of Python itself since 3.7. As long as that, so that all else stands where it stood."""
_OLD_ASYNC = re.compile(r"\basync(?=\s*=(?!=))")


def _count_words(text: str) -> int:
    """How many tokens a text has at most: words in comments and strings count as well."""
    return sum(1 for _ in _WORD.finditer(text))


def read_source(data: bytes, path: Path) -> FileIndex | Unread:
    """The index of a file's bytes; an `Unread` where they are no Python that this version understands."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        if len(text) > MOST_WORDS and _count_words(text) > MOST_WORDS:
            return Unread(path, f"it has more than {MOST_WORDS} words and lines")
        # What Python would warn of in the user's script is none of the launcher's output.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(text, str(path))
            except SyntaxError:
                if not _OLD_ASYNC.search(text):
                    raise
                text = _OLD_ASYNC.sub(OLD_ASYNC, text)
                tree = ast.parse(text, str(path))
            write_out(tree, text)
    except SyntaxError as error:
        said = (error.msg or "a syntax error").partition(" (")[0]
        return Unread(path, f"it is no valid Python: {said}", error.lineno or 1, error.offset or 1)
    except (ValueError, LookupError) as error:
        return Unread(path, f"it is no valid Python: {error}")
    except (RecursionError, MemoryError):
        return Unread(path, "its expressions are nested too deeply")
    return FileIndex(path, text, tree)


def write_out_unpacked(program: Program, call: ast.Call) -> None:
    """Give a call the entries of the tables that it unpacks, where all of them are known."""
    if not any(each.arg is None for each in call.keywords):
        return
    keywords: list[ast.keyword] = []
    for each in call.keywords:
        pairs = _unpacked(program, each.value) if each.arg is None else None
        if pairs is None:
            keywords.append(each)
        else:
            keywords += [ast.copy_location(ast.keyword(*pair), each) for pair in pairs]
    call.keywords = keywords


def _unpacked(program: Program, table: ast.expr) -> list[Pair] | None:
    """The entries of a table where it is unpacked, with what surely is put into it before."""
    for binding in program.evaluation.sources(table):
        function = function_of_parameter(binding.node) if isinstance(binding.node, ast.arg) else None
        if function is not None and function.args.kwarg is binding.node:
            sites = program.evaluation.callers.call_sites(function) or ()
            extra = extra_keywords(function, sites[0].call) if len(sites) == 1 else []
            return [(each.arg, each.value) for each in extra if each.arg is not None] or None
    pairs = pairs_of(program.value(table), program.value)
    found = None if pairs is None else dict(pairs)
    name = last_name(table)
    for node, added in changes_of_table(file_of(table), name) if found is not None and name else ():
        runs = scope_of(node) is scope_of(table) and branch_arms(node) <= branch_arms(table)
        if found is None or added is None or not runs or node.lineno >= table.lineno:
            return None
        for each in added:
            value = program.value(each.value)
            inner = [(each.arg, each.value)] if each.arg else pairs_of(value, program.value)
            if inner is None:
                return None
            found.update(inner)
    return None if found is None else [*found.items()]


def changes_of_table(file: FileIndex, name: str) -> Iterator[tuple[ast.expr, list[ast.keyword] | None]]:
    """Where something of this name gets entries, and which; None for what takes some away."""
    for method in sorted(CHANGING):
        for call in file.calls_of.get(method, ()):
            if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == name:
                tables = [ast.keyword(None, each) for each in call.args]
                yield call, [*tables, *call.keywords] if method == "update" else None
    for key, bindings in file.set_items.items():
        for binding in bindings:
            if binding.name == name and isinstance(binding.node, ast.expr):
                known = binding.value is not None and key
                added = [ast.keyword(key, binding.value)] if known and binding.value else None
                yield binding.node, added


# Which files of a folder are started by themselves, and train on several processes.


NOT_LOOKED_INTO = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build"})
"""Folders of installed or built packages; hidden folders are not looked into either."""

MOST_FILES_BELOW = 20_000
"""So many files of one folder are looked at."""

MAIN_WORD = b"__main__"


def python_files_below(folder: Path, excluded: Callable[[Path], bool] = lambda path: False) -> Iterator[Path]:
    """The Python files below a folder, in the order of their names; links to folders are not followed."""
    seen = 0
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if name[0] != "." and name not in NOT_LOOKED_INTO and not excluded(here / name)
        )
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES_BELOW:
                return
            if name.endswith(".py") and not excluded(here / name):
                yield here / name


def may_be_started(path: Path) -> bool:
    """Whether a file holds the words of a main guard, or cannot be read: a quick look before a full one."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return MAIN_WORD in file.read(MOST_BYTES)
    except OSError:
        return True


def has_main_guard(file: FileIndex) -> bool:
    """Whether a file has `if __name__ == "__main__":` in its own code."""
    return any(
        isinstance(statement, ast.If) and _asks_for_main(statement.test) for statement in file.tree.body
    )


def _asks_for_main(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = (test.left, test.comparators[0])
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def trains_distributed(program: Program) -> bool:
    """Whether a program imports, in any of its files, what only distributed training needs."""
    return any(_imports_distributed(file) for file in program.files)


def _imports_distributed(file: FileIndex) -> bool:
    if any(
        is_import_of(canonical_name(binding.module or ""), "distributed_imports") for binding in file.imports
    ):
        return True
    return "DistributedDataParallel" in file.attributes or any(
        dotted_name(node) == "torch.distributed" for node in file.attributes.get("distributed", ())
    )


# Whether a program imports only libraries of which it is known what they do with process groups.


def imports_the_unknown(program: Program) -> bool:
    """Whether anything that a program imports could make a group, or a backend; what cannot be read could."""
    joining = {name.rpartition(".")[2] for name in library_names("joining_imports") if "." in name}
    return (
        bool(program.unread)
        or any(not joining.isdisjoint(file.attributes) for file in program.files)
        or next(unknown_imports(program), None) is not None
    )


def unknown_imports(program: Program) -> Iterator[str]:
    """The modules that a program imports and of which nobody knows what they do."""
    for file in program.files:
        for each in file.imports:
            if _is_unknown(program, file, each.module or ""):
                yield each.module or ""


def _is_unknown(program: Program, file: FileIndex, imported: str) -> bool:
    whole = absolute_module_name(imported, program.module_name(file), is_package(file))
    parts = whole.split(".")
    ours = any(".".join(parts[:count]) in program.modules for count in range(1, len(parts) + 1))
    known = is_of_a_library(whole) and not is_import_of(canonical_name(whole), "joining_imports")
    return not ours and not known


@lru_cache(4096)
def is_of_a_library(name: str) -> bool:
    """Whether a module is Python's own, or of a library of which it is known what it does."""
    return name.partition(".")[0] in sys.stdlib_module_names or is_import_of(name, "plain_imports")
