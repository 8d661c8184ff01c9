"""What the functions of hydra and of other configurations do in a program that is run as one rank.

Source: hydra's documentation, "Structured Configs", "Instantiating objects", "Output/Working directory",
"Resolvers provided by Hydra"; OmegaConf's, "Variable interpolation" and "Resolvers".
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from launcher.program.execution.objects import (
    OPEN,
    OWN,
    BoundCall,
    CallMade,
    Class,
    DottedEntries,
    Function,
    Native,
    Object,
    OpenDictionary,
    OpenedFile,
    OutOfSteps,
    StructuredEntries,
    Symbol,
    bounded,
    is_known,
    text_of,
)
from launcher.program.execution.process import CODE_FOLDER, Process
from launcher.program.execution.python_library import (
    as_dictionary,
    document_of,
    literal_of,
    own_dictionary,
    record_of,
)
from launcher.program.surroundings.hydra_configurations import (
    MISSING,
    ConfigFile,
    NotComposed,
    compose,
    value_of_word,
)

_MOST_VALUES = 5_000
"""Of one configuration, with those that interpolations repeat."""
_DEEPEST = 24
_OPEN_CONFIGURATION = "omegaconf.DictConfig()"
_SWITCHES = re.compile(r"yes|no|on|off|[-+]?[1-9][\d_]*(:[0-5]?\d)+", re.IGNORECASE)
"""Texts that are switches and numbers where they stand without quotes, as YAML 1.1 has it."""
_UNDERSCORED = re.compile(r"[-+]?\d+(_\d+)+")
_PART = re.compile(r"(?P<escape>(?<!\\)\\+)?\$\{(?P<inner>[^${}]*)\}")
_OLDEST, _CHANGES_FOLDER_UNTIL = (1, 0), (1, 2)


# Which files a program has.


def _files(run: Process, folders: Sequence[str], name: str) -> ConfigFile | None:
    """A file of the configuration, or what the program stores by that name."""
    for folder in folders:
        path = posixpath.normpath(posixpath.join(folder, name))
        if path.startswith(f"{CODE_FOLDER}/"):
            inside = path.removeprefix(f"{CODE_FOLDER}/")
            for whole in (f"{inside}.yaml", f"{inside}.yml"):
                found = run.packaged(whole)
                if found is not None:
                    if whole not in run.read_documents:
                        run.read_documents.append(whole)
                    return ConfigFile(_as_read(run, found[0]), found[1])
    stored = run.stored.get(name)
    return stored if isinstance(stored, ConfigFile) else None


def _as_read(run: Process, value: Any) -> Any:
    """Plain values as OmegaConf reads them, each one a step; open what it may take for something else."""
    run.steps += 1
    if run.steps > run.most_steps:
        raise OutOfSteps
    if isinstance(value, dict):
        return {key: _as_read(run, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_read(run, each) for each in value]
    if isinstance(value, str) and _UNDERSCORED.fullmatch(value):
        return int(value)
    return Symbol() if isinstance(value, str) and _SWITCHES.fullmatch(value) else value


def _stored(run: Process, event: CallMade) -> object:
    """A configuration that the program stores, of a class, an object or a dictionary."""
    name, group = event.argument("name", 0), event.argument("group", 2)
    node, package = event.argument("node", 1), event.argument("package", 3)
    made = run.call(node, [], {}, event.node) if isinstance(node, Class) else node
    values = _of_records(made, _DEEPEST)
    if isinstance(name, str) and isinstance(values, dict):
        path = "/".join(each for each in (group, name.removesuffix(".yaml")) if isinstance(each, str))
        run.stored[path] = ConfigFile(values, package if isinstance(package, str) else None)
    return None


def _of_records(value: Any, depth: int) -> Any:
    """The fields of data classes as entries."""
    if isinstance(value, Object) and value.kind.is_record and depth:
        return {key: _of_records(each, depth - 1) for key, each in value.attributes.items()}
    if isinstance(value, dict) and depth:
        return {str(key): _of_records(each, depth - 1) for key, each in value.items()}
    if isinstance(value, list) and depth:
        return [_of_records(each, depth - 1) for each in value]
    return MISSING if isinstance(value, Symbol) and value.name == "omegaconf.MISSING" else value


# The functions that compose.


def _main(run: Process, decorator: Symbol, made: object) -> object:
    """The program's function, which gets the configuration."""

    def main(*given: object, **_: object) -> object:
        if given:
            return run.call(made, [given[0]], {}, run.at)
        event, before, node = decorator.made_by, run.folder, run.at
        file = made.scope.module.variables["__file__"] if isinstance(made, Function) else None
        composed = None if event is None or file is None else _composed_for(run, event, str(file))
        if composed is None:
            return run.call(made, [Symbol(_OPEN_CONFIGURATION)], {}, node)
        configuration, settings = composed
        if event is not None and _changes_folder(run, event, settings):
            run.folder = _joined_folder(_run_folder(run, configuration, settings))
        try:
            given_to = _Interpolations(run, configuration, settings).whole()
            return run.call(made, [given_to], {}, node)
        finally:
            run.folder = before

    return Native("main", main)


def _composed_for(run: Process, event: CallMade, file: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """What the words of the command line make of the files that a decorator names; hydra's own entries."""
    options = dict(pairwise(run.words)) | dict(_named_options(run.words))
    name = options.get("--config-name") or options.get("-cn") or event.argument("config_name", 1)
    is_said = "config_path" in event.keywords or bool(event.args)
    folder = event.argument("config_path", 0)
    version = _version(run, event)
    if isinstance(folder, str) and folder.endswith((".yaml", ".yml")):
        folder, name = posixpath.split(folder)[0], options.get("--config-name") or posixpath.basename(folder)
        version = version or _OLDEST
    folder = options.get("--config-path") or options.get("-cp") or folder
    if not is_said and folder is None:
        folder = None if _base(event) or "version_base" in event.keywords else "."
    others = [options[each] for each in ("--config-dir", "-cd") if each in options]
    folders = [*_folders(file, folder), *(posixpath.join(CODE_FOLDER, each) for each in others)]
    # The hyperparameters of a job are words such as `--lr=1`, which hydra gets without the dashes.
    words = [each if each.startswith("--config") else each.removeprefix("--") for each in run.words]
    return _composed(run, name, folders, words, version)


def _named_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, is_given, value = word.partition("=")
        if is_given and name.startswith("--config"):
            yield name, value


def _folders(file: str, folder: object) -> list[str]:
    """The folder of a configuration beside the file that names it."""
    if isinstance(folder, str) and folder.startswith("pkg://"):
        return [posixpath.join(CODE_FOLDER, folder.removeprefix("pkg://").replace(".", "/"))]
    if folder is None or not is_known(folder):
        return []
    return [posixpath.join(posixpath.dirname(file), text_of(folder))]


def _composed(
    run: Process, name: object, folders: list[str], words: Sequence[str], version: tuple[int, int] | None
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    if not (name is None or (isinstance(name, str) and is_known(name))):
        return None
    named = None if name is None else re.sub(r"\.ya?ml$", "", name)
    try:
        found = compose(named, lambda each: _files(run, folders, each), words, version)
    except (NotComposed, RecursionError):
        return None
    settings = found.pop("hydra", None)
    return found, settings if isinstance(settings, dict) else {}


def _base(event: CallMade) -> tuple[int, int] | None:
    """The version whose ways a program asks for."""
    given = event.argument("version_base", 2)
    found = re.match(r"(\d+)\.(\d+)", given) if isinstance(given, str) else None
    return (int(found[1]), int(found[2])) if found else None


def _version(run: Process, event: CallMade) -> tuple[int, int] | None:
    """Hydra's version, as far as the job or the program says it; only 1.2 and newer ones know a base."""
    found = re.match(r"(\d+)\.(\d+)", run.world.version_of("hydra-core") or "")
    if found:
        return int(found[1]), int(found[2])
    return _CHANGES_FOLDER_UNTIL if "version_base" in event.keywords or len(event.args) > 2 else None


def _changes_folder(run: Process, event: CallMade, settings: Mapping[str, Any]) -> bool:
    """Whether the function runs in the folder of its output: what the configuration says, else where the
    program asks for no base of 1.2 or newer."""
    job = settings.get("job")
    said = job.get("chdir") if isinstance(job, Mapping) else None
    if isinstance(said, bool):
        return said
    if "version_base" not in event.keywords and len(event.args) < 3:
        return True
    base, version = _base(event), _version(run, event)
    return (base is not None and base < _CHANGES_FOLDER_UNTIL) or (
        version is not None and version < _CHANGES_FOLDER_UNTIL
    )


def _run_folder(run: Process, configuration: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The folder of the output, by the time where nobody says another one."""
    of_run = settings.get("run")
    said = of_run.get("dir") if isinstance(of_run, Mapping) else None
    if said is None:
        return f"outputs/{OWN}"
    reading = _Interpolations(run, configuration, settings)
    return text_of(reading.value(said, ("hydra", "run", "dir"), _DEEPEST))


def _joined_folder(folder: str) -> str:
    return OPEN if folder.startswith((OPEN, OWN)) else posixpath.normpath(posixpath.join(CODE_FOLDER, folder))


def _initialized(run: Process, event: CallMade) -> object:
    """Where the files are that are composed afterwards."""
    by_whole = event.name.endswith("initialize_config_dir")
    folder = event.argument("config_dir" if by_whole else "config_path", 0)
    run.stored[""] = (_folders(run.path_of(event.node), folder), _version(run, event))
    return Symbol(f"{event.name}()", event)


def _composed_by_call(run: Process, event: CallMade) -> object:
    folders, version = run.stored.get("", ([], None))
    words = event.argument("overrides", 1)
    given = words if isinstance(words, list | tuple) else []
    name = event.argument("config_name", 0)
    if not all(isinstance(each, str) and is_known(each) for each in given) or isinstance(words, Symbol):
        return Symbol(_OPEN_CONFIGURATION)
    composed = _composed(run, name, folders, given, version)
    return Symbol(_OPEN_CONFIGURATION) if composed is None else _Interpolations(run, *composed).whole()


# Interpolations.


class _Interpolations:
    """A configuration that is read as a program reads it: with what its interpolations stand for."""

    def __init__(self, run: Process, entries: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Of the entries of a program, and hydra's own."""
        self.run, self.entries, self.settings = run, entries, settings
        self.all = {**entries, "hydra": settings}
        self.left = _MOST_VALUES

    def whole(self) -> object:
        """All of it."""
        found = self.value(self.entries, (), _DEEPEST)
        self.run.steps += _MOST_VALUES - self.left
        return found

    def value(self, value: Any, place: tuple[str, ...], depth: int) -> Any:
        """What an entry is at its place."""
        self.left -= 1
        if self.left < 0 or depth <= 0:
            return Symbol()
        if isinstance(value, Mapping):
            inner = {str(key): self.value(each, (*place, str(key)), depth - 1) for key, each in value.items()}
            return bounded(DottedEntries(inner))
        if isinstance(value, list):
            return bounded(
                [self.value(each, (*place, str(key)), depth - 1) for key, each in enumerate(value)]
            )
        if isinstance(value, str):
            return Symbol() if value == MISSING else self._text(value, place, depth)
        return value

    def _text(self, text: str, place: tuple[str, ...], depth: int) -> Any:
        """A text with what stands in its interpolations, the innermost first."""
        kept: list[Any] = []
        while found := _PART.search(text):
            self.left -= 1
            if self.left < 0 or found["escape"] or len(text) > 4_000:
                return Symbol()
            value = self._interpolated(found["inner"].strip(), place, depth - 1)
            if found.span() == (0, len(text)):
                return value
            kept.append(value)
            text = text[: found.start()] + text_of(value) + text[found.end() :]
        return Symbol() if "${" in text else text

    def _interpolated(self, said: str, place: tuple[str, ...], depth: int) -> Any:
        named = re.match(r"([A-Za-z_][\w.]*):", said)
        if named is not None:
            return self._resolved(named[1], said[named.end() :].strip(), depth)
        if not is_known(said):
            return Symbol()
        dots = len(said) - len(said.lstrip("."))
        keys = re.findall(r"[^.\[\]]+", said)
        above = place[: max(len(place) - dots, 0)] if dots else ()
        return self._entry((*above, *keys), depth)

    def _entry(self, keys: tuple[str, ...], depth: int) -> Any:
        """The entry at a place."""
        inner: Any = self.all
        for number, key in enumerate(keys):
            if isinstance(inner, str):
                inner = self.value(inner, keys[:number], depth - 1)
            if isinstance(inner, list) and key.isdigit() and int(key) < len(inner):
                inner = inner[int(key)]
            elif isinstance(inner, Mapping) and key in inner:
                inner = inner[key]
            else:
                return Symbol()
        return self.value(inner, keys, depth)

    def _resolved(self, name: str, said: str, depth: int) -> Any:
        first, is_given, default = said.partition(",")
        first = first.strip().strip("'\"")
        otherwise = value_of_word(default) if is_given else Symbol()
        match name:
            case "oc.env" | "env":
                return self._variable(first, name, otherwise)
            case "hydra":
                return self._of_hydra(said, depth)
            case "now":
                return Symbol(is_own=True)
            case "oc.decode" if is_known(said):
                inner = value_of_word(said)
                return value_of_word(inner) if isinstance(inner, str) else inner
            case "oc.select" if is_known(first):
                found = self._entry(tuple(first.split(".")), depth)
                return otherwise if isinstance(found, Symbol) and is_given else found
        return Symbol()

    def _variable(self, name: str, resolver: str, otherwise: Any) -> Any:
        environ = self.run.environ
        if name in environ:
            found = environ[name]
            return value_of_word(found) if resolver == "env" and isinstance(found, str) else found
        if environ.holds(name) is not False or otherwise is None or isinstance(otherwise, Symbol):
            return otherwise if environ.holds(name) is False else Symbol()
        return otherwise if resolver == "env" else text_of(otherwise)

    def _of_hydra(self, said: str, depth: int) -> Any:
        if said in ("runtime.cwd", "hydra.runtime.cwd"):
            return CODE_FOLDER
        if said == "run.dir":
            return _run_folder(self.run, self.entries, self.settings)
        if said == "runtime.output_dir":
            return _joined_folder(_run_folder(self.run, self.entries, self.settings)) if depth > 0 else OPEN
        return self._entry(("hydra", *said.split(".")), depth)


# What is made of a configuration.

_OF_INSTANTIATE = ("_target_", "_recursive_", "_convert_", "_partial_", "_args_")


def _instantiated(run: Process, event: CallMade) -> object:
    """What an entry names, called with its other entries."""
    given = event.argument("config", 0)
    others = {key: each for key, each in event.keywords.items() if key != "config"}
    return _made(run, given, list(event.args[1:]), others, event.node, _DEEPEST)


def _made(
    run: Process, given: Any, args: list[Any], others: Mapping[str, Any], node: ast.Call, depth: int
) -> Any:
    if isinstance(given, list) and depth:
        return [_made(run, each, [], {}, node, depth - 1) for each in given]
    if not isinstance(given, Mapping) or not depth:
        return given
    of_old = next(
        (key for key in ("class", "cls", "target") if "_target_" not in given and key in given), None
    )
    key = "_target_" if of_old is None or "params" not in given else of_old
    inner = given.get("params") if key != "_target_" else given
    entries = {**(inner if isinstance(inner, Mapping) else {}), **others}
    if key not in given and "_target_" not in others:
        return DottedEntries(
            {key: _made(run, each, [], {}, node, depth - 1) for key, each in entries.items()}
        )
    target = others.get("_target_", given.get(key))
    if entries.get("_recursive_", True) is not False:
        entries = {name: _made(run, each, [], {}, node, depth - 1) for name, each in entries.items()}
    before = entries.get("_args_")
    args = [*(before if isinstance(before, list) and not args else []), *args]
    named = {name: each for name, each in entries.items() if name not in _OF_INSTANTIATE}
    function = _located(run, target, node)
    if entries.get("_partial_") is True:
        return BoundCall(function, tuple(args), named)
    return run.call(function, args, named, node)


def _located(run: Process, name: object, node: ast.AST) -> object:
    """What a dotted name means: of a module of the program, or of a library."""
    if not isinstance(name, str):
        return Symbol() if name is None else name
    if not is_known(name) or len(name) > 200:
        return Symbol()
    keys = name.split(".")
    for number in range(len(keys), 0, -1):
        found: object = run.module(".".join(keys[:number]))
        if found is not None:
            break
    else:
        number, found = 1, run.imported(keys[0], node)
    for key in keys[number:]:
        found = run.attribute(found, key, node)
    return found


def _absolute(run: Process, event: CallMade) -> object:
    given = event.argument("path", 0)
    return Symbol() if isinstance(given, Symbol) else posixpath.join(CODE_FOLDER, text_of(given))


def _selected(run: Process, event: CallMade) -> object:
    """The entry of a configuration at a dotted place."""
    found, keys = event.argument("cfg", 0), event.argument("key", 1)
    if not isinstance(keys, str) or not is_known(keys):
        return Symbol()
    for key in keys.split("."):
        if not isinstance(found, dict):
            return Symbol() if isinstance(found, Symbol) else event.argument("default")
        found = found.get(key, event.argument("default"))
    return found


def _updated(run: Process, event: CallMade) -> object:
    owner, keys, value = event.argument("cfg", 0), event.argument("key", 1), event.argument("value", 2)
    if isinstance(keys, str) and is_known(keys):
        *above, last = keys.split(".")
        for key in above:
            owner = owner.setdefault(key, DottedEntries()) if isinstance(owner, dict) else None
        if isinstance(owner, dict):
            owner[last] = value
    return None


_RECORDS = (
    *("types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "addict.Dict", "munch.Munch"),
    *("ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict", "omegaconf.OmegaConf.create"),
    *(
        "yacs.config.CfgNode",
        "fvcore.common.config.CfgNode",
        "munch.munchify",
        "box.Box",
        "omegaconf.DictConfig",
    ),
    *("attrdict.AttrDict", "omegaconf.OmegaConf.structured", "tensorflow.contrib.training.HParams"),
)


def _configuration_loaded(run: Process, event: CallMade) -> object:
    name = event.args[0] if event.args else None
    return record_of(document_of(run, name.name if isinstance(name, OpenedFile) else text_of(name)))


def _itself(run: Process, owner: object) -> object:
    return owner


def _configuration_made(run: Process, event: CallMade) -> object:
    given = event.args[0] if event.args else {}
    if isinstance(given, Object):
        return DottedEntries(given.attributes)
    if isinstance(event.keywords, OpenDictionary):
        return Symbol(f"{event.name}()", event)
    return (
        record_of({**given, **event.keywords})
        if isinstance(given, dict)
        else Symbol("omegaconf.DictConfig()")
    )


_DEEPEST_CLASS = 8


def _structured(run: Process, event: CallMade) -> object:
    """A configuration with the fields of a class, or of an object, and of those in them."""
    given = event.args[0] if event.args else None
    made = run.call(given, [], {}, event.node) if isinstance(given, Class) else given
    return _entries_of_object(made) if isinstance(made, Object) else _configuration_made(run, event)


def _entries_of_object(value: Any, depth: int = _DEEPEST_CLASS) -> Any:
    if not isinstance(value, Object) or not depth:
        return value
    entries = {key: _entries_of_object(each, depth - 1) for key, each in value.attributes.items()}
    return StructuredEntries(value.kind, entries)


def _objects_made(value: Any, depth: int = _DEEPEST_CLASS) -> Any:
    """The objects that a structured configuration stands for, with those in it."""
    if not isinstance(value, dict) or not depth:
        return value
    entries = {key: _objects_made(each, depth - 1) for key, each in value.items()}
    return Object(value.kind, entries) if isinstance(value, StructuredEntries) else record_of(entries)


def _configurations_merged(run: Process, event: CallMade) -> object:
    first = event.args[0] if event.args else None
    if isinstance(first, StructuredEntries) and any(isinstance(each, Symbol) for each in event.args):
        return Symbol(_OPEN_CONFIGURATION)  # Anything may be given in place of its defaults.
    found = StructuredEntries(first.kind, {}) if isinstance(first, StructuredEntries) else DottedEntries()
    for each in event.args:
        if isinstance(each, dict):
            _merge(found, each)
    return found


def _words_as_configuration(run: Process, event: CallMade) -> object:
    """The words of the command line, or of a list, as entries: `train.folder=/fsx`."""
    found, given = DottedEntries(), event.args[0] if event.args else None
    if isinstance(given, Symbol):
        return Symbol(f"{event.name}()", event)
    for word in map(str, given if isinstance(given, list) else run.words):
        keys, _, value = word.lstrip("-").partition("=")
        put_at(found, keys, value)
    return found


def _entries_of(value: Any) -> Any:
    """The entries of a configuration of a class of the program; anything else as it is."""
    return value.native if isinstance(value, Object) and isinstance(value.native, dict) else value


def _merge(into: dict[str, Any], other: Mapping[str, Any], *, reads_texts: bool = False) -> None:
    """Put entries into a configuration; yacs reads a text among them as a literal where it is one."""
    for key, value in other.items():
        inner, value = _entries_of(into.get(key)), _entries_of(value)
        if isinstance(value, dict) and isinstance(inner, dict):
            _merge(inner, value, reads_texts=reads_texts)
        elif isinstance(value, str) and reads_texts:
            into[key] = literal_of(value)
        else:
            into[key] = record_of(value)


def _merged_from_file(run: Process, owner: Any) -> object:
    def merge(name: Any, *_: Any, **__: Any) -> None:
        found = _with_base(run, text_of(name))
        if isinstance(owner, dict) and isinstance(found, dict):
            _merge(owner, found, reads_texts=True)
        elif isinstance(owner, dict):  # What it holds afterwards nobody knows.
            owner.update(dict.fromkeys(owner, Symbol()))

    return Native("merge_from_file", merge)


def _with_base(run: Process, name: str | None, depth: int = 4) -> Any:
    """What a configuration file holds, with that of the one beside it that it begins with (`_BASE_`)."""
    found = document_of(run, name)
    base = found.get("_BASE_") if isinstance(found, dict) else None
    if not isinstance(base, str) or not isinstance(name, str) or not depth:
        return found
    above = _with_base(run, posixpath.normpath(posixpath.join(posixpath.dirname(name), base)), depth - 1)
    made = record_of(above) if isinstance(above, dict) else DottedEntries()
    _merge(made, found)
    return made


def _merged_from_list(run: Process, owner: Any) -> object:
    """Names and values in turn, as the words of a command line: `OUTPUT_DIR /fsx TRAIN.EPOCHS 3`."""

    def merge(words: Any) -> None:
        if isinstance(owner, dict) and isinstance(words, list | tuple):
            for name, value in zip(words[::2], words[1::2], strict=False):
                put_at(owner, name, literal_of(value) if isinstance(value, str) else value)

    return Native("merge_from_list", merge)


def _parsed_into(run: Process, owner: Any) -> object:
    """Names and values in one text, as those of TensorFlow's HParams: `epochs=3,fp16_run=True`."""

    def parse(text: Any) -> Any:
        given: dict[str, str] = {}
        for part in text.split(",") if is_known(text) and isinstance(owner, DottedEntries) else ():
            name, sign, value = part.partition("=")
            if sign:
                given[name.strip()] = value
            elif given:  # The rest of a list: `layers=[8,8]`.
                given[next(reversed(given))] += f",{part}"
        for name, value in given.items():
            owner[name] = literal_of(value)
        return owner

    return Native("parse", parse)


def put_at(entries: dict[str, Any], name: object, value: object) -> None:
    """Give an entry of a configuration a value by its dotted name."""
    if not isinstance(name, str) or not is_known(name):
        return
    *above, last = name.split(".")
    for each in above:
        inner = entries.get(each)
        entries[each] = inner if isinstance(inner, dict) else DottedEntries()
        entries = entries[each]
    entries[last] = value


def _merged_from_other(run: Process, owner: Any) -> object:
    """Another configuration, or entries by their dotted names."""

    def merge(other: Any) -> None:
        other = _entries_of(other)
        if isinstance(owner, dict) and isinstance(other, dict):
            dotted = {name: each for name, each in other.items() if "." in str(name)}
            plain = {name: each for name, each in other.items() if name not in dotted}
            _merge(owner, plain, reads_texts=not dotted)
            for name, value in dotted.items():
                put_at(owner, name, value)

    return Native("merge_from_dict", merge)


CONFIGURATION_MODELS: dict[str, Any] = {
    "@hydra.main": _main,
    **dict.fromkeys(
        (
            f"{room}.{name}"
            for room in ("hydra", "hydra.experimental")
            for name in ("initialize", "initialize_config_dir")
        ),
        _initialized,
    ),
    **dict.fromkeys(("hydra.compose", "hydra.experimental.compose"), _composed_by_call),
    "hydra.core.config_store.ConfigStore.instance().store": _stored,
    **dict.fromkeys(("hydra.utils.instantiate", "hydra.utils.call"), _instantiated),
    **dict.fromkeys(
        (f"hydra.utils.get_{each}" for each in ("class", "method", "object", "static_method")),
        lambda run, event: _located(run, event.argument("path", 0), event.node),
    ),
    "hydra.utils.get_original_cwd": lambda run, event: CODE_FOLDER,
    "hydra.utils.to_absolute_path": _absolute,
    "omegaconf.OmegaConf.select": _selected,
    "omegaconf.OmegaConf.update": _updated,
    "omegaconf.II": lambda run, event: f"${{{text_of(event.argument('interpolation', 0))}}}",
    "omegaconf.OmegaConf.load": _configuration_loaded,
    **dict.fromkeys(
        ("mmcv.Config.fromfile", "mmcv.utils.Config.fromfile", "mmengine.Config.fromfile"),
        _configuration_loaded,
    ),
    "._cfg_dict": _itself,
    **dict.fromkeys(("omegaconf.OmegaConf.merge", "jsonmerge.merge"), _configurations_merged),
    **dict.fromkeys(
        (f"omegaconf.OmegaConf.{each}" for each in ("from_cli", "from_dotlist")), _words_as_configuration
    ),
    "omegaconf.OmegaConf.to_container": as_dictionary,
    **dict.fromkeys(_RECORDS, _configuration_made),
    "omegaconf.OmegaConf.structured": _structured,
    "omegaconf.OmegaConf.to_object": lambda run, event: _objects_made(event.argument("cfg", 0)),
    ".merge_from_file": _merged_from_file,
    ".parse": _parsed_into,
    **dict.fromkeys((".merge_from_list", ".merge_from_dotlist"), _merged_from_list),
    **dict.fromkeys((".merge_from_dict", ".merge_from_other_cfg"), _merged_from_other),
    **{f"{each}:": lambda *given: record_of(own_dictionary(*given)) for each in _RECORDS},
}
