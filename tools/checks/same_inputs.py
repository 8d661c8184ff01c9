"""What `tools.checks.same` asks of the commands, and the inputs that it keeps for it, made from a checkout.

Most inputs are copies of what the repository holds: logs, programs, jobs and clusters, under the paths that
they have there. Others are made of what its tests and pages say: jobs of the golden requests and of our
peers' tests, one job for each field that is written wrongly, clusters with one thing changed, and every
program, log and job that stands as a text in a test.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

from tests.peers.answers import CLUSTER, JOB
from tests.peers.cases import all_cases, merged
from tests.rules.script.cases import script_cases
from tests.stacks.second_day.field_changes import BASE, CHANGES
from tools.generate.generated import ROOT
from tools.generate.pages.lint_examples import SHELL_SCRIPT, examples

Call = tuple[str, ...]
"""The words of a command; those that begin with @ are for `tools.checks.same` itself."""

COPIED = ("tests/logs", "tests/diagnosis/evidence/recorded", "tests/docs/seeds", "examples", "clusters")
PROGRAMS = "tests/rules/script/programs"
"""Where the programs that the rules on scripts are tested with are written, each in a folder."""

CORPUS = ("launcher", "slipway", "tools", "tests/emulator", "tests/slipway", "tests/examples")
"""Programs of the repository itself, which are linted as they were when they were copied."""

WRONG: tuple[Any, ...] = (None, "", -1, 0, "${NAME}", "wrong value", [1, "two"], {"unknown": True}, True)
"""What stands for a field that is written wrongly, one after another."""

SLIPS = Path(__file__).with_name("slips.txt")
"""Commands that are called wrongly, or want an account; the first has no words at all."""

_AT_A_TIME = 3
"""How many wrong values each field gets."""

_SYNTHESIZED = 10
"""How many of the changed clusters are synthesized."""

_OF_LOGS = 25
"""Of how many logs one gets its page."""

_IDS = {"subnet": "subnet", "vpc": "vpc", "group": "sg", "nat": "nat", "table": "rtb", "file_system": "fs"}
"""How the ids begin that stand in changed clusters for words in braces."""


def copy_inputs(inputs: Path) -> dict[str, list[Call]]:
    """Write all inputs into a folder; what is to be asked of them there, by part."""
    for name in COPIED:
        shutil.copytree(ROOT / name, inputs / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in CORPUS:
        shutil.copytree(ROOT / name, inputs / "corpus" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for topic, cases in script_cases().items():
        for case in cases:
            for name, text in case.files.items():
                file = inputs / PROGRAMS / topic / case.name.replace(" ", "_").replace("/", "_") / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
    shutil.copy(ROOT / "tools" / "attack" / "fuzzing" / "manifest.yaml", inputs / "manifest.yaml")
    programs, logs, jobs = _texts_of_tests()
    return {
        "logs": list(_about_logs(inputs, logs)),
        "lint": list(_about_programs(inputs, programs)),
        "jobs": list(_about_jobs(inputs, jobs)),
        "clusters": list(_about_clusters(inputs)),
        "texts": list(_about_texts()),
        "generated": [("@generators",), ("@data",)],
        "boot": [("@boot",)],
    }


def _about_logs(inputs: Path, texts: list[str]) -> Iterator[Call]:
    logs = [file for name in COPIED[:3] for file in sorted((inputs / name).rglob("*.log"))]
    for file in logs:
        yield ("diagnose", "--log", _name(file, inputs), "--output", "json")
        yield ("diagnose", "--log", _name(file, inputs), "--ranks")
    for file in logs[::_OF_LOGS]:
        yield ("report", "--log", _name(file, inputs), "--file", "@written")
    for text in texts:
        yield ("diagnose", "--log", _write(inputs / "said", ".log", text, inputs), "--output", "json")
    for folder in sorted((inputs / COPIED[1]).iterdir()):
        yield ("diagnose", "--log", _name(folder, inputs), "--ranks", "--output", "json")
        yield ("diagnose", "--log", _name(folder, inputs), "tests/logs/003.log", "--ranks")


def _about_programs(inputs: Path, texts: list[str]) -> Iterator[Call]:
    for folder in (*COPIED[2:4], PROGRAMS, "corpus"):
        for file in sorted((inputs / folder).rglob("*.py")):
            yield ("lint", _name(file, inputs), "--output", "json")
            if folder not in ("corpus", PROGRAMS):
                yield ("lint", _name(file, inputs), "--verbose", "--diff", "--unsafe-fixes")
    for folder in ("examples", *(f"corpus/{name}" for name in CORPUS)):
        yield ("lint", folder, "--output", "json")
    for output in ("text", "sarif", "github"):
        yield ("lint", "tests/docs/seeds/scripts", PROGRAMS, "--output", output)
    yield ("lint", PROGRAMS, "--verbose", "--diff", "--unsafe-fixes")
    for text in texts:
        yield ("lint", _write(inputs / "programs", ".py", text, inputs), "--output", "json")
    for number, example in enumerate(examples()):
        for side in ("bad", "good"):
            place = inputs / "lint-examples" / f"{number:03}-{side}"
            place.mkdir(parents=True)
            (place / "train.py").write_text(getattr(example, side), "utf-8")
            if example.shell:
                (place / SHELL_SCRIPT).write_text(example.shell, "utf-8")
            script = _name(place / "train.py", inputs)
            if not example.job:
                yield ("lint", script, "--output", "json")
                continue
            job = {**JOB, "code": {"source_dir": ".", "entry_point": "train.py"}}
            (place / "job.yaml").write_text(yaml.safe_dump(job | yaml.safe_load(example.job)), "utf-8")
            yield ("lint", script, "--job", _name(place / "job.yaml", inputs), "--output", "json")


def _about_jobs(inputs: Path, texts: list[str]) -> Iterator[Call]:
    given = [*sorted((inputs / "examples").rglob("job.yaml"))]
    given += sorted((inputs / "tests/docs/seeds/jobs").glob("*.yaml"))
    folder = inputs / "jobs"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("def _mp_fn(index):\n    print('trained')\n", "utf-8")
    for job in _valid_jobs():
        given.append(inputs / _write(folder, ".yaml", yaml.safe_dump(job, sort_keys=False), inputs))
    for text in texts:
        given.append(inputs / _write(folder, ".yaml", text, inputs))
    for file in dict.fromkeys(given):
        job_file = _name(file, inputs)
        yield ("plan", job_file, "--output", "json")
        yield ("plan", job_file)
        yield ("plan", job_file, "--pair", "--output", "json")
        yield ("check", job_file, "--output", "json")
        yield ("check", job_file, "--cluster", f"{inputs}/manifest.yaml")
        yield (job_file, "--dry-run", "--cluster", f"{inputs}/manifest.yaml", "--output", "json")
        yield ("lint", "--job", job_file, "--output", "json")
    for job in _wrongly_written(given):
        text = yaml.safe_dump(job, sort_keys=False)
        yield ("check", _write(folder, ".yaml", text, inputs), "--output", "json")


def _valid_jobs() -> Iterator[dict[str, Any]]:
    """Those of the golden requests, of the fuzzing and of our peers' tests, with the source `src`."""
    golden = [json.loads(file.read_text("utf-8"))["job"] for file in sorted(ROOT.glob("tests/golden/*.json"))]
    fuzzed = yaml.safe_load_all((ROOT / "tools" / "attack" / "fuzzing" / "jobs.yaml").read_text("utf-8"))
    for job in (*golden, *fuzzed):
        yield {**job, "code": {**job["code"], "source_dir": "src"}}
    for case in all_cases():
        if case.kind in ("live", "cluster"):
            continue
        job = JOB
        for layer in case.given["layers"]:
            job = merged(job, layer)
        if "parameters" in case.given:
            job = merged(job, {"distribution": {"options": {"parameters": case.given["parameters"]}}})
        yield job


def _wrongly_written(files: list[Path]) -> Iterator[dict[str, Any]]:
    """Each field of a job written wrongly, the others as they are; a field with a value only once."""
    seen: set[tuple[str, str]] = set()
    for file in files:
        try:
            job = yaml.safe_load(file.read_text("utf-8"))
        except yaml.YAMLError:
            continue
        for path in _paths(job, ()) if isinstance(job, dict) else ():
            for turn in range(_AT_A_TIME):
                digest = hashlib.sha256(f"{path} {turn} {job.get('name')}".encode()).digest()
                value = WRONG[digest[0] % len(WRONG)]
                if (str(path), repr(value)) not in seen:
                    seen.add((str(path), repr(value)))
                    yield _with(job, path, value)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _paths(inner, (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = _with(value[path[0]], path[1:], new)
    return copied


def _about_clusters(inputs: Path) -> Iterator[Call]:
    shipped = [_name(file, inputs) for file in sorted((inputs / "clusters").glob("*.yaml"))]
    changed = []
    for change in (change for changes in CHANGES.values() for change in changes):
        for part in (change.before, change.after):
            text = yaml.safe_dump({**BASE, **part}, sort_keys=False)
            for word, kind in _IDS.items():
                text = re.sub(rf"\{{\w*{word}\w*\}}", f"{kind}-0123456789abcdef0", text)
            changed.append(_write(inputs / "clusters" / "changed", ".yaml", text, inputs))
    changed = list(dict.fromkeys(changed))
    peers = []
    for case in all_cases():
        given = {key: case.given[key] for key in ("lustre", "encryption") if key in case.given}
        if case.kind == "cluster":
            text = yaml.safe_dump({**CLUSTER, **given})
            peers.append(_write(inputs / "clusters" / "peers", ".yaml", text, inputs))
    wrong = []
    for spec in _wrongly_written([inputs / name for name in (*shipped, *changed[::4])]):
        text = yaml.safe_dump(spec, sort_keys=False)
        wrong.append(_write(inputs / "clusters" / "wrong", ".yaml", text, inputs))
    for name in dict.fromkeys((*shipped, *changed, *peers, *wrong)):
        yield ("cluster", "plan", name)
    for name in (*shipped, *changed[:: max(1, len(changed) // _SYNTHESIZED)]):
        yield ("@synth", name)


def _about_texts() -> Iterator[Call]:
    commands = ["", "check", "lint", "plan", "schema", "ladder", "list", "status", "logs", "stop", "resume"]
    commands += ["pair", "clean", "diagnose", "report", "cluster", "cluster plan", "cluster show"]
    commands += ["cluster destroy", "explain", "--install-completion"]
    for command in commands:
        yield (*command.split(), "--help")
    yield from (("schema",), ("--version",), ("explain", "--all"), ("explain", "--all", "--output", "json"))
    coverage = (ROOT / "docs" / "reference" / "failure-modes" / "README.md").read_text("utf-8")
    for code in sorted(set(re.findall(r"\b[A-Z][A-Z0-9]+\d{3}\b", coverage))):
        yield ("explain", code)
    for line in SLIPS.read_text("utf-8").splitlines():
        yield tuple(shlex.split(line))
    page = (ROOT / "docs" / "contributing" / "seeds.md").read_text("utf-8")
    for line in dict.fromkeys(re.findall(r"`launch ([^`]+)` →", page)):
        yield tuple(shlex.split(line))
    yield from (("@public", "launcher"), ("@public", "slipway"))


def _texts_of_tests() -> tuple[list[str], list[str], list[str]]:
    """The texts of several lines in tests that are programs, that are logs, and that are jobs."""
    programs: dict[str, None] = {}
    logs: dict[str, None] = {}
    jobs: dict[str, None] = {}
    pages = [file.read_text("utf-8") for file in sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"^```yaml\n(.*?)^```", page, re.S | re.M)]
    for text in (*blocks, *_constants()):
        if _is_job(text):
            jobs[text] = None
        elif _is_program(text):
            programs[text] = None
        elif text.count("\n") >= 3:
            logs[text] = None
    return list(programs), list(logs), list(jobs)


def _constants() -> Iterator[str]:
    for file in sorted((ROOT / "tests").rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                text = dedent(node.value)
                if "\n" in text.strip() and "\0" not in text:
                    yield text


def _is_program(text: str) -> bool:
    try:
        return "import " in text and bool(ast.parse(text).body)
    except (SyntaxError, ValueError):
        return False


def _is_job(text: str) -> bool:
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return False
    return isinstance(data, dict) and {"name", "code"} <= data.keys()


def _write(folder: Path, ending: str, text: str, inputs: Path) -> str:
    """A file with this text, named by it; its name from the folder of the inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    content = text.encode(
        "utf-8", "surrogateescape" if "\udc80" <= max(text, default="") <= "\udcff" else "replace"
    )
    file = folder / f"{hashlib.sha256(content).hexdigest()[:12]}{ending}"
    file.write_bytes(content)
    return _name(file, inputs)


def _name(file: Path, inputs: Path) -> str:
    return file.relative_to(inputs).as_posix()
