"""What the configuration of a program holds: the YAML, JSON, TOML and INI files that lie with it, and YAML
that is written in the program itself.

A file is chosen where the job's words, the program's own texts or hydra's decorator name it; where nobody
says which, any of those that have the entry may be it. Files are data of strangers: of a bounded size, read
by a loader that makes plain values only.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.failure_modes.model import Location
from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, constant_argument, origins
from launcher.program.index import file_of, last_name
from launcher.program.program import NOT_LOOKED_INTO, Program
from launcher.program.surroundings.hydra_configurations import package_said
from launcher.program.values import Constant, like
from launcher.text.regular_files import read_regular

if TYPE_CHECKING:
    from launcher.documents import Document
    from launcher.jobs.specification import JobSpec

_COMMENT = re.compile(rb'("(?:[^"\\\n]|\\.)*+")|//[^\n]*+')
"""A text of JSON, which is kept, or a comment behind two strokes."""
_OF_TOOLS = ("package.json", "environment.yml", "environment.yaml", ".pre-commit-config.yaml", "mkdocs.yml")
"""Files of others' tools that lie beside programs."""
_ENDINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
_LARGEST_FILE = 50_000
"""Bytes of a file that is read; longer ones hold data, no settings."""
_LARGEST_DOCUMENT = 250_000
"""Bytes of a file whose values are read, where settings and the names of data stand together."""
_MOST_FILES = 40
_MOST_ENTRIES = 5_000
"""So many entries of a file are looked at; one whose anchors make more of them is left."""
_MOST_FOLDERS = 400
_READERS = (
    *("yaml", "omegaconf", "hydra", "json.load", "yacs", "anyconfig", "mmcv", "mmengine", "toml"),
    "configparser",
    "deepspeed",
)
_TEXTS = {
    "omegaconf.OmegaConf.create": ("obj", 0),
    "yaml.safe_load": ("stream", 0),
    "yaml.load": ("stream", 0),
}
"""What reads a document that may be written in the program, and which argument that is."""
_LOADERS = (
    *("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "omegaconf.OmegaConf.load"),
    *("ruamel_yaml.load", "ruamel_yaml.safe_load", "ruamel.yaml.load"),
    *("tomllib.load", "tomli.load", "toml.load", "configparser.ConfigParser", "configparser.RawConfigParser"),
)
_ROOT = re.compile(
    r"(.*_)?(cfgs?|conf|configs?|configuration|hps?|hparams?|args?|arguments|opts?|options|params?|"
    r"settings?|flags|C)",
    re.IGNORECASE,
)
"""What programs call the whole of their configuration."""
_FILLED_IN = re.compile(rb"\{\{[^{}\n]{0,200}\}\}")
"""A place of a template, which the program fills in before it reads the document."""
_HERE = re.compile(r"\$\{([\w.]{1,100})\}")

_MOST_REFERENCES = 5
"""So many entries that begin with another one are followed: `${paths.root}/runs`."""

Entry = tuple[tuple[str, ...], object]


@frozen
class Configured:
    """What an entry of a configuration is, by the job's words and the files; `is_chosen` where it is known
    which files the run reads; and the files that have it, each with its keys there."""

    values: tuple[object, ...]
    is_chosen: bool
    sources: tuple[tuple[Path, tuple[str, ...]], ...] = ()


@frozen
class HydraKeys:
    """What words may be given where hydra reads them: the names of entries and groups, and the paths to the
    entries that its first file leaves to the words (`???`) and these do not give."""

    file: Path
    known: frozenset[str]
    lacking: frozenset[tuple[str, ...]]


class ConfigurationFiles:
    """The configuration files beside a program, each read once, when something asks for it."""

    def __init__(self, program: Program) -> None:
        """Of a program, whose root is the folder of the code."""
        self._program = program
        self._read: dict[Path, tuple[Entry, ...]] = {}
        self._packaged: dict[str, tuple[dict[str, Any], str | None] | None] = {}
        self._roots = tuple(dict.fromkeys((Path(program.root), program.entry.path.parent)))

    @cached_property
    def are_read(self) -> bool:
        """Whether anything in the program reads such a file."""
        return any(word in file.text for file in self._program.files for word in _READERS)

    def entry(self, node: ast.expr, words: Sequence[str] = ()) -> Configured | None:
        """What an expression such as `cfg.train.folder` or `config["folder"]` is in the files of a run, with
        the words on its command line; None for what is no entry, and what the program sets itself."""
        if not self.are_read or not (spelled := self._spelled(node)):
            return None
        last = spelled[0][-1]
        if self._is_set(last) or self._program.evaluation.attributes.options.declared.get(last):
            return None
        given = _given_by_words(words, spelled[0])
        if given is not None:
            return Configured((given,), is_chosen=True)
        chosen = self._chosen(words)
        for keys in spelled:
            read = [
                (path, whole, value)
                for path in chosen or self._beside
                for whole, value in _below(self._entries(path), keys)
            ]
            found = [value for *_, value in read] + [value for _, value in _below(self._in_program, keys)]
            if found:
                sources = tuple((path, whole) for path, whole, _ in read)
                return Configured(tuple(dict.fromkeys(found)), bool(chosen) or not read, sources)
        return None

    def texts(self) -> Iterator[str]:
        """What the files hold, as far as the program may read them."""
        for path in self._beside if self.are_read else ():
            with suppress(OSError, ValueError):
                yield read_regular(path, _LARGEST_FILE).decode("utf-8", "replace")

    def document(self, name: str | None) -> Any:
        """The plain values of a file that a program reads by its name; without one, of the only one beside it
        that may be meant. None where there is none, or several."""
        if name is not None:
            path = self._file(name)
            return None if path is None else _parsed(path)
        root = Path(self._program.root)
        folders = (root, *(root / each for each in ("config", "configs", "conf")))
        found = [each for one in folders if one.is_dir() for each in sorted(one.iterdir())]
        chosen = [each for each in found if each.suffix in _ENDINGS[:3] and each.name not in _OF_TOOLS]
        return _parsed(chosen[0]) if len(chosen) == 1 else None

    def packaged(self, name: str) -> tuple[dict[str, Any], str | None] | None:
        """The plain values of a file of hydra's, none where it is empty, with the package that its first line
        says; None where there is no such file, or one that is not to be read."""
        if name not in self._packaged:
            path = self._file(name)
            self._packaged[name] = None if path is None else _packaged(path)
        return self._packaged[name]

    def texts_of(self, name: str) -> Iterator[tuple[str, Location]]:
        """The texts that a file holds which a program reads by its name, each with its place."""
        path = self._file(name)
        if path is not None:
            locate = _locator(path)
            texts = ((keys, value) for keys, value in self._entries(path) if isinstance(value, str))
            yield from ((value, locate(keys)) for keys, value in texts)

    def section(self, node: ast.expr) -> Iterator[tuple[str, object, Path]]:
        """The entries below what an expression such as `cfg["environment"]` is, or the whole of what a file
        holds, with their values, and the file: only where it is known which one the run reads."""
        chosen = self._chosen(self._program.words or ()) if self.are_read else []
        rooted = self._from_its_root(node)
        spelled = [()] if rooted is None else [*_keys_of(rooted)][:1] or self._spelled(node)
        for keys in spelled:
            holding = [
                (path, [(each[-1], value) for each, value in self._entries(path) if each[:-1] == keys])
                for path in chosen
            ]
            found = [(path, entries) for path, entries in holding if entries]
            for path, entries in found if len(found) == 1 else ():
                yield from ((name, value, path) for name, value in entries if value is not None)
            if found:
                return

    def _from_its_root(self, node: ast.expr) -> ast.expr | None:
        """An entry with what is loaded from a file called `config`; None for all of that itself."""
        if self._is_whole(node):
            return None
        parts = node.func if isinstance(node, ast.Call) else node
        owner = getattr(parts, "value", None)
        if not isinstance(owner, ast.expr):
            return node
        root = self._from_its_root(owner) or like(node, ast.Name("config", ast.Load()))
        if isinstance(node, ast.Subscript):
            return like(node, ast.Subscript(root, node.slice, ast.Load()))
        read = like(node, ast.Attribute(root, last_name(parts) or "", ast.Load()))
        return like(node, ast.Call(read, node.args, node.keywords)) if isinstance(node, ast.Call) else read

    def _is_whole(self, node: ast.expr) -> bool:
        """Whether an expression is all that a file holds, as it is loaded."""
        made = origins(self._program, node)
        names = [self._program.qualified(each.func) for each in made if isinstance(each, ast.Call)]
        return bool(names) and all(name in _LOADERS for name in names) and len(names) == len(made)

    def _spelled(self, node: ast.expr) -> list[tuple[str, ...]]:
        whole = self._from_the_whole(node)
        rooted = self._from_its_root(whole)
        found = list(_keys_of(node)) or list(_keys_of(whole))
        return found if found or rooted is None else list(_keys_of(rooted))

    def _from_the_whole(self, node: ast.expr) -> ast.expr:
        """`cfg.node.gpus` for `node.gpus` in a function that is given `cfg.node`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            whole = self._from_the_whole(node.func)  # `node.get("gpus")`
            return node if whole is node.func else like(node, ast.Call(whole, node.args, node.keywords))
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return node
        made = origins(self._program, node.value)
        if len(made) != 1 or not isinstance(made[0], ast.Attribute | ast.Subscript):
            return node
        if isinstance(node, ast.Attribute):
            return like(node, ast.Attribute(made[0], node.attr, ast.Load()))
        return like(node, ast.Subscript(made[0], node.slice, ast.Load()))

    @cached_property
    def _in_program(self) -> tuple[Entry, ...]:
        """The entries of the documents that the program has as texts: `OmegaConf.create(DEFAULTS)`."""
        given = (argument_of(call, *_TEXTS[name]) for call, name in self._program.calls(*_TEXTS))
        texts = [constant_argument(self._program, each) for each in given if each is not None]
        read = [_plain(each.value.encode(), "") for each in texts if each and isinstance(each.value, str)]
        return tuple(entry for document in read for entry in _flattened(document))

    def _is_set(self, key: str) -> bool:
        """Whether the program sets an entry; `self.folder = cfg.folder` sets that of another object."""
        return any(
            file.set_items.get(key)
            or any(each.name != f"self.{key}" for each in file.set_attributes.get(key, ()))
            for file in self._program.files
        )

    def sets_the_folder(self, words: Sequence[str]) -> bool:
        """Whether hydra's files or words may say in which folder the program runs, other than one below that
        in which it is started; so too where it is not known which files those are."""
        if any("hydra." in word for word in words) or not (files := self._of_hydra(words)):
            return True
        return any(
            keys[:1] == ("hydra",) and isinstance(value, str) and value.startswith(("/", "~", "$"))
            for each in files
            for keys, value in self._entries(each)
        )

    def hydra_keys(self, words: Sequence[str]) -> HydraKeys | None:
        """What hydra's files let the words say; None where not all of them are known."""
        by_words = any(word.startswith(("--config", "-c", "-m", "--multirun")) for word in words)
        if by_words or any("ConfigStore" in file.text for file in self._program.files):
            return None
        paths = self._of_hydra(words)
        documents = [_parsed(each) for each in paths]
        if not paths or not all(isinstance(each, dict) for each in documents):
            return None
        listed = documents[0].get("defaults", [])
        parts = [each for each in listed if each != "_self_"] if isinstance(listed, list) else [None]
        if len(paths) != len(parts) + 1 or any("defaults" in each for each in documents[1:]):
            return None
        above = paths[0].parent
        groups = {key for each in parts if isinstance(each, dict) for key in each}
        groups |= {each.name for each in above.iterdir() if each.is_dir()}
        known = {key for each in documents for key in _all_keys(each)} | groups
        entries = [each for each in _flattened(documents[0]) if each[0][0] != "defaults"]
        lacking = (keys for keys, value in entries if value == "???" and not _given_by_words(words, keys))
        # Hydra looks for groups in other places, too, where it is told some.
        return None if "searchpath" in known else HydraKeys(paths[0], frozenset(known), frozenset(lacking))

    def _chosen(self, words: Sequence[str]) -> list[Path]:
        named = [self._file(word.rpartition("=")[2]) for word in words if word.endswith(_ENDINGS)]
        if named:
            return [each for each in named if each is not None]
        return self._of_hydra(words) or self._in_texts

    @cached_property
    def _in_texts(self) -> list[Path]:
        """Those that the program names itself, as the default of an option or where it opens them."""
        found: dict[Path, None] = {}
        for file in self._program.files:
            if any(ending in file.text for ending in _ENDINGS):
                for _, text in file.texts():
                    if text.endswith(_ENDINGS) and (path := self._file(text)):
                        found[path] = None
        return list(found)[:_MOST_FILES]

    def _of_hydra(self, words: Sequence[str]) -> list[Path]:
        """The file that hydra's decorator names, with those of its defaults."""
        for call, _ in self._program.calls("hydra.main"):
            name = constant_argument(self._program, argument_of(call, "config_name", 1))
            folder = constant_argument(self._program, argument_of(call, "config_path", 0))
            given = dict(pairwise(words))
            named = given.get("--config-name") or given.get("-cn") or (name and name.value)
            if not isinstance(named, str):
                continue
            above = file_of(call).path.parent / str((folder and folder.value) or "")
            path = above / f"{named.removesuffix('.yaml')}.yaml"
            if path.is_file():
                return [path, *self._defaults(path, above, words)]
        return []

    def _defaults(self, path: Path, above: Path, words: Sequence[str]) -> Iterator[Path]:
        for keys, value in self._entries(path):
            if keys[:1] == ("defaults",) and isinstance(value, str) and len(keys) <= 2:
                group = keys[1] if len(keys) == 2 else ""
                name = next((word.partition("=")[2] for word in words if word.startswith(f"{group}=")), value)
                part = above / group / f"{name}.yaml"
                if part.is_file() and part != path:
                    yield part

    @cached_property
    def _beside(self) -> list[Path]:
        """All that lie with the code, as far as they are looked for."""
        found: list[Path] = []
        for number, (folder, below, names) in enumerate(os.walk(self._program.root)):
            if number > _MOST_FOLDERS or len(found) >= _MOST_FILES:
                break
            below[:] = sorted(name for name in below if name not in NOT_LOOKED_INTO and name[0] != ".")
            found += [Path(folder, name) for name in sorted(names) if name.endswith(_ENDINGS[:2])]
        return found[:_MOST_FILES]

    def _file(self, text: str) -> Path | None:
        if not text or text.startswith(("~", "$", "/")) or len(text) > 300 or "\0" in text:
            return None
        return next((path for root in self._roots if (path := root / text).is_file()), None)

    def _entries(self, path: Path) -> tuple[Entry, ...]:
        if path not in self._read:
            keeps_case = any("optionxform" in file.text for file in self._program.files)
            self._read[path] = tuple(_flattened(_parsed(path, keeps_case)))
        return self._read[path]


def reads_entry(node: ast.expr, path: tuple[str, ...]) -> bool:
    """Whether an expression such as `cfg.data.folder` reads this entry of a configuration, or of a part."""
    return any(path[-len(keys) :] == keys or keys[-len(path) :] == path for keys in _keys_of(node))


def words_of(job: JobSpec) -> tuple[str, ...]:
    """The words of a job's command line: its arguments, and its hyperparameters as `--name=value`; in the
    order in which the script gets them (slipway/container.py)."""
    named = tuple(f"--{name}={value}" for name, value in job.hyperparameters.items())
    by_place = (job.code.entry_point or "").endswith(".sh")
    is_first = job.code.argument_style == "spaced" and not by_place
    return (*named, *job.code.arguments) if is_first else (*job.code.arguments, *named)


def _keys_of(node: ast.expr) -> Iterator[tuple[str, ...]]:
    """The keys below what may be a whole configuration, the longest first: for `self.cfg.train.folder` those
    below `cfg`."""
    keys: list[str] = []
    found: list[tuple[str, ...]] = []
    while True:
        match node:
            case ast.Attribute(value=owner, attr=name):
                key = name
            case ast.Subscript(value=owner, slice=ast.Constant(value=str() as name)):
                key = name
            case ast.Call(
                func=ast.Attribute(value=owner, attr="get" | "pop"),
                args=[ast.Constant(value=str() as name), *_],
            ):
                key = name
            case _:
                break
        keys.insert(0, key)
        whole = (
            owner.id
            if isinstance(owner, ast.Name)
            else owner.attr
            if isinstance(owner, ast.Attribute)
            else ""
        )
        if _ROOT.fullmatch(whole):
            found.insert(0, tuple(keys))
        node = owner
    yield from found


def _given_by_words(words: Sequence[str], keys: tuple[str, ...]) -> str | None:
    """What the words give an entry: `train.folder=x`, `--folder x`, `TRAIN.folder x`."""
    for word, following in pairwise((*words, "")):
        name, sign, value = word.partition("=")
        path = name.lstrip("+-~").replace("-", "_").split(".")
        if path[-1] == keys[-1] and (len(path) == 1 or tuple(path[-len(keys) :]) == keys[-len(path) :]):
            return value if sign else following
    return None


def _below(document: tuple[Entry, ...], keys: tuple[str, ...]) -> Iterator[Entry]:
    """The values at the end of paths that end with these keys, with the paths."""
    for path, value in document:
        if path[-len(keys) :] == keys:
            for _ in range(_MOST_REFERENCES):
                if not isinstance(value, str) or not (whole := _HERE.match(value)):
                    break
                inner = [found for each, found in document if each == tuple(whole[1].split("."))]
                value = f"{inner[0]}{value[whole.end() :]}" if len(inner) == 1 else None
            yield path, value


def location_in_file(path: Path, keys: tuple[str, ...]) -> Location:
    """Where an entry of a configuration file stands."""
    return _locator(path)(keys)


def _locator(path: Path) -> Callable[[tuple[str, ...]], Location]:
    """What tells where the entries of a configuration file stand, which is read once for all."""
    if path.suffix in _ENDINGS[:2]:
        documents = _documents(_FILLED_IN.sub(b"${of_a_template}", path.read_bytes()), str(path))

        def locate(keys: tuple[str, ...]) -> Location:
            places = [each.location(*keys) for each in documents]
            return max(places, key=lambda each: each.line) if places else Location(str(path), 1, 1)

        return locate
    lines = path.read_text("utf-8", "replace").splitlines()

    def search(keys: tuple[str, ...]) -> Location:
        key = re.compile(rf"(?<!\w){re.escape(keys[-1])}[\"']?\s*[:=]")
        found = (number for number, line in enumerate(lines, 1) if key.search(line))
        return Location(str(path), next(found, 1), 1)

    return search


def _parsed(path: Path, keeps_case: bool = False) -> Any:
    """The plain values of a file; None for one that cannot be read, is too long, or needs more than those.

    The names in INI files are in small letters, as configparser has them, unless told to keep their case."""
    try:
        raw = read_regular(path, _LARGEST_DOCUMENT + 1)
        if len(raw) > _LARGEST_DOCUMENT:
            return None
        if path.suffix == ".json":
            try:
                return json.loads(raw)
            except ValueError:  # Some programs leave comments out before they read it.
                return json.loads(_COMMENT.sub(rb"\1", raw))
        if path.suffix == ".toml":
            import tomllib  # Few programs have such a file.

            return tomllib.loads(raw.decode())
        if path.suffix == ".py":
            return _python_values(raw, path)
        if path.suffix in (".ini", ".cfg"):
            return _sections(raw.decode(), keeps_case)
    except (OSError, ValueError, RecursionError):
        return None
    return _plain(_FILLED_IN.sub(b"${of_a_template}", raw), str(path))


def _packaged(path: Path) -> tuple[dict[str, Any], str | None] | None:
    try:
        lines = read_regular(path, _LARGEST_FILE).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return None
    is_empty = not any(line.strip() and line.strip()[0] != "#" and line.strip() != "---" for line in lines)
    values = {} if is_empty else _parsed(path)
    return (values, package_said(lines)) if isinstance(values, dict) else None


def _python_values(raw: bytes, path: Path, depth: int = 4) -> dict[str, Any] | None:
    """What a configuration that is written in Python gives its names, with those of the ones that it begins
    with (`_base_ = "base.py"`). Raises OSError, ValueError."""
    try:
        statements = ast.parse(raw).body
    except (SyntaxError, MemoryError):
        return None
    found: dict[str, Any] = {}
    for each in statements:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            with suppress(ValueError, TypeError, MemoryError):
                found[each.targets[0].id] = _bounded(_python_value(each.value, found))
    bases = found.pop("_base_", [])
    for base in reversed([bases] if isinstance(bases, str) else bases):
        above = path.parent / str(base)
        raw = read_regular(above, _LARGEST_FILE)
        values = _python_values(raw, above, depth - 1) if depth and above.suffix == ".py" else None
        if values is None:
            return None
        found = _merged(values, found)
    return found


_MOST_BITS = 1_000


def _bounded(value: Any) -> Any:
    """A value that is no larger than what a file may hold: names stand for others as often as they are
    written, so that a few lines may be without end. Raises ValueError."""
    waiting, left = [value], _LARGEST_FILE
    while waiting:
        each = waiting.pop()
        left -= 1 + (len(each) if isinstance(each, str | bytes) else 0)
        if left < 0 or (isinstance(each, int) and each.bit_length() > _MOST_BITS):
            raise ValueError("too large")
        if isinstance(each, dict | list):
            waiting.extend(each.values() if isinstance(each, dict) else each)
    return value


def _python_value(node: ast.expr, named: Mapping[str, Any]) -> Any:
    """The value of an expression of literals, names that have one, and `dict(...)`. Raises ValueError."""
    match node:
        case ast.Name(id=name) if name in named:
            return named[name]
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=entries):
            return {each.arg: _python_value(each.value, named) for each in entries if each.arg}
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {
                ast.literal_eval(key): _python_value(value, named)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_python_value(each, named) for each in elements]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = _python_value(left, named), _python_value(right, named)
            return _bounded(sides[0] + sides[1])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = _python_value(left, named), _python_value(right, named)
            if all(isinstance(each, int | float) for each in sides):
                return _bounded(sides[0] * sides[1])
    return ast.literal_eval(node)


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The entries of a configuration over those that it begins with; `_delete_=True` begins anew."""
    made = dict(base)
    for name, value in own.items():
        before = made.get(name)
        if isinstance(value, dict) and isinstance(before, dict) and not value.get("_delete_"):
            made[name] = _merged(before, value)
        else:
            made[name] = value
    return made


def _sections(text: str, keeps_case: bool) -> dict[str, dict[str, str]]:
    """The sections of an INI file, with what stands in them as it is written. Raises ValueError."""
    import configparser  # Few programs have such a file.

    parser = configparser.ConfigParser(interpolation=None)
    if keeps_case:
        parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return {name: dict(parser[name]) for name in parser.sections()}


def _plain(raw: bytes, named: str) -> Any:
    """The plain values of a YAML document, or of several in one file together; None for one that is not to be
    read."""
    found = [each.data for each in _documents(raw, named)]
    return {key: value for each in found for key, value in each.items()} if found else None


def _documents(raw: bytes, named: str) -> list[Document]:
    """The YAML documents of a file, each at its own lines; none where one is not to be read."""
    # Few programs have such a file, and its reader takes as long to import as the lint of a script.
    from launcher.documents import DocumentError, parse_document

    lines = raw.splitlines()
    ends = [number for number, line in enumerate(lines) if line.rstrip() == b"---"]
    parts = [lines]
    if len(ends) > 1 or (ends and any(each.strip() and each[:1] != b"#" for each in lines[: ends[0]])):
        begins = [0, *(each + 1 for each in ends)]
        parts = [[b""] * begin + lines[begin:end] for begin, end in zip(begins, [*ends, None], strict=True)]
        parts = [each for each in parts if any(line.strip() for line in each)]
    try:
        return [parse_document(b"\n".join(each), named, (), lenient=True) for each in parts]
    except (ValueError, RecursionError, DocumentError):
        return []


def _flattened(document: Any) -> Iterator[Entry]:
    """The numbers, texts and switches of a document with the keys to them, as far as it is not too large."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), document)]
    for _ in range(_MOST_ENTRIES):
        if not waiting:
            return
        keys, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*keys, str(key)), each) for key, each in value.items()][:_MOST_ENTRIES]
        elif isinstance(value, list) and keys == ("defaults",):
            waiting += [(keys, each) for each in value]
        elif value is None or isinstance(value, bool | int | float | str):
            yield keys, value


def _all_keys(document: Any) -> Iterator[str]:
    """The names of all entries of a document, at whatever depth."""
    waiting = [document]
    for _ in range(_MOST_ENTRIES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, dict):
            yield from map(str, value)
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def configured_constant(found: Configured | None, *, guesses: bool = False) -> Constant | None:
    """The only value of an entry of files that are known, with `guesses` also of all that may be read; else
    None."""
    if found is None or not (found.is_chosen or guesses) or len(found.values) != 1:
        return None
    value = found.values[0]
    return Constant(value) if value is None or isinstance(value, bool | int | float | str) else None
