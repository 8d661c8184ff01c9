"""Which names the Python files of a job's source use, for the rules that judge by them."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Collection, Iterable

from launcher.source.errors import SourceError
from launcher.source.files import SourceFile

_MOST_FILES = 200
_MOST_BYTES = 1_000_000
_NOT_SOURCE = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


def names_in(
    files: Iterable[SourceFile], wanted: Collection[str], read: Callable[[SourceFile, int], bytes]
) -> frozenset[str]:
    """Those of the wanted names that the code in the files uses; comments and strings do not count.

    `read` gives the first so many bytes of a file, or raises SourceError.

    Bounded: the first 200 Python files, those of a folder before those below it, of at most 1 MB each,
    outside of hidden folders and installed packages. Files that cannot be read or are not Python are passed
    over.
    """
    found: set[str] = set()
    for file in sorted(filter(_is_source, files), key=_place)[:_MOST_FILES]:
        if found.issuperset(wanted):
            break
        found |= _names(file, [name for name in wanted if name not in found], read)
    return frozenset(found)


def _is_source(file: SourceFile) -> bool:
    *folders, name = file.name.split("/")
    return name.endswith(".py") and not any(each[0] == "." or each in _NOT_SOURCE for each in folders)


def _place(file: SourceFile) -> tuple[tuple[bool, str], ...]:
    """Sorts files before folders at each level."""
    *folders, name = file.name.split("/")
    return (*((True, folder) for folder in folders), (False, name))


def _names(file: SourceFile, wanted: Collection[str], read: Callable[[SourceFile, int], bytes]) -> set[str]:
    if file.size > _MOST_BYTES:
        return set()
    try:
        text = read(file, _MOST_BYTES).decode("utf-8", errors="replace")
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
