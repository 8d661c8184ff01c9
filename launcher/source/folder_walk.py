"""Which files of a source folder belong to a job: what git would keep, with links followed that stay inside.

`.gitignore` and `.slipwayignore` are read in every folder, and in those above the source folder up to the
repository's root, as git does. Both have the same syntax (git documentation, gitignore). In one folder
`.slipwayignore` comes after `.gitignore` and so has the last word: it can leave out what git keeps, and bring
back (`!generated.py`) what git leaves out, out of folders too that are left out as a whole (`!data/x.bin`,
where git would want `!data/`, `data/*` and `!data/x.bin`). A link is packed as what it leads to, under its
own name: in the container there are only files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.text.regular_files import read_regular
from launcher.text.values import size_in_words

if TYPE_CHECKING:
    import re2
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", ".slipway"})
"""Never part of a job's code: history, caches, and what local runs leave."""

MOST_LINKED = 10_000
"""Entries looked at through links to folders: a few folders of links to one another have billions."""

MOST_PROBLEMS = 20
"""So many are told one by one; a link farm has thousands."""


@frozen
class FolderWalk:
    """What one walk through a source folder found.

    `files` are those to be packed, sorted by their names' parts, `scripts` the names of all Python files
    directly in the folder, ignored ones too; `idle` are the patterns of `.slipwayignore` that are to bring
    something back and fit nothing, with their files, `dangling` the links to what is not there, of which
    there is nothing to pack. `problems` are all that is in the way of packing, in
    the order in which they were met; the files beside them are there all the same.
    """

    files: tuple[SourceFile, ...]
    ignored: tuple[IgnoredPath, ...]
    scripts: tuple[str, ...]
    problems: tuple[SourceError, ...]
    idle: tuple[Origin, ...] = ()
    dangling: tuple[str, ...] = ()


def walk_folder(source_dir: Path) -> FolderWalk:
    """Look at each folder below the source folder once; never raises, what is in the way are the `problems`.

    Looks at names and sizes and reads nothing but the ignore files; folders that are left out are not
    looked into. In the way of packing are a link that is absolute, leads out of the folder, in a circle or to
    what is left out, a special file that no pattern leaves out, what cannot be read, a folder
    without files, and more than MOST_BYTES.
    """
    walking = _FolderWalker(source_dir)
    walking.walk_all()
    files = sorted(walking.files, key=_parts)
    problems = [*walking.problems, *_problems_of_all(source_dir, files, bool(walking.problems))]
    if len(problems) > MOST_PROBLEMS:
        left = len(problems) - MOST_PROBLEMS
        more = SourceError(
            f"{left} more {'entry' if left == 1 else 'entries'} of {source_dir} cannot be packed.",
            "Leave out by .slipwayignore what the job does not need.",
        )
        problems = [*problems[:MOST_PROBLEMS], more]
    return FolderWalk(
        files=tuple(files),
        ignored=tuple(walking.ignored),
        scripts=tuple(walking.scripts),
        problems=tuple(problems),
        idle=tuple(each for each in walking.find_returns() if each not in walking.used),
        dangling=tuple(walking.dangling),
    )


@frozen
class _View:
    """A folder under one of its paths, and the patterns that speak of what is below that path."""

    path: Path
    layers: Sequence[Layer]

    def view_below(self, name: str) -> _View:
        return _View(self.path / name, self.layers)


@frozen
class _Visit:
    """A folder that was looked at: what it holds, by name.

    `name` is its name below the source folder, with a slash behind it, and `views` are its paths: the last
    one is where it lies, those before it are the links by which it was reached. `jumps` are the folders in
    which those links lie.
    """

    name: str
    entries: Sequence[os.DirEntry[str]]
    views: Sequence[_View]
    jumps: tuple[Path, ...] = ()


class _FolderWalker:
    """A walk under way: what it has found so far."""

    def __init__(self, source_dir: Path) -> None:
        self.files: list[SourceFile] = []
        self.ignored: list[IgnoredPath] = []
        self.scripts: list[str] = []
        self.problems: list[SourceError] = []
        self.used: set[Origin] = set()
        """The patterns that bring something back, with their files."""
        self.dangling: list[str] = []
        self._source_dir = source_dir
        self._layers = PatternLayers(source_dir, self.problems)
        self._linked = 0

    def walk_all(self) -> None:
        """Take up the source folder and all below it, each folder's entries where it stands among others."""
        top = self._visit("", (_View(self._source_dir, self._layers.layers_above()),))
        self.scripts = [entry.name for entry in top.entries if entry.name.endswith(".py")]
        # A stack of our own: folders may nest more deeply than calls.
        under_way = [(iter(top.entries), top)]
        while under_way:
            entries, visit = under_way[-1]
            entry = next(entries, None)
            if entry is None:
                under_way.pop()
                continue
            try:
                below = self._take_entry(entry, visit)
            except OSError as error:
                self.problems.append(unreadable_folder(self._source_dir, error))
                continue
            if below is not None:
                under_way.append((iter(below.entries), below))

    def find_returns(self) -> Iterator[Origin]:
        """The patterns of .slipwayignore, in whatever folder, that are to bring something back."""
        for layer in self._layers.read():
            for pattern, file in dict.fromkeys(origin for _, origin in layer.patterns):
                if pattern.startswith("!") and file.name == OWN_IGNORE_FILE:
                    yield pattern, file

    def _visit(self, name: str, views: Sequence[_View], jumps: tuple[Path, ...] = ()) -> _Visit:
        """Look at a folder; `views` have the patterns of the folders above, and get its own."""
        *links, lies = views
        layers = self._layers.add_own_layers(lies.path, lies.layers)
        views = (*links, _View(lies.path, layers))
        try:
            with os.scandir(lies.path) as scan:
                return _Visit(name, sorted(scan, key=lambda entry: entry.name), views, jumps)
        except OSError as error:
            self.problems.append(unreadable_folder(self._source_dir, error))
            return _Visit(name, (), views, jumps)

    def _take_entry(self, entry: os.DirEntry[str], visit: _Visit) -> _Visit | None:
        """Take up what a folder holds; a folder that is not left out is looked at."""
        name, is_link = f"{visit.name}{entry.name}", entry.is_symlink()
        is_folder = not is_link and entry.is_dir()
        if visit.jumps and not self._is_within_bound(name):
            return None
        left_out = self._why_not_packed(entry.name, name, is_folder, is_link, visit.views)
        if left_out is not None:
            self.ignored.append(left_out)
            return None
        views = [view.view_below(entry.name) for view in visit.views]
        if is_link:
            return self._follow(entry, name, views, visit)
        if is_folder:
            return self._visit(f"{name}/", views, visit.jumps)
        self._pack(name, Path(entry.path), entry.stat())
        return None

    def _is_within_bound(self, name: str) -> bool:
        """Whether the entry may still be looked at; the first one that may not is told."""
        self._linked += 1
        if self._linked == MOST_LINKED + 1:
            self.problems.append(
                SourceError(
                    f"symbolic links to folders in {self._source_dir} lead to more than {MOST_LINKED:,} "
                    f"files and folders, {name} among them; each would be packed under the link's name.",
                    "Replace the links, or leave them out by .slipwayignore.",
                )
            )
        return self._linked <= MOST_LINKED

    def _why_not_packed(
        self, own_name: str, name: str, is_folder: bool, is_link: bool, views: Sequence[_View]
    ) -> IgnoredPath | None:
        """Why an entry is not packed, judged by each of its paths; None where it is."""
        shown = f"{name}/" if is_folder else name
        if (is_folder or is_link) and own_name in SKIPPED_FOLDERS:
            return IgnoredPath(shown)
        for view in views:
            match = match_layers(view.path / own_name, is_folder, view.layers)
            if is_link and not (match and match.ignores):
                # For git a link to a folder is a file, but whoever writes `data/` means it as well.
                match = match_layers(view.path / own_name, True, view.layers)
            if match is not None and match.ignores:
                return IgnoredPath(shown, match.pattern, match.ignore_file)
            if match is not None and not is_folder:
                self.used.add((match.pattern, match.ignore_file))
        return None

    def _follow(
        self, entry: os.DirEntry[str], name: str, views: Sequence[_View], visit: _Visit
    ) -> _Visit | None:
        """Take up what a link leads to, under the link's name, or say why that cannot be packed."""
        if is_dangling(Path(entry.path)):
            self.dangling.append(name)
            return None
        try:
            target = link_target(Path(entry.path), self._source_dir / name, self._source_dir)
        except SourceError as error:
            self.problems.append(error)
            return None
        left_out = self._why_target_is_left_out(target)
        if left_out is not None:
            self.problems.append(
                refused_link(self._source_dir / name, f"{_reason(left_out)}, where it leads")
            )
            return None
        status = target.stat()
        if not stat.S_ISDIR(status.st_mode):
            self._pack(name, target, status)
            return None
        lies_in = visit.views[-1].path
        if any(target == each or target in each.parents for each in (*visit.jumps, lies_in)):
            holds = f"it leads to {target}, which holds the link itself: there would be no end"
            self.problems.append(refused_link(self._source_dir / name, holds))
            return None
        lies = _View(target, self._layers.layers_of_folder(target.parent))
        return self._visit(f"{name}/", (*views, lies), (*visit.jumps, lies_in))

    def _pack(self, name: str, path: Path, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode):
            self.files.append(SourceFile(name, path, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
        else:
            self.problems.append(
                SourceError(
                    f"{self._source_dir / name} is neither a file nor a folder and cannot be packed.",
                    "Move it out of `code.source_dir`, or leave it out by a line in .slipwayignore.",
                )
            )

    def _why_target_is_left_out(self, path: Path) -> IgnoredPath | None:
        """Why a path where a link leads to is not packed itself, or a folder above it."""
        for each in (*reversed(path.parents), path):
            if self._source_dir in each.parents:
                is_folder = each.is_dir()
                name = each.relative_to(self._source_dir).as_posix()
                view = _View(each.parent, self._layers.layers_of_folder(each.parent))
                left_out = self._why_not_packed(each.name, name, is_folder, False, (view,))
                if left_out is not None:
                    return left_out
        return None


def _reason(left_out: IgnoredPath) -> str:
    if left_out.ignore_file is None:
        return f"{left_out.name} is never packed"
    return f"the pattern {left_out.pattern} of {left_out.ignore_file} leaves out {left_out.name}"


def _problems_of_all(source_dir: Path, files: Sequence[SourceFile], explained: bool) -> Iterator[SourceError]:
    if not files and not explained:
        yield SourceError(
            f"the source folder {source_dir} holds no files that are not ignored.",
            "Correct `code.source_dir`, or the patterns in .gitignore and .slipwayignore.",
        )
    total = sum(file.size for file in files)
    if total > MOST_SOURCE_BYTES:
        yield SourceError(
            f"the source folder {source_dir} holds {size_in_words(total)}, most of it in "
            f"{sizes_in_words(largest_entries(files))}; every host would download it.",
            "Leave data out by .slipwayignore and give it as an input, or correct `code.source_dir`.",
        )


def _parts(file: SourceFile) -> tuple[str, ...]:
    return tuple(file.name.split("/"))


# The patterns that speak of what a folder holds: its own, and those of the folders above it.


class PatternLayers:
    """The patterns of a source folder and of all below it, each folder's read once.

    What is in the way of reading them is added to `problems`.
    """

    def __init__(self, source_dir: Path, problems: list[SourceError]) -> None:
        self._source_dir = source_dir
        self._problems = problems
        self._known: dict[Path, Sequence[Layer]] = {}

    def layers_above(self) -> list[Layer]:
        """The patterns of the repository above the source folder; none where they leave it out altogether."""
        parents = self._source_dir.parents
        root = next((folder for folder in parents if (folder / ".git").exists()), None)
        if root is None or (self._source_dir / ".git").exists():
            return []
        above = [folder for folder in parents if folder == root or root in folder.parents]
        layers = [layer for folder in reversed(above) for layer in self._read_own_layers(folder)]
        for folder in (self._source_dir, *above[:-1]):
            match = match_layers(folder, True, [layer for layer in layers if layer.folder in folder.parents])
            if match is not None and match.ignores:
                return []
        return layers

    def layers_of_folder(self, folder: Path) -> Sequence[Layer]:
        """All patterns that speak of what a folder below the source folder holds, visited or not."""
        unknown = [folder]
        while unknown[-1] not in self._known:
            unknown.append(unknown[-1].parent)
        for above, below in pairwise(reversed(unknown)):
            self.add_own_layers(below, self._known[above])
        return self._known[folder]

    def add_own_layers(self, folder: Path, above: Sequence[Layer]) -> Sequence[Layer]:
        """The patterns above a folder and its own ones, read once, however often it is visited."""
        if folder not in self._known:
            own = self._read_own_layers(folder, above)
            self._known[folder] = (*above, *own) if own else above
        return self._known[folder]

    def read(self) -> list[Layer]:
        """The layers of the folders that were looked at, the source folder's before those below it."""
        found = [(layers[-1], folder) for folder, layers in self._known.items() if layers]
        return [layer for layer, folder in found if layer.folder == folder]

    def _read_own_layers(self, folder: Path, above: Sequence[Layer] = ()) -> list[Layer]:
        try:
            return read_layers(folder, above)
        except SourceError as error:
            self._problems.append(error)
        except OSError as error:
            self._problems.append(unreadable_folder(self._source_dir, error))
        return []


def unreadable_folder(source_dir: Path, error: OSError) -> SourceError:
    """What is said of a file or a folder in the source that cannot be read."""
    return SourceError(
        f"the source folder {source_dir} cannot be read: {error.filename}: {error.strerror}.",
        "Make it readable, or leave it out by a line in .slipwayignore.",
    )


# The patterns of `.gitignore` and `.slipwayignore`: which paths they leave out, and which one says so.


OWN_IGNORE_FILE = ".slipwayignore"
IGNORE_FILES = (".gitignore", OWN_IGNORE_FILE)

MOST_PATTERN_BYTES = 1_000_000
"""Of one ignore file; each of its patterns is held against each name."""

MOST_OPENED = 1_000
"""Folders that are left out and out of which one `.slipwayignore` brings something back."""

Origin = tuple[str, Path]
"""A pattern as it is written, and the file that it stands in."""


@frozen
class Match:
    """The pattern that speaks of a path, the file that it stands in, and whether it leaves the path out."""

    ignores: bool
    pattern: str
    ignore_file: Path


@frozen
class Layer:
    """The patterns of one folder, each with the file that it stands in; they speak of names below it."""

    folder: Path
    names: re2.Set
    patterns: Sequence[tuple[bool, Origin]]

    def match(self, path: Path, is_folder: bool) -> Match | None:
        """What is said of the path; the last pattern that fits it counts. None where none does.

        Nothing is said of what lies in a folder that a pattern fits: git does not look into it.
        """
        name = _as_bytes(path.relative_to(self.folder).as_posix())
        found = self.names.Match(f"{name}/" if is_folder else name)
        if not found:
            return None
        ignores, origin = self.patterns[max(found)]
        return Match(ignores, *origin)


def _as_bytes(text: str) -> str:
    """A name or a pattern with a character for each of its bytes, which are what git compares."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def match_layers(path: Path, is_folder: bool, layers: Sequence[Layer]) -> Match | None:
    """The nearest folder whose patterns speak of the path decides; `layers` begin with the topmost one."""
    matches = (layer.match(path, is_folder) for layer in reversed(layers))
    return next((match for match in matches if match is not None), None)


def read_layers(folder: Path, above: Sequence[Layer] = ()) -> list[Layer]:
    """The patterns of a folder's own ignore files: one layer, or none; `above` are those above it.

    Raises SourceError for patterns that cannot be read or are too many, OSError for a file that cannot be.
    """
    origins: list[Origin] = []
    for file in (folder / name for name in IGNORE_FILES):
        if file.is_file():
            content = read_regular(file, MOST_PATTERN_BYTES + 1)
            if len(content) > MOST_PATTERN_BYTES:
                raise SourceError(
                    f"{file} has more than {size_in_words(MOST_PATTERN_BYTES)}: too many patterns to apply.",
                    "Leave whole folders out instead of each of their files.",
                )
            lines = content.decode("utf-8", errors="surrogateescape").splitlines()
            origins += [(line, file) for line in lines if line]
    if not origins:
        return []
    written = [(_pattern(line, file), (line, file)) for line, file in origins]
    layers = [*above, _layer(folder, written)]
    read: list[tuple[GitIgnoreSpecPattern, Origin]] = []
    opened = set[str]()
    for pattern, origin in written:
        match: Match | None = None
        for parent in _folders_above(origin[0]) if origin[1].name == OWN_IGNORE_FILE else ():
            match = match_layers(folder / parent, True, layers) or match
            if parent not in opened and match is not None and match.ignores:
                read.append((_pattern(f"!/{parent}/", origin[1]), origin))
                read.append((_pattern(f"/{parent}/*", origin[1]), (match.pattern, match.ignore_file)))
            opened.add(parent)
        if len(opened) > MOST_OPENED:
            raise SourceError(
                f"{origin[1]} brings files back out of more than {MOST_OPENED:,} folders: too many to apply.",
                "Bring whole folders back instead of each of their files.",
            )
        read.append((pattern, origin))
    return [_layer(folder, read)]


def _pattern(line: str, file: Path) -> GitIgnoreSpecPattern:
    # Here, as below: folders without patterns do without the library, which takes as long to load as a plan.
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        return GitIgnoreSpecPattern(_as_bytes(line))
    except (ValueError, re.error) as error:
        raise SourceError(
            f"the pattern '{line}' in {file} cannot be read: {error}.",
            "Correct it; the syntax is that of .gitignore.",
        ) from error


_FOLDER_MARK = "(?P<ps_d>/)"
"""What the expression of a pattern has where the name of a folder ends."""


def _layer(folder: Path, read: Sequence[tuple[GitIgnoreSpecPattern, Origin]]) -> Layer:
    import re2

    # RE2 needs linear time for whatever pattern, where Python's `re` may need exponential time.
    names = re2.Set.FullMatchSet()
    patterns = []
    for pattern, origin in read:
        if pattern.include is not None and pattern.regex is not None:
            names.Add(_of_whole_name(pattern.regex.pattern))
            patterns.append((pattern.include, origin))
    names.Compile()
    return Layer(folder, names, patterns)


def _of_whole_name(expression: str) -> str:
    """The expression for the whole name of what a pattern means; the library's fits what lies below, too.

    `GitIgnoreSpec` of the library takes the last of those that fit as well, but holds one that speaks of a
    folder to be weaker: after `*` the line `!*/` would bring no folder back.
    """
    whole = expression.removeprefix("^").removesuffix("$").replace(_FOLDER_MARK, "/")
    if whole in (".", "/"):
        return f"(?s:.*{whole})"  # A name may have more than one line.
    return f"{whole}(?s:.+)" if whole.endswith("/") and _FOLDER_MARK not in expression else whole


def _folders_above(pattern: str) -> Iterator[str]:
    """`a` and `a/b` of `!a/b/c`: the folders above what is brought back, as far as they are written out."""
    parts = pattern.strip().removeprefix("!").strip("/").split("/")[:-1] if pattern.startswith("!") else []
    written = takewhile(lambda part: part and not re.search(r"[*?\[\\]", part), parts)
    return accumulate(written, lambda above, part: f"{above}/{part}")


# Where a symbolic link of a source folder leads, and which ones cannot be packed as what they lead to.


def link_target(link: Path, shown: Path, source_dir: Path) -> Path:
    """The file or folder below the source folder that a link leads to, by whatever further links.

    `shown` is the link's path under the name by which it would be packed. Raises SourceError for a link that
    is absolute, that leads nowhere, in a circle or out of the folder.
    """
    try:
        written = link.readlink()
        if written.is_absolute():
            raise refused_link(
                shown, f"{written} is an absolute path, which is another place in the container"
            )
        target = Path(os.path.realpath(link, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise refused_link(shown, "it leads back to itself") from error
        raise refused_link(shown, f"it leads nowhere ({error.strerror})") from error
    top = Path(os.path.realpath(source_dir))
    if top != target and top not in target.parents:
        raise refused_link(shown, f"{written} leads out of the source folder")
    return source_dir / target.relative_to(top)


def is_dangling(link: Path) -> bool:
    """Whether nothing is where a relative link leads. An absolute one may mean a place in the container."""
    try:
        return not link.readlink().is_absolute() and not link.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def refused_link(link: Path, reason: str) -> SourceError:
    """What is told of a link that cannot be followed."""
    return SourceError(
        f"{link} is a symbolic link that cannot be packed: {reason}.",
        "Replace it with what it points to, or leave it out by a line in .slipwayignore. Links are followed "
        "where they are relative and stay in `code.source_dir`.",
    )


# What a source holds: files that are packed, and paths that are not, with the reason.


MOST_SOURCE_BYTES = 5_000_000_000
"""More than this is not code: every host downloads and unpacks all of it before it starts."""


@frozen
class SourceFile:
    """A file of the source: its name below it with slashes, and its size in bytes.

    `path` is where its content lies: itself, what a link leads to, or the archive that holds it.
    """

    name: str
    path: Path
    size: int
    executable: bool


@frozen
class IgnoredPath:
    """A file, or a folder (its name ends in a slash) with all that it holds, that is not packed.

    `pattern` of `ignore_file` leaves it out; both are None for the folders that are never packed.
    """

    name: str
    pattern: str | None = None
    ignore_file: Path | None = None


def largest_entries(files: Iterable[SourceFile], count: int = 3) -> list[tuple[str, int]]:
    """The top-level files and folders (with a slash) that hold most, with their bytes, largest first."""
    sizes: Counter[str] = Counter()
    for file in files:
        first, slash, _ = file.name.partition("/")
        sizes[first + slash] += file.size
    return sizes.most_common(count)


def sizes_in_words(sizes: Iterable[tuple[str, int]]) -> str:
    """What `largest` found, for a message: `data/ (120 MB), train.py (2.1 kB)`."""
    return ", ".join(f"{name} ({size_in_words(size)})" for name, size in sizes)


class SourceError(Refusal):
    """The user's code cannot be packed as it lies there; exit code 2."""
