"""Names of our own for what in a log is of the one who posted it, as long as the answer stays the same.

What programs print stays: their messages, and the paths of their own sources and packages. Replaced are the
paths, the names and the code of whoever ran them, the names of hosts, addresses, accounts, buckets, roles,
models and jobs, and the arguments of commands. Each name is replaced everywhere in its case, by the first of
our names that leaves the answer as it is; where none does, it stays. Nothing here knows all names that people
give: read the diff before it is committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from tests.logs.cases import LogCase
from tools.reduce_logs.answers import Answer, answer_to, codes_with_last_words

CODE = "/opt/ml/code/"
_SCRIPTS = ("train.py", "model.py", "data.py", "engine.py", "tools.py")
_FUNCTIONS = ("train", "build_model", "load_data", "save", "prepare")
_LINES_OF_CODE = {
    "train": "train(model, data)",
    "build_model": "model = build_model(settings)",
    "load_data": "data = load_data(settings)",
    "save": "save(model, folder)",
    "prepare": "prepare(settings)",
}
_OUR_FUNCTIONS = {*_FUNCTIONS, "<module>", "<lambda>", "<genexpr>", "main", "__init__", "__getitem__", "forward"}

_FRAME = re.compile(
    r'File (?P<quote>"|\')(?P<path>[^"\']+)(?P=quote), line \d+(?:, in (?P<function>[^\s,]+))?'
)
_PATH = re.compile(
    r"/Users/\w+/Library/Application Support/[\w./]+|"
    r"(?<![\w/.~\\-])(?:\[\.\.\]|~|\.{1,3})?(?:/[\w.@+=~-]+){2,}/?|(?<![\w/.~\\-])~/[\w./@+=-]+"
    r"|(?<![\w/.~\\-])(?:[\w.+-]+/)+[\w.+=-]+\.(?:py|sh|ipynb|json|ya?ml|toml|txt|pth?|ckpt|bin|tar|model|cache)\b"
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
_CACHES = re.compile(r"^.*/\.(?=(?:cache|triton)/)")
_NOT_OF_THE_USER = (_PACKAGES, _STANDARD_LIBRARY, _OF_PROGRAMS, _PROGRAM, _SOURCE)
_KINDS = {
    ".json": "config.json",
    ".yaml": "config.yaml",
    ".yml": "config.yml",
    ".toml": "config.toml",
    ".py": "train.py",
    ".sh": "run.sh",
    ".ipynb": "train.ipynb",
}
_CHECKPOINT = re.compile(r"checkpoint|ckpt|\.(?:pth?|bin|safetensors|params|pkl|model)$|(?:^|/)models?/", re.I)

_URL = re.compile(r"\b(?:https?|s3|gs|hdfs)://[^\s'\"<>)\],;]+")
_OF_VENDORS = re.compile(
    r"https?://(?:[\w.-]+\.)?(?:pytorch\.org|github\.com/(?:pytorch|NVIDIA|huggingface|aws)|nvidia\.com"
    r"|readthedocs\.io|docs\.\w+|amazonaws\.com/doc)"
)
_HUB = re.compile(
    r"(?P<hub>https://huggingface\.co/(?:api/(?:models|datasets)/)?)(?!api/|docs|models$|settings|$)"
    r"(?:[\w.-]+/)??[\w.-]+(?P<rest>(?:/(?:resolve|tree|raw|blob|paths-info|transformer)/.*)?)$"
)
_MODEL = re.compile(
    r"(?<![\w/.@-])(?!(?:models?|checkpoints?|outputs?|wandb|logs?|our-team|our-bucket|role|assumed-role|service|training-job|data)/)"
    r"[A-Za-z][\w-]+/[A-Za-z][\w.]*-[\w.-]*[\w](?![\w/]|\.\w)"
)
_ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.+])|\bip(?:-\d{1,3}){4}\b")
_NO_ADDRESS = re.compile(r"(?:0\.0\.0\.0|127\.|169\.254\.|255\.|10\.0\.0\.|ip-10-0-0-)")
_ADDRESS_6 = re.compile(r"\bfe80:(?::?[0-9a-f]{1,4})+")
_ACCOUNT = re.compile(r"(?<=:)\d{12}(?=:)|(?<!\d)\d{12}(?=\.dkr)|(?<=[a-z]-)\d{12}(?!\d)")
_ROLE = re.compile(r"(?<=role/)[\w.-]+(?:/[\w.-]+)?")
_BUCKET = re.compile(r"(?<= to )[a-z][\w.-]+/[\w./-]+(?=: An error)")
_JOB = re.compile(r"[\w-]+(?=/algo-\d+-\d{10})|(?:(?<=training-job/)|(?<=job )|(?<=service/))[A-Za-z][\w.]*(?:-[\w.]+)+")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HOST = re.compile(
    r"(?:^|(?<=[\s:>|]))(?P<nccl>[A-Za-z0-9][\w.-]*)(?=:\d+:\d+ \[\d+\])"
    r"|(?<=srun: error: )(?P<task>[A-Za-z][\w.-]*)(?=: tasks?)|(?<=slurmstepd-)(?P<daemon>[\w.-]+)(?=: )"
    r"|(?<= ON )(?P<on>[A-Za-z][\w.-]*)(?= CANCELLED)|(?<=Node failure on )(?P<lost>[\w.-]+)"
    r"|(?<=hostname )(?P<resolved>[A-Za-z][\w.-]*[\w])|(?i:\b(?:hostname|on node|node|peer|host) ?[:=]? )"
    r"(?P<named>[a-zA-Z][\w.-]*\d[\w.-]*\w|[a-z]\w*\d)|\[(?P<mpi>[A-Za-z][\w-]*\d+)(?=:\d+\])"
    r"|^(?P<first>(?!slurmstepd)(?:[a-z]+-)+[a-z]*\d+(?:-\d+)?|node-a|GPUNODE\d|node\d+)(?=: )"
)
_OUR_HOST = re.compile(r"(?:algo-\d+|localhost|HOSTNAME|host|x+|node-\d|host-\d|rank\d*|node|ip-.*|\d+)$")
_SCRIPT = re.compile(r"(?<![\w/.\[(\\-])(?P<script>[\w-]+\.(?:py|sh))\b(?!:\d|\.|\")")
_ARGUMENTS = re.compile(
    r"(?<=\.py')(?P<listed>(?:, ?'(?:[^']|'(?!,|\]))*')+(?:, '[^']*$)?)|(?<=\.py )(?P<words>--?[A-Za-z][^\"'\]]*)"
)
_LOCAL_RANK = re.compile(r", ?'-- ?local[_-]rank=\d+'|--local[_-]rank[= ]\d+")


@dataclass
class _Names:
    """Which of our names stand for theirs in a case, so that two of theirs stay two."""

    given: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, kind: str, theirs: str) -> int:
        """How many of its kind came before this one."""
        of_kind = [key for key in self.given if key[0] == kind]
        return self.given.setdefault((kind, theirs), len(of_kind))

    def one_of(self, ours: Sequence[str], kind: str, theirs: str) -> str:
        """One of our names, another one for each of theirs as long as there are some."""
        return ours[self.number(kind, theirs) % len(ours)]


def with_our_names(case: LogCase) -> LogCase:
    """The case in our names, answered as before."""
    names = _Names()
    case = _with_our_code(case, names)
    for find, name in _RULES:
        refused: set[str] = set()
        while theirs := next((each for each in find(case.text) if each not in refused), None):
            refused.add(theirs)
            for ours in name(theirs, names):
                if ours == theirs:
                    break
                if (changed := _replaced(case, theirs, ours)) is not None:
                    case = changed
                    refused.add(ours)
                    break
    return case


def _with_our_code(case: LogCase, names: _Names) -> LogCase:
    """The functions and lines of code in the frames of tracebacks that are not of a package."""
    lines = case.text.split("\n")
    for at, line in enumerate(lines):
        frame = _FRAME.search(line)
        if frame is None or any(each.search(frame["path"]) for each in _NOT_OF_THE_USER):
            continue
        function, ours = frame["function"], "train"
        if function and function not in _OUR_FUNCTIONS:
            ours = names.one_of(_FUNCTIONS, "function", function)
            lines = _kept(case, lines, at, line[: frame.start("function")] + ours + line[frame.end("function") :])
        following = lines[at + 1] if at + 1 < len(lines) else ""
        prefix = line[: frame.start()]
        if following.startswith(f"{prefix}  ") and following.strip() and not _FRAME.search(following):
            indented = following[: len(following) - len(following[len(prefix) :].lstrip())]
            lines = _kept(case, lines, at + 1, indented + _LINES_OF_CODE[ours])
    return replace(case, text="\n".join(lines))


def _kept(case: LogCase, lines: list[str], at: int, ours: str) -> list[str]:
    """The lines with ours in that place, if the answer stays the same."""
    changed = [*lines[:at], ours, *lines[at + 1 :]]
    now, then = (replace(case, text="\n".join(each)) for each in (lines, changed))
    return changed if _is_same(now, then, str) else lines


def _replaced(case: LogCase, theirs: str, ours: str) -> LogCase | None:
    """The case with our name for theirs, None where that changes the answer."""
    whole = re.compile(rf"(?:(?<![\w-])|(?<=slurmstepd-)){re.escape(theirs)}(?!\w)")

    def renamed(text: str) -> str:
        return whole.sub(lambda _: ours, text)

    located = case.first_failing and renamed(case.first_failing)
    changed = replace(case, text=renamed(case.text), first_failing=located)
    return changed if changed.text != case.text and _is_same(case, changed, renamed) else None


def _is_same(case: LogCase, changed: LogCase, renamed: Callable[[str], str]) -> bool:
    """Whether both are judged alike. The message holds what is replaced and need not be."""
    before, after = answer_to(case), answer_to(changed)
    return (
        _of(before, renamed) == _of(after, str)
        and before.signs == after.signs
        and codes_with_last_words(case) == codes_with_last_words(changed)
    )


def _of(answer: Answer, renamed: Callable[[str], str]) -> object:
    def each(said: object) -> object:
        if isinstance(said, str):
            return renamed(said)
        return tuple(map(each, said)) if isinstance(said, tuple) else said

    return each(answer.judged)


def _found(pattern: re.Pattern[str], unless: re.Pattern[str] | None = None) -> Callable[[str], Iterator[str]]:
    def find(text: str) -> Iterator[str]:
        for line in text.split("\n"):
            for match in pattern.finditer(line):
                theirs = match[match.lastgroup or 0]
                if unless is None or not unless.match(theirs):
                    yield theirs

    return find


def _frame_paths(text: str) -> Iterator[str]:
    return (match["path"] for match in _FRAME.finditer(text))


def _paths(text: str) -> Iterator[str]:
    without_addresses = _URL.sub(lambda match: " " * len(match[0]), text)
    return (match[0] for match in _PATH.finditer(without_addresses))


def our_path(theirs: str, names: _Names) -> list[str]:
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


def _below_our_folders(theirs: str, names: _Names) -> str:
    path = PurePosixPath(theirs.replace("\\\\", "/").replace("\\", "/"))
    relative = not theirs.startswith(("/", "~", "[..]")) and "\\" not in theirs
    end = path.suffix if re.fullmatch(r"\.[A-Za-z]\w{0,11}", path.suffix) else ""
    number = names.number(f"path{end}", theirs)
    if path.name == "requirements.txt":
        ours = path.name
    elif end == ".py":
        ours = names.one_of(_SCRIPTS, "script", theirs) if path.name != "train.py" else path.name
    elif end in _KINDS:
        ours = _KINDS[end]
    elif _CHECKPOINT.search(theirs):
        return f"{'' if relative else '/opt/ml/'}checkpoints/{number + 1}{end and f'/model{end}'}"
    elif end in (".so", ".cu", ".cpp", ".cc", ".h"):
        ours = f"kernels{end}"
    else:
        return f"{'' if relative else '/opt/ml/input/'}data/train{f'/{number + 1}' if number or end else ''}{end}"
    return ours if relative and "/" not in theirs else f"{'' if relative else CODE}{'code/' if relative else ''}{ours}"


def _our_url(theirs: str, names: _Names) -> list[str]:
    if _OF_VENDORS.match(theirs):
        return [theirs]
    if theirs.startswith("https://huggingface.co/"):
        return [_HUB.sub(r"\g<hub>our-team/our-model\g<rest>", theirs)]
    scheme, _, rest = theirs.partition("://")
    end = PurePosixPath(rest).suffix
    end = end if re.fullmatch(r"\.[a-z]\w{0,5}", end) else ""
    if scheme in ("http", "https"):
        return [theirs] if re.search(r"amazonaws\.com/v2|10\.96\.", rest) else [f"{scheme}://example.com/data{end}"]
    return [f"{scheme}://our-bucket/train/data{end}", f"{scheme}://our-bucket/{rest.partition('/')[2]}"]


def _our_address(theirs: str, names: _Names) -> list[str]:
    number = names.number("address", theirs.removeprefix("ip-").replace("-", ".")) + 1
    return [f"ip-10-0-0-{number}" if theirs.startswith("ip-") else f"10.0.0.{number}"]


def _our_host(theirs: str, names: _Names) -> list[str]:
    number = names.number("host", theirs) + 1
    dot, _, domain = theirs.partition(".")[1:] + ("",)
    rest = f"{dot}cluster.internal" if dot else ""
    return [f"node-{number}{rest}", f"worker-{number}{rest}"]


def _our_arguments(theirs: str, names: _Names) -> list[str]:
    rank = _LOCAL_RANK.search(theirs)
    if theirs.startswith(","):
        return [f"{rank[0] if rank else ''}{ours}" for ours in (", '--epochs', '3'", ", '--lr', '0.1'", "")]
    return [f"{rank[0] if rank else ''} {ours}".strip() for ours in ("--epochs 3", "--lr 0.1", "")]


def _always(*ours: str) -> Callable[[str, _Names], list[str]]:
    return lambda theirs, names: list(ours)


_KNOWN_SCRIPTS = re.compile(r"(?:train|run|launch|api|module|__init__|setup|main)\.(?:py|sh)$|.*_pb2\.py$")
_RULES: tuple[tuple[Callable[[str], Iterator[str]], Callable[[str, _Names], list[str]]], ...] = (
    (_found(_MAIL), _always("user@example.com")),
    (_found(_URL), _our_url),
    (_found(_ACCOUNT), _always("111122223333")),
    (_found(_ROLE), _always("TrainingRole/SageMaker", "TrainingRole")),
    (_found(_BUCKET), lambda theirs, names: ["our-bucket/model.pkl"]),
    (_found(_JOB), lambda theirs, names: [f"our-job-{names.number('job', theirs) + 1}"]),
    (_frame_paths, our_path),
    (_paths, our_path),
    (_found(_SCRIPT, _KNOWN_SCRIPTS), lambda theirs, names: [f"train.{theirs.rpartition('.')[2]}"]),
    (_found(_ARGUMENTS), _our_arguments),
    (_found(_MODEL), _always("our-team/our-model")),
    (_found(_ADDRESS, _NO_ADDRESS), _our_address),
    (_found(_ADDRESS_6), lambda theirs, names: [f"fe80::{names.number('address', theirs) + 1}"]),
    (_found(_HOST, _OUR_HOST), _our_host),
)
"""What is found in a text, and our names for it, the best one first."""
