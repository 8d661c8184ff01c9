"""Names of our own for what in a log is of the one who posted it, as long as the answer stays the same.

What programs print stays: their messages, and the paths of their own sources and packages. Replaced are the
paths, the names and the code of whoever ran them, the names of hosts, addresses, accounts, buckets, roles,
models and jobs, and the arguments of commands. Each name is replaced everywhere in its case, by the first of
our names that leaves the answer as it is; where none does, it stays. Nothing here knows all names that people
give: read the diff before it is committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from tests.logs.cases import LogCase
from tools.reduce_logs.answers import Answer, answer_to, codes_with_last_words
from tools.reduce_logs.our_paths import Names, is_of_the_user, our_path, paths_in

_FUNCTIONS = ("train", "build_model", "load_data", "save", "prepare")
_LINES_OF_CODE = {
    "train": "train(model, data)",
    "build_model": "model = build_model(settings)",
    "load_data": "data = load_data(settings)",
    "save": "save(model, folder)",
    "prepare": "prepare(settings)",
}
_OUR_FUNCTIONS = {
    *_FUNCTIONS,
    "<module>",
    "<lambda>",
    "<genexpr>",
    "main",
    "__init__",
    "__getitem__",
    "forward",
}

_FRAME = re.compile(
    r'File (?P<quote>"|\')(?P<path>[^"\']+)(?P=quote), line \d+(?:, in (?P<function>[^\s,]+))?'
)
_URL = re.compile(r"\b(?:https?|s3|gs|hdfs)://[^\s'\"<>)\],;]+")
_OF_VENDORS = re.compile(
    r"https?://(?:[\w.-]+\.)?(?:pytorch\.org|github\.com/(?:pytorch|NVIDIA|huggingface|aws)|nvidia\.com"
    r"|readthedocs\.io|docs\.\w+|amazonaws\.com/doc)"
)
_OF_CLUSTERS = re.compile(r"amazonaws\.com/v2|10\.96\.")
_HUB = re.compile(
    r"(?P<hub>https://huggingface\.co/(?:api/(?:models|datasets)/)?)(?!api/|docs|models$|settings|$)"
    r"(?:[\w.-]+/)??[\w.-]+(?P<rest>(?:/(?:resolve|tree|raw|blob|paths-info|transformer)/.*)?)$"
)
_MODEL = re.compile(
    r"(?<=looks like )[\w.-]+/[\w.-]+"
    r"|(?<![\w/.@-])(?!(?:models?|checkpoints?|outputs?|wandb|logs?|our-team|our-bucket|role|assumed-role"
    r"|service|training-job|data)/)[A-Za-z][\w-]+/[A-Za-z][\w.]*-[\w.-]*[\w](?![\w/]|\.\w)"
)
_ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.+])|\bip(?:-\d{1,3}){4}\b")
_NO_ADDRESS = re.compile(r"(?:0\.0\.0\.0|127\.|169\.254\.|255\.|10\.0\.0\.|ip-10-0-0-)")
_ADDRESS_6 = re.compile(r"\bfe80:(?::?[0-9a-f]{1,4})+")
_ACCOUNT = re.compile(r"(?<=:)\d{12}(?=:)|(?<!\d)\d{12}(?=\.dkr)|(?<=[a-z]-)\d{12}(?!\d)")
_ROLE = re.compile(r"(?<=role/)[\w.-]+(?:/[\w.-]+)?")
_BUCKET = re.compile(r"(?<= to )[a-z][\w.-]+/[\w./-]+(?=: An error)")
_JOB = re.compile(
    r"[\w-]+(?=/algo-\d+-\d{10})|(?:(?<=training-job/)|(?<=job )|(?<=service/))[A-Za-z][\w.]*(?:-[\w.]+)+"
)
_POD = re.compile(r"\b[a-z][a-z0-9-]+-[0-9a-f]{8,10}-[a-z0-9]{5}\b")
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
    r"(?<=\.py')(?P<listed>(?:, ?'(?:[^']|'(?!,|\]))*')+(?:, '[^']*$)?)"
    r"|(?<=\.py )(?P<words>--?[A-Za-z][^\"'\]]*)"
)
_LOCAL_RANK = re.compile(r", ?'-- ?local[_-]rank=\d+'|--local[_-]rank[= ]\d+")


def with_our_names(case: LogCase) -> LogCase:
    """The case in our names, answered as before."""
    names = Names()
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


def _with_our_code(case: LogCase, names: Names) -> LogCase:
    """The functions and lines of code in the frames of tracebacks that are not of a package."""
    lines = case.text.split("\n")
    for at, line in enumerate(lines):
        frame = _FRAME.search(line)
        if frame is None or not is_of_the_user(frame["path"]):
            continue
        function, ours = frame["function"], "train"
        if function and function not in _OUR_FUNCTIONS:
            ours = names.one_of(_FUNCTIONS, "function", function)
            lines = _kept(
                case, lines, at, line[: frame.start("function")] + ours + line[frame.end("function") :]
            )
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

    located = case.first_failing
    if located is not None:
        located = ours if located in theirs else renamed(located)
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


def _paths_outside_urls(text: str) -> Iterator[str]:
    return paths_in(_URL.sub(lambda match: " " * len(match[0]), text))


def _our_url(theirs: str, names: Names) -> list[str]:
    if _OF_VENDORS.match(theirs):
        return [theirs]
    if theirs.startswith("https://huggingface.co/"):
        return [_HUB.sub(r"\g<hub>our-team/our-model\g<rest>", theirs)]
    scheme, _, rest = theirs.partition("://")
    end = PurePosixPath(rest).suffix
    end = end if re.fullmatch(r"\.[a-z]\w{0,5}", end) else ""
    if scheme in ("http", "https"):
        return [theirs if _OF_CLUSTERS.search(rest) else f"{scheme}://example.com/data{end}"]
    return [f"{scheme}://our-bucket/train/data{end}", f"{scheme}://our-bucket/{rest.partition('/')[2]}"]


def _our_address(theirs: str, names: Names) -> list[str]:
    number = names.number("address", theirs.removeprefix("ip-").replace("-", ".")) + 1
    return [f"ip-10-0-0-{number}" if theirs.startswith("ip-") else f"10.0.0.{number}"]


def _our_host(theirs: str, names: Names) -> list[str]:
    number = names.number("host", theirs) + 1
    rest = ".cluster.internal" if "." in theirs else ""
    return [f"node-{number}{rest}", f"worker-{number}{rest}"]


def _our_arguments(theirs: str, names: Names) -> list[str]:
    rank = _LOCAL_RANK.search(theirs)
    if theirs.startswith(","):
        return [f"{rank[0] if rank else ''}{ours}" for ours in (", '--epochs', '3'", ", '--lr', '0.1'", "")]
    return [f"{rank[0] if rank else ''} {ours}".strip() for ours in ("--epochs 3", "--lr 0.1", "")]


def _always(*ours: str) -> Callable[[str, Names], list[str]]:
    return lambda theirs, names: list(ours)


_KNOWN_SCRIPTS = re.compile(r"(?:train|run|launch|api|module|__init__|setup|main)\.(?:py|sh)$|.*_pb2\.py$")
_RULES: tuple[tuple[Callable[[str], Iterator[str]], Callable[[str, Names], list[str]]], ...] = (
    (_found(_MAIL), _always("user@example.com")),
    (_found(_URL), _our_url),
    (_found(_ACCOUNT), _always("111122223333")),
    (_found(_ROLE), _always("TrainingRole/SageMaker", "TrainingRole")),
    (_found(_BUCKET), lambda theirs, names: ["our-bucket/model.pkl"]),
    (_found(_JOB), lambda theirs, names: [f"our-job-{names.number('job', theirs) + 1}"]),
    (_found(_POD), lambda theirs, names: [f"our-job-{names.number('job', theirs) + 1}-5d8f9c7b64-x2k7q"]),
    (_frame_paths, our_path),
    (_paths_outside_urls, our_path),
    (_found(_SCRIPT, _KNOWN_SCRIPTS), lambda theirs, names: [f"train.{theirs.rpartition('.')[2]}"]),
    (_found(_ARGUMENTS), _our_arguments),
    (_found(_MODEL), _always("our-team/our-model")),
    (_found(_ADDRESS, _NO_ADDRESS), _our_address),
    (_found(_ADDRESS_6), lambda theirs, names: [f"fe80::{names.number('address', theirs) + 1}"]),
    (_found(_HOST, _OUR_HOST), _our_host),
)
"""What is found in a text, and our names for it, the best one first."""
