"""The commands of a shell by which a program downloads, copies or unpacks files."""

from __future__ import annotations

import ast
from itertools import pairwise

from launcher.program.program import Program
from launcher.program.surroundings.commands import spelled_commands

_BETWEEN = ("|", "||", "&&", ";")
_BEFORE = frozenset({"sudo", "env", "time", "nice", "exec"})
"""Commands that run the one behind them."""
_ALWAYS = frozenset(
    {"unzip", "wget", "gdown", "aria2c", "rsync", "gunzip", "unxz", "bunzip2", "unzstd", "unpigz", "ripunzip"}
)
"""Commands that write files wherever they are run."""
_UNPACKERS = frozenset({"7z", "7za", "7zz", "unrar", "unar"})
_COMPRESSORS = frozenset({"gzip", "pigz", "xz", "bzip2", "zstd", "lz4"})
_BUCKETS = ("s3:", "gs:", "https:", "http:")


def fetches_by_command(program: Program, call: ast.Call) -> bool:
    """Whether a command that is run writes files, alone or beside others: `aws s3 cp s3://...`, `tar xf`."""
    words = next(spelled_commands(program, call), [])
    ends = [-1, *(number for number, word in enumerate(words) if word in _BETWEEN), len(words)]
    return any(_writes_files(_command_itself(words[one + 1 : end])) for one, end in pairwise(ends))


def _command_itself(words: list[str]) -> list[str]:
    """A command without what runs it: `sudo`, `env NAME=value`, `bash -c`."""
    while words:
        first, second = words[0].rpartition("/")[2], words[1] if len(words) > 1 else ""
        if first in ("bash", "sh") and second.startswith("-") and second.endswith("c"):
            words = words[2:]
        elif first in _BEFORE or (words[0].partition("=")[0].isidentifier() and "=" in words[0]):
            words = words[1:]
        else:
            return [first, *words[1:]]
    return words


def _writes_files(words: list[str]) -> bool:
    match words:
        case ["tar" | "bsdtar", *given]:
            return _unpacks(given)
        case [name, *_] if name in _ALWAYS:
            return True
        case ["curl", *given]:
            return any(each in given for each in ("-o", "-O", "-LO", "-OL", "--output", "--remote-name"))
        case ["aws", "s3", "cp" | "sync" | "mv", *given] | ["s5cmd", *given] | ["azcopy", *given]:
            return _first_is_elsewhere(given)
        case ["gsutil" | "rclone", *given] | ["gcloud", "storage", *given]:
            return _first_is_elsewhere(given)
        case ["cp", *given]:
            return any(each[:1] == "-" and set(each) & {"r", "R", "a"} for each in given)
        case [name, "x" | "e", *_] if name in _UNPACKERS:
            return True
        case [name, *given] if name in _COMPRESSORS:
            told = [each for each in given if each[:1] == "-" and each[:2] != "--"]
            decompresses = any("d" in each for each in told) or "--decompress" in given
            return decompresses and not any("c" in each for each in told)
        case ["git", "clone", *_] | ["kaggle", "datasets" | "competitions", "download", *_]:
            return True
    return False


def _unpacks(given: list[str]) -> bool:
    """Whether tar is told to extract: `xzf`, `-xf`, `--zstd -xf`, `--extract`."""
    if given and given[0][:1] != "-":
        return "x" in given[0]
    short = [each for each in given if each[:1] == "-" and each[:2] != "--"]
    return any("x" in each for each in short) or not {"--extract", "--get"}.isdisjoint(given)


def _first_is_elsewhere(given: list[str]) -> bool:
    """Whether the first of the places that a copy is given lies in a bucket or on a server."""
    places = [each for each in given if ":" in each or "/" in each]
    return bool(places) and places[0].startswith(_BUCKETS)
