"""Write launcher/program/libraries.json: what the names of libraries mean to the reader of programs.

Each file of `launcher/program/libraries/` holds the names of one library, by the keys of `KEYS`. They are put
together here and not when a script is judged, as reading TOML takes longer than judging a small one.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from launcher.rules.script.data.by_libraries import LoaderOwner
from tools.generate.generated import ROOT

TABLES = ROOT / "launcher" / "program" / "libraries"

Meanings = Iterator[tuple[str, object]]
"""Names, and what each of them means."""


class LibraryTableError(ValueError):
    """A table of a library that cannot be read: its file, the key, and what is wrong there."""


def _names(value: object, meaning: object = True) -> Meanings:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise LibraryTableError("must be a list of names")
    yield from ((name, meaning) for name in value)


def _renamed(value: object) -> Meanings:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise LibraryTableError("must be a table from names to names")
    yield from value.items()


def _by_kind(*kinds: str) -> Callable[[object], Meanings]:
    def read(value: object) -> Meanings:
        if not isinstance(value, dict) or not value.keys() <= {*kinds}:
            raise LibraryTableError(f"must be a table whose keys are of {', '.join(kinds)}")
        for kind, names in value.items():
            yield from _names(names, kind)

    return read


def _by_holder(meaning_of: Callable[[str], object]) -> Callable[[object], Meanings]:
    """The names of modules and classes: `[collectives."torch.distributed"]`, then `2 = ["all_reduce"]`."""

    def read(value: object) -> Meanings:
        if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
            raise LibraryTableError("must have a table for each module or class")
        for holder, by_meaning in value.items():
            for written, names in by_meaning.items():
                for name, meaning in _names(names, meaning_of(written)):
                    yield f"{holder}.{name}", meaning

    return read


def _group_position(written: str) -> int | None:
    if written != "by_keyword" and not written.isdecimal():
        raise LibraryTableError(
            f"{written} must be the position of the group among the arguments, or by_keyword"
        )
    return None if written == "by_keyword" else int(written)


def _by_version(value: object) -> Meanings:
    """The names that a package lost in a version: `[removed_names.numpy]`, then `"1.24" = ["numpy.int"]`.

    `PIL.*.getsize` is an attribute of that name of whatever a library gives.
    """
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise LibraryTableError("must have a table for each package")
    for package, by_version in value.items():
        for version, names in by_version.items():
            yield from _names(names, [package, version])


def _refusals(value: object) -> Meanings:
    """What functions refuse: `[refused_arguments.librosa."0.10"]`, then `"librosa.load" = [1]`.

    A number says how many arguments may stand without a name, `verbose` that this keyword is gone, `Loader=1`
    that it has to be given, by its name or at this place among the others, and `*` that all are refused.
    """
    found: dict[str, list[object]] = {}
    for package, version, by_name in _by_package(value):
        for name, refused in by_name.items():
            if not isinstance(refused, list) or not all(isinstance(each, int | str) for each in refused):
                raise LibraryTableError(f"{name} must have a list of keywords and numbers")
            found.setdefault(name, []).extend([package, version, each] for each in refused)
    yield from found.items()


def _by_package(value: object) -> Iterator[tuple[str, str, dict[str, object]]]:
    packages = value if isinstance(value, dict) else {"": value}
    for package, by_version in packages.items():
        for version, by_name in by_version.items() if isinstance(by_version, dict) else [("", by_version)]:
            if not isinstance(by_name, dict):
                raise LibraryTableError("must have a table for each version of a package")
            yield package, version, by_name


def _by_position(value: object) -> Meanings:
    if not isinstance(value, dict):
        raise LibraryTableError("must have a list for each class")
    for holder, names in value.items():
        yield holder, [name for name, _ in _names(names)]


_rank_kinds = _by_kind("global", "local", "node", "coordinate", "world")
_one_rank = _by_kind("global", "local", "last")
_owners = _by_kind(*(each.name for each in LoaderOwner))

KEYS: Mapping[str, tuple[Callable[[object], Meanings], str]] = {
    "aliases": (_renamed, "Prefixes of dotted names, and the prefix that stands for all of them."),
    "results": (
        _renamed,
        "Functions, and the class of what they give, or of one part of it: `initialize[0]`.",
    ),
    "known_by_tables": (_names, "What these tables tell all of, also where the library lies in the program."),
    "ranks": (_rank_kinds, "Calls that give a rank or a world size."),
    "rank_attributes": (_rank_kinds, "Attributes that are a rank or a world size."),
    "variables": (_rank_kinds, "Environment variables that hold a rank or a world size."),
    "host_sizes": (_names, "Those of the world sizes that count the processes or devices of one host."),
    "local_rank_options": (_names, "The options by which a launcher hands each process its local rank."),
    "group_rank_calls": (_names, "What gives the rank within a group where it is called with one."),
    "one_rank_tests": (_one_rank, "What is true on one rank alone: the first of all, of a host, the last."),
    "one_of_all_by_false": (
        _renamed,
        "Tests of the first rank of a host that ask for that of all where this first argument is False.",
    ),
    "one_rank_decorators": (_one_rank, "Decorators of functions that run on one rank alone."),
    "true_when_distributed": (_names, "What is true in every distributed run, on all ranks."),
    "progress_bars": (_names, "What gives the elements of what it is given, and shows how far that is."),
    "integers": (_names, "Calls that surely give an int."),
    "joining_calls": (_names, "The calls after which a program is one of several processes."),
    "rank_starters": (_names, "What runs a function as every rank."),
    "rank_launchers": (_names, "What starts ranks that join a group, and runs a function in each."),
    "job_submitters": (_names, "What hands jobs to a scheduler, such as Slurm."),
    "tables": (_names, "Calls that make an object whose entries are their keywords or their dictionary."),
    "process_starters": (_names, "What starts processes on the host where it runs, ranks or others."),
    "world_groups": (_names, "The names of the group of all ranks."),
    "group_makers": (_names, "What makes a group of the ranks that are its first argument."),
    "collectives": (_by_holder(_group_position), "What communicates, by the position of its group."),
    "checkpoints": (_by_holder(_group_position), "What collects or writes a checkpoint, in the same way."),
    "collects_shards": (_names, "What collects parameters from all ranks where settings shard them."),
    "on_request": (_by_holder(str), "What communicates where a keyword asks for it, by that keyword."),
    "gradient_reducers": (_names, "Wrappers whose gradients all ranks reduce in every backward pass."),
    "model_wrappers": (_names, "What makes the ranks train one model on different data."),
    "backward_calls": (_names, "The backward pass of a model that a library wrapped."),
    "plain_samplers": (_names, "Samplers that give every rank the whole dataset."),
    "accelerator_devices": (_names, "What gives the accelerator of a process, read or called."),
    "lazy_datasets": (_names, "Libraries whose datasets run their stages' functions where they are read."),
    "host_loaders": (_names, "What shares the workers that it is told among the processes of a host."),
    "hook_parameters": (
        _by_position,
        "What a library hands the hooks of a class behind `self`; empty where that may be anything.",
    ),
    "exception_hooks": (_names, "Methods that a library calls on the rank that raised an exception, alone."),
    "exception_events": (_names, "Events whose handlers a library calls on the rank that raised, alone."),
    "owner_by_call": (_owners, "The calls by which a library takes the objects that are its arguments."),
    "owner_by_class": (_owners, "The classes whose own methods make objects for a library."),
    "distributed_imports": (_names, "What only programs import that are meant for several processes."),
    "joining_imports": (_names, "Libraries that make process groups of their own."),
    "plain_imports": (_names, "Libraries that make no process group and register no backend."),
    "trainer_imports": (_names, "Libraries whose loops run the backward pass themselves."),
    "parallelism_imports": (_names, "Imports of programs some of whose ranks share a model, and their data."),
    "launcher_imports": (
        _names,
        "Libraries that start the processes, so that the program sets the addresses.",
    ),
    "newest_versions": (_renamed, "Packages, and the newest version of each."),
    "removed_names": (_by_version, "What a package no longer has, by its name and the version that lost it."),
    "refused_arguments": (
        _refusals,
        "Functions with what they no longer take: packages, the versions since which, and each argument.",
    ),
    "launcher_variables": (_names, "How the variables of launchers begin that set no MASTER_ADDR."),
}
"""What a library's table may have: how each key is read, and what its names mean."""


def read_tables(folder: Path) -> dict[str, dict[str, object]]:
    """All tables of a folder in one, by key and name. Raises LibraryTableError with the file and the key."""
    found: dict[str, dict[str, object]] = {key: {} for key in KEYS}
    for file in sorted(folder.glob("*.toml")):
        try:
            table = tomllib.loads(file.read_text("utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise LibraryTableError(f"{file.name}: {error}") from None
        for key, value in table.items():
            try:
                _add(found, key, value)
            except LibraryTableError as error:
                raise LibraryTableError(f"{file.name}: {key}: {error}") from None
    return found


def _add(found: dict[str, dict[str, object]], key: str, value: object) -> None:
    if key not in KEYS:
        raise LibraryTableError(f"is none of {', '.join(KEYS)}")
    for name, meaning in KEYS[key][0](value):
        if found[key].setdefault(name, meaning) != meaning:
            raise LibraryTableError(f"{name} stands there twice, with another meaning")


def generated() -> dict[Path, str]:
    """The table as it should be."""
    tables = read_tables(TABLES)
    content = {key: [*table] if KEYS[key][0] is _names else table for key, table in tables.items()}
    return {TABLES.with_suffix(".json"): json.dumps(content, indent=1) + "\n"}
