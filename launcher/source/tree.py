"""What a job's code is: the source, read once for packing, for the rules and for what is shown.

With it what the names and the text of its Python files say without running anything: which modules they are,
which names they use, and how a script reads its command line, where that is without doubt.
"""

from __future__ import annotations

import ast
import io
import posixpath
import stat
import tokenize
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from launcher.frozen import frozen
from launcher.source.archive import (
    MOST_KEPT,
    SUFFIXES,
    ArchiveDigest,
    OnRead,
    PackedSource,
    digest_archive,
    read_first_bytes,
    read_packed,
    unreadable_file,
)
from launcher.source.folder_walk import IgnoredPath, Origin, SourceError, SourceFile, walk_folder
from launcher.source.requirements_file import RequirementsFile, read_requirements
from launcher.text.regular_files import file_mode, open_regular
from launcher.text.values import size_in_words

_MOST_SCRIPTS = 20


@frozen
class StoredSource:
    """A source archive on S3: its URI, and the ETag of the object that was read, None where none was."""

    uri: str
    etag: str | None = None


@frozen
class SourceTree:
    """A source as it was when it was read, with the script that the job starts.

    `folder` is absolute: the source folder, or the archive where the source `is_packed` already. `exists`
    says whether it is there, `has_entry_point` whether the script is, which is no promise that it is packed.
    `files` are what is packed, `ignored` what is left out and why, `idle` the patterns that are to bring
    something back and fit nothing, with their files, `dangling` the links to what is not there, `scripts` the
    Python files directly in the folder, `names` those of the names asked for that the packed code uses,
    `requirements` what the file asks for that is to be installed, None where it is not packed. `problems` are
    all that keep the source from being
    packed; `digest` is the SHA-256, in hexadecimal, of its archive before it is compressed, and None
    where there are problems, `archive_bytes` how long that is. `kept` is the content of an archive's small
    text files. `stored` is where an archive lies on S3; as long as it `is_unread`, nothing is known of it.
    """

    folder: Path
    entry_point: str
    exists: bool
    has_entry_point: bool
    files: tuple[SourceFile, ...] = ()
    ignored: tuple[IgnoredPath, ...] = ()
    idle: tuple[Origin, ...] = ()
    dangling: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    requirements: RequirementsFile | None = None
    digest: str | None = None
    archive_bytes: int = 0
    problems: tuple[SourceError, ...] = ()
    is_packed: bool = False
    kept: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    stored: StoredSource | None = None

    @property
    def place(self) -> str:
        """Where it lies, for messages: the path of the folder or archive, or the URI."""
        return self.stored.uri if self.stored else str(self.folder)

    @property
    def is_unread(self) -> bool:
        """Whether it lies on S3 and nobody has looked at it yet."""
        return self.stored is not None and self.stored.etag is None and not self.problems

    def check(self) -> None:
        """Raise the SourceError that keeps it from being packed, if there is one."""
        if self.problems:
            raise self.problems[0]
        if self.is_unread:
            raise SourceError(
                f"the code at {self.place} was not fetched.",
                f"Fetch it (`aws s3 cp {self.place} .`) and name the file: --set code.source_dir=FILE.tar.gz",
            )

    @property
    def size_bytes(self) -> int:
        """What is packed, before it is compressed."""
        return sum(file.size for file in self.files)

    @property
    def entry_point_name(self) -> str:
        """The entry point as the names of files are written: `./lib/../train.py` is `train.py`."""
        return posixpath.normpath(self.entry_point)

    @property
    def entry_point_is_outside(self) -> bool:
        """Whether the entry point leads out of the folder, so that it cannot be packed."""
        return posixpath.isabs(self.entry_point) or self.entry_point_name.startswith("../")

    @property
    def packs_entry_point(self) -> bool:
        """Whether the entry point is among the files that are packed."""
        return any(file.name == self.entry_point_name for file in self.files)

    def read(self, name: str, most: int) -> bytes:
        """The first bytes of a packed file, `most` of them at most.

        Raises KeyError for a name that is not packed, SourceError where the file cannot be read.
        """
        file = next((file for file in self.files if file.name == name), None)
        if file is None:
            raise KeyError(name)
        return self._read_content(file, most)

    def find_used_names(self, wanted: Collection[str]) -> frozenset[str]:
        """Those of the wanted names that the packed Python files use (`names_in`)."""
        return find_names(self.files, wanted, self._read_content)

    def with_requirements(self, name: str | None) -> SourceTree:
        """The tree with what the requirements file of that name asks for, where it is packed."""
        required = None if name is None else read_requirements(name, self.files, self._read_content)
        return replace(self, requirements=required)

    def _read_content(self, file: SourceFile, most: int) -> bytes:
        if not self.is_packed:
            return read_first_bytes(file, most)
        if file.name not in self.kept:
            raise SourceError(
                f"{file.name} in {self.folder} is not read: of an archive only text files of up to "
                f"{size_in_words(MOST_KEPT)} are.",
                "Give the folder of the code as `code.source_dir`.",
            )
        return self.kept[file.name][:most]

    def why_ignored(self, name: str) -> IgnoredPath | None:
        """What leaves out the file of that name: its own entry, or that of a folder above it."""
        return find_left_out(self.ignored, name)


def read_source(
    place: Path,
    entry_point: str,
    wanted: Collection[str] = (),
    requirements: str | None = None,
    on_read: OnRead | None = None,
) -> SourceTree:
    """Read a source folder, or an archive of one; `wanted` are the names to look for in its Python files,
    `requirements` the file that says what to install, relative to the folder.

    Looks at each folder once, reads every file that is packed once for the digest, and of the Python files
    as many as `names_in` bounds. Of more than `MOST_BYTES` it reads none. Never raises: what keeps
    the source from being packed are the tree's `problems`.
    """
    mode = file_mode(place)
    if stat.S_ISDIR(mode):
        return _read_folder(place.resolve(), entry_point, wanted, on_read).with_requirements(requirements)
    if stat.S_ISREG(mode) and place.name.endswith(SUFFIXES):
        return _read_archive(place.absolute(), entry_point, wanted, on_read).with_requirements(requirements)
    place = place.absolute()
    what = (
        f"the source {place} is neither a folder nor a .tar.gz"
        if mode
        else f"the source folder {place} is not there"
    )
    missing = SourceError(f"{what}.", "Correct `code.source_dir`.")
    return SourceTree(place, entry_point, exists=bool(mode), has_entry_point=False, problems=(missing,))


def make_unread_source(uri: str, entry_point: str) -> SourceTree:
    """The source at a URI of S3, of which nothing is known yet: what has no access to AWS goes on with it."""
    return SourceTree(
        Path(uri), entry_point, exists=True, has_entry_point=True, is_packed=True, stored=StoredSource(uri)
    )


def _read_folder(
    folder: Path, entry_point: str, wanted: Collection[str], on_read: OnRead | None
) -> SourceTree:
    found = walk_folder(folder)
    tree = SourceTree(
        folder=folder,
        entry_point=entry_point,
        exists=True,
        has_entry_point=stat.S_ISREG(file_mode(folder / entry_point)),
        files=found.files,
        ignored=found.ignored,
        idle=found.idle,
        dangling=found.dangling,
        scripts=found.scripts,
        names=find_names(found.files, wanted, read_first_bytes),
        problems=found.problems,
    )
    if tree.problems:
        return tree
    try:
        digest = digest_archive(tree.files, on_read)
    except SourceError as error:
        return replace(tree, problems=(error,))
    return replace(tree, digest=digest.sha256, archive_bytes=digest.size)


def _read_archive(
    path: Path, entry_point: str, wanted: Collection[str], on_read: OnRead | None
) -> SourceTree:
    try:
        with open_regular(path) as stream:
            found = read_packed(stream, str(path), path, path.stat().st_size, on_read)
    except OSError as error:
        problem = unreadable_file(path, error)
        return SourceTree(path, entry_point, exists=True, has_entry_point=False, problems=(problem,))
    return make_packed_tree(path, entry_point, wanted, found)


def make_packed_tree(
    path: Path, entry_point: str, wanted: Collection[str], found: PackedSource
) -> SourceTree:
    """The tree of a source that is packed already, as it was found."""
    names = [file.name for file in found.files if file.name.endswith(".py")]
    tree = SourceTree(
        folder=path,
        entry_point=entry_point,
        exists=True,
        has_entry_point=False,
        files=found.files,
        # Many archives hold everything in one folder, as those of GitHub do.
        scripts=tuple([name for name in names if "/" not in name] or names[:_MOST_SCRIPTS]),
        problems=found.problems,
        is_packed=True,
        kept=found.kept,
    )
    used = tree.find_used_names(wanted)
    digest = found.digest or ArchiveDigest("", 0)
    return replace(
        tree,
        has_entry_point=tree.packs_entry_point,
        names=used,
        digest=digest.sha256 or None,
        archive_bytes=digest.size,
    )


# What of a source is not packed, by the files whose patterns leave it out.


@frozen
class LeftOut:
    """The paths that the patterns of one file leave out; of folders (with a slash) all that they hold.

    `ignore_file` is None for the folders that are never packed.
    """

    ignore_file: Path | None
    names: tuple[str, ...]


def find_left_out(ignored: Iterable[IgnoredPath], name: str) -> IgnoredPath | None:
    """What leaves out the file of that name: its own entry, or that of a folder above it."""
    return next((each for each in ignored if _covers_path(each.name, name)), None)


def group_left_out(ignored: Iterable[IgnoredPath]) -> list[LeftOut]:
    """What is left out, in the order in which it was met; what is never packed comes last."""
    found: dict[Path | None, list[str]] = {}
    for each in ignored:
        found.setdefault(each.ignore_file, []).append(each.name)
    files = sorted(found, key=lambda file: file is None)
    return [LeftOut(file, tuple(found[file])) for file in files]


def _covers_path(ignored: str, name: str) -> bool:
    return name.startswith(ignored) if ignored.endswith("/") else name == ignored


# Which names the Python files of a source use, for the rules that judge by them.


_MOST_SEARCHED_FILES = 200
_MOST_SEARCHED_BYTES = 1_000_000
_NOT_SOURCE = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


def find_names(
    files: Iterable[SourceFile], wanted: Collection[str], read: Callable[[SourceFile, int], bytes]
) -> frozenset[str]:
    """Those of the wanted names that the code in the files uses; comments and strings do not count.

    `read` gives the first so many bytes of a file, or raises SourceError.

    Bounded: the first 200 Python files, those of a folder before those below it, of at most 1 MB each,
    outside of hidden folders and installed packages. Files that cannot be read or are not Python are passed
    over.
    """
    found: set[str] = set()
    for file in sorted(filter(_is_source, files), key=_place)[:_MOST_SEARCHED_FILES]:
        if found.issuperset(wanted):
            break
        found |= _names_in_source(file, [name for name in wanted if name not in found], read)
    return frozenset(found)


def _is_source(file: SourceFile) -> bool:
    *folders, name = file.name.split("/")
    return name.endswith(".py") and not any(each[0] == "." or each in _NOT_SOURCE for each in folders)


def _place(file: SourceFile) -> tuple[tuple[bool, str], ...]:
    """Sorts files before folders at each level."""
    *folders, name = file.name.split("/")
    return (*((True, folder) for folder in folders), (False, name))


def _names_in_source(
    file: SourceFile, wanted: Collection[str], read: Callable[[SourceFile, int], bytes]
) -> set[str]:
    if file.size > _MOST_SEARCHED_BYTES:
        return set()
    try:
        text = read(file, _MOST_SEARCHED_BYTES).decode("utf-8", errors="replace")
    except SourceError:
        return set()
    # Reading tokens is slow, and most files hold none of the words.
    possible = {name for name in wanted if name in text}
    found: set[str] = set()
    if possible:
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME and token.string in possible:
                    found.add(token.string)
                    if found == possible:
                        break
        except (tokenize.TokenError, SyntaxError):
            return found
    return found


# Python modules by the files that hold them, as `python -m` finds them below the source folder.


def module_files(module: str, import_folders: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of the files that may hold what `python -m` runs: a module, or a package's `__main__`.

    First those in the source itself, then those in the folders that PYTHONPATH names besides.
    """
    path = module.replace(".", "/")
    folders = ("" if each == "." else f"{each}/" for each in (".", *import_folders))
    return tuple(f"{folder}{path}{end}" for folder in folders for end in (".py", "/__main__.py"))


def runnable_modules(names: Iterable[str]) -> Iterator[str]:
    """What `python -m` can run of the files with these names; those of packages by the package's name."""
    for name in names:
        if name.endswith(".py"):
            module = name[: -len(".py")].replace("/", ".")
            if not module.endswith("__init__"):
                yield module.removesuffix(".__main__")


# How a Python script reads its command line, where its source says so without doubt.


MOST_SCRIPT_BYTES = 200_000
"""A script that starts a training is smaller; a larger one is not read."""

_OTHER_READERS = frozenset(
    {
        "parse_known_args",
        "parse_known_intermixed_args",
        "argv",
        "from_cli",
        "HfArgumentParser",
        "add_subparsers",
    }
)
"""Names by which a script may take more words than its `add_argument` calls say."""

_HARMLESS = frozenset({"description", "epilog", "formatter_class", "prog", "usage"})
"""What a parser may be made with and still takes no other words."""


@frozen
class CommandLine:
    """What a script takes on its command line.

    `hydra_line` is that of a function under `@hydra.main`, None without one. `options` are those that
    `argparse` knows, such as `--lr`, where it takes these and no other words; else None.
    """

    hydra_line: int | None = None
    options: frozenset[str] | None = None


NOTHING_SEEN = CommandLine()
"""Of a script whose source does not tell."""


def read_command_line(text: bytes) -> CommandLine:
    """What a script takes, by its text; nothing of one longer than MOST_BYTES or that is no Python."""
    nodes = _syntax_nodes(text)
    return CommandLine(next(_hydra_lines(nodes), None), _strict_options(nodes))


def find_offered_options(text: bytes) -> dict[str, bool]:
    """The options that a script is seen to offer besides whatever else it takes, such as `--max_steps`.

    The value says whether the option is followed by one: `--synthetic` of a `store_true` is not. Beside the
    literal names of `add_argument` these are the step limit of Transformers' TrainingArguments, where the
    script has them read from its command line.
    """
    offered: dict[str, bool] = {}
    for call in (node for node in _syntax_nodes(text) if isinstance(node, ast.Call)):
        if _called_name(call) == "add_argument":
            action = next((each.value for each in call.keywords if each.arg == "action"), None)
            takes_value = action is None or (isinstance(action, ast.Constant) and action.value == "store")
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
            offered |= {str(name): takes_value for name in names if str(name).startswith("--")}
        elif _called_name(call) == "HfArgumentParser":
            inner = [
                node
                for arg in (*call.args, *(each.value for each in call.keywords))
                for node in ast.walk(arg)
            ]
            if any(isinstance(node, ast.Name) and node.id.endswith("TrainingArguments") for node in inner):
                offered["--max_steps"] = True
    return offered


def _syntax_nodes(text: bytes) -> list[ast.AST]:
    """The script's syntax, flat; nothing of one longer than MOST_BYTES or that is no Python."""
    try:
        # What Python would warn of in the user's script is none of the launcher's output.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text) if len(text) <= MOST_SCRIPT_BYTES else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(ast.walk(tree))


def _hydra_lines(nodes: list[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
                    continue
                if (called.value.id, called.attr) == ("hydra", "main"):
                    yield node.lineno


def _strict_options(nodes: list[ast.AST]) -> frozenset[str] | None:
    """None unless one parser is made, all its arguments are options with literal names, and it is strict."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    named |= {node.id for node in nodes if isinstance(node, ast.Name)}
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    parsers = [call for call in calls if _called_name(call) == "ArgumentParser"]
    reads = [call for call in calls if _called_name(call) == "parse_args"]
    if len(parsers) != 1 or len(reads) != 1 or (named | imported) & _OTHER_READERS:
        return None
    # With words or a parent of its own the parser reads something else.
    if reads[0].args or reads[0].keywords or {each.arg for each in parsers[0].keywords} - _HARMLESS:
        return None
    if _is_handed_on(parsers[0], nodes, calls):
        return None
    options: set[str] = set()
    for call in calls:
        if _called_name(call) == "add_argument":
            names = [arg.value if isinstance(arg, ast.Constant) else None for arg in call.args]
            if not names or not all(isinstance(name, str) and name.startswith("-") for name in names):
                return None
            options |= {str(name) for name in names}
    return frozenset(options) if options else None


def _is_handed_on(parser: ast.Call, nodes: list[ast.AST], calls: list[ast.Call]) -> bool:
    """Whether others may add arguments: the parser is given to a function, or has no name to see it by."""
    targets = [node.targets for node in nodes if isinstance(node, ast.Assign) and node.value is parser]
    names = {target.id for each in targets for target in each if isinstance(target, ast.Name)}
    given = [arg for call in calls for arg in (*call.args, *(keyword.value for keyword in call.keywords))]
    return not names or any(isinstance(arg, ast.Name) and arg.id in names for arg in given)


def _called_name(call: ast.Call) -> str | None:
    """The last name of what is called: `ArgumentParser` in `argparse.ArgumentParser()`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None
