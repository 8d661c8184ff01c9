"""Write what the launcher reads of the failure modes, from the families in launcher/failure_modes/*.toml.

docs/contributing/developing.md shows how a family is written. An error names the file and the key. Modes and
log rows become two files, since most commands need no rows; what lines are searched for (`literal`) is found
here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from launcher.diagnosis.signatures import LineRole
from launcher.failure_modes.model import Retry, Severity, Stage, Symptom
from tools.generate.generated import ROOT, command_of
from tools.generate.literals import literal_of
from tools.generate.telling_digits import digits_of_row

FOLDER = ROOT / "launcher" / "failure_modes"
CATALOGUE = FOLDER / "catalogue.json"
STUB = FOLDER / "__init__.pyi"
TABLE = ROOT / "launcher" / "diagnosis" / "signatures" / "table.json"

LEAST = "CODE001"
"""That something was raised says less than anything else: where several rows match, its own come last."""

Content = dict[str, Any]
Shape = Mapping[str, Callable[[Any], Any]]
"""The keys of a table, and what makes of a value what is written; those with a "?" may be missing."""


def _prose(text: str) -> str:
    return " ".join(text.split())


def _joined(text: str | list[str]) -> str:
    return _prose(text) if "\n" in text else text if isinstance(text, str) else "".join(text)


def _each(read: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [read(value) for value in values]


def _flags(letters: str) -> int:
    return int(sum(re.RegexFlag[letter.upper()] for letter in letters))


def _key_of(known: Content) -> Callable[[str], str]:
    def read(key: str) -> str:
        if key not in known:
            raise ValueError(f"{key!r} is not known in sources.toml")
        return key

    return read


def _modes_citing(cited: Content) -> Shape:
    """The keys of a mode; what it cites must be there."""
    figure: Shape = {"number": str, "what": str, "source?": _key_of(cited["sources"])}
    return {
        **{"code": str, "title": str, "cause": _prose, "remedy": _prose, "stages": _each(Stage)},
        **{"severity": Severity, "retry?": Retry, "symptom?": Symptom},
        "sources": _each(_key_of(cited["sources"])),
        "notices?": _each(_key_of(cited["notices"])),
        "figures?": _each(lambda each: _read("a figure", each, figure)),
    }


SOURCES: Mapping[str, Shape] = {
    "sources": {"title": str, "as_of": date.isoformat, "commit?": str},
    "notices": {"text": str, "since?": date.isoformat, "source": str},
}
HEAD: Shape = {"heading?": str, "order?": int, "precedence?": int, "fragments?": dict, "lists?": dict}
_OF_ANY: Shape = {
    **{"mode": str, "pattern": str, "flags?": _flags, "example": str, "near_miss": str},
    "literal?": str.lower,
}
ROWS: Mapping[str, Shape] = {
    "log": {
        **{**_OF_ANY, "role": LineRole, "says?": str, "remedy?": _prose, "retry?": Retry, "vague?": bool},
        **{"in_container?": bool, "against_success?": bool},
    },
    "context": {**_OF_ANY, "symptoms": list},
    "here": {
        **{key: _OF_ANY[key] for key in ("mode", "pattern", "example", "near_miss")},
        "lacks": str,
        "remedy?": _prose,
    },
}
"""The kinds of rows, each an array of tables below a mode or a file."""


def generated() -> dict[Path, str]:
    """What each generated file should hold now."""
    catalogue, table = compiled({path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.toml")})
    return {CATALOGUE: _in_lines(catalogue), TABLE: _in_lines(table), STUB: _stub(catalogue)}


def compiled(texts: Mapping[str, str]) -> tuple[Content, Content]:
    """The catalogue and the table of rows, from the texts of the files by their names.

    Raises ValueError for what is wrong, with the file and the key.
    """
    files = {name: _tried(f"{name}.toml", tomllib.loads, text) for name, text in texts.items()}
    cited = files.pop("sources")
    shape_of_modes = _modes_citing(cited)
    families = dict(sorted(files.items(), key=lambda item: item[1].get("order", 0)))
    codes = {
        each["code"] for file in families.values() for each in _modes_of(file).values() if "code" in each
    }
    fragments = {
        key: _joined(text) for file in families.values() for key, text in file.get("fragments", {}).items()
    }
    catalogue: Content = {**{kind: {} for kind in SOURCES}, "headings": {}, "modes": []}
    for kind, shape in SOURCES.items():
        for key, each in cited[kind].items():
            catalogue[kind][key] = _read(f"sources.toml: {kind}.{key}", each, shape)
    table: Content = {"fragments": fragments, **{kind: [] for kind in ROWS}}
    for name, file in families.items():
        for kind, where, row in _rows_of(name, file, fragments):
            if unknown := {row.get("mode"), *row.get("symptoms", ())} - codes:
                raise ValueError(f"{where}: {unknown} is no mode's code")
            table[kind].append({**_row(where, row, ROWS[kind]), "precedence": file.get("precedence", 0)})
        modes = _modes_of(file)
        head = _read(f"{name}.toml", {key: file[key] for key in file.keys() - modes.keys()}, HEAD)
        if modes:
            catalogue["headings"][name] = _tried(f"{name}.toml", head.__getitem__, "heading")
        for key, mode in modes.items():
            if Stage.LOG in mode.get("stages", ()) and "retry" not in mode:
                raise ValueError(f"{name}.toml: {key}: retry is missing: does it help to run the job again?")
            whole = _read(f"{name}.toml: {key}", mode, shape_of_modes)
            catalogue["modes"].append({"family": name, "name": key, **whole})
    for kind in ROWS:
        table[kind].sort(key=lambda row: (row["mode"] == LEAST, row.pop("precedence")))
    return catalogue, table


def _modes_of(file: Content) -> Content:
    return {key: each for key, each in file.items() if key.isupper()}


def _rows_of(name: str, file: Content, fragments: Content) -> Iterator[tuple[str, str, Content]]:
    """The rows of a file, taken out of it: of which kind each is, where it stands, and the row filled in."""
    for key, of in (*_modes_of(file).items(), ("", file)):
        for kind in ROWS:
            for number, row in enumerate(of.pop(kind, ()), 1):
                where = f"{name}.toml: {key and key + '.'}{kind}[{number}]"
                whole = {"mode": of.get("code"), **row} if key else row
                for each in _filled(where, whole, file.get("lists", {}), fragments):
                    yield kind, where, each


def _tried(where: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except (ValueError, TypeError, KeyError, re.error) as error:
        raise ValueError(f"{where}: {error}") from error


def _read(where: str, table: Content, shape: Shape) -> Content:
    """A table with its values as they are written."""
    known = {key.rstrip("?"): read for key, read in shape.items()}
    for key in table.keys() - known.keys():
        raise ValueError(f"{where}.{key}: there is no such key, but {', '.join(known)}")
    for key in shape.keys() - table.keys():
        if not key.endswith("?"):
            raise ValueError(f"{where}: {key} is missing")
    return {key: _tried(f"{where}.{key}", read, table[key]) for key, read in known.items() if key in table}


def _row(where: str, row: Content, shape: Shape) -> Content:
    """A row with its literal, which is the hand-written one where there is one, and the digits that count."""
    whole = _read(where, row, shape)
    pattern = _tried(f"{where}.pattern", partial(re.compile, flags=whole.get("flags", 0)), whole["pattern"])
    if "literal?" in shape and "literal" not in whole:
        whole["literal"] = _tried(f"{where}.near_miss", partial(literal_of, pattern), whole["near_miss"])
    if shape is ROWS["log"] and (digits := digits_of_row(pattern, whole["literal"])) != []:
        whole["digits"] = digits
    return whole


def _filled(where: str, row: Content, lists: Content, fragments: Content) -> Iterator[Content]:
    """A row with each {{name}} filled in: once for all that it, or a list of the file, has in `each`."""
    known = {key.rstrip("?") for shape in ROWS.values() for key in shape}
    row["pattern"] = _joined(row.get("pattern", ""))
    for name in row.pop("each", [{}]):
        for each in lists[name] if isinstance(name, str) else [name]:
            whole = {**{key: value for key, value in each.items() if key in known}, **row}
            fill = partial(_with, {**fragments, **each, "mode": whole.get("mode", "")})
            yield {key: _tried(f"{where}.{key}", fill, text) for key, text in whole.items()}


def _with(values: Content, text: Any) -> Any:
    while isinstance(text, str) and (name := re.search(r"\{\{(\w+)\}\}", text)):
        if name[1] not in values:
            raise ValueError(f"{name[0]} stands for nothing: it is no fragment, and not in `each`")
        text = text.replace(name[0], values[name[1]])
    return text


def _in_lines(content: Content) -> str:
    """JSON with a line for each source, mode and row, so that changes can be read."""
    return re.sub(r"\n {3,}|\n {2}(?=[\]}])", " ", json.dumps(content, ensure_ascii=False, indent=1)) + "\n"


def _stub(catalogue: Content) -> str:
    """What mypy reads of the package: its attributes, which are made when the first of them is asked for."""
    classes: dict[str, list[str]] = {name: [] for name in (*catalogue["headings"], "sources", "notices")}
    for mode in catalogue["modes"]:
        classes[mode["family"]].append(f"{mode['name']}: FailureMode")
    for name, kind in (("sources", "Source"), ("notices", "Notice")):
        classes[name] = [f"{key}: {kind}" for key in catalogue[name]]
    names = {name: f"_{name.title().replace('_', '')}" for name in classes}
    return "\n".join(
        (
            f'"""Generated by `{command_of(__name__)}`."""\n',
            "from launcher.failure_modes.model import FailureMode, Notice, Source",
            *(f"\nclass {names[name]}:\n    " + "\n    ".join(keys) for name, keys in classes.items()),
            "",
            *(f"{name}: {each}" for name, each in names.items()),
            "",
        )
    )
