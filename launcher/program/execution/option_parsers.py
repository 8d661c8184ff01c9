"""The parsers of options of a program that is run on its syntax tree, with the words that a job gives it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from launcher.program.execution.objects import (
    STARS,
    BoundCall,
    CallMade,
    Class,
    DottedEntries,
    Native,
    Object,
    OpenDictionary,
    ProcessEnded,
    Symbol,
    is_known,
    text_of,
    truth_of,
)
from launcher.program.execution.process import Process
from launcher.program.execution.python_library import document_of
from launcher.program.surroundings.options import options_in_words

_ACTIONS = frozenset(
    ["store", "store_true", "store_false", "store_const", "append", "append_const", "extend", "count"]
)
_TYPES = {"int": int, "float": float, "str": str, "bool": bool}
_KEPT = ("default", "nargs", "required", "dest", "const", "choices")
_COUNTS = {
    "argparse.REMAINDER": argparse.REMAINDER,
    "argparse.ZERO_OR_MORE": argparse.ZERO_OR_MORE,
    "argparse.ONE_OR_MORE": argparse.ONE_OR_MORE,
    "argparse.OPTIONAL": argparse.OPTIONAL,
}


_MOST_WORDS = 64
"""So many words of one option are counted: argparse makes a pattern as long as their number."""


def _words_taken(number: Any) -> int | str | None:
    """How many words an option takes: a number, or any where that is a large one."""
    return "*" if isinstance(number, int) and number > _MOST_WORDS else number


class _Refused(ValueError):
    pass


class _QuietParser(argparse.ArgumentParser):
    """A parser that prints nothing, and raises what it would exit with."""

    def error(self, message: str) -> Any:
        """Refuse the words."""
        raise _Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        """Refuse to go on."""
        raise _Refused(message or "")

    def print_help(self, file: Any = None) -> None:
        """Nothing is printed."""


class OptionParser:
    """A parser that a program makes."""

    def __init__(self, run: Process, target: Any = None) -> None:
        """Of a group of another one where there is a target."""
        self.run = run
        self.target = target if target is not None else _QuietParser(add_help=False, allow_abbrev=True)
        self.of_files: list[str] = []
        """The options of ConfigArgParse that name a configuration file."""

    def member(self, name: str) -> object:
        """A method of the parser."""
        call = getattr(self, f"_{name}", None)
        return Symbol() if call is None else Native(name, call)

    def _add_argument(self, *flags: Any, **given: Any) -> object:
        names = [each for each in flags if isinstance(each, str) and is_known(each)]
        options = {
            key: value
            for key, value in given.items()
            if key in _KEPT and (key == "default" or not isinstance(value, Symbol))
        }
        count = getattr(given.get("nargs"), "name", None)
        if count in _COUNTS:
            options["nargs"] = _COUNTS[count]
        elif isinstance(options.get("nargs"), int):
            options["nargs"] = _words_taken(options["nargs"])
        action = given.get("action", "store")
        if not isinstance(action, str):
            boolean = getattr(action, "name", "").endswith("BooleanOptionalAction")
            options["action"] = argparse.BooleanOptionalAction if boolean else "store"
        elif action in _ACTIONS:
            options["action"] = action
        if options.get("action", "store") in ("store", "append", "extend"):
            options["type"] = self._type(given.get("type"))
        if isinstance(options.get("choices"), dict):
            options["choices"] = list(options["choices"])
        if given.get("dest") and not isinstance(given["dest"], str):
            options.pop("dest")
        if names and not names[0].startswith("-"):
            options["nargs"] = {"+": "*"}.get(options.get("nargs", "?"), options.get("nargs", "?"))
            options.setdefault("default", Symbol())
            options.pop("required", None)
        elif options.pop("required", False):
            # What the job leaves out is another rule's: here it is open.
            options.setdefault("default", Symbol())
        if truth_of(given.get("is_config_file", False)):
            self.of_files += names
        with suppress(argparse.ArgumentError, TypeError, ValueError):
            made = self.target.add_argument(*names, **options)
            self.run.options.setdefault(made.dest, self.run.at)
        return Symbol()

    def _type(self, kind: Any) -> Any:
        if isinstance(kind, Native):
            return _TYPES.get(kind.name, str)
        if kind is None:
            return str

        def converted(text: str) -> object:
            found = self.run.call(kind, [text], {}, self.run.at)
            return text if isinstance(kind, Symbol) and isinstance(found, Symbol) else found

        return converted

    def _add_argument_group(self, *_: Any, **__: Any) -> object:
        return OptionParser(self.run, self.target.add_argument_group())

    def _add_mutually_exclusive_group(self, *_: Any, **__: Any) -> object:
        return OptionParser(self.run, self.target.add_mutually_exclusive_group())

    def _add_subparsers(self, *_: Any, **given: Any) -> object:
        dest = given.get("dest")
        return Subcommands(self.run, self.target.add_subparsers(**({"dest": dest} if dest else {})))

    def _set_defaults(self, **given: Any) -> object:
        if STARS in given:  # Whatever has a default may have another one.
            for action in self.target._actions:
                action.default = Symbol()
        self.target.set_defaults(**{name: each for name, each in given.items() if name != STARS})
        return None

    def _get_default(self, name: str) -> object:
        return self.target.get_default(name)

    def _parse_args(self, words: Any = None, namespace: Any = None, **_: Any) -> object:
        return self._parsed(words)[0]

    def _parse_known_args(self, words: Any = None, namespace: Any = None, **_: Any) -> object:
        found, rest = self._parsed(words)
        return (found, rest)

    def _parsed(self, words: Any) -> tuple[DottedEntries, list[str]]:
        given = list(self.run.words) if words is None else words
        if not isinstance(given, list) or not all(map(is_known, given)):
            given = list(self.run.words)
        try:
            self._take_from_files(given)
            found, rest = self.target.parse_known_args([str(each) for each in given])
        except _Refused as error:
            raise ProcessEnded(str(error)) from None
        return DottedEntries(vars(found)), rest

    def _take_from_files(self, words: list[Any]) -> None:
        """Take the entries of the configuration files that the words name as defaults."""
        asking = _QuietParser(add_help=False, allow_abbrev=False)
        for each in self.of_files:
            asking.add_argument(each, dest="files", action="append")
        named, _ = asking.parse_known_args([str(each) for each in words])
        for name in getattr(named, "files", None) or ():
            read = document_of(self.run, name)
            known = {each.dest for each in self.target._actions}
            self.target.set_defaults(
                **{key: read[key] for key in known & {*read}} if isinstance(read, dict) else {}
            )


class Subcommands:
    """The commands of a parser, each with a parser of its own."""

    def __init__(self, run: Process, target: Any) -> None:
        """Of what Python's own parser made of them."""
        self.run, self.target = run, target

    def member(self, name: str) -> object:
        """A method of the commands."""
        return Native(name, self._add_parser) if name == "add_parser" else Symbol()

    def _add_parser(self, name: Any, **given: Any) -> object:
        if not isinstance(name, str) or not is_known(name):
            return Symbol()
        aliases = [each for each in given.get("aliases", ()) if isinstance(each, str)]
        try:
            target = self.target.add_parser(name, aliases=aliases, add_help=False)
        except argparse.ArgumentError:  # There is one of this name.
            return Symbol()
        made = OptionParser(self.run, target)
        _take_over(made, given.get("parents"))
        return made


def _take_over(made: OptionParser, parents: Any) -> None:
    """Give a parser the options of its parents."""
    for each in parents if isinstance(parents, list | tuple) else ():
        if isinstance(each, OptionParser):
            for action in each.target._actions:
                made.target._add_action(action)
            made.target._defaults.update(each.target._defaults)


def _parser_made(run: Process, event: CallMade) -> object:
    return _base_of_parser(run, event.args, event.keywords)


def _base_of_parser(run: Process, args: object, keywords: Mapping[str, Any]) -> OptionParser:
    made = OptionParser(run)
    of_files = keywords.get("args_for_setting_config_path")
    for each in of_files if isinstance(of_files, list | tuple) else ():
        if isinstance(each, str):
            made.run.call(made.member("add_argument"), [each], {"is_config_file": True}, run.at)
    _take_over(made, keywords.get("parents"))
    return made


def _of_parser(name: str) -> Any:
    def read(run: Process, owner: Any) -> object:
        return owner.member(name) if isinstance(owner, OptionParser | Subcommands) else Symbol()

    return read


def _dataclass_parser(run: Process, event: CallMade) -> object:
    made = Symbol(f"{event.name}()", event)
    kinds = event.args[0] if event.args else event.keywords.get("dataclass_types")
    listed = list(kinds) if isinstance(kinds, list | tuple) else [kinds]

    def parse(*given: Any, **__: Any) -> object:
        """What the words give, or the entries of a file."""
        entries = given[0] if given and isinstance(given[0], dict) else None
        return tuple(_filled(run, each, event, entries) for each in listed)

    for name in ("parse_args_into_dataclasses", "parse_args_and_config"):
        made.attributes[name] = Native(name, parse)

    def parse_file(*given: Any, **named: Any) -> object:
        file = [*given, *(named[each] for each in ("yaml_file", "json_file") if each in named)][0]
        return parse(document_of(run, text_of(file)))

    for name in ("parse_json_file", "parse_yaml_file"):
        made.attributes[name] = Native(name, parse_file)
    made.attributes["parse_dict"] = Native("parse_dict", lambda args, **__: parse(args))
    made.attributes["parse_args"] = Native("parse_args", lambda *_, **__: parse()[0])  # type: ignore[index]
    return made


def _filled(
    run: Process, kind: object, event: CallMade, entries: Mapping[str, object] | None = None
) -> object:
    """An object of a class, with what the words give; of a library's class nothing else is known."""
    made: Any = run.call(kind, [], {}, event.node) if isinstance(kind, Class) else None
    base = kind.library_base() if isinstance(kind, Class) else getattr(kind, "name", "")
    found: dict[str, object] = dict(made.attributes) if isinstance(made, Object) else {}
    if entries is None:
        texts = options_in_words(run.words)
        entries = {
            name: like_default(found[name], text) if name in found else _as_written(text)
            for name, text in texts.items()
        }
    found |= {name: each for name, each in entries.items() if name in found or base}
    if isinstance(made, Object):
        made.attributes |= found
    if base:
        of_library = run.call(Symbol(base), [], found, event.node)
        return made if isinstance(made, Object) else of_library
    return made


_TRUTHS = {"": True, "true": True, "false": False}
"""What options of a library's class say of truths: `--do_train`, `--fp16 True`."""


def _as_written(text: str) -> object:
    """What a text of the command line is for an option of which nobody knows the type."""
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return float(text)
    return _TRUTHS.get(text.lower(), text)


def like_default(default: object, text: str) -> object:
    """What a text of the command line is for an option with a default."""
    try:
        if isinstance(default, bool):
            return text.lower() in ("", "true", "1", "yes")
        return type(default)(text) if isinstance(default, int | float) else text
    except ValueError:
        return text


_NUMBERS_OF_CLICK = {"INT": int, "IntRange": int, "FLOAT": float, "FloatRange": float, "BOOL": bool}


def _option_of_click(run: Process, decorator: Symbol, made: object) -> object:
    """A function with the value of one of its options of click: of the words, or else its default."""
    event = decorator.made_by
    if event is None:
        return made
    given = event.keywords
    names = [each for each in event.args if isinstance(each, str) and is_known(each)]
    flags = [each for each in names if each.startswith("-")]
    if not flags:
        return made
    longest = max(flags, key=lambda each: len(each) - len(each.lstrip("-")))
    name = next((each for each in names if each not in flags), longest.split("/")[0].lstrip("-"))
    name = name.replace("-", "_").lower()
    default = given.get("default", Symbol() if truth_of(given.get("required", False)) else None)
    parser = _QuietParser(add_help=False, allow_abbrev=False)
    on, off = ([each.split("/")[at].strip() for each in flags if at < len(each.split("/"))] for at in (0, 1))
    several = truth_of(given.get("multiple", False)) is True
    is_flag = bool(off or truth_of(given.get("is_flag", False)))
    default = False if is_flag and default is None else default
    run.options.setdefault(name, event.node)
    try:
        if is_flag:
            parser.add_argument(*on, dest=name, action="store_const", const=given.get("flag_value", True))
        elif truth_of(given.get("count", False)):
            parser.add_argument(*on, dest=name, action="count")
        else:
            number = _words_taken(given.get("nargs"))
            kind = _type_of_click(run, given.get("type"), default, event)
            how = "append" if several else "store"
            parser.add_argument(*on, dest=name, action=how, type=kind, nargs=None if number == 1 else number)
        if off:
            parser.add_argument(*off, dest=name, action="store_false")
        parser.set_defaults(**{name: None if several else default})
        value = getattr(parser.parse_known_args([str(each) for each in run.words])[0], name)
    except _Refused as error:
        raise ProcessEnded(str(error)) from None
    except (argparse.ArgumentError, AttributeError, TypeError, ValueError):
        return BoundCall(made, (), {name: Symbol()})  # No option that click itself would take.
    if several:
        value = tuple(value or (default if isinstance(default, list | tuple) else ()))
    elif isinstance(given.get("nargs"), int) and isinstance(value, list):
        value = tuple(value)
    return BoundCall(made, (), {name: value})


def _type_of_click(run: Process, kind: Any, default: Any, event: CallMade) -> Any:
    """What makes a value of a word, by the type that an option names or that its default has."""
    if kind is None and isinstance(default, bool | int | float):
        kind = Native(type(default).__name__, type(default))
    of_click = getattr(kind, "name", "").removeprefix("click.").removesuffix("()")
    number = _NUMBERS_OF_CLICK.get(of_click) or (_TYPES.get(kind.name) if isinstance(kind, Native) else None)
    if number is bool:
        return lambda text: text.lower() in ("1", "true", "t", "yes", "y", "on")
    if number is not None:
        return number
    if isinstance(kind, Object):

        def converted(text: str) -> object:
            found = run.call_method(kind, "convert", [text, Symbol(), Symbol()], event.node)
            return text if found is NotImplemented else found

        return converted
    return str


_OF_DOCOPT = re.compile(r"^ *(?:-\w(?: \S+)?,? +)?(--[\w-]+)(?:[= ](<[^>\n]*>|[A-Z]+))?(.*)$", re.MULTILINE)
_LONGEST_USAGE = 20_000
_DEFAULT_OF_DOCOPT = re.compile(r"\[default: ([^\[\]\n]*)\]", re.IGNORECASE)


def _parsed_by_docopt(run: Process, event: CallMade) -> object:
    """The options that a text of usage describes, with their defaults and what the words give."""
    text = event.argument("doc", 0)
    found: dict[str, Any] = OpenDictionary()
    if not isinstance(text, str) or not is_known(text):
        return found
    parser = _QuietParser(add_help=False, allow_abbrev=False)
    for name, value, rest in _OF_DOCOPT.findall(text[:_LONGEST_USAGE]):
        default = _DEFAULT_OF_DOCOPT.search(rest)
        with suppress(argparse.ArgumentError):
            if value:
                parser.add_argument(name, dest=name, default=default[1] if default else None)
            else:
                parser.add_argument(name, dest=name, action="store_true")
    with suppress(_Refused):
        found.update(vars(parser.parse_known_args([str(each) for each in run.words])[0]))
    return found


_METHODS = (
    *("add_argument", "add_argument_group", "add_mutually_exclusive_group", "set_defaults", "get_default"),
    *("parse_args", "parse_known_args", "add_subparsers", "add_parser"),
)

_OF_TRAINERS = (
    *("accelerator", "devices", "distributed_backend", "gpus", "num_nodes", "num_processes", "strategy"),
    *("default_root_dir", "resume_from_checkpoint", "weights_save_path", "logger", "checkpoint_callback"),
    *("max_epochs", "max_steps", "min_epochs", "precision", "accumulate_grad_batches", "gradient_clip_val"),
    *("check_val_every_n_epoch", "val_check_interval", "limit_train_batches", "limit_val_batches"),
    *("fast_dev_run", "replace_sampler_ddp", "sync_batchnorm", "benchmark", "deterministic", "plugins"),
)
"""Arguments of Lightning's Trainer that its version 1 makes options of. Source: its sources, 1.2 and 1.9."""


def _trainer_options(run: Process, event: CallMade) -> object:
    parser = event.argument("parent_parser", 0)
    for name in _OF_TRAINERS if isinstance(parser, OptionParser) else ():
        options = {"default": None, "nargs": "?", "const": True}
        run.call(parser.member("add_argument"), [f"--{name}"], options, event.node)
    return parser


def _deepspeed_options(run: Process, event: CallMade) -> object:
    """The parser with DeepSpeed's options, as deepspeed 0.19.8, __init__.py, adds them."""
    parser = event.argument("parser", 0)
    for name in ("deepspeed", "deepscale") if isinstance(parser, OptionParser) else ():
        add = parser.member("add_argument")
        run.call(add, [f"--{name}"], {"action": "store_true"}, event.node)
        run.call(add, [f"--{name}_config"], {"default": None}, event.node)
    return parser


_PARSERS = (
    "argparse.ArgumentParser",
    *(f"configargparse.{each}" for each in ("ArgumentParser", "ArgParser", "Parser")),
)

PARSER_MODELS: dict[str, Any] = {
    **dict.fromkeys(_PARSERS, _parser_made),
    "lightning.pytorch.Trainer.add_argparse_args": _trainer_options,
    "deepspeed.add_config_arguments": _deepspeed_options,
    **dict.fromkeys((f"{each}:" for each in _PARSERS), _base_of_parser),
    "transformers.HfArgumentParser": _dataclass_parser,
    "@click.option": _option_of_click,
    "docopt.docopt": _parsed_by_docopt,
    **{f".{name}": _of_parser(name) for name in _METHODS},
}
