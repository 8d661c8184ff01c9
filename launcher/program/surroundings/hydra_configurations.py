"""The configuration that hydra composes: a file, those that lists of defaults name, and the words of a job.

Nothing here touches a disk: files are asked for by their names. Interpolations stay as they are written. What
is composed otherwise by hydra's older versions, where nobody knows the version, is open: `???`.

Sources: hydra's documentation, "The Defaults List", "Packages", "Basic Override syntax", "Default Composition
Order" (1.0 to 1.1); hydra/_internal/defaults_list.py of 1.3, config_loader.py of 0.11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

MISSING = "???"
"""Stands in a configuration for what somebody has to give."""
_MOST_FILES = 200
"""Of one configuration, each as often as it is named."""
_DEEPEST = 16
_LONGEST = 10_000
"""Of the value of a word, in characters."""
_SELF, _GLOBAL, _HERE = "_self_", "_global_", "_here_"
_NEW_ORDER, _OLD_ORDER = (1, 1), (1, 0)
"""From which version on a file holds before those of its list; the last one in which it does not."""


@dataclass(frozen=True)
class ConfigFile:
    """What a file of hydra's holds, and the package that its first line says."""

    values: Mapping[str, Any]
    package: str | None = None


ReadFile = Callable[[str], ConfigFile | None]
"""A file by its name below the folder of the configuration, without ending; None where there is none."""


_PACKAGE = re.compile(r"\s*#\s*@package\s+([\w.]+)")


def package_said(lines: Iterable[str]) -> str | None:
    """The package that the first line of a file says that is not empty."""
    said = next((_PACKAGE.match(line) for line in lines if line.strip()), None)
    return said[1] if said else None


class NotComposed(Exception):
    """Hydra refuses this, or finds a part of it where nobody here can look."""


def compose(
    name: str | None, read: ReadFile, words: Sequence[str], version: tuple[int, int] | None = None
) -> dict[str, Any]:
    """The configuration of a name with the words of a command line, hydra's own entries below `hydra`.

    Raises NotComposed.
    """
    given = [word for word in map(_Override.read, words) if word is not None]
    found = _composed(name, read, given, version or _NEW_ORDER)
    if version is None:
        # By what is written nobody can tell which order the file and those of its list have.
        found = _agreed(found, _composed(name, read, given, _OLD_ORDER, packages_as=_NEW_ORDER))
    return found


@dataclass(frozen=True)
class Outline:
    """A configuration as far as its files are there: its values, `unknown` where nobody can tell them, the
    choices of its own list of defaults, and whether no file is lacking."""

    values: dict[str, Any]
    choices: dict[str, Any]
    unknown: object
    is_whole: bool


def outline(name: str, read: ReadFile) -> Outline | None:
    """The configuration of a name without any words; None where there is no such file."""
    first, unknown = read(name), object()
    if first is None:
        return None
    trees = [_DefaultsTree(read, version, _NEW_ORDER, absent=[]) for version in (_NEW_ORDER, _OLD_ORDER)]
    new, old = (_put_together(tree.parts(_Default(None, name), 0)) for tree in trees)
    listed = [each for each in _listed(first.values) if each.group and not each.is_override]
    choices = {each.key: trees[0].chosen.get(each.key, each.value) for each in listed}
    own = {key: value for key, value in choices.items() if key.split("/")[0] != "hydra"}
    return Outline(_agreed(new, old, unknown), own, unknown, not trees[0].absent)


def _composed(
    name: str | None,
    read: ReadFile,
    words: list[_Override],
    version: tuple[int, int],
    packages_as: tuple[int, int] | None = None,
) -> dict[str, Any]:
    made = _DefaultsTree(read, version, packages_as or version)
    first = None if name is None else read(name)
    entries = () if first is None else _listed(first.values)
    groups = {each.group.strip("/") for each in entries if each.group}
    others = [word for word in words if not made.takes(word, groups)]
    parts = made.parts(_Default(None, name), 0) if name is not None else []
    found = _put_together(parts)
    for word in others:
        _set(found, word)
    return found


def _put_together(parts: Iterable[Part]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for values, package in parts:
        for key in reversed(package.split(".") if package else ()):
            values = {key: values}
        merge_entries(found, values)
    return found


# The words of a command line.

_NAME = r"[A-Za-z_][\w-]*"
_WORD = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[\w.\-/@:$]+?)(?P<is_given>=(?P<value>.*))?", re.DOTALL)
_WHOLE = r"(?:0|[1-9](?:_?\d)*)"
_INTEGER = re.compile(rf"[-+]?{_WHOLE}")
_POINTED = rf"(?:{_WHOLE}\.|{_WHOLE}?\.\d(?:_?\d)*)"
_FLOAT = re.compile(rf"[-+]?(?:{_POINTED}|(?:{_WHOLE}|{_POINTED})e[-+]?\d(?:_?\d)*|inf|nan)", re.IGNORECASE)
_CALL = re.compile(r"\w+\(.*\)", re.DOTALL)
_OF_HYDRA = "hydra/"


@dataclass(frozen=True)
class _Override:
    """What one word says: `++trainer.epochs=3`."""

    sign: str
    key: str
    value: Any
    is_given: bool

    @staticmethod
    def read(text: str) -> _Override | None:
        """A word that is none of hydra's own options."""
        found = None if text.startswith("-") else _WORD.fullmatch(text)
        if found is None or not (found["is_given"] or found["sign"] == "~"):
            return None
        value = value_of_word(found["value"] or "")
        return _Override(found["sign"] or "", found["key"], value, bool(found["is_given"]))


def value_of_word(text: str) -> Any:
    """What hydra's grammar reads in a value: a number, a switch, a text, a list or a dictionary of them;
    `???` for what it calculates or goes through."""
    text = text.strip(" \t")
    parts = _parts(text) if len(text) <= _LONGEST else None
    if parts is None or len(parts) > 1 or _CALL.fullmatch(text):
        return MISSING
    if text[:1] + text[-1:] == "[]":
        return [value_of_word(each) for each in _parts(text[1:-1]) or ()]
    if text[:1] + text[-1:] == "{}":
        pairs = (each.partition(":") for each in _parts(text[1:-1]) or ())
        return {str(value_of_word(key)): value_of_word(value) for key, _, value in pairs}
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(f"\\{text[0]}", text[0])
    return _plain_value(text)


def _plain_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() == "null":
        return None
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 40 else MISSING
    return float(text) if _FLOAT.fullmatch(text) else re.sub(r"\\([\\()\[\]{}:=, \t])", r"\1", text)


def _parts(text: str) -> list[str] | None:
    """The parts between the commas of a text that stand in no brackets and no quotes; None where these are
    not closed."""
    found: list[str] = []
    open_ones: list[str] = []
    begin = place = 0
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            place += 1
        elif open_ones and open_ones[-1] in "'\"":
            if sign == open_ones[-1]:
                open_ones.pop()
        elif sign in "[{(" or (sign in "'\"" and not text[begin:place].strip(" \t")):
            open_ones.append(sign)
            if len(open_ones) > _DEEPEST:
                return None
        elif sign in "]})":
            if not open_ones or open_ones.pop() + sign not in ("[]", "{}", "()"):
                return None
        elif sign == "," and not open_ones:
            found.append(text[begin:place])
            begin = place + 1
        place += 1
    if open_ones:
        return None
    return [*found, text[begin:]] if text.strip() else []


def _set(found: dict[str, Any], word: _Override) -> None:
    """Set what a word says in a configuration, or take it away."""
    *above, last = word.key.split(".")
    inner: Any = found
    for key in above:
        if isinstance(inner, list):
            inner = inner[int(key)] if key.isdigit() and int(key) < len(inner) else None
        elif isinstance(inner, dict):
            if not isinstance(inner.get(key), dict | list):
                inner[key] = {}
            inner = inner[key]
    if word.sign == "~" and isinstance(inner, dict):
        inner.pop(last, None)
    elif isinstance(inner, dict):
        if isinstance(word.value, dict) and isinstance(inner.get(last), dict):
            merge_entries(inner[last], word.value)
        else:
            inner[last] = word.value
    elif isinstance(inner, list) and last.isdigit() and int(last) < len(inner):
        inner[int(last)] = word.value


# The list of defaults.


@dataclass
class _Default:
    """An entry of a list of defaults: an option of a group, several of them, or a file by its name.

    `base` and `above` are the group and the package of the file in whose list it stands.
    """

    group: str | None
    value: Any
    given: str | None = None
    is_optional: bool = False
    is_override: bool = False
    base: str = ""
    above: str = ""
    header: str | None = None

    @property
    def is_self(self) -> bool:
        return bool(self.value == _SELF)

    @property
    def _folder(self) -> str:
        return self.group if self.group is not None else str(self.value).rpartition("/")[0]

    @property
    def place(self) -> str:
        """The whole name of its group."""
        if self._folder.startswith("/") or (self.group is None and str(self.value).startswith("/")):
            return self._folder.lstrip("/")
        return "/".join(each for each in (self.base, self._folder) if each)

    @property
    def path(self) -> str:
        """The whole name of its file."""
        last = str(self.value) if self.group is not None else str(self.value).rpartition("/")[2]
        return f"{self.place}/{last}".lstrip("/")

    def package(self, *, of_file: bool = True) -> str:
        """Where its values go; by the list alone where the first line of its file does not count."""
        said = self.header if self.given is None and of_file else self.given
        inner = self._folder.lstrip("/").replace("/", ".") if said is None else said
        inner = inner.replace("_name_", str(self.value).rpartition("/")[2])
        whole = ".".join(each for each in (self.above, inner) if each)
        _, is_global, after = whole.rpartition(_GLOBAL)
        return after.lstrip(".") if is_global else whole

    @property
    def key(self) -> str:
        """By what it is chosen: its group, with its package where that is another one."""
        package = self.package(of_file=False)
        return self.place if package == self.place.replace("/", ".") else f"{self.place}@{package or _GLOBAL}"


def _listed(values: Mapping[str, Any]) -> list[_Default]:
    listed = values.get("defaults")
    return [one for each in listed for one in _entries(each)] if isinstance(listed, list) else []


def _entries(written: Any) -> Iterator[_Default]:
    """What an entry says: `model/small`, `optional model@net: small`."""
    if isinstance(written, str):
        *kinds, place = written.split() or [""]
        name, package = _split_place(place)
        yield _Default(None, name.removesuffix(".yaml"), package, "optional" in kinds)
    elif isinstance(written, dict):
        is_optional = len(written) > 1 and written.get("optional") is True
        for key, value in written.items():
            if is_optional and key == "optional":
                continue
            *kinds, place = str(key).split() or [""]
            group, package = _split_place(place)
            options = [str(each) for each in value] if isinstance(value, list) else value
            named = options if options is None or isinstance(options, list) else str(options)
            yield _Default(group, named, package, is_optional or "optional" in kinds, "override" in kinds)


def _split_place(text: str) -> tuple[str, str | None]:
    place, is_given, package = text.partition("@")
    return place, ("" if package == _HERE else package) if is_given else None


Part = tuple[Mapping[str, Any], str]


@dataclass
class _DefaultsTree:
    """A configuration that is put together."""

    read: ReadFile
    version: tuple[int, int]
    packages_as: tuple[int, int]
    chosen: dict[str, Any] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    added: list[_Default] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    files: int = 0
    absent: list[str] | None = None
    """The files that are not there, where the others are put together without them."""

    def takes(self, word: _Override, groups: set[str]) -> bool:
        """Whether a word chooses the option of a group, which is then kept."""
        if word.key.startswith(_OF_HYDRA):
            return True
        group, package = _split_place(word.key)
        options = word.value if isinstance(word.value, list) else [word.value]
        is_group = group in groups or any(
            isinstance(each, str) and each and self.read(f"{group}/{each}") is not None for each in options
        )
        if not (is_group or "/" in group) or isinstance(word.value, dict):
            return False
        value: Any = word.value
        if value is None and word.sign != "~" and self.version >= _NEW_ORDER:
            raise NotComposed(word.key)
        if value is not None:
            value = [*map(str, options)] if isinstance(value, list) else str(value)
        if word.sign == "~":
            self.deleted.add(word.key)
        elif word.sign == "+" or (self.version < _NEW_ORDER and group not in groups):
            self.added.append(_Default(group, value, package))
        else:
            self.chosen[word.key] = value
        return True

    def parts(self, entry: _Default, depth: int) -> list[Part]:
        """The values of the file of an entry and of those of its list, each with its package."""
        if entry.group is not None:
            if entry.key in self.deleted or entry.value is None:
                return []
            if entry.place.split("/")[0] == "hydra":
                return []  # Hydra's own files, of which nothing is asked here.
            self.known[entry.key] = entry.value
        self.files += 1
        if depth > _DEEPEST or self.files > _MOST_FILES or entry.path.endswith(MISSING):
            return self._without(entry)
        file = self.read(entry.path)
        if file is None:
            return [] if entry.is_optional else self._without(entry)
        entry = replace(entry, header=self._header(file, entry))
        own: Part = ({key: each for key, each in file.values.items() if key != "defaults"}, entry.package())
        listed = _listed(file.values)
        added = self.added if depth == 0 else []
        if not any(each.is_self for each in listed) and not all(
            each.is_override for each in (*listed, *added)
        ):
            listed.insert(len(listed) if self.version >= _NEW_ORDER else 0, _Default(None, _SELF))
        listed += [replace(each) for each in added]
        if all(each.is_override for each in listed):
            listed.append(_Default(None, _SELF))
        for each in listed:
            each.base, each.above = entry.place, own[1]
            if each.is_override:
                self.chosen.setdefault(each.key, each.value)
        # Those behind are gone through first, as what they choose holds for those before them.
        found: list[list[Part] | _Default] = []
        for each in reversed(listed):
            if each.is_self:
                found.append([own])
            elif not each.is_override:
                found.append(self._parts_of(each, depth))
        return [
            part
            for each in reversed(found)
            for part in (self._parts_named(each, depth) if isinstance(each, _Default) else each)
        ]

    def _without(self, entry: _Default) -> list[Part]:
        if self.absent is None:
            raise NotComposed(entry.path)
        self.absent.append(entry.path)
        return []

    def _parts_of(self, entry: _Default, depth: int) -> list[Part] | _Default:
        """Those of an entry of a list; the entry where it is named by the choices of others."""
        if entry.group is not None and entry.key in self.chosen:
            entry.value = self.chosen[entry.key]
        if isinstance(entry.value, list):
            names = [f"{entry.group}/{each}" for each in entry.value]
            several = [replace(entry, group=None, value=each) for each in names]
            inner = [self.parts(each, depth + 1) for each in reversed(several)]
            return [part for each in reversed(inner) for part in each]
        return entry if "${" in str(entry.value) else self.parts(entry, depth + 1)

    def _parts_named(self, entry: _Default, depth: int) -> list[Part]:
        """Those of an entry such as `data_model: ${data}_${model}`."""

        def choice(found: re.Match[str]) -> str:
            known = self.known.get(re.sub(r"^defaults\.\d+\.", "", found[1]))
            return known if isinstance(known, str) else found[0]

        entry.value = re.sub(r"\$\{([^${}]*)\}", choice, str(entry.value))
        return self._without(entry) if "${" in entry.value else self.parts(entry, depth + 1)

    def _header(self, file: ConfigFile, entry: _Default) -> str | None:
        """The package that a file gives itself, from the top; in 1.0 the top itself where it says none, and
        before that always."""
        if self.packages_as < _OLD_ORDER:
            return _GLOBAL
        if file.package in (None, "_group_"):
            of_old = file.package is None and self.packages_as < _NEW_ORDER
            return _GLOBAL if of_old else None
        said = str(file.package).replace("_group_", entry.place.replace("/", "."))
        return said if said == _GLOBAL or said.startswith(f"{_GLOBAL}.") else f"{_GLOBAL}.{said}"


# Values.


def merge_entries(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Put the entries of one configuration over those of another one, but what is missing there."""
    for key, value in other.items():
        before = into.get(key)
        if isinstance(value, Mapping):
            inner = dict(before) if isinstance(before, Mapping) else {}
            merge_entries(inner, value)
            into[key] = inner
        elif key not in into or not (isinstance(value, str) and value == MISSING):
            into[key] = list(value) if isinstance(value, list) else value


def _agreed(one: Any, other: Any, unknown: object = MISSING) -> Any:
    """What two configurations have in common, unknown where they differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys: Iterable[str] = dict.fromkeys([*one, *other])
        return {key: _agreed(one.get(key, unknown), other.get(key, unknown), unknown) for key in keys}
    return one if one is other or (type(one) is type(other) and one == other) else unknown
