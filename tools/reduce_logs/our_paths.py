"""Paths of our own for those of whoever ran a program that printed a log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_SCRIPTS = ("train.py", "model.py", "data.py", "engine.py", "tools.py")
_CODE, _DATA, _CHECKPOINTS = "/opt/ml/code", "/opt/ml/input/data/train", "/opt/ml/checkpoints"

_PATH = re.compile(
    r"/Users/\w+/Library/Application Support/[\w./]+"
    r"|(?<![\w/.~\\-])(?:\[\.\.\]|~|\.{1,3})?(?:/[\w.@+=~-]+){2,}/?|(?<![\w/.~\\-])~/[\w./@+=-]+"
    r"|(?<![\w/.~\\-])(?:[\w.+-]+/)+[\w.+=-]+"
    r"\.(?:py|sh|ipynb|json|ya?ml|toml|txt|pth?|ckpt|bin|tar|model|cache)\b"
    r"|\b[A-Z]:\\[^\s'\",\]]+"
)
_PACKAGES = re.compile(r"(?P<python>python\d(?:\.\d+)?)?[/\\]+(?:site|dist)-packages(?P<rest>[/\\].*)")
_STANDARD_LIBRARY = re.compile(r"(?:\\lib\\|/lib/(?P<python>python\d(?:\.\d+)?)/)(?P<rest>[\w/\\]+\.py)$")
_SHARED_LIBRARY = re.compile(r"^(?:/.*)?/lib/(?P<name>lib[\w.+-]+)$")
_PROGRAM = re.compile(r"[/\\](?:bin[/\\])?(?P<name>python[\d.]*(?:\.exe)?|bin[/\\](?P<tool>[\w.+-]+))$")
_OF_A_USER = re.compile(r"(?:^|/)(?:home|Users)/(?!builder/)|/user/")
_SOURCE = re.compile(r"\.(?:cpp|cc|cu|hpp|h|c|pxi)$")
_OF_PROGRAMS = re.compile(
    r"^(?:<|/(?:dev|proc|sys|etc|usr|bin|lib|lib64|opt/conda/(?:bin|lib|conda-bld)|opt/amazon|opt/aws"
    r"|opt/pytorch/pytorch|pytorch|home/builder|var/spool/slurmd|root/\.cache|root/\.triton)/"
    r"|/var/tmp/neuron|/tmp/(?:pip-|torchelastic|tmp|[\w-]+/neuron)|C:\\b\\abs_|.*/attempt_\d+/\d+/error\.json$"
    r"|/opt/ml/(?:code/train\.py|checkpoints$|input/|model/|\w*$)|site-packages/|python\d\.\d+/|wandb/"
    r"|(?:\.{2,3}/)?(?:aten|c10|torch|third_party|tensorflow|tensorpipe|horovod|external|gloo)/"
    r"|(?:include|misc|graph|src|transport)/\w+\.(?:h|cc)$|/opt/dgl/|/\d)"
)
"""Where programs and their builds lie on everyone's machine; such paths stay."""

_CACHES = re.compile(r"^.*/\.(?=(?:cache|triton)/)")
_CODE_FILES = {
    ".json": "config.json",
    ".yaml": "config.yaml",
    ".yml": "config.yml",
    ".toml": "config.toml",
    ".sh": "run.sh",
    ".ipynb": "train.ipynb",
    **{end: f"kernels{end}" for end in (".so", ".cu", ".cpp", ".cc", ".h")},
}
_CHECKPOINT = re.compile(
    r"checkpoint|ckpt|\.(?:pth?|bin|safetensors|params|pkl|model)$|(?:^|/)models?/", re.I
)


@dataclass
class Names:
    """Which of our names stand for theirs in a case, so that two of theirs stay two."""

    given: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, kind: str, theirs: str) -> int:
        """How many of its kind came before this one."""
        of_kind = [key for key in self.given if key[0] == kind]
        return self.given.setdefault((kind, theirs), len(of_kind))

    def one_of(self, ours: Sequence[str], kind: str, theirs: str) -> str:
        """One of our names, another one for each of theirs as long as there are some."""
        return ours[self.number(kind, theirs) % len(ours)]


def is_of_the_user(path: str) -> bool:
    """Whether a file is of the one who ran the program, rather than of a package or a program."""
    return not any(
        each.search(path) for each in (_PACKAGES, _STANDARD_LIBRARY, _OF_PROGRAMS, _PROGRAM, _SOURCE)
    )


def paths_in(text: str) -> Iterator[str]:
    """The paths in a text."""
    return (match[0] for match in _PATH.finditer(text))


def our_path(theirs: str, names: Names) -> list[str]:
    """Our paths for theirs: of packages and programs the usual one, of all else one below /opt/ml."""
    between = "\\\\" if "\\\\" in theirs else "\\" if "\\" in theirs else "/"
    if _OF_PROGRAMS.search(theirs) and not _OF_A_USER.search(theirs):
        return [theirs]
    if found := _CACHES.search(theirs):
        return [f"/root/.{theirs[found.end() :]}"]
    if found := _PACKAGES.search(theirs) or _STANDARD_LIBRARY.search(theirs):
        python = found["python"] or "python3.10"
        folder = between.join(("C:", "python", "lib") if between != "/" else ("/opt/conda/lib", python))
        rest = found["rest"].lstrip("/\\")
        return [between.join((folder, *(["site-packages"] if _PACKAGES.search(theirs) else []), rest))]
    if found := _SHARED_LIBRARY.search(theirs):
        return [f"/opt/conda/lib/{found['name']}"]
    if found := _PROGRAM.search(theirs):
        folder = "/opt/conda/bin" if between == "/" else f"C:{between}python"
        return [folder + between + (found["tool"] or found["name"]).rpartition(between)[2]]
    if _SOURCE.search(theirs) and not _OF_A_USER.search(theirs):
        return [theirs]
    ours = _below_our_folders(theirs, names)
    if between != "/":
        return [f"C:{between}code{between}{PurePosixPath(ours).name}"]
    return [ours, str(PurePosixPath(ours).with_name(PurePosixPath(theirs).name))]


def _below_our_folders(theirs: str, names: Names) -> str:
    """A path by what it seems to be: code, a checkpoint, or data. One that is relative stays so."""
    path = PurePosixPath(theirs.replace("\\\\", "/").replace("\\", "/"))
    end = path.suffix if re.fullmatch(r"\.[A-Za-z]\w{0,11}", path.suffix) else ""
    number = names.number(f"path{end}", theirs) + 1
    if end == ".py" or end in _CODE_FILES or path.name == "requirements.txt":
        name = _CODE_FILES.get(end, path.name)
        if end == ".py" and name != "train.py":
            name = names.one_of(_SCRIPTS, "script", theirs)
        ours = name if path.name == theirs else f"{_CODE}/{name}"
    elif _CHECKPOINT.search(theirs):
        ours = f"{_CHECKPOINTS}/{number}" + (f"/model{end}" if end else "")
    else:
        ours = f"{_DATA}/{number}{end}" if end or number > 1 else _DATA
    is_relative = not theirs.startswith(("/", "~", "[..]")) and "\\" not in theirs
    return ours.removeprefix("/opt/ml/").removeprefix("input/") if is_relative else ours
